# RUN: timeout=900 label=slow
"""Runs that are killed at random moments (a rank or mpirun, in start-up, steps, evaluation or saving) and started again
with another number of processes end with the bits and the lines of the run that nobody disturbed."""
import os
import random
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import trainer

RUNS = int(os.environ.get("LOCKSTEP_KILL_RUNS", "12"))
MAX_KILLS = 5       # of one run; then it may end


def configs(case):
    saving = {"checkpoint.every": 3, "checkpoint.keep": 2, "train.eval_every": 7, "device.threads": 1}
    mlp = trainer.mlp_config(case, **saving, **{"train.steps": 60})
    gpt = trainer.gpt_config(case, **saving, **{"train.steps": 30, "precision.compute": "f16", "loss_scale.initial": 2 ** 22,
                                               "loss_scale.growth_interval": 5, "checkpoint.best": "loss"})
    return [("mlp f32", mlp), ("gpt f16", gpt)]


def kill_somewhere(process, rng):
    """Kills one process of the job and waits until all of it is gone."""
    ranks = trainer.children(process.pid)
    victim = rng.choice(ranks + [process.pid])
    try:
        os.kill(victim, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait(timeout=60)
    deadline = time.time() + 30
    while any(trainer.is_alive(pid) for pid in ranks):
        if time.time() > deadline:
            return f"processes {[p for p in ranks if trainer.is_alive(p)]} outlived the job by 30 s"
        time.sleep(0.01)
    return ""


def disturbed(case, name, config, log, duration, rng):
    """One run to its end; returns what went wrong, and how often it was killed."""
    path = os.path.join(log, "run.ini")
    trainer.write_config(path, dict(config, **{"log.dir": log}))
    kills = 0
    for _ in range(40):
        np = rng.choice(case.worlds(1, 2, 3, 4))
        process = case.start([path], np)
        try:
            code = process.wait(timeout=rng.random() ** 1.5 * duration if kills < MAX_KILLS else 240)
        except subprocess.TimeoutExpired:
            if kills == MAX_KILLS:
                process.kill()
                return "the run hangs", kills
            wrong = kill_somewhere(process, rng)
            trainer.output_of(process)
            kills += 1
            if wrong:
                return wrong, kills
            continue
        text = trainer.output_of(process)
        return ("" if code == 0 else f"np {np}: exit {code}\n{text[-2000:]}"), kills
    return "no end in sight", kills


def main():
    case = trainer.Case()
    seed = int(os.environ.get("LOCKSTEP_KILL_SEED", time.time_ns() % 10 ** 9))
    print(f"seed {seed} (LOCKSTEP_KILL_SEED repeats it)")
    kills = 0
    for which, (name, config) in enumerate(configs(case)):
        log = case.path(f"quiet{which}")
        os.mkdir(log)
        path = os.path.join(log, "run.ini")
        trainer.write_config(path, dict(config, **{"log.dir": log}))
        began = time.time()
        result = case.run([path], np=2 if case.has_mpi else 0)
        duration = time.time() - began
        if not case.check(result.returncode == 0, f"{name}: exit {result.returncode}\n{result.stderr}"):
            continue
        expected = trainer.results(trainer.read_events(os.path.join(log, "metrics.jsonl")))
        for run in range(RUNS // 2):
            rng = random.Random(f"{seed} {name} {run}")
            log = case.path(f"run{which}-{run}")
            os.mkdir(log)
            wrong, n = disturbed(case, name, config, log, duration, rng)
            kills += n
            if not case.check(wrong == "", f"{name}, run {run}: {wrong}"):
                continue
            found = trainer.results(trainer.read_events(os.path.join(log, "metrics.jsonl")))
            same = case.check(found == expected, f"{name}, run {run}: other lines after {n} kills")
            if not same:
                for a, b in zip(expected, found):
                    if a != b:
                        print(f"  expected {a}\n  found    {b}")
                        break
                print(f"  {len(expected)} and {len(found)} lines")
    case.check(kills > 0, "nothing was killed")
    print(f"{kills} kills")
    case.finish()


if __name__ == "__main__":
    main()
