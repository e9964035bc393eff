# RUN: timeout=600 label=cuda,slow
"""The step on simulated GPUs with one of its waits left out: plain, some seed gives other weights (or a fault); under
ThreadSanitizer it is reported. The correct step gives the same weights with every seed, and no report."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import trainer

os.environ.pop("LOCKSTEP_DEVICE_BACKEND", None)      # each run here says its own

# Waits for other processes' weights exist where optimizer state is shared out.
ALONE = ["FORK", "FULL", "COPIED", "USED", "BUCKET", "EXCHANGED"]
SHARED = ["BUCKET", "EXCHANGED", "UPDATED", "GATHERED"]
REPORTED = 66
SEEDS = range(1, 11)


def main():
    case = trainer.Case()
    with open(os.path.join(case.build, "CMakeCache.txt")) as cache:
        if "LOCKSTEP_CUDA:STRING=SIM" not in cache.read():
            print("skipped: needs simulated GPUs (LOCKSTEP_CUDA=SIM)")
            return
    tsan = case.sanitizer == "thread"
    config = trainer.mlp_config(case, **{"model.hidden": "32", "train.global_batch": 48, "device.backend": "cuda",
                                         "comm.overlap": "true"})
    settings = [f"{k}={v}" for k, v in config.items() if k != "train.eval_every"]

    def run(seed, np, *arguments):
        options = f"ignore_noninstrumented_modules=1 halt_on_error=1 exitcode={REPORTED} atexit_sleep_ms=0"
        env = {"CUSIM_SEED": str(seed), "CUSIM_QUIET": "1", "TSAN_OPTIONS": options}
        return case.run(["--in-flight", "2", *arguments] + settings, np=np, program="tests/bin/train_probe", env=env)

    for np in case.worlds(1, 2):
        right = run(1, np if np > 1 else 0)
        case.check(right.returncode == 0 and "weights" in right.stdout, f"np {np}: {right.stderr[-3000:]}")
        for seed in SEEDS if not tsan else (2,):
            again = run(seed, np if np > 1 else 0, "device.graphs=on")
            case.check(again.stdout == right.stdout, f"np {np}, seed {seed}: {again.stdout}{again.stderr[-3000:]}")
        for wait in ALONE if np == 1 else SHARED:
            if wait == "FULL" and not tsan:     # the probe lets the loader come first, so that nothing else orders them
                continue
            caught = 0
            for seed in SEEDS if not tsan else (2,):
                result = run(seed, np if np > 1 else 0, "--leave-out", wait)
                if tsan:
                    caught += result.returncode == REPORTED and "data race" in result.stderr
                else:
                    caught += result.returncode != 0 or result.stdout != right.stdout
                if caught:
                    break
            case.check(caught, f"np {np} without {wait}: not seen")
    case.finish()


if __name__ == "__main__":
    main()
