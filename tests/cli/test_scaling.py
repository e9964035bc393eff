# RUN: timeout=300
"""scripts/scaling.sh: what it starts, what it computes, what it refuses. A stand-in for mpirun and trainer whose times
and weights are known shows the arithmetic; then the real ones."""
import json
import os
import stat
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import trainer

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "scripts", "scaling.sh")

# Every step takes 1 s at np 1; with n processes (1 + 0.25 (n - 1)) / n of that. The first ten are ten times slower.
STAND_IN = '''#!/usr/bin/env python3
import json, os, sys
sets = dict(a.split("=", 1) for f, a in zip(sys.argv, sys.argv[1:]) if f == "--set")
values = {"train.steps": "1000", "train.global_batch": "24", "comm.reduction": "ordered", "device.threads": "1"}
values.update(sets)
if "--print-config" in sys.argv:
    for section in ("train", "comm", "device"):
        print(f"[{section}]")
        for key, value in values.items():
            if key.startswith(section + "."):
                print(f"{key.split('.')[1]} = {value}   ; default")
    print("; hidden = 7   ; default, needs model.kind=mlp")
    sys.exit(0)
world, batch, steps = int(os.environ["FAKE_WORLD"]), int(values["train.global_batch"]), int(values["train.steps"])
with open(os.environ["FAKE_LOG"], "a") as log:
    ompi = {k: v for k, v in os.environ.items() if k.startswith("OMPI_")}
    log.write(json.dumps({"world": world, "sets": sets, "ompi": ompi, "arguments": sys.argv[1:]}) + chr(10))
if world == int(os.environ.get("FAKE_FAILS", 0)):
    sys.exit(6)
seconds = (1 + 0.25 * (world - 1)) / world * batch / 24
weights = "abcdef" + ("1" if world == int(os.environ.get("FAKE_DIFFERS", 0)) else "0") * 26
with open(values["log.metrics"], "w") as file:
    def say(**event):
        file.write(json.dumps(event) + chr(10))
    say(event="start", backend="cpu", transport="mpi", git="x")
    for step in range(1, steps + 1):
        took = seconds * (10 if step <= 10 and steps >= 40 else 1)
        say(event="step", step=step, skipped=world == 4 and step == 3, step_seconds=took,
            samples_per_second=batch / took, comm_exposed_seconds=0.125 * took * (world > 1),
            data_wait_seconds=0.0625 * took)
    say(event="done", weights_hash=weights)
'''
MPIRUN = '''#!/bin/sh
[ "$1" = -np ] && [ "$3" = --bind-to ] && [ "$4" = none ] || exit 99
export FAKE_WORLD="$2"
shift 4
exec "$@"
'''


def write_program(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write(text)
    os.chmod(path, os.stat(path).st_mode | stat.S_IXUSR)


class Stage:
    """A folder with the stand-ins, and a configuration file for the script to find."""

    def __init__(self, case):
        self.case = case
        write_program(case.path("bin", "mpirun"), MPIRUN)
        write_program(case.path("fake", "trainer"), STAND_IN)
        with open(case.path("job.ini"), "w") as file:
            file.write("[train]\n")

    def run(self, *arguments, **env):
        """Returns the finished script, its JSON or None, and what was started."""
        log, out = self.case.path("log"), self.case.path("scaling-job.json")
        for path in (log, out):
            if os.path.exists(path):
                os.remove(path)
        clean = {k: v for k, v in os.environ.items() if not k.startswith("OMPI_")}
        env = {**clean, "PATH": self.case.path("bin") + ":" + os.environ["PATH"], "BUILD": self.case.path("fake"),
               "FAKE_LOG": log, **env}
        done = subprocess.run([SCRIPT, *arguments], capture_output=True, text=True, env=env, cwd=self.case.folder)
        started = [json.loads(line) for line in open(log)] if os.path.exists(log) else []
        return done, json.load(open(out)) if os.path.exists(out) else None, started


def near(a, b):
    return abs(a - b) <= 1e-9 * abs(b)


def arithmetic(case, stage):
    done, result, started = stage.run("job.ini", "1", "2", "4")
    if not case.check(done.returncode == 0 and result is not None, done.stderr):
        return
    case.check([(s["world"], s["sets"]["train.global_batch"]) for s in started] ==
               [(1, "24"), (2, "24"), (4, "24"), (2, "48"), (4, "96")], "each run once, one process not twice")
    case.check(all(s["sets"]["train.steps"] == "60" for s in started), "60 steps unless told otherwise")
    case.check([(r["mode"], r["world"]) for r in result["runs"]] ==
               [(mode, n) for mode in ("strong", "weak") for n in (1, 2, 4)], "order of the runs")
    for run in result["runs"]:
        n, what = run["world"], f"{run['mode']} np {run['world']}"
        slow = 1 + 0.25 * (n - 1)
        case.check(near(run["samples_per_second"], 24 * n / slow), f"{what}: samples/s, without the warm-up")
        case.check(near(run["efficiency"], 1 / slow), f"{what}: efficiency")
        case.check(near(run["step_seconds"], slow / (n if run["mode"] == "strong" else 1)), f"{what}: step")
        case.check(run["comm_exposed_share"] == (0.125 if n > 1 else 0), f"{what}: exposed communication")
        case.check(run["data_wait_share"] == 0.0625 and run["warm_up_steps"] == 10, f"{what}: data wait, warm-up")
        case.check(run["skipped"] == (n == 4), f"{what}: skips")
    table = [line.split() for line in done.stdout.splitlines()]
    case.check(["strong", "4", "24", "54.9", "57.1%", "437.500", "12.5%", "6.2%", "abcdef000000"] in table, done.stdout)
    case.check("equal weights at np 1, 2, 4" in done.stdout and result["weights_equal"], done.stdout)
    case.check("skipped at np 4" in done.stdout, "skips are said")
    done, result, _ = stage.run("job.ini", "2", "4")
    case.check(near(result["runs"][1]["efficiency"], 1.25 / 1.75), "relative to the smallest number of processes")
    case.check(result["runs"][2]["global_batch"] == 48, "weak scaling at the smallest number too")


def steps_and_arguments(case, stage):
    _, result, started = stage.run("job.ini", "1", "--steps", "3", "--", "--set", "optimizer.lr=0.5")
    case.check(started[0]["sets"]["train.steps"] == "3" and started[0]["sets"]["train.epochs"] == "0", "--steps")
    case.check(started[0]["sets"]["optimizer.lr"] == "0.5" and result["arguments"] == ["--set", "optimizer.lr=0.5"],
               "arguments behind -- reach the trainer")
    case.check(result["runs"][0]["warm_up_steps"] == 0 and result["runs"][0]["steps"] == 3, "short runs")
    _, _, started = stage.run("job.ini", "1", "--", "--set", "train.steps=8")
    case.check(started[0]["sets"]["train.steps"] == "8", "the configuration's steps when fewer")
    done, _, _ = stage.run("job.ini", "1", "--json", "other.json")
    case.check(done.returncode == 0 and os.path.exists(case.path("other.json")), "--json")
    done, _, _ = stage.run("job.ini", "1", "--", "--set", "device.threads=0")
    case.check("device.threads is 0" in done.stdout, "what the efficiency means on shared cores")


def launcher(case, stage):
    many = os.cpu_count() + 1
    _, _, started = stage.run("job.ini", str(many))
    ompi = started[0]["ompi"]
    case.check(ompi.get("OMPI_MCA_rmaps_base_oversubscribe") == "1", "more processes than cores are allowed")
    root = {"OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"}
    case.check((root <= set(ompi)) == (os.geteuid() == 0), "root is allowed when it is root")
    done, _, started = stage.run("job.ini", str(many), OMPI_MCA_rmaps_base_oversubscribe="0")
    case.check(started[0]["ompi"]["OMPI_MCA_rmaps_base_oversubscribe"] == "0", "what the user set stays")
    case.check(f"mpirun -np {many} --bind-to none" in done.stderr, "says what it runs")


def failures(case, stage):
    done, result, _ = stage.run("job.ini", "1", "2", "3", FAKE_DIFFERS="2")
    case.check(done.returncode == 1 and "the weights differ: np 1 abcdef0" in done.stderr, done.stderr)
    case.check("np 2 abcdef1" in done.stderr and "np 3" not in done.stderr.splitlines()[-1], "only those that differ")
    case.check(result is not None and result["weights_equal"] is False, "the file is written all the same")
    case.check("equal weights" not in done.stdout, done.stdout)
    done, result, _ = stage.run("job.ini", "1", "2", "--", "--set", "comm.reduction=fast", FAKE_DIFFERS="2")
    case.check(done.returncode == 0 and "not compared" in done.stdout and not result["weights_compared"], "fast")
    done, result, _ = stage.run("job.ini", "1", "2", FAKE_FAILS="2")
    case.check(done.returncode == 1 and "2 processes" in done.stderr and "exit code 6" in done.stderr, done.stderr)
    case.check(result is None, "no file of half the runs")
    for arguments, part in ((["job.ini"], "expected a configuration"), ([], "expected a configuration"),
                            (["none.ini", "1"], "none.ini: no such file"), (["job.ini", "0"], "'0'"),
                            (["job.ini", "two"], "'two'"), (["job.ini", "2", "1"], "smallest first"),
                            (["job.ini", "1", "1"], "once each"), (["job.ini", "1", "--steps"], "needs a value"),
                            (["job.ini", "1", "--steps", "-3"], "'-3'"), (["job.ini", "1", "--set"], "behind --"),
                            (["job.ini", "1", "--json", "no/such/x.json"], "no/such/x.json"),
                            (["job.ini", "1", "--json", "."], "is a folder")):
        done, _, started = stage.run(*arguments)
        case.check(done.returncode == 2 and part in done.stderr and "Traceback" not in done.stderr and not started,
                   f"{arguments}: {done.returncode} {done.stderr}")
    done, _, _ = stage.run("job.ini", "1", "--json", "/dev/full")
    case.check(done.returncode == 1 and "strong" in done.stdout and "Traceback" not in done.stderr and
               "/dev/full: cannot write: No space left" in done.stderr, f"a full disk: {done.stdout} {done.stderr}")
    done, _, _ = stage.run("job.ini", "1", BUILD=case.path("nothing"))
    case.check(done.returncode == 2 and "build first" in done.stderr, "no trainer")


def the_real_ones(case):
    path = case.path("real.ini")
    trainer.write_config(path, {"model.kind": "mlp", "model.hidden": "64", "data.kind": "synthetic",
                                "train.steps": 500, "train.global_batch": 32, "train.micro_batch": 4,
                                "optimizer.lr": 1e-3, "device.threads": 1, "log.trace": "trace.json"})
    worlds = [str(n) for n in case.worlds(1, 2)]
    env = {**trainer.MPI_ENVIRONMENT, **os.environ, "BUILD": case.build}
    done = subprocess.run([SCRIPT, "real.ini", *worlds, "--steps", "12"], capture_output=True, text=True, env=env,
                          cwd=case.folder)
    if not case.check(done.returncode == 0, done.stderr):
        return
    runs = json.load(open(case.path("scaling-real.json")))["runs"]
    case.check(len(runs) == 2 * len(worlds) and len({r["weights_hash"] for r in runs if r["mode"] == "strong"}) == 1,
               str(runs))
    case.check(all(r["steps"] == 12 and r["samples_per_second"] > 0 and r["step_seconds"] > 0 and
                   0 <= r["comm_exposed_share"] <= 1 and 0 <= r["data_wait_share"] <= 1 for r in runs), str(runs))
    case.check(not os.path.exists(case.path("runs")) and not os.path.exists(case.path("trace.json")),
               "leaves nothing but the table and its file")
    done = subprocess.run([SCRIPT, "real.ini", "1", "--", "--set", "train.stepps=1"], capture_output=True, text=True,
                          env=env, cwd=case.folder)
    case.check(done.returncode == 2 and "stepps" in done.stderr, f"the trainer's own words: {done.stderr}")


def main():
    case = trainer.Case()
    stage = Stage(case)
    arithmetic(case, stage)
    steps_and_arguments(case, stage)
    launcher(case, stage)
    failures(case, stage)
    the_real_ones(case)
    case.finish()


if __name__ == "__main__":
    main()
