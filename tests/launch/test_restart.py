# RUN: timeout=300 label=slow
"""Three runs under launch whose processes are killed at random moments (20: test_restart_full.py)."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import launch_case
import disturb


def resume_of_others(case):
    """checkpoint.resume = never holds for the first start only, and only until the job has saved something itself."""
    values = {"model.kind": "mlp", "model.hidden": "16", "data.kind": "synthetic", "data.samples": 256,
              "train.global_batch": 16, "train.micro_batch": 2, "device.threads": 1, "device.backend": "cpu",
              "train.steps": 10, "checkpoint.every": 5}
    path, log = case.config(values)
    first = case.run_launch(["-n", "1", case.trainer, path])
    case.check(first.returncode == 0, first.stderr)
    # The trainer is replaced by one that does not come to a checkpoint of its own at its first start.
    count, wrapper = case.path("count"), case.path("wrapper")
    with open(wrapper, "w", encoding="utf-8") as file:
        file.write(f"""#!/bin/sh
if [ "$1" = --print-config ]; then exec {case.trainer} "$@"; fi
echo "$@" >> {count}
case $(wc -l < {count}) in
1) exit 42 ;;
2) {case.trainer} "$@" && exit 42 ;;
*) exec {case.trainer} "$@" ;;
esac
""")
    os.chmod(wrapper, 0o755)
    again = case.run_launch(["-n", "1", "--max-restarts", "5", "--restart-delay", "0", wrapper, path, "--set",
                             "checkpoint.resume=never"])
    with open(count, encoding="utf-8") as file:
        starts = file.read().splitlines()
    case.check(again.returncode == 0 and len(starts) == 3, f"exit {again.returncode}, {starts}: {again.stderr}")
    case.check([start.endswith("checkpoint.resume=auto") for start in starts] == [False, False, True], str(starts))
    case.check(launch_case.hash_of(again.stdout) == launch_case.hash_of(first.stdout), "other weights")
    case.check(os.path.isdir(os.path.join(log, "previous-1")), "the old run has not been moved aside")


def main():
    case = launch_case.LaunchCase()
    resume_of_others(case)
    disturb.check(case, 3)
    case.finish()


if __name__ == "__main__":
    main()
