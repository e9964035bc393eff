#!/usr/bin/env bash
# Builds everything that nvcc and NVIDIA's headers have a say in, warnings being errors, and checks what the kernels
# need of registers and memory. No GPU is needed.
#   scripts/nvcc.sh          one architecture of each generation
#   scripts/nvcc.sh --all    all that the toolkit knows
set -euo pipefail
cd "$(dirname "$0")/.."

architectures=generations
[ "${1:-}" = --all ] && architectures=all
if ! command -v nvcc >/dev/null && ! [ -x /usr/local/cuda/bin/nvcc ]; then
    echo "skipped: nvcc was not found"
    exit 0
fi
cmake -S . -B build-nvcc -G Ninja -DLOCKSTEP_CUDA=ON -DLOCKSTEP_WERROR=ON "-DLOCKSTEP_CUDA_ARCHITECTURES=$architectures" >/dev/null
cmake --build build-nvcc --target trainer bench_ops bench_lt_bits
python3 tests/structure/test_kernel_resources.py build-nvcc
