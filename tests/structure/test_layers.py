# RUN: timeout=60
"""The #include lines follow the order of the folders, and the check sees those that do not."""
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CHECK = os.path.join(ROOT, "scripts", "check_layers.py")

# One file with one #include line, and whether the order allows it.
CASES = [
    ("runtime/config/a.c", '#include "base/text.h"', True),
    ("runtime/base/a.c", '#include "config/config.h"', False),
    ("runtime/base/a.h", '#  include "job/job.h"', False),
    ("runtime/data/a.c", '#include "metrics/jsonl.h"', False),
    ("runtime/metrics/a.c", '#include "data/loader.h"', False),
    ("runtime/graph/a.c", '#include "comm/tree.h"', False),
    ("runtime/layers/a.c", '#include "graph/plan.h"', True),
    ("runtime/train/a.c", '#include "layers/dense.h"', False),
    ("runtime/train/a.c", '#include "config/config.h"', True),
    ("runtime/loop/a.c", '#include "models/models.h"', True),
    ("runtime/app/a.c", '#include "models/models.h"', True),
    ("kernels/cpu/a.c", '#include "backend/cpu/isa.h"', True),
    ("kernels/cpu/a.c", '#include "comm/tree.h"', False),
    ("kernels/cuda/a.cu", '#include "comm/tree.h"', False),
    ("kernels/cuda/a.h", '#include "cusim_device.h"', True),
    ("runtime/backend/cuda/a.c", '#include "cusim_device.h"', False),
    ("runtime/comm/a.c", "#include <mpi.h>", True),
    ("runtime/train/a.c", "#include <mpi.h>", False),
    ("runtime/base/a.c", '#include "text.h"', False),
    ("runtime/base/a.c", '#include "lockstep/status.h"', False),
    ("runtime/base/a.c", "#include <base/text.h>", False),
    ("runtime/other/a.c", "#include <stdio.h>", False),
    ("runtime/include/lockstep/a.h", '#include "base/text.h"', False),
    ("examples/a/a.c", "#include <lockstep/lockstep.h>", True),
    ("examples/a/a.c", '#include "base/text.h"', False),
    ("examples/a.c", '#include "a.h"', True),
    ("runtime/include/lockstep/a.h", '#include "a.h"', False),
]


def run(root):
    return subprocess.run([sys.executable, CHECK, root], capture_output=True, text=True, check=False)


def main():
    for path, line, allowed in CASES:
        with tempfile.TemporaryDirectory() as root:
            os.makedirs(os.path.join(root, os.path.dirname(path)))
            with open(os.path.join(root, path), "w", encoding="utf-8") as file:
                file.write(f"/* first line */\n{line}\n")
            result = run(root)
            named = f"{path}:" in result.stdout
            if (result.returncode == 0) != allowed or named == allowed:
                sys.exit(f"{path}: {line}: expected {'no offence' if allowed else 'an offence'}, got\n{result.stdout}")
    result = run(ROOT)
    print(result.stdout, end="")
    sys.exit(result.returncode)


if __name__ == "__main__":
    main()
