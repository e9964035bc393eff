#!/usr/bin/env bash
# What only hardware can show, on one machine with one GPU, without a network: builds for that GPU, runs the tests on it,
# compares weights over ways to run, asks cuBLASLt for equal bits, times ops and GPT-2. One table (Markdown) and one JSON.
#
#   scripts/gpu_check.sh [RESULT] [--minutes N] [--only STAGE,...] [--build FOLDER] [--tiny]
#   scripts/gpu_check.sh --bundle        here, where libraries are installed: packs them for a machine that has none
#   scripts/gpu_check.sh --list-files    what to bring there beside the checkout
#
# RESULT is a path without .md and .json (default: bench/results/DATE-DEVICE). Every stage has a limit and says what it
# could not find; the others go on. All of it takes under --minutes N (default 8): what does not fit is skipped, and said
# to be. --only runs some stages; --build takes a build that exists (with simulated GPUs every speed is marked so);
# --tiny uses shapes that take no time and say nothing. Ends with 1 when a stage failed.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! command -v python3 >/dev/null; then
    echo "gpu_check: error: python3 not found; its standard library is all this needs" >&2
    exit 2
fi
exec python3 scripts/gpu_check.py "$@"
