# RUN: timeout=300
"""launch: what it starts, what it shows and keeps, which rank it names, when it starts again, what it refuses."""
import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import launch_case
from launch_case import FAKE
import trainer


def options(case, config):
    """The command it would run, and what it refuses before anything runs."""
    most = "2" if case.has_mpi else "1"
    result = case.run_launch(["--dry-run", "-n", most, "--mpi-arg=--report-bindings", "-x", "A B=c", "--mca", "btl",
                              "self", case.trainer, config, "--set", "train.seed=7"])
    command = result.stdout.splitlines()[-1]
    case.check(result.returncode == 0, result.stderr)
    if case.has_mpi:
        for part in ("mpirun -n 2 --bind-to none", "--report-bindings", "-x 'A B=c'", "--mca btl self",
                     f"--as-rank {case.trainer} {config} --set train.seed=7"):
            case.check(part in command, f"'{part}' not in {command}")
        own = case.run_launch(["--dry-run", "--mpi-arg=--bind-to", "--mpi-arg=core", case.trainer, config])
        case.check("--bind-to none" not in own.stdout, "a binding of the user's wins: " + own.stdout)
        hosts = case.run_launch(["--dry-run", "-H", "a:3,b", case.trainer, config], env={"NCCL_DEBUG": "WARN"})
        for part in ("-n 4", "--host a:3,b", "-x NCCL_DEBUG"):
            case.check(part in hosts.stdout, hosts.stdout)
        lanes = case.run_launch(["--dry-run", "-H", "a:30,b", case.trainer, config])
        case.check("-n 8" in lanes.stdout, "train.lanes is the most: " + lanes.stdout)
        with open(case.path("hosts"), "w", encoding="utf-8") as file:
            file.write("# two\na slots=2\n\nb slots=1 # half\n")
        hosts = case.run_launch(["--dry-run", "--hostfile", case.path("hosts"), case.trainer, config])
        case.check("-n 3" in hosts.stdout and "--hostfile" in hosts.stdout, hosts.stdout)
    refused = [
        ([], "no program given"),
        (["--max-restart", "1", case.trainer, config], "did you mean '--max-restarts'?"),
        (["-n", "0", case.trainer, config], "-n 0: not within 1"),
        (["-n", "2", "-np", "3", case.trainer, config], "given twice"),
        (["-n", "9", case.trainer, config], "more than train.lanes = 8"),
        (["-n"], "-n needs N behind it"),
        (["--dry-run=1", case.trainer, config], "takes no value"),
        (["-H", "a", "--hostfile", "b", case.trainer, config], "together"),
        (["--hostfile", "/nonexistent", case.trainer, config], "/nonexistent"),
        (["/nonexistent/program", config], "cannot start '/nonexistent/program'"),
        ([case.trainer, "/nonexistent.ini"], "nothing is started"),
        ([case.trainer, config, "--set", "train.step=1"], "did you mean 'train.steps'"),
        ([case.trainer, "--eval", config], "launch starts training"),
        (["true", config], "gave no configuration"),
    ]
    for arguments, part in refused:
        result = case.run_launch(arguments)
        case.check(result.returncode == 2 and part in result.stderr,
                   f"{arguments}: {result.returncode} {result.stderr}")
    result = case.run_launch(["--", case.trainer, config, "--set", "train.steps=1"])
    case.check(result.returncode == 0, f"--: {result.stderr}")


def output(case, values):
    """Nothing is lost or mixed, however much the ranks say at a time; each rank's file has all of it."""
    world = 3 if case.has_mpi else 1
    config, log = case.config(values)
    result = case.run_launch(["-n", str(world), FAKE, config], env={"FAKE_DO": "flood"})
    case.check(result.returncode == 0, f"exit {result.returncode}: {result.stderr[-500:]}")
    shape = re.compile(r"(\d+) x* (\d+)$")
    prefix = re.compile(r"\[(\d+)\] (.*)")
    for rank in range(world):
        seen = []
        for stream in (result.stdout, result.stderr):
            lines = [line for line in stream.splitlines() if not line.startswith("launch: ")]
            if world > 1:
                lines = [m[2] for m in map(prefix.match, lines) if m and int(m[1]) == rank]
            numbers = [int(m[1]) for m in map(shape.match, lines) if m and int(m[2]) == rank]
            case.check(numbers == sorted(numbers), f"rank {rank}: lines are out of order")
            strange = [line[:80] for line in lines if not shape.match(line) and line != "no end of line"]
            case.check(not strange, f"rank {rank}: strange lines {strange[:3]}")
            seen += numbers
        case.check(sorted(seen) == list(range(3000)), f"rank {rank}: {len(seen)} of 3000 lines")
        with open(os.path.join(log, "launch", f"rank-{rank}.log"), encoding="utf-8") as file:
            kept = file.read().splitlines()
        case.check(len(kept) == 3002, f"rank {rank}: {len(kept)} lines are kept, with a heading and a last one")


def causes(case, values):
    """The rank that failed first is named, with its code and last words; the codes that are worth a start again."""
    config, log = case.config(values)
    for code in (3, 5, 42, 134, 139):
        result = case.run_launch(["-n", "3", FAKE, config], env={"FAKE_DO": "end_with", "FAKE_CODE": str(code)})
        case.check(result.returncode == code, f"exit {result.returncode}, not {code}: {result.stderr}")
        case.check("rank 1 on " in result.stderr and "| the last words" in result.stderr, f"{code}: {result.stderr}")
    with open(os.path.join(log, "launch", "mpirun.log"), encoding="utf-8") as file:
        case.check(file.read().count(", start 1: mpirun") == 5, "mpirun.log has all starts")


STARTED = "s{rank} somewhere 0"
# What the keepers tell, in order; mpirun's code; launch's code, the rank it names (None: none).
STORIES = [
    ("all is well", ["x0 0 0", "x1 0 0", "x2 0 0"], 0, 0, None),
    ("stopped on request", ["x0 75 10", "x1 75 10", "x2 75 10"], 0, 75, None),
    ("stopped, but mpirun fails", ["x0 75 10", "x1 75 10", "x2 75 10"], 1, 6, None),
    ("the first to fail, not the lowest", ["x2 6 0", "x0 11 0", "x1 6 0"], 11, 6, 2),
    ("a victim is not the cause", ["x0 143 15", "x1 137 0", "x2 143 15"], 143, 137, 1),
    ("victims alone: the first", ["x1 143 15", "x0 143 15"], 143, 143, 1),
    ("of ranks that agree the one that says why", ["x1 9 0", "e2 t: error: why", "x2 9 0", "x0 9 0"], 9, 9, 2),
    ("a message of another code is no reason", ["x1 42 0", "e2 t: error: lost 1", "x2 6 0"], 42, 42, 1),
    ("one that stops does not fail", ["x0 75 10", "x1 7 0", "x2 75 10"], 7, 7, 1),
    ("a rank that was killed before those that miss it", ["x0 6 0", "x1 137 0", "x2 143 15"], 6, 137, 1),
    ("others are no reason for a rank's own failure", ["x0 5 0", "x1 137 0"], 5, 5, 0),
    ("mpirun knows more than the ranks", ["x0 0 0"], 1, 6, None),
]


def stories(case, values):
    """Decisions that are hard to provoke, by an mpirun that tells what it is told to."""
    tools = case.path("tools")
    os.mkdir(tools)
    with open(os.path.join(tools, "mpirun"), "w", encoding="utf-8") as file:
        file.write("#!/bin/sh\ncat \"$STORY\" >&2\necho mpirun: a word >&2\nexit $STORY_CODE\n")
    os.chmod(os.path.join(tools, "mpirun"), 0o755)
    config, _ = case.config(values)
    for name, frames, mpirun_code, code, rank in STORIES:
        with open(case.path("story"), "w", encoding="utf-8") as file:
            file.write("".join(f"\x1e{frame}\n" for frame in [STARTED.format(rank=r) for r in range(3)] + frames))
        result = case.run_launch(["-n", "3", case.trainer, config],
                                 env={"PATH": tools + ":" + os.environ["PATH"], "STORY": case.path("story"),
                                      "STORY_CODE": str(mpirun_code)})
        named = re.findall(r"rank (\d+) on somewhere failed first", result.stderr)
        case.check(result.returncode == code and named == ([] if rank is None else [str(rank)]),
                   f"{name}: exit {result.returncode}, named {named}: {result.stderr}")


def starts_again(case, values):
    config, _ = case.config(dict(values, **{"checkpoint.every": 1}))
    for code, expected in ((2, 1), (4, 1), (8, 1), (75, 1), (0, 1), (5, 3), (99, 3)):
        count = case.path(f"count{code}")
        result = case.run_launch(["-n", "1", "--max-restarts", "2", "--restart-delay", "0", FAKE, config],
                                 env={"FAKE_DO": "count", "FAKE_CODE": str(code), "FAKE_COUNT": count})
        with open(count, encoding="utf-8") as file:
            starts = file.read().splitlines()
        case.check(result.returncode == code and len(starts) == expected,
                   f"code {code}: exit {result.returncode}, {len(starts)} starts, not {expected}: {result.stderr}")
        case.check(all(start == config for start in starts), f"no checkpoint, no other arguments: {starts}")


def trains(case, values):
    """The weights of plain mpirun; a failure that all ranks agree on is one cause with its message."""
    config, _ = case.config(values)
    plain = case.run([config], np=2 if case.has_mpi else 0)
    expected = launch_case.hash_of(plain.stdout)
    for arguments in ([], ["-n", "1"]) + ((["-n", "4"],) if case.has_mpi else ()):
        config, log = case.config(values)
        result = case.run_launch(arguments + [case.trainer, config])
        case.check(result.returncode == 0 and launch_case.hash_of(result.stdout) == expected,
                   f"{arguments}: exit {result.returncode} {result.stdout[-300:]} {result.stderr}")
    config, log = case.config(dict(values, **{"data.kind": "idx", "data.train": "/nonexistent-images-idx3-ubyte"}))
    result = case.run_launch(["--max-restarts", "3", "-n", "2" if case.has_mpi else "1", case.trainer, config])
    case.check(result.returncode == 3 and "rank 0 on " in result.stderr and result.stderr.count("failed first") == 1,
               f"exit {result.returncode}: {result.stderr}")


def main():
    case = launch_case.LaunchCase()
    values = {"model.kind": "mlp", "model.hidden": "32", "data.kind": "synthetic", "data.samples": 256,
              "train.steps": 20, "train.global_batch": 16, "train.micro_batch": 2, "train.lanes": 8,
              "device.threads": 1, "device.backend": "cpu"}
    config, _ = case.config(values)
    options(case, config)
    output(case, values)
    if case.has_mpi:
        causes(case, values)
        stories(case, values)
    starts_again(case, values)
    trains(case, values)
    case.finish()


if __name__ == "__main__":
    main()
