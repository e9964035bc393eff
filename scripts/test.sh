#!/usr/bin/env bash
# Sets up, builds and runs the tests.
#   scripts/test.sh           everything
#   scripts/test.sh --quick   under two minutes: without tests labelled slow
#   scripts/test.sh --full    also the long products and repetitions (label full); kernels for every GPU, where nvcc is
# BUILD=folder and PRESET=release|asan|tsan|single|sim choose another build, JOBS how many tests run at once; further
# arguments go to ctest.
set -euo pipefail
cd "$(dirname "$0")/.."

exclude=(-LE full)
full=""
case "${1:-}" in
    --quick) exclude=(-LE "full|slow"); shift ;;
    --full) exclude=(); full=1; shift ;;
esac

scripts/setup.sh
preset=${PRESET:-release}
build=${BUILD:-build$([ "$preset" = release ] || echo "-$preset")}
cmake --preset "$preset" -B "$build" -G Ninja >/dev/null
cmake --build "$build"
# Many tests wait for something to end: three for each core keep the cores busy.
ctest --test-dir "$build" -j "${JOBS:-$(($(nproc) * 3))}" --output-on-failure "${exclude[@]}" "$@"
if [ -n "$full" ]; then
    scripts/nvcc.sh --all
fi
