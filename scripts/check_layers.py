#!/usr/bin/env python3
"""Checks every #include of runtime/, kernels/ and examples/ against the order of the folders.

Usage: check_layers.py [ROOT]. Prints one line per offence, `file:line: why`, and ends with 1 when there are any.
"""
import os
import re
import sys

# Folder -> the folders right below it; what those may include it may include too.
BELOW = {
    "include": [],
    "base": ["include"],
    "job": ["base"],
    "config": ["job"],
    "device": ["config"],
    "backend": ["device"],
    "kernels": ["backend"],
    "comm": ["kernels"],
    "data": ["comm"],
    "metrics": ["comm"],
    "graph": ["kernels"],
    "layers": ["graph"],
    "models": ["layers"],
    "train": ["graph", "comm", "data", "metrics"],
    "checkpoint": ["train", "data"],
    "loop": ["train", "checkpoint", "models", "metrics"],
    "launch": ["device"],
    "app": ["loop", "launch"],
    "examples": ["include"],
}
MPI_FOLDERS = {"job", "comm"}
SIMULATOR = "cusim_device.h"    # tests/cusim/include: stands in for CUDA, which is no folder of ours either
SOURCE = re.compile(r"\.(c|h|cu|cuh|def)$")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def reachable(folder):
    """The folder itself and all below it."""
    found, pending = set(), [folder]
    while pending:
        name = pending.pop()
        if name not in found:
            found.add(name)
            pending += BELOW[name]
    return found


def folder_of(path):
    """Folder of a source file, by its path from the root; None when the table has none."""
    parts = path.split(os.sep)
    name = parts[1] if parts[0] == "runtime" else parts[0]
    return name if name in BELOW else None


def offence(folder, bracket, target, allowed):
    """Why this #include is wrong, or None."""
    first = target.split("/")[0]
    if bracket == "<":
        if first == "lockstep":
            return None
        if first in BELOW:
            return f'<{target}> is a project header: write it in quotes'
        if target == "mpi.h" and folder not in MPI_FOLDERS:
            return f"{folder} includes <mpi.h>: only {' and '.join(sorted(MPI_FOLDERS))} may"
        return None
    if folder == "examples" and "/" not in target:
        return None         # a header of its own beside it
    if folder in ("examples", "include"):
        return f'{folder} includes "{target}": only <lockstep/...> and system headers are allowed'
    if first == "lockstep":
        return f'public header in quotes: write <{target}>'
    if folder == "kernels" and target == SIMULATOR:
        return None
    if "/" not in target or first not in BELOW:
        return f'"{target}" does not begin with a folder of the project'
    if first not in allowed:
        return f'{folder} includes "{target}": {first} does not stand to its left'
    return None


def check(root):
    """Lines of text, one per offence, and the number of #include lines seen."""
    found, seen = [], 0
    for top in ("runtime", "kernels", "examples"):
        for where, _, names in sorted(os.walk(os.path.join(root, top))):
            for name in sorted(filter(SOURCE.search, names)):
                path = os.path.relpath(os.path.join(where, name), root)
                folder = folder_of(path)
                if folder is None:
                    found.append(f"{path}:1: its folder is not in the order of folders")
                    continue
                allowed = reachable(folder)
                with open(os.path.join(root, path), encoding="utf-8") as lines:
                    for number, line in enumerate(lines, 1):
                        match = INCLUDE.match(line)
                        if match:
                            seen += 1
                            why = offence(folder, match[1], match[2], allowed)
                            if why:
                                found.append(f"{path}:{number}: {why}")
    return found, seen


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    found, seen = check(root)
    for line in found:
        print(line)
    print(f"{seen} include lines, {len(found)} against the order of folders")
    return 1 if found or seen == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
