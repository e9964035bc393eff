"""A run under launch whose processes are killed at random moments ends with the bits and lines of a quiet one."""
import os
import random
import signal
import time

import launch_case
import trainer

MAX_KILLS = 3       # of one run; then it may end
STEPS = 400


def victims(process):
    """What may be killed of a job: ranks, their keepers, mpirun."""
    names = ("trainer", "launch", "mpirun")
    return [pid for pid in launch_case.below(process.pid) if launch_case.name_of(pid) in names]


def n_steps(metrics):
    """Lines of steps in a metrics file, which may not be there yet."""
    try:
        with open(metrics, encoding="utf-8") as file:
            return sum('"event": "step"' in line or '"event":"step"' in line for line in file)
    except OSError:
        return 0


def disturbed_run(case, path, world, duration, rng):
    """One run under launch: (exit code, kills, output). The first kill is of a rank at a random step; others come at a
    random moment after a start of the job."""
    process = case.start_launch(["-n", str(world), "--max-restarts", str(MAX_KILLS), "--restart-delay", "0.1s",
                                 case.trainer, path])
    kills, deadline = 0, time.monotonic() + 200 * case.slow
    metrics, step = os.path.join(os.path.dirname(path), "metrics.jsonl"), rng.randrange(1, STEPS * 3 // 4)
    while process.poll() is None and time.monotonic() < deadline:
        if kills == MAX_KILLS:
            time.sleep(0.05)
            continue
        if kills == 0:
            launch_case.wait_until(lambda: process.poll() is not None or n_steps(metrics) >= step, 60 * case.slow)
            found = launch_case.ranks(process)
        else:
            launch_case.wait_until(lambda: process.poll() is not None or launch_case.ranks(process), 30 * case.slow)
            time.sleep(rng.random() ** 1.5 * duration)
            # Ranks are what gets lost; mpirun and the keepers are rarer.
            found = launch_case.ranks(process) if rng.random() < 0.7 else victims(process)
        if found and process.poll() is None:
            try:
                os.kill(rng.choice(found), signal.SIGKILL)
                kills += 1
            except ProcessLookupError:
                pass
            time.sleep(0.1)
    if process.poll() is None:
        left = launch_case.below(process.pid)
        process.kill()
        return f"a hang, with {[launch_case.name_of(p) for p in left]}", kills, trainer.output_of(process)
    return process.returncode, kills, trainer.output_of(process)


def check(case, n_runs):
    seed = int(os.environ.get("LOCKSTEP_KILL_SEED", time.time_ns() % 10 ** 9))
    print(f"seed {seed} (LOCKSTEP_KILL_SEED repeats it)")
    config = trainer.mlp_config(case, **{"checkpoint.every": 15, "checkpoint.keep": 2, "train.eval_every": 40,
                                         "device.threads": 1, "train.steps": STEPS, "device.backend": "cpu"})
    path, log = case.config(config)
    began = time.monotonic()
    quiet = case.run([path], np=2 if case.has_mpi else 0)
    duration = time.monotonic() - began
    if not case.check(quiet.returncode == 0, f"exit {quiet.returncode}\n{quiet.stderr}"):
        return
    expected = trainer.results(trainer.read_events(os.path.join(log, "metrics.jsonl")))
    all_kills = 0
    for run in range(n_runs):
        rng = random.Random(f"{seed} {run}")
        path, log = case.config(config)
        world = rng.choice(case.worlds(1, 2, 3, 4))
        code, kills, text = disturbed_run(case, path, world, duration, rng)
        all_kills += kills
        case.check(kills > 0, f"run {run}, np {world}: has not been disturbed")
        if not case.check(code == 0, f"run {run}, np {world}: exit {code} after {kills} kills\n{text[-3000:]}"):
            continue
        found = trainer.results(trainer.read_events(os.path.join(log, "metrics.jsonl")))
        case.check(found == expected, f"run {run}, np {world}: other lines after {kills} kills")
        told = text.count("launch: error: ")
        case.check(told == text.count("starts again"), f"run {run}: {told} causes told\n{text[-2000:]}")
    print(f"{all_kills} kills")
