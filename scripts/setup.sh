#!/usr/bin/env bash
# Installs what Lockstep needs to build, run and test, on Debian and Ubuntu. Run as root, or where sudo works.
# Does nothing when all of it is there.
set -euo pipefail

packages=(build-essential cmake ninja-build pkg-config git python3 openmpi-bin libopenmpi-dev libdnnl-dev zlib1g-dev
          libxxhash-dev libjansson-dev libhwloc-dev libmicrohttpd-dev libcmocka-dev)
data_packages=(dataset-fashion-mnist dict-jargon)     # what the examples train on

if ! command -v apt-get >/dev/null; then
    cat >&2 <<EOF
scripts/setup.sh knows Debian and Ubuntu only. Install what these packages hold, then go on with scripts/test.sh:
  ${packages[*]}
The examples train on the files of ${data_packages[*]}; any IDX image files and any text will do.
EOF
    exit 1
fi

missing=()
for package in "${packages[@]}" "${data_packages[@]}"; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing+=("$package")
done
if [ ${#missing[@]} -eq 0 ]; then
    exit 0
fi

run_as_root() {
    if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo "$@"; fi
}
if [ "$(id -u)" -ne 0 ] && ! command -v sudo >/dev/null; then
    cat >&2 <<EOF
scripts/setup.sh needs root to install packages, and there is no sudo. As root, run this once, then try again:
  apt-get update && apt-get install -y --no-install-recommends ${missing[*]}
EOF
    exit 1
fi
echo "installing: ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
run_as_root apt-get update -qq
run_as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
