# RUN: timeout=600 label=cuda,full
"""The step on simulated GPUs, written and recorded, with one of its waits left out: plain, some seed gives other
weights, snapshots or evaluation (or a fault); under ThreadSanitizer it is reported. The correct step gives the same
with every seed, and no report."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import trainer

os.environ.pop("LOCKSTEP_DEVICE_BACKEND", None)      # each run here says its own

# Waits for other processes' weights exist where optimizer state is shared out; a replayed step is over when it is
# committed, so that nothing of it is left at a standstill.
ALONE = ["FORK", "FULL", "COPIED", "USED", "BUCKET", "EXCHANGED", "HOST", "SNAPSHOT"]
SHARED = ["BUCKET", "EXCHANGED", "UPDATED", "GATHERED", "SETTLING", "SETTLED"]
NOT_REPLAYED = ["SETTLING"]
REPORTED = 66
SEEDS = range(1, 11)


def main():
    case = trainer.Case()
    case.needs_simulated_gpus()
    tsan = case.sanitizer == "thread"
    config = trainer.mlp_config(case, **{"model.hidden": "32", "train.global_batch": 48, "device.backend": "cuda",
                                         "comm.overlap": "true"})
    settings = [f"{k}={v}" for k, v in config.items() if k != "train.eval_every"]
    seeds = SEEDS if not tsan else (2,)

    def run(seed, np, graphs, wait, *arguments):
        """With two steps in flight; or with snapshots, each of which is of a step that is over."""
        options = f"ignore_noninstrumented_modules=1 halt_on_error=1 exitcode={REPORTED} atexit_sleep_ms=0"
        env = {"CUSIM_SEED": str(seed), "CUSIM_QUIET": "1", "TSAN_OPTIONS": options}
        how = ["--snapshots"] if wait == "SNAPSHOT" else ["--in-flight", "2", "--evaluate"]
        return case.run([*how, *arguments, "device.graphs=" + graphs] + settings, np=np if np > 1 else 0,
                        program="tests/bin/train_probe", env=env)

    def is_caught(np, graphs, wait, right):
        for seed in seeds:
            result = run(seed, np, graphs, wait, "--leave-out", wait)
            if tsan and result.returncode == REPORTED and "data race" in result.stderr:
                return True
            # A recording that lacks a wait may not even be one.
            if (not tsan or graphs == "on") and result.returncode not in (0, REPORTED):
                return True
            if not tsan and result.stdout != right:
                return True
        return False

    for np in case.worlds(1, 2):
        for wait in ALONE if np == 1 else SHARED:
            for graphs in ("off", "on"):
                if wait == "FULL" and not tsan:     # the probe lets the loader come first: nothing else orders them
                    continue
                if graphs == "on" and wait in NOT_REPLAYED:
                    continue
                right = run(1, np, graphs, wait).stdout if not tsan else None
                case.check(is_caught(np, graphs, wait, right), f"np {np}, graphs {graphs}, without {wait}: not seen")
        rights = set()
        for graphs in ("off", "on"):
            for wait in ("", "SNAPSHOT") if np == 1 else ("",):
                for seed in seeds:
                    result = run(seed, np, graphs, wait)
                    rights.add((wait, result.stdout))
                    case.check(result.returncode == 0 and "weights" in result.stdout,
                               f"np {np}, graphs {graphs}, seed {seed}: {result.stdout}{result.stderr[-3000:]}")
        case.check(len(rights) == (2 if np == 1 else 1), f"np {np}: {rights}")
    case.finish()


if __name__ == "__main__":
    main()
