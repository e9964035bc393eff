#!/usr/bin/env bash
# How training scales: the same configuration at several numbers of processes, under strong scaling (the same global
# batch) and weak scaling (the global batch times the number of processes). One table on standard output, and a JSON
# file (default: scaling-CONFIG.json in the current folder). A run is 60 steps, or the configuration's if fewer, or
# --steps; medians are over the steps behind the first ten, or the first quarter if that is less.
#
#   scripts/scaling.sh CONFIG 1 2 4 [--steps N] [--json FILE] [-- TRAINER ARGUMENT...]
#
#   scripts/scaling.sh examples/configs/gpt_jargon.ini 1 2
#   scripts/scaling.sh my.ini 1 2 4 8 --steps 200 -- --set precision.compute=bf16
#
# Ends with 1 when a run fails, or when the weights differ under strong scaling; with 2 for bad arguments. BUILD=folder
# chooses another build than build/ of this checkout.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

if ! command -v python3 >/dev/null; then
    echo "scaling: error: python3 not found: run scripts/setup.sh" >&2
    exit 2
fi
export BUILD=${BUILD:-$here/../build}
exec python3 "$here/scaling.py" "$@"
