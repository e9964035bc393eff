#!/usr/bin/env bash
# Sets up, builds, and runs the main job: mpirun -np N ./trainer config.ini, N = cores of this machine, at most 4.
# Arguments are passed to the trainer (scripts/quickstart.sh --set train.epochs=1).
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/setup.sh
cmake -S . -B build -G Ninja >/dev/null
cmake --build build

n=$(nproc)
[ "$n" -gt 4 ] && n=4
command=(mpirun -np "$n" --bind-to none ./trainer config.ini "$@")
settings=()
if [ "$(id -u)" -eq 0 ]; then
    settings+=(OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1)
fi
settings+=(OMPI_MCA_rmaps_base_oversubscribe=1)

cd build
echo "+ cd build && ${settings[*]} ${command[*]}"
env "${settings[@]}" "${command[@]}"
