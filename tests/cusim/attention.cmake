# Attention's kernels on simulated GPUs, in builds that are made for these.
if(NOT LOCKSTEP_CUDA_SIM)
    return()
endif()

add_executable(cusim_attention kernels/test_attention.c kernels/attention_run.c)
target_link_libraries(cusim_attention PRIVATE ls_test_support cusim)
cusim_instrument(cusim_attention ${variant})
cusim_test(kernels/test_attention.c $<TARGET_FILE:cusim_attention>)

# The same kernels once more, with places in them that can be left out.
add_executable(cusim_planted_attention kernels/planted_attention.c kernels/planted_here.c
    kernels/attention_run.c)
target_link_libraries(cusim_planted_attention PRIVATE ls_test_support cusim)
cusim_instrument(cusim_planted_attention ${variant})
file(GLOB attention_kernels CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/kernels/cuda/attention_*.cu)
set(planted_waits ${CMAKE_CURRENT_SOURCE_DIR}/kernels/planted_waits.h)
foreach(source ${attention_kernels})
    get_filename_component(name ${source} NAME_WE)
    set(object ${CMAKE_CURRENT_BINARY_DIR}/planted_${name}.o)
    add_custom_command(OUTPUT ${object}
        COMMAND ${cuda_compile} -include ${planted_waits} -MMD -MF ${object}.d -c -o ${object} ${source}
        DEPENDS ${source} ${planted_waits} DEPFILE ${object}.d COMMENT "Compiling ${name}, planted" VERBATIM)
    target_sources(cusim_planted_attention PRIVATE ${object})
    set_source_files_properties(${object} PROPERTIES EXTERNAL_OBJECT TRUE GENERATED TRUE)
endforeach()
if(Python3_FOUND)
    cusim_test(kernels/planted_attention.py
        ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/kernels/planted_attention.py ${variant}
        $<TARGET_FILE:cusim_planted_attention> ${PROJECT_SOURCE_DIR}/kernels/cuda)
endif()
