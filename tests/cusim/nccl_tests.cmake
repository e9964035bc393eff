# Tests of the described machine, NVML and NCCL that need more than a test program: files, libraries, sanitizer variants.
foreach(name machine nvml blas)
    target_compile_definitions(cusim_test_${name} PRIVATE CUSIM_MACHINES="${CMAKE_CURRENT_SOURCE_DIR}/machines")
endforeach()
target_compile_definitions(cusim_test_nvml PRIVATE CUSIM_NVML_LIBRARY="$<TARGET_FILE:cusim_nvml>")
add_dependencies(cusim_test_nvml cusim_nvml)

# Each seed is another order of streams.
if(TARGET cusim_test_nccl)
    foreach(seed RANGE 1 10)
        math(EXPR world "2 + ${seed} % 2 * 2")
        add_test(NAME cusim/nccl@np${world}_seed${seed} COMMAND ${MPIEXEC_EXECUTABLE} -np ${world} $<TARGET_FILE:cusim_test_nccl>)
        set_tests_properties(cusim/nccl@np${world}_seed${seed} PROPERTIES TIMEOUT 300 LABELS cusim
            ENVIRONMENT "${cusim_environment};ASAN_OPTIONS=detect_leaks=0:abort_on_error=0;CUSIM_SEED=${seed}")
    endforeach()
endif()

# Programs with one planted bug a run, and for each the script that knows what a variant must say.
set(programs blas_bugs)
if(CUSIM_NCCL_INCLUDE)
    list(APPEND programs nccl_bugs)
endif()
foreach(each ${cusim_variants})
    set(suffix "")
    if(NOT each STREQUAL variant)
        set(suffix _${each})
    endif()
    foreach(name ${programs})
        add_executable(cusim_${name}${suffix} test/${name}.c)
        cusim_kernels(cusim_${name}${suffix} ${CMAKE_CURRENT_SOURCE_DIR}/test/planted.cu)
        cusim_instrument(cusim_${name}${suffix} ${each})
        target_link_libraries(cusim_${name}${suffix} PRIVATE cusim${suffix})
        if(Python3_FOUND)
            add_test(NAME cusim/${name}${suffix} COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/test/${name}.py
                ${each} $<TARGET_FILE:cusim_${name}${suffix}>)
            set_tests_properties(cusim/${name}${suffix} PROPERTIES TIMEOUT 600 LABELS cusim ENVIRONMENT "${cusim_environment}")
        endif()
    endforeach()
endforeach()
