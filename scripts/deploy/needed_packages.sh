#!/usr/bin/env bash
# needed_packages.sh PROGRAM...: names of the Debian or Ubuntu packages that hold the libraries these programs load, one a line.
# Libraries of no package (the driver's, those of the project) are left out.
set -euo pipefail

ldd "$@" | awk '$2 == "=>" && $3 ~ /^\// {print $3}' | sort -u | while read -r library; do
    # dpkg knows a file under /lib or /usr/lib, whichever the package was made with.
    dpkg -S "$library" "/usr$library" "${library#/usr}" 2>/dev/null | cut -d: -f1 || true
done | sort -u
