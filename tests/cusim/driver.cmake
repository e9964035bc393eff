# What programs open by name of NVIDIA's driver, telling of a described machine: libnvidia-ml.so.1 and libcuda.so.1. They
# need neither the toolkit nor C++, so that every build can test how GPUs are chosen: with the folder in LD_LIBRARY_PATH.
set(cusim_driver_folder ${PROJECT_BINARY_DIR}/tests/cusim/lib)

function(cusim_driver_library target name)
    file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/cusim/src/machine*.c)
    add_library(${target} SHARED ${sources} ${ARGN})
    target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/tests/cusim/include
        ${PROJECT_SOURCE_DIR}/tests/cusim/src ${PROJECT_SOURCE_DIR}/runtime)
    target_compile_options(${target} PRIVATE -fvisibility=hidden)
    target_link_libraries(${target} PRIVATE Threads::Threads)
    set_target_properties(${target} PROPERTIES OUTPUT_NAME ${name} SOVERSION 1
        LIBRARY_OUTPUT_DIRECTORY ${cusim_driver_folder})
endfunction()

file(GLOB nvml_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/cusim/src/nvml*.c)
cusim_driver_library(cusim_nvml nvidia-ml ${nvml_sources})
cusim_driver_library(cusim_cuda cuda ${PROJECT_SOURCE_DIR}/tests/cusim/src/cuda_library.c)

# A program on simulated GPUs finds them however it is started.
if(LOCKSTEP_CUDA STREQUAL "SIM")
    target_link_options(ls_device PUBLIC -Wl,-rpath,${cusim_driver_folder})
    add_dependencies(ls_device cusim_nvml cusim_cuda)
endif()
