# What -DLOCKSTEP_CUDA=AUTO|ON|OFF|SIM comes to: LOCKSTEP_HAVE_CUDA, and two functions.
#
#   lockstep_cuda_link(TARGET)              headers and libraries of CUDA, or the simulator in their place
#   lockstep_cuda_sources(TARGET FILE...)   compiles .cu files into the target
#
# .cu files are compiled by commands of our own, not as a language of CMake's: programs are then linked by the C compiler
# with nothing but the shared libraries of CUDA, and the simulator's build differs in the compiler only.
set(choices AUTO ON OFF SIM)
string(TOUPPER "${LOCKSTEP_CUDA}" cuda_wanted)
if(NOT cuda_wanted IN_LIST choices)
    message(FATAL_ERROR "LOCKSTEP_CUDA is '${LOCKSTEP_CUDA}'; choices: AUTO, ON, OFF, SIM")
endif()
set(LOCKSTEP_HAVE_CUDA FALSE)
set(LOCKSTEP_CUDA_SIM FALSE)
if(cuda_wanted STREQUAL "OFF")
    return()
endif()

find_package(CUDAToolkit QUIET)
set(cuda_missing "")
if(NOT CUDAToolkit_FOUND)
    set(cuda_missing "the CUDA toolkit was not found")
elseif(CUDAToolkit_VERSION VERSION_LESS 11.8)
    set(cuda_missing "CUDA ${CUDAToolkit_VERSION} is too old, 11.8 is needed")
elseif(NOT cuda_wanted STREQUAL "SIM")
    if(NOT EXISTS "${CUDAToolkit_NVCC_EXECUTABLE}")
        set(cuda_missing "the CUDA toolkit has no nvcc")
    elseif(NOT TARGET CUDA::cudart OR NOT TARGET CUDA::cublasLt)
        set(cuda_missing "the CUDA toolkit has no shared cudart and cublasLt")
    endif()
endif()
if(cuda_missing)
    if(cuda_wanted STREQUAL "AUTO")
        message(STATUS "No GPUs in this build: ${cuda_missing}")
        return()
    endif()
    message(FATAL_ERROR "LOCKSTEP_CUDA=${cuda_wanted}: ${cuda_missing}")
endif()
set(LOCKSTEP_HAVE_CUDA TRUE)
if(cuda_wanted STREQUAL "SIM")
    set(LOCKSTEP_CUDA_SIM TRUE)
endif()

set(cuda_includes -I${PROJECT_SOURCE_DIR}/runtime/include -I${PROJECT_SOURCE_DIR}/runtime -I${PROJECT_SOURCE_DIR})
if(LOCKSTEP_CUDA_SIM)
    find_program(LOCKSTEP_CXX NAMES g++ REQUIRED)
    # No contraction and no errno, as for the C files. The shim that stands in for CUDA uses no library of C++'s.
    set(cuda_compile ${LOCKSTEP_CXX} -x c++ -std=c++17 -O2 -g -fPIC -fno-exceptions -fno-rtti -ffp-contract=off
        -fno-math-errno -Wall -Wextra -DCUSIM -I${PROJECT_SOURCE_DIR}/tests/cusim/include ${cuda_includes})
    foreach(folder ${CUDAToolkit_INCLUDE_DIRS})
        list(APPEND cuda_compile -isystem ${folder})
    endforeach()
    if(LOCKSTEP_SANITIZE STREQUAL "address")
        list(APPEND cuda_compile -fsanitize=address,undefined -fsanitize-sections=cusim_shared -fno-sanitize=vptr
            -fno-sanitize-recover=undefined -fno-omit-frame-pointer)
    elseif(LOCKSTEP_SANITIZE STREQUAL "thread")
        list(APPEND cuda_compile -fsanitize=thread -fno-omit-frame-pointer)
    endif()
else()
    if(LOCKSTEP_CUDA_ARCHITECTURES)
        set(architectures ${LOCKSTEP_CUDA_ARCHITECTURES})
    else()
        # All from Volta on: older ones have neither tensor cores nor independent threads.
        execute_process(COMMAND ${CUDAToolkit_NVCC_EXECUTABLE} --list-gpu-arch OUTPUT_VARIABLE listed)
        string(REGEX MATCHALL "[0-9]+" listed "${listed}")
        set(architectures "")
        foreach(architecture ${listed})
            if(architecture GREATER_EQUAL 70)
                list(APPEND architectures ${architecture})
            endif()
        endforeach()
    endif()
    list(SORT architectures COMPARE NATURAL)
    list(GET architectures -1 newest)
    # FMA where it is written; a function's static needs no lock, so that nothing needs the library of C++.
    set(cuda_compile ${CUDAToolkit_NVCC_EXECUTABLE} -std=c++17 -O3 -lineinfo -fmad=false
        -Xcompiler -fPIC,-fno-threadsafe-statics,-Wall,-Wextra ${cuda_includes})
    foreach(architecture ${architectures})
        list(APPEND cuda_compile -gencode arch=compute_${architecture},code=sm_${architecture})
    endforeach()
    # GPUs newer than the toolkit compile this when they load it.
    list(APPEND cuda_compile -gencode arch=compute_${newest},code=compute_${newest})
    string(REPLACE ";" " " listed "${architectures}")
    message(STATUS "GPUs: CUDA ${CUDAToolkit_VERSION}, compute capabilities ${listed}")
endif()

function(lockstep_cuda_link target)
    target_include_directories(${target} SYSTEM PUBLIC ${CUDAToolkit_INCLUDE_DIRS})
    if(LOCKSTEP_CUDA_SIM)
        target_link_libraries(${target} PUBLIC cusim)
    else()
        target_link_libraries(${target} PUBLIC CUDA::cudart CUDA::cublasLt)
    endif()
endfunction()

function(lockstep_cuda_sources target)
    foreach(source ${ARGN})
        string(REPLACE "/" "_" name ${source})
        set(object ${CMAKE_CURRENT_BINARY_DIR}/cuda/${name}.o)
        set(input ${CMAKE_CURRENT_SOURCE_DIR}/${source})
        file(MAKE_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/cuda)
        # gcc's -x says what all that follows is, so the input comes last.
        add_custom_command(OUTPUT ${object}
            COMMAND ${cuda_compile} -MMD -MF ${object}.d -c -o ${object} ${input}
            DEPENDS ${input} DEPFILE ${object}.d COMMENT "Compiling ${source}" VERBATIM)
        target_sources(${target} PRIVATE ${object})
        set_source_files_properties(${object} PROPERTIES EXTERNAL_OBJECT TRUE GENERATED TRUE)
    endforeach()
endfunction()
