# liblockstep.a: the objects of all folders in one library, for programs outside the project; the templates in examples/
# are linked with it here, too. `cmake --install` adds headers, a CMake package, a pkg-config file, the trainer, the
# templates and the documentation. Nothing installed names the prefix: the tree may be moved.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(folders base job config device backend kernels comm data metrics graph layers models train checkpoint loop)
set(objects "")
foreach(folder ${folders})
    list(APPEND objects $<TARGET_OBJECTS:ls_${folder}>)
endforeach()
foreach(level ${isa_levels})
    list(APPEND objects $<TARGET_OBJECTS:ls_kernels_${level}>)
endforeach()
get_property(cuda_objects GLOBAL PROPERTY LOCKSTEP_CUDA_OBJECTS)     # not among a target's own objects
add_library(lockstep STATIC ${objects} ${cuda_objects})
add_dependencies(lockstep ls_kernels ls_backend)
add_library(Lockstep::lockstep ALIAS lockstep)
set_target_properties(lockstep PROPERTIES LINKER_LANGUAGE C)
target_include_directories(lockstep INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/runtime/include>
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_compile_features(lockstep INTERFACE c_std_11)
# Here the files that were found; where the package is used, what LockstepConfig.cmake finds there.
target_link_libraries(lockstep INTERFACE Threads::Threads ZLIB::ZLIB ${CMAKE_DL_LIBS} m)
set(LOCKSTEP_LIBRARY_FILES "")
foreach(library DNNL XXHASH JANSSON HWLOC GOMP MICROHTTPD)
    if(LOCKSTEP_${library})
        string(TOLOWER ${library} name)
        target_link_libraries(lockstep INTERFACE $<BUILD_INTERFACE:${LOCKSTEP_${library}}>
            $<INSTALL_INTERFACE:Lockstep::${name}>)
        string(APPEND LOCKSTEP_LIBRARY_FILES " ${LOCKSTEP_${library}}")
    endif()
endforeach()
if(LOCKSTEP_MPI)
    target_link_libraries(lockstep INTERFACE MPI::MPI_C)
    foreach(file ${MPI_C_LIBRARIES})
        string(APPEND LOCKSTEP_LIBRARY_FILES " ${file}")
    endforeach()
endif()
if(LOCKSTEP_CUDA_SIM)
    target_link_libraries(lockstep INTERFACE $<BUILD_INTERFACE:cusim>)      # not for installing
elseif(LOCKSTEP_HAVE_CUDA)
    foreach(library cudart cublasLt)
        target_link_libraries(lockstep INTERFACE CUDA::${library})
        string(APPEND LOCKSTEP_LIBRARY_FILES " ${CUDA_${library}_LIBRARY}")
    endforeach()
    if(LOCKSTEP_HAVE_NCCL)
        target_link_libraries(lockstep INTERFACE $<BUILD_INTERFACE:${LOCKSTEP_NCCL}> $<INSTALL_INTERFACE:Lockstep::nccl>)
        string(APPEND LOCKSTEP_LIBRARY_FILES " ${LOCKSTEP_NCCL}")
    endif()
endif()
foreach(file ${ZLIB_LIBRARIES})
    string(APPEND LOCKSTEP_LIBRARY_FILES " ${file}")
endforeach()

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/Lockstep)
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/LockstepConfig.cmake.in
    ${CMAKE_CURRENT_BINARY_DIR}/package/LockstepConfig.cmake INSTALL_DESTINATION ${package_dir}
    NO_SET_AND_CHECK_MACRO NO_CHECK_REQUIRED_COMPONENTS_MACRO)
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/package/LockstepConfigVersion.cmake
    COMPATIBILITY SameMinorVersion)
# The folder of the .pc file is <prefix>/<libdir>/pkgconfig: up from it to the prefix.
file(RELATIVE_PATH LOCKSTEP_PC_TO_PREFIX /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
string(REGEX REPLACE "/$" "" LOCKSTEP_PC_TO_PREFIX "${LOCKSTEP_PC_TO_PREFIX}")
configure_file(${CMAKE_CURRENT_LIST_DIR}/lockstep.pc.in ${CMAKE_CURRENT_BINARY_DIR}/package/lockstep.pc @ONLY)

install(TARGETS lockstep EXPORT lockstep_targets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(EXPORT lockstep_targets FILE LockstepTargets.cmake NAMESPACE Lockstep:: DESTINATION ${package_dir})
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/package/LockstepConfig.cmake
    ${CMAKE_CURRENT_BINARY_DIR}/package/LockstepConfigVersion.cmake DESTINATION ${package_dir})
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/package/lockstep.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
install(DIRECTORY runtime/include/lockstep DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(PROGRAMS $<TARGET_FILE:trainer> $<TARGET_FILE:gpus> $<TARGET_FILE:launch> DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY examples/ DESTINATION ${CMAKE_INSTALL_DATADIR}/lockstep/examples)
install(FILES README.md LICENSE CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY runtime/docs DESTINATION ${CMAKE_INSTALL_DOCDIR}/runtime OPTIONAL)
