# RUN: timeout=300 label=tsan,slow
"""A process of the trainer that stands still ends the job, by name, within comm.timeout and a few seconds; nothing else
does. comm.timeout is one second, its lowest, in all runs."""
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import trainer

TIMEOUT = 7     # exit code


def status_of(pid):
    """Command line and environment of a process; empty when it is gone."""
    try:
        return open(f"/proc/{pid}/cmdline").read(), open(f"/proc/{pid}/environ").read()
    except OSError:
        return "", ""


def ranks_of(marker):
    """Rank -> process id of the trainers whose command line has the marker."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        command, environment = status_of(pid)
        rank = re.search(r"OMPI_COMM_WORLD_RANK=(\d+)", environment)
        if marker in command and rank and "mpirun" not in command:
            found[int(rank.group(1))] = int(pid)
    return found


def has_watchdog(pid):
    try:
        return any(open(f"/proc/{pid}/task/{t}/comm").read().strip() == "ls-watchdog"
                   for t in os.listdir(f"/proc/{pid}/task"))
    except OSError:
        return False


def wait_for(condition, seconds):
    end = time.time() + seconds
    while time.time() < end:
        if condition():
            return True
        time.sleep(0.005)
    return False


def stop_one(case, config, np, victims, moment, where):
    """Runs with np processes and stops some of them when `moment` (a function of the output and the processes) says, or
    a second later where it is a place in the run that must have been told."""
    name = f"np {np}, ranks {victims} stopped {where}"
    log = tempfile.mkdtemp(dir=case.folder)
    path = os.path.join(log, "run.ini")
    trainer.write_config(path, dict(config, **{"log.dir": log, "comm.timeout": "1s", "log.level": "info"}))
    output = os.path.join(log, "out")
    with open(output, "w") as file:
        run = subprocess.Popen(case.command([path], np), stdout=file, stderr=subprocess.STDOUT, cwd=case.folder,
                               env={**trainer.MPI_ENVIRONMENT, **os.environ})
    try:
        reached = wait_for(lambda: len(ranks_of(path)) == np and moment(open(output).read(), ranks_of(path)),
                           60 * case.slow)
        if reached and moment is not at_start:
            time.sleep(1)
        processes = ranks_of(path)
        for rank in victims if reached else []:
            os.kill(processes[rank], signal.SIGSTOP)
        code = run.wait(timeout=60 * case.slow)
    finally:
        if run.poll() is None:
            run.kill()
    text = open(output).read()
    errors = re.findall(r"^trainer: error.*$", text, re.M)
    if not case.check(reached, f"{name}: the moment never came\n{text}"):
        return
    case.check(code == TIMEOUT, f"{name}: exit {code}\n{text}")
    if case.check(len(errors) == 1, f"{name}: {len(errors)} error lines\n" + "\n".join(errors)):
        for rank in victims:
            case.check(re.search(rf"rank {rank} on \S+ has not been heard of for \d+\.\d s", errors[0]),
                       f"{name}: rank {rank} is not named: {errors[0]}")
        case.check(re.search(where, errors[0]), f"{name}: where it stood is not said: {errors[0]}")
        case.check("comm.timeout is 1 s" in errors[0], f"{name}: the key is not named: {errors[0]}")
    case.check(wait_for(lambda: not ranks_of(path), 10 * case.slow), f"{name}: processes are left: {ranks_of(path)}")


def at_start(text, processes):
    return all(has_watchdog(pid) for pid in processes.values())


def in_steps(text, processes):
    return "step 10/" in text


def in_evaluation(text, processes):
    return "validation loss" in text


def stopped_processes(case):
    steps = {"model.kind": "mlp", "model.hidden": "256,128", "data.kind": "synthetic", "data.samples": 4096,
             "data.features": 64, "data.val_fraction": 0.5, "train.steps": 100000000, "train.global_batch": 32,
             "train.micro_batch": 4, "device.threads": 1, "train.log_every": 5}
    evaluation = dict(steps, **{"train.eval_every": 1, "data.samples": 400000, "data.val_fraction": 0.9})

    cases = (
            (2, [0], steps, at_start, "it was at "),
            (3, [1], steps, at_start, "it was at "),
            (2, [0], steps, in_steps, r"it was at training, step \d+, "),
            (2, [1], steps, in_steps, r"it was at training, step \d+, "),
            (3, [1], dict(steps, **{"comm.overlap": "false"}), in_steps, r"it was at training, step \d+, "),
            (3, [0, 2], steps, in_steps, r"it was at training, step \d+, "),
            (2, [1], dict(steps, **{"comm.reduction": "fast"}), in_steps, r"it was at training, step \d+, "),
            (2, [1], dict(steps, **{"device.graphs": "on"}), in_steps, r"it was at training, step \d+, "),
            (2, [0], evaluation, in_evaluation, "it was at (evaluating|training)"),
            (3, [2], evaluation, in_evaluation, "it was at (evaluating|training)"))
    # Under a sanitizer, which takes its time, one of each moment.
    for np, victims, config, moment, where in cases if not case.sanitizer else (cases[1], cases[5], cases[9]):
        stop_one(case, config, np, victims, moment, where)


def no_false_alarm(case):
    """Ordinary runs on a machine that is busier than its cores allow, and steps longer than the timeout."""
    n_busy = 0 if case.sanitizer else 2 * (os.cpu_count() or 2)     # a sanitizer is load enough
    load = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(n_busy)]
    try:
        for np in case.worlds(1, 3):
            case.train(trainer.mlp_config(case, **{"comm.timeout": "1s", "train.steps": 30}), np=np)
            case.train(trainer.gpt_config(case, **{"comm.timeout": "1s", "train.steps": 5}), np=np)
        # Lanes in unequal shares: two of three processes wait for the third, longer than comm.timeout.
        samples = 16384 // case.slow
        long = {"model.kind": "mlp", "model.hidden": "1024,1024", "data.kind": "synthetic", "data.features": 64,
                "data.samples": samples, "train.steps": 2, "train.global_batch": samples, "train.micro_batch": 2,
                "train.lanes": 4,
                "device.threads": 1, "comm.timeout": "1s", "log.level": "warn"}
        for np in case.worlds(1, 3):
            events = case.train(long, np=np)
            case.check(any(e["event"] == "step" for e in events), f"np {np}: long steps are no failure")
    finally:
        for process in load:
            process.kill()
            process.wait()


def main():
    case = trainer.Case()
    no_false_alarm(case)
    if case.has_mpi:
        stopped_processes(case)
    case.finish()


if __name__ == "__main__":
    main()
