#!/bin/sh
# Compiles every header alone: all of them as C11, the public ones as C++17 too; those of cuda kernels as C++17 only, for
# the simulator of tests/cusim. Headers that need CUDA's own are left out where there is no nvcc to find them by.
# Usage: check_headers.sh [ROOT]. CC and CXX choose the compilers. Ends with 1 when a header fails.
set -eu

root=${1:-$(dirname "$0")/..}
cd "$root"
: "${CC:=gcc}" "${CXX:=g++}"

warnings="-Wall -Wextra -Wpedantic -Wshadow -Werror -fopenmp-simd"
# What the build defines for kernels (CMakeLists.txt), so that their headers stand alone as well.
defines="-D_GNU_SOURCE -DLSI_BUILD_ISA_GENERIC -DLSI_ISA=generic"
include="-I runtime/include -I runtime -I ."
mpi=$(mpicc --showme:compile 2>/dev/null || true)

cuda=
if nvcc=$(command -v nvcc); then
    cuda=$(dirname "$(dirname "$(readlink -f "$nvcc")")")/include
fi

relaxed=
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

for header in $(find runtime kernels -name '*.h' | LC_ALL=C sort); do
    case $header in
    kernels/cuda/* | runtime/backend/cuda/*) [ -n "$cuda" ] || continue ;;
    esac
    case $header in
    kernels/cuda/*)
        relaxed="-Wno-pedantic -Wno-unknown-pragmas"
        check "$CXX" -std=c++17 -x c++ -DCUSIM -isystem tests/cusim/include -isystem "$cuda"
        relaxed=
        ;;
    runtime/backend/cuda/*) check "$CC" -std=c11 -x c -isystem "$cuda" ;;
    *) check "$CC" -std=c11 -x c ;;
    esac
    case $header in
        runtime/include/*) check "$CXX" -std=c++17 -x c++ ;;
    esac
done
echo "$checked header checks, $failed failed"
[ "$failed" -eq 0 ] && [ "$checked" -gt 0 ]
