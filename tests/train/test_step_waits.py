# RUN: timeout=300 label=tsan,slow
"""The step under ThreadSanitizer: the correct one is clean; with any one of its waits left out a race is reported, every
time. Only the order that the contract promises counts (edges mode), and two steps are in flight."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import trainer

# Waits for other processes' weights exist where optimizer state is shared out.
ALONE = ["FORK", "FULL", "COPIED", "USED", "BUCKET", "EXCHANGED", "HOST"]
SNAPSHOT = "SNAPSHOT"      # with checkpoints taken
SHARED = ALONE + ["UPDATED", "GATHERED", "SETTLING", "SETTLED"]
REPORTED = 66


def main():
    case = trainer.Case()
    if case.sanitizer != "thread":
        print("skipped: needs a build with -DLOCKSTEP_SANITIZE=thread")
        return
    config = trainer.mlp_config(case, **{"model.hidden": "32", "train.steps": 6, "train.global_batch": 48})
    settings = [f"{k}={v}" for k, v in config.items() if k != "train.eval_every"]

    def run(arguments, edges, np=0):
        env = {"LOCKSTEP_TSAN_EDGES": str(edges),
               "TSAN_OPTIONS": f"ignore_noninstrumented_modules=1 halt_on_error=1 exitcode={REPORTED}"}
        return case.run(arguments + settings, np=np, program="tests/bin/train_probe", env=env)

    for edges in (0, 1):
        for in_flight in ("1", "2"):
            for np in case.worlds(1, 2):
                for graphs, overlap in (("off", "true"), ("off", "false"), ("on", "true")):
                    result = run(["--in-flight", in_flight, "device.graphs=" + graphs, "comm.overlap=" + overlap], edges,
                                 np if np > 1 else 0)
                    case.check(result.returncode == 0, f"edges {edges}, {in_flight} in flight, np {np}, graphs {graphs}, "
                               f"overlap {overlap}: exit {result.returncode}\n{result.stderr[-3000:]}")
                result = run(["--snapshots", "device.graphs=" + ("on" if in_flight == "2" else "off")], edges,
                             np if np > 1 else 0)
                case.check(result.returncode == 0, f"edges {edges}, np {np}, snapshots: exit {result.returncode}\n"
                           f"{result.stderr[-3000:]}")
    for np in case.worlds(1, 2):
        for wait in (ALONE if np == 1 else SHARED) + [SNAPSHOT]:
            for attempt in range(2):
                more = ["--snapshots"] if wait == SNAPSHOT else ["--in-flight", "2", "--evaluate"]
                result = run(more + ["--leave-out", wait, "comm.overlap=true"], 1, np if np > 1 else 0)
                case.check(result.returncode == REPORTED and "data race" in result.stderr,
                           f"np {np} without {wait} (attempt {attempt}): exit {result.returncode}, no race reported\n"
                           f"{result.stderr[-1500:]}")
    case.finish()


if __name__ == "__main__":
    main()
