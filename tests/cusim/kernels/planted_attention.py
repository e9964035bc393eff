# RUN: timeout=600
"""Leaves out each barrier and each wait for copies of attention's kernels in turn: every one must be missed.

ThreadSanitizer sees them all. Without it a wait that is missing always shows (what it waits for is NaN), and so do most
barriers; some of those between warps that keep step anyway show in no order of threads.
"""
import glob
import os
import re
import subprocess
import sys


def places(folder):
    for path in sorted(glob.glob(os.path.join(folder, "attention_*"))):
        for number, line in enumerate(open(path), 1):
            code = line.split("/*")[0]
            if re.search(r"__sync(threads|warp)\(\)|Math::wait\(\)", code):
                yield f"{os.path.basename(path)}:{number}", code.strip()


def run(program, planted):
    environment = {**os.environ, "PLANTED": planted} if planted else dict(os.environ)
    return subprocess.run([program], capture_output=True, text=True, errors="replace", env=environment, timeout=300)


def main():
    variant, program, folder = sys.argv[1:]
    found = list(places(folder))
    correct = run(program, None)
    if correct.returncode != 0:
        sys.exit(f"nothing left out, and yet:\n{correct.stdout}{correct.stderr}")
    passed = []
    for place, code in found:
        caught = run(program, place).returncode != 0
        print(f"{'caught' if caught else 'NOT CAUGHT'}: {place}: {code}", flush=True)
        if not caught:
            passed.append(f"{place}: {code}")
    if variant != "thread":
        passed = [each for each in passed if "wait" in each] if len(passed) <= len(found) // 4 else passed
    if len(found) < 15 or passed:
        sys.exit(f"{len(found)} places; not caught: {'; '.join(passed)}")


main()
