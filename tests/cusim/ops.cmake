# The cases of tests/ops on the cuda kernels: cusim/ops_<name>. Every .cu file of kernels/cuda is compiled once, for the host.
file(GLOB op_kernels CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/kernels/cuda/*.cu)
set(op_cases bias cast commit dot dropout elementwise embedding layernorm loss mse norms optimizers poke slice softmax_xent)

add_library(cusim_op_kernels OBJECT ${PROJECT_SOURCE_DIR}/kernels/cuda/check.c support/op_run_cuda.c
    support/same_bits.c)
cusim_kernels(cusim_op_kernels ${op_kernels})
cusim_instrument(cusim_op_kernels ${variant})
target_compile_options(cusim_op_kernels PRIVATE -Wno-unknown-pragmas)
target_include_directories(cusim_op_kernels PRIVATE support)
target_link_libraries(cusim_op_kernels PRIVATE cusim ls_test_support)
foreach(name ${op_cases})
    add_executable(cusim_ops_${name} ${PROJECT_SOURCE_DIR}/tests/ops/${name}.c $<TARGET_OBJECTS:cusim_op_kernels>)
    cusim_instrument(cusim_ops_${name} ${variant})
    target_link_libraries(cusim_ops_${name} PRIVATE ls_test_support cusim)
    add_test(NAME cusim/ops_${name} COMMAND cusim_ops_${name})
    set_tests_properties(cusim/ops_${name} PROPERTIES TIMEOUT 600 LABELS "cusim;contract" ENVIRONMENT "${cusim_environment}")
endforeach()
