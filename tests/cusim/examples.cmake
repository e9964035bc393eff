# The kernel of examples/custom_layer.cu, tested as a user would test one (runtime/docs/checking_kernels.md): a test of
# ordinary CUDA calls, plain and under ThreadSanitizer; and the same with each barrier left out in turn.
set(custom_variants ${variant})
if(variant STREQUAL "plain")
    list(APPEND custom_variants thread)
    if(NOT TARGET cusim_thread)
        cusim_library(cusim_thread thread)
    endif()
endif()
set(custom_kernel ${PROJECT_SOURCE_DIR}/examples/custom_layer.cu)
set(planted_barriers ${CMAKE_CURRENT_SOURCE_DIR}/kernels/planted_barriers.h)

foreach(each ${custom_variants})
    set(suffix "")
    if(NOT each STREQUAL variant)
        set(suffix _${each})
    endif()
    add_executable(cusim_custom_layer${suffix} kernels/test_custom_layer.c kernels/planted_here.c)
    cusim_kernels(cusim_custom_layer${suffix} ${custom_kernel})
    set_property(SOURCE ${custom_kernel} APPEND PROPERTY COMPILE_OPTIONS "-include;${planted_barriers}")
    set_property(SOURCE ${custom_kernel} PROPERTY OBJECT_DEPENDS ${planted_barriers})
    target_include_directories(cusim_custom_layer${suffix} PRIVATE ${PROJECT_SOURCE_DIR}/runtime/include
        ${PROJECT_SOURCE_DIR}/examples ${PROJECT_SOURCE_DIR}/tests)
    target_compile_definitions(cusim_custom_layer${suffix} PRIVATE WITH_CUDA)
    cusim_instrument(cusim_custom_layer${suffix} ${each})
    target_link_libraries(cusim_custom_layer${suffix} PRIVATE cusim${suffix} ${LOCKSTEP_CMOCKA})
    if(Python3_FOUND)
        add_test(NAME cusim/custom_layer${suffix} COMMAND ${Python3_EXECUTABLE}
            ${CMAKE_CURRENT_SOURCE_DIR}/kernels/custom_layer.py ${each} $<TARGET_FILE:cusim_custom_layer${suffix}>
            ${custom_kernel})
        set_tests_properties(cusim/custom_layer${suffix} PROPERTIES TIMEOUT 300 LABELS cusim
            ENVIRONMENT "${cusim_environment}")
    endif()
endforeach()
