# RUN: timeout=600 label=slow
"""Requests to stop: the job saves and leaves with 75 after the current or the next step, wherever the signal finds it, and
goes on later with the same bits. A second signal leaves at once."""
import os
import random
import signal
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import trainer

STOPPED = 75


class Run:
    """One run in a folder of its own, to be started several times."""

    def __init__(self, case, config):
        self.case = case
        self.log = case.path(f"run-{time.monotonic_ns()}")
        os.mkdir(self.log)
        self.path = os.path.join(self.log, "run.ini")
        trainer.write_config(self.path, dict(config, **{"log.dir": self.log}))
        self.metrics = os.path.join(self.log, "metrics.jsonl")

    def start(self, np):
        process = self.case.start([self.path], np)
        process.np = np
        return process

    def ranks(self, process):
        """Waits until every rank catches the signal, which is the first thing it does."""
        wanted = process.np if self.case.has_mpi else 1
        for _ in range(6000):
            pids = trainer.children(process.pid) if self.case.has_mpi else [process.pid]
            if process.poll() is not None or (len(pids) == wanted and all(catches(p) for p in pids)):
                return pids
            time.sleep(0.005)
        return []

    def events(self, kind=None):
        found = trainer.read_events(self.metrics) if os.path.exists(self.metrics) else []
        return [e for e in found if kind in (None, e["event"])]

    def wait_for(self, process, condition):
        """Until the metrics file is as wanted, or the run is over."""
        for _ in range(20000):
            if process.poll() is not None or condition():
                return
            time.sleep(0.002)

    def finish(self, np):
        """Goes on to the end; returns what must equal the undisturbed run's."""
        result = self.case.run([self.path], np=np)
        self.case.check(result.returncode == 0, f"going on: exit {result.returncode}\n{result.stderr}")
        return trainer.results(self.events())

    def check_stopped(self, process, what, reason="SIGUSR1"):
        """The process has left as it should, with everything saved; returns the step, None where it had finished."""
        code = process.wait(timeout=120 * self.case.slow)
        text = trainer.output_of(process)
        # The signal may find mpirun alone, with the run finished and its own handlers gone.
        if code in (0, -signal.SIGUSR1) and self.events("done"):
            return None
        if not self.case.check(code == STOPPED, f"{what}: exit {code}\n{text[-3000:]}"):
            return None
        last = self.events()[-1]
        self.case.check(last["event"] == "stopped" and last["reason"] == reason, f"{what}: last event {last}")
        folder = os.path.join(self.log, "checkpoints", f"step-{last['step']:08d}")
        self.case.check(os.path.exists(os.path.join(folder, "manifest.json")), f"{what}: no {folder}")
        self.case.check("error" not in text, f"{what}: {text[-1000:]}")
        return last["step"]


def catches(pid):
    try:
        with open(f"/proc/{pid}/status") as file:
            caught = next(line for line in file if line.startswith("SigCgt"))
        return bool(int(caught.split()[1], 16) >> (signal.SIGUSR1 - 1) & 1)
    except (OSError, StopIteration):
        return False


def is_pending(pid):
    with open(f"/proc/{pid}/status") as file:
        words = dict(line.split(":", 1) for line in file if line.startswith(("SigPnd", "ShdPnd")))
    return any(int(word, 16) >> (signal.SIGUSR1 - 1) & 1 for word in words.values())


def undisturbed(case, config):
    run = Run(case, config)
    began = time.time()
    lines = run.finish(2 if case.has_mpi else 0)
    return lines, time.time() - began


def anywhere(case, config, rng):
    """The signal comes at a random moment, start-up and saving included, to mpirun, which hands it to all ranks."""
    expected, duration = undisturbed(case, config)
    n_stops = 0
    for attempt in range(6):
        run = Run(case, config)
        for _ in range(4):
            process = run.start(rng.choice(case.worlds(1, 2, 3)))
            run.ranks(process)
            time.sleep(rng.random() * duration * 0.5)
            if process.poll() is None:
                process.send_signal(signal.SIGUSR1)
            step = run.check_stopped(process, f"attempt {attempt}")
            if step is None:
                break
            n_stops += 1
        case.check(run.finish(rng.choice(case.worlds(1, 2, 4))) == expected, f"attempt {attempt}: other lines")
    case.check(n_stops > 0, "no run was stopped")


def at_once(case, config):
    """In start-up: the first step is the last."""
    expected, _ = undisturbed(case, config)
    run = Run(case, config)
    process = run.start(2)
    run.ranks(process)
    process.send_signal(signal.SIGUSR1)
    step = run.check_stopped(process, "start-up")
    case.check(step == 1, f"a signal in start-up stopped after step {step}")
    case.check(run.finish(1) == expected, "start-up: other lines")


def one_rank(case, config):
    """Signals to one rank alone, of each kind: all stop at the same step."""
    for number, name in ((signal.SIGUSR1, "SIGUSR1"), (signal.SIGUSR2, "SIGUSR2"), (signal.SIGTERM, "SIGTERM")):
        run = Run(case, config)
        process = run.start(3)
        ranks = run.ranks(process)
        run.wait_for(process, lambda: len(run.events("step")) >= 2)
        before = len(run.events("step"))
        os.kill(ranks[-1], number)
        step = run.check_stopped(process, f"{name} to one rank", reason=name)
        # The line of a step is written one step late.
        case.check(step is None or before <= step, f"{name}: stopped at {step}, {before} lines before")
        case.check(len(run.events("stopped")) == 1 and len(run.events("step")) == step, f"{name}: lines after a stop")


def in_evaluation(case, config):
    """No eval line then; going on repeats the evaluation."""
    config = dict(config, **{"data.val_fraction": 0.8, "train.eval_every": 1, "train.steps": 2, "train.global_batch": 16,
                             "data.train": trainer.write_text(case.path("long.txt"), 400000)})
    expected, _ = undisturbed(case, config)
    run = Run(case, config)
    process = run.start(2)
    run.ranks(process)
    run.wait_for(process, lambda: len(run.events("step")) == 1)
    process.send_signal(signal.SIGUSR1)
    step = run.check_stopped(process, "evaluation")
    case.check(step == 1 and not run.events("eval"), f"stopped at {step} with {run.events('eval')}")
    case.check(run.finish(1) == expected, "evaluation: other lines")


def twice(case, config):
    # Steps of half a second: the second signal comes before the job could have left.
    config = dict(config, **{"train.steps": 100000, "checkpoint.every": 1, "model.width": 256, "train.global_batch": 128})
    run = Run(case, config)
    process = run.start(2)
    ranks = run.ranks(process)
    run.wait_for(process, lambda: len(run.events("checkpoint")) >= 1)
    for rank in ranks:
        os.kill(rank, signal.SIGUSR1)
    while any(is_pending(rank) for rank in ranks):      # two that wait are one
        time.sleep(0.001)
    os.kill(ranks[0], signal.SIGUSR1)
    code = process.wait(timeout=60)
    trainer.output_of(process)
    case.check(code == 128 + signal.SIGUSR1, f"two signals: exit {code}")
    result = case.run([run.path, "--set", "train.max_time=1ms"], np=2)
    case.check(result.returncode == STOPPED and run.events()[-1]["reason"] == "train.max_time",
               f"max_time: exit {result.returncode} {run.events()[-1]}\n{result.stderr}")
    case.check(run.events("start")[-1].get("resumed_step", 0) >= 1, "it went on from a checkpoint")


def without_saving(case, config):
    """Nothing is saved: no 75, which says that a restart goes on."""
    run = Run(case, dict(config, **{"train.steps": 100000, "checkpoint.save": "false"}))
    process = run.start(2)
    run.ranks(process)
    process.send_signal(signal.SIGUSR1)
    code = process.wait(timeout=60 * case.slow)
    trainer.output_of(process)
    case.check(code == 128 + signal.SIGUSR1 and run.events()[-1]["event"] == "stopped", f"save=false: exit {code}")
    case.check(not os.path.exists(os.path.join(run.log, "checkpoints")), "save=false wrote a folder")


def main():
    case = trainer.Case()
    seed = int(os.environ.get("LOCKSTEP_STOP_SEED", time.time_ns() % 10 ** 9))
    print(f"seed {seed} (LOCKSTEP_STOP_SEED repeats it)")
    config = trainer.gpt_config(case, **{"train.steps": 40, "train.eval_every": 9, "checkpoint.every": 4,
                                         "device.threads": 1, "precision.compute": "f16"})
    at_once(case, config)
    anywhere(case, config, random.Random(seed))
    in_evaluation(case, config)
    twice(case, config)
    without_saving(case, config)
    if case.has_mpi:
        one_rank(case, config)
    case.finish()


if __name__ == "__main__":
    main()
