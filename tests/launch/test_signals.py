# RUN: timeout=300 label=slow
"""Signals to launch: one is a request to stop, whenever it comes; two end the job at once. Killed, it leaves nothing.
"""
import os
import random
import signal
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import launch_case
from launch_case import FAKE, ranks, wait_until
import trainer

STOPPED = 75


def one_signal(case, config, rng):
    """At any moment, start-up included, the job stops with 75, or had not begun; in the end it has the same bits."""
    path, log = case.config(config)
    quiet = case.run([path], np=2 if case.has_mpi else 0)
    case.check(quiet.returncode == 0, quiet.stderr)
    expected = trainer.results(trainer.read_events(os.path.join(log, "metrics.jsonl")))
    path, log = case.config(config)
    number = {signal.SIGTERM: 0, signal.SIGINT: 0, signal.SIGHUP: 0, signal.SIGUSR1: 0, signal.SIGUSR2: 0}
    for start in range(8):
        world = rng.choice(case.worlds(1, 2, 3))
        process = case.start_launch(["-n", str(world), "--max-restarts", "3", case.trainer, path])
        time.sleep(rng.random() * 1.5)
        which = rng.choice(list(number))
        process.send_signal(which)
        code = process.wait(60 * case.slow)
        text = trainer.output_of(process)
        began = any(line.startswith("launch: ") and "output of each" in line for line in text.splitlines())
        if code == 0 and trainer.read_events(os.path.join(log, "metrics.jsonl"))[-1]["event"] == "done":
            break
        # A signal may find launch before its first line.
        right = code == STOPPED or (not began and code in (128 + which, -which))
        case.check(right and "error" not in text, f"start {start}, {which!r}: exit {code}\n{text[-2000:]}")
    result = case.run_launch([case.trainer, path] if case.has_mpi else ["-n", "1", case.trainer, path])
    case.check(result.returncode == 0, result.stderr)
    found = trainer.results(trainer.read_events(os.path.join(log, "metrics.jsonl")))
    case.check(found == expected, "other lines after the stops")


def late(case, config):
    """A program that does not catch signals yet gets the request when it does."""
    path, _ = case.config(config)
    process = case.start_launch(["-n", "3" if case.has_mpi else "1", FAKE, path], env={"FAKE_DO": "late"})
    wait_until(lambda: "output of each" in launch_case.text_so_far(process), 30 * case.slow)
    process.send_signal(signal.SIGTERM)
    code = process.wait(60 * case.slow)
    case.check(code == STOPPED, f"late: exit {code} {trainer.output_of(process)}")


def begun(case, config):
    """A long run that has taken its first step; its process, and all processes below it."""
    path, log = case.config(dict(config, **{"train.steps": 10 ** 6}))
    process = case.start_launch(["-n", "2" if case.has_mpi else "1", "--max-restarts", "3", case.trainer, path])
    metrics = os.path.join(log, "metrics.jsonl")
    wait_until(lambda: os.path.exists(metrics) and os.path.getsize(metrics) > 3000, 60 * case.slow)
    return process, launch_case.below(process.pid)


def two_signals(case, config):
    process, below = begun(case, config)
    process.send_signal(signal.SIGSTOP)     # both are there at once
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGCONT)
    code = process.wait(30 * case.slow)
    case.check(code > 128, f"exit {code} after two signals")
    gone = wait_until(lambda: not any(map(trainer.is_alive, below)), 10 * case.slow)
    case.check(gone, f"alive after two signals: {[launch_case.name_of(p) for p in below if trainer.is_alive(p)]}")
    case.check("starts again" not in trainer.output_of(process), "two signals are no reason to start again")


def killed(case, config, rng):
    """launch, mpirun, a keeper, or all but the ranks are killed: no process stays."""
    for whom in ["launch"] * 4 + ["mpirun", "all but ranks"]:
        if whom == "launch" and rng.random() < 0.5:
            path, _ = case.config(dict(config, **{"train.steps": 10 ** 6}))
            process = case.start_launch(["-n", "2" if case.has_mpi else "1", case.trainer, path])
            time.sleep(rng.random())
            below = launch_case.below(process.pid)
        else:
            process, below = begun(case, config)
        found = ranks(process)
        if whom == "all but ranks":
            for pid in [process.pid] + [p for p in below if p not in found]:
                os.kill(pid, signal.SIGKILL)
        elif whom == "mpirun":
            process.send_signal(signal.SIGTERM)     # so that it does not start again
            os.kill(below[0], signal.SIGKILL)
        else:
            process.kill()
        process.wait(30 * case.slow)
        gone = wait_until(lambda: not any(map(trainer.is_alive, below)), 15 * case.slow)
        case.check(gone, f"{whom} killed, alive: {[launch_case.name_of(p) for p in below if trainer.is_alive(p)]}")
        trainer.output_of(process)


def main():
    case = launch_case.LaunchCase()
    seed = int(os.environ.get("LOCKSTEP_KILL_SEED", time.time_ns() % 10 ** 9))
    print(f"seed {seed} (LOCKSTEP_KILL_SEED repeats it)")
    rng = random.Random(seed)
    config = trainer.mlp_config(case, **{"checkpoint.every": 100, "device.threads": 1, "train.steps": 1500,
                                         "device.backend": "cpu"})
    one_signal(case, config, rng)
    late(case, config)
    two_signals(case, config)
    killed(case, config, rng)
    case.finish()


if __name__ == "__main__":
    main()
