# The simulator in place of the shared libraries of CUDA: what nvcc compiled and what users run, loaded with other
# libraries. A folder with one file under the names libcudart.so.N, libcublasLt.so.N and libnccl.so.2, to be put into
# LD_LIBRARY_PATH; the numbers, and the versions of symbols, are those of this toolkit. tests/train/test_swapped.py uses it.
#
# Kernels are called by name: their bodies are the same .cu files as a host compiler takes them, with all names hidden, for
# the program has stubs of the same names.
if(NOT TARGET CUDA::cudart OR NOT TARGET CUDA::cublasLt OR NOT LOCKSTEP_CUDA_SIM OR LOCKSTEP_SANITIZE)
    return()
endif()
find_program(CUSIM_READELF readelf)
if(NOT CUSIM_READELF)
    return()
endif()

# The name under which programs ask for an imported library.
function(cusim_soname target out)
    get_target_property(location ${target} IMPORTED_LOCATION)
    execute_process(COMMAND ${CUSIM_READELF} -d ${location} OUTPUT_VARIABLE dynamic ERROR_QUIET)
    string(REGEX MATCH "SONAME[^[]*\\[([^]]+)\\]" found "${dynamic}")
    set(${out} "${CMAKE_MATCH_1}" PARENT_SCOPE)
endfunction()
cusim_soname(CUDA::cudart cudart_name)
cusim_soname(CUDA::cublasLt cublaslt_name)
if(NOT cudart_name OR NOT cublaslt_name)
    return()
endif()

set(swapped_folder ${CMAKE_CURRENT_BINARY_DIR}/swapped)
set(swapped_versions ${CMAKE_CURRENT_BINARY_DIR}/swapped.map)
# NVIDIA's libraries call the versions of their symbols after themselves; NCCL's have none, and ask for none.
file(WRITE ${swapped_versions}.new "${cudart_name} { global: cuda*; __cuda*; local: *; };
${cublaslt_name} { global: cublasLt*; };
libnccl.so.2 { global: nccl*; };
")
configure_file(${swapped_versions}.new ${swapped_versions} COPYONLY)

file(GLOB swapped_sources CONFIGURE_DEPENDS swapped/*.c)
# Made by tests/train/test_swapped.py, which alone needs it: the kernels' second compilation takes a while.
add_library(cusim_swapped SHARED EXCLUDE_FROM_ALL ${swapped_sources})
target_include_directories(cusim_swapped PRIVATE swapped)
target_compile_options(cusim_swapped PRIVATE ${c_warnings})
target_link_libraries(cusim_swapped PRIVATE -Wl,--whole-archive cusim -Wl,--no-whole-archive m)
# What the launchers of kernels call is the program's; they are not called here, and leave with it.
target_link_options(cusim_swapped PRIVATE -Wl,--gc-sections -Wl,--version-script=${swapped_versions})
set_target_properties(cusim_swapped PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${swapped_folder} LINK_DEPENDS ${swapped_versions})
file(GLOB swapped_kernels CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/kernels/cuda/*.cu)
foreach(source ${swapped_kernels})
    get_filename_component(name ${source} NAME_WE)
    set(object ${CMAKE_CURRENT_BINARY_DIR}/swapped_objects/${name}.o)
    file(MAKE_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/swapped_objects)
    add_custom_command(OUTPUT ${object}
        COMMAND ${cuda_compile} -I${CMAKE_CURRENT_SOURCE_DIR}/swapped -include register.h -ffunction-sections
                -fdata-sections -fno-threadsafe-statics -MMD -MF ${object}.d -c -o ${object} ${source}
        DEPENDS ${source} DEPFILE ${object}.d COMMENT "Compiling ${name}.cu, called by name" VERBATIM)
    target_sources(cusim_swapped PRIVATE ${object})
    set_source_files_properties(${object} PROPERTIES EXTERNAL_OBJECT TRUE GENERATED TRUE)
endforeach()
foreach(name ${cudart_name} ${cublaslt_name} libnccl.so.2)
    add_custom_command(TARGET cusim_swapped POST_BUILD
        COMMAND ${CMAKE_COMMAND} -E create_symlink $<TARGET_FILE_NAME:cusim_swapped> ${swapped_folder}/${name})
endforeach()
