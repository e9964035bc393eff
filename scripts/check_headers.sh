#!/bin/sh
# Compiles every header alone: all of them as C11, the public ones as C++17 too.
# Usage: check_headers.sh [ROOT]. CC and CXX choose the compilers. Ends with 1 when a header fails.
# Headers for CUDA need the toolkit's (CUDA_HOME, or where nvcc is); without they are left out. Those of kernels are
# compiled as C++ on the simulator's, for a host compiler does not know CUDA's language.
set -eu

root=${1:-$(dirname "$0")/..}
cd "$root"
: "${CC:=gcc}" "${CXX:=g++}"

warnings="-Wall -Wextra -Wpedantic -Wshadow -Werror -fopenmp-simd"
# What the build defines for kernels (CMakeLists.txt), so that their headers stand alone as well.
defines="-D_GNU_SOURCE -DLSI_BUILD_ISA_GENERIC -DLSI_ISA=generic"
include="-I runtime/include -I runtime -I ."
relaxed=
mpi=$(mpicc --showme:compile 2>/dev/null || true)

checked=0
failed=0
check()
{
    checked=$((checked + 1))
    if ! echo 'extern int not_empty;' | "$@" -fsyntax-only $warnings $relaxed $defines $include $mpi -include "$header" -; then
        echo "$header does not compile alone ($1)"
        failed=$((failed + 1))
    fi
}

cuda=${CUDA_HOME:-}
if [ -z "$cuda" ] && nvcc=$(command -v nvcc); then
    cuda=$(dirname "$(dirname "$nvcc")")
fi

for header in $(find runtime kernels -name '*.h' | LC_ALL=C sort); do
    case $header in
        */cuda/*) [ -n "$cuda" ] || continue ;;
    esac
    case $header in
        kernels/cuda/*)
            relaxed="-Wno-pedantic -Wno-unknown-pragmas"
            check "$CXX" -std=c++17 -fno-exceptions -DCUSIM -isystem tests/cusim/include \
                -isystem "$cuda/include" -x c++
            relaxed=
            continue ;;
        runtime/backend/cuda/*) check "$CC" -std=c11 -isystem "$cuda/include" -x c ;;
        *) check "$CC" -std=c11 -x c ;;
    esac
    case $header in
        runtime/include/*) check "$CXX" -std=c++17 -x c++ ;;
    esac
done
echo "$checked header checks, $failed failed"
[ "$failed" -eq 0 ] && [ "$checked" -gt 0 ]
