#!/usr/bin/env python3
"""A training program as launch sees one: answers --print-config, and else does in each rank what FAKE_DO says."""
import os
import random
import signal
import subprocess
import sys
import time

RANK = int(os.environ.get("OMPI_COMM_WORLD_RANK", "0"))


def flood(seed=0):
    """Lines of all lengths to both outputs, some written in pieces."""
    rng = random.Random(RANK)
    for i in range(3000):
        text = f"{i} " + "x" * (rng.randrange(60) if rng.random() < 0.99 else rng.randrange(9000)) + f" {RANK}\n"
        out = sys.stdout if i % 3 else sys.stderr
        cut = rng.randrange(len(text))
        out.write(text[:cut])
        if rng.random() < 0.1:
            out.flush()
        out.write(text[cut:])
        out.flush()
    sys.stdout.write("no end of line")


def main():
    if "--print-config" in sys.argv:
        sys.exit(subprocess.run([os.environ["FAKE_TRAINER"]] + sys.argv[1:], check=False).returncode)
    what = os.environ.get("FAKE_DO", "")
    if what == "flood":
        flood()
    elif what == "end_with":            # rank 1 ends with the code, after a word
        if RANK == 1:
            time.sleep(0.3)
            print("the last words", file=sys.stderr, flush=True)
            code = int(os.environ["FAKE_CODE"])
            if code > 128:
                signal.signal(code - 128, signal.SIG_DFL)
                os.kill(os.getpid(), code - 128)
            os._exit(code)
        time.sleep(60)
    elif what == "count":               # ends badly until the file says that it was started often enough
        if RANK == 0:
            with open(os.environ["FAKE_COUNT"], "a", encoding="utf-8") as file:
                file.write(" ".join(sys.argv[1:]) + "\n")
        sys.exit(int(os.environ["FAKE_CODE"]))
    elif what == "late":                # does not catch signals at once; the request must not be lost
        time.sleep(1.5)
        asked = []
        signal.signal(signal.SIGUSR1, lambda number, frame: asked.append(number))
        end = time.monotonic() + 60
        while not asked and time.monotonic() < end:
            time.sleep(0.01)
        sys.exit(75 if asked == [signal.SIGUSR1] else 1)


if __name__ == "__main__":
    main()
