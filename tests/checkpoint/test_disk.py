# RUN: timeout=300 label=slow
"""Disks that are full, broken, too small or read-only: the older checkpoint stays, the message says where and how much,
and the run goes on or stops as checkpoint.on_error says."""
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import checkpoint_runs
import trainer


def new(case, name, **more):
    return checkpoint_runs.Run(case, name, checkpoint_runs.small_config(case, **{"checkpoint.keep": 2, **more}))


def says_where(run, text, reason):
    return run.checkpoints in text and "cannot write" in text and " bytes" in text and reason in text


def goes_on(case, expected, np, rank, how, reason):
    """The disk fails for two saves, then works again."""
    what = f"{how} for a while, np {np}, rank {rank}"
    run = new(case, f"while-{how}-{np}-{rank}", **{"train.steps": 5})
    result = run.start_with({"ONLY": "pwrite", "AT": 1, "TO": 2, "HOW": how, "RANK": rank}, np)
    warnings = checkpoint_runs.warnings(result)
    case.check(result.returncode == 0, f"{what}: exit {result.returncode}\n{result.stderr}")
    case.check(len(warnings) == 2 and all(says_where(run, line, reason) for line in warnings) and
               "no checkpoint of step 1:" in warnings[0], f"{what}: {result.stderr}")
    case.check(run.steps() == [4, 5] and run.leftovers() == [], f"{what}: {run.steps()} {run.leftovers()}")
    case.check(run.results() == expected, f"{what}: other lines")
    case.check([e["step"] for e in run.events() if e["event"] == "checkpoint"] == [3, 4, 5], f"{what}: other events")


def last_fails(case, expected):
    """What was trained is lost with the last save: an error, no done line, and a restart repeats it."""
    run = new(case, "last", **{"train.steps": 5})
    log = case.path("last.log")
    run.start_with({"LOG": log, "ONLY": "pwrite"})
    n = len(open(log).read().splitlines())
    run = new(case, "last-fails", **{"train.steps": 5})
    result = run.start_with({"ONLY": "pwrite", "AT": n, "HOW": "enospc"})
    errors = checkpoint_runs.error_lines(result)
    case.check(result.returncode == 9 and len(errors) == 1 and says_where(run, errors[0], "No space left") and
               "no checkpoint of step 5" in errors[0] and "of step 4" in errors[0],
               f"last save fails: exit {result.returncode}\n{result.stderr}")
    case.check(run.steps() == [3, 4], f"last save fails: {run.steps()}")
    case.check(run.results() == [e for e in expected if e["event"] != "done"], "last save fails: other lines")
    run.checked("after the last save failed")
    case.check(run.resumed_from() == run.checkpoint(4) and run.results() == expected, "last save fails: restart")


def stops(case, np, rank):
    what = f"stop, np {np}, rank {rank}"
    run = new(case, f"stop-{np}-{rank}", **{"train.steps": 200, "checkpoint.on_error": "stop", "train.eval_every": 0})
    result = run.start_with({"ONLY": "pwrite", "AT": 12, "HOW": "eio", "RANK": rank}, np)
    errors = checkpoint_runs.error_lines(result)
    case.check(result.returncode == 9 and len(errors) == 1 and
               says_where(run, errors[0], "Input/output error"), f"{what}: exit {result.returncode}\n{result.stderr}")
    done = [e["step"] for e in run.events() if e["event"] == "step"]
    case.check(done == list(range(1, len(done) + 1)) and len(done) < 200, f"{what}: steps {done}")
    case.check(len(run.steps()) > 0 and run.leftovers() == [], f"{what}: {run.steps()} {run.leftovers()}")
    newest = run.checkpoint(run.steps()[-1])
    run.checked(what, np, train__steps=len(done) + 2)
    case.check(run.resumed_from() == newest, f"{what}: went on from {run.resumed_from()}")
    done = [e["step"] for e in run.events() if e["event"] == "step"]
    case.check(done == list(range(1, len(done) + 1)), f"{what}, restarted: steps {done}")


def stop_fails(case):
    """Who asked for a stop is told that nothing was saved, not that it was."""
    run = new(case, "stop-fails", **{"train.steps": 1000000, "train.eval_every": 0, "train.max_time": "1s",
                                     "checkpoint.every": 0})
    result = run.start_with({"ONLY": "pwrite", "AT": 1, "HOW": "enospc"})
    errors = checkpoint_runs.error_lines(result)
    case.check(result.returncode == 9 and len(errors) == 1 and says_where(run, errors[0], "No space left") and
               "none of this run is there" in errors[0], f"stop fails: exit {result.returncode}\n{result.stderr}")
    case.check(run.steps() == [] and run.leftovers() == [] and run.events()[-1]["event"] == "step",
               f"stop fails: {run.steps()} {run.leftovers()} {run.events()[-1]}")


def too_large(case):
    """A limit on the size of files: an error of the write, not the end of the process by a signal."""
    run = new(case, "limit")
    result = run.start(before=["prlimit", f"--fsize={64 << 10}"])
    errors = checkpoint_runs.error_lines(result)
    case.check(result.returncode == 9 and len(errors) == 1 and says_where(run, errors[0], "File too large") and
               len(checkpoint_runs.warnings(result)) == 2, f"limit: exit {result.returncode}\n{result.stderr}")
    case.check(run.steps() == [] and run.leftovers() == [], f"limit: {run.steps()} {run.leftovers()}")
    before = new(case, "limit-later")
    before.checked("before the limit", train__steps=1)
    kept = before.tree()
    result = before.start(before=["prlimit", f"--fsize={64 << 10}"])
    case.check(result.returncode == 9 and before.steps() == [1] and
               all(before.tree()[name] == kept[name] for name in kept if "step-" in name),
               f"limit later: exit {result.returncode}\n{result.stderr}")
    case.check("of step 1" in result.stderr.splitlines()[-1], f"limit later: {result.stderr}")


def mounted(mount):
    """Runs alone in a name space of its own, in which `mount` has been done; a mount ends with the run."""
    return ["unshare", "-m", "sh", "-c", mount + ' && exec "$@"', "sh"]


def small_disk(case):
    """Room for one checkpoint but not for two, which is what is needed at a time."""
    run = new(case, "small", **{"checkpoint.keep": 1})
    os.mkdir(run.checkpoints)
    result = run.start(before=mounted(f"mount -t tmpfs -o size=600k none {run.checkpoints}"))
    errors = checkpoint_runs.error_lines(result)
    case.check(result.returncode == 9 and len(errors) == 1 and says_where(run, errors[0], "No space left") and
               "the newest that is there is of step 1" in errors[0],
               f"small disk: exit {result.returncode}\n{result.stderr}")
    case.check("has room for" in result.stderr, f"small disk: no warning at the start\n{result.stderr}")


def other_disk(case, expected):
    """checkpoint.dir is a disk of its own: what moves aside stays on it."""
    run = new(case, "disk")
    os.mkdir(run.checkpoints)
    again = f'"$@" && "$@" --set checkpoint.resume=never && ls {run.checkpoints} {run.checkpoints}/previous-1'
    mount = f"mount -t tmpfs none {run.checkpoints}"
    result = run.start(before=["unshare", "-m", "sh", "-c", f"{mount} && {again}", "sh"])
    case.check(result.returncode == 0, f"disk of its own: exit {result.returncode}\n{result.stderr}")
    case.check(result.stdout.count("step-00000003") == 2, f"disk of its own: {result.stdout}")
    case.check(run.results() == expected and run.previous() == ["previous-1/metrics.jsonl"],
               f"disk of its own: {run.previous()}")


def read_only(case):
    run = new(case, "read-only")
    run.checked("before it was read-only", train__steps=1)
    before = run.tree()
    mount = f"mount --bind {run.checkpoints} {run.checkpoints} && mount -o remount,bind,ro {run.checkpoints}"
    result = run.start(before=mounted(mount))
    errors = checkpoint_runs.error_lines(result)
    case.check(result.returncode == 9 and len(errors) == 1 and run.checkpoints in errors[0],
               f"read-only: exit {result.returncode}\n{result.stderr}")
    case.check(run.tree() == before, "read-only: something was touched")
    # Without saving one can go on from there all the same.
    result = run.start(before=mounted(mount), checkpoint__save="false")
    case.check(result.returncode == 0 and run.resumed_from() == run.checkpoint(1),
               f"read-only, without saving: exit {result.returncode}\n{result.stderr}")


def unshared(case):
    """Rank 1 sees another folder by the same name: rank 0 reads and writes for both, with the same bits."""
    for kind, config in (("mlp", checkpoint_runs.small_config(case)),
                         ("gpt", trainer.gpt_config(case, **{"train.steps": 3, "train.eval_every": 1,
                                                             "checkpoint.every": 1, "device.threads": 1,
                                                             "precision.compute": "f16"}))):
        quiet = checkpoint_runs.Run(case, f"{kind}-shared", config)
        quiet.checked(f"{kind}, shared", 2)
        expected = quiet.results()
        run = checkpoint_runs.Run(case, f"{kind}-unshared", config)
        os.mkdir(run.checkpoints)
        for steps in (2, 3):
            path = run.write(train__steps=steps)
            alone = case.command([path])
            command = ["mpirun", "--bind-to", "none", "-np", "1", *alone, ":", "-np", "1",
                       *mounted(f"mount -t tmpfs none {run.checkpoints}"), *alone]
            result = subprocess.run(command, capture_output=True, text=True, cwd=case.folder,
                                    env={**trainer.MPI_ENVIRONMENT, **os.environ}, timeout=120 * case.slow)
            case.check(result.returncode == 0, f"{kind}, unshared: exit {result.returncode}\n{result.stderr}")
        case.check(run.resumed_from() == run.checkpoint(2), f"{kind}, unshared: went on from {run.resumed_from()}")
        case.check(run.results() == expected, f"{kind}, unshared: other lines")
        same = [checkpoint_runs.read(r.checkpoint(3, name)) for r in (run, quiet)
                for name in ("model.safetensors", "optimizer.safetensors")]
        case.check(same[:2] == same[2:], f"{kind}, unshared: other files")
        case.check(run.leftovers() == [], f"{kind}, unshared: {run.leftovers()}")


def main():
    case = trainer.Case()
    quiet = new(case, "quiet", **{"train.steps": 5})
    quiet.checked("undisturbed")
    expected = quiet.results()
    if case.sanitizer != "thread":      # which does not go together with a library before libc
        goes_on(case, expected, 0, 0, "enospc", "No space left on device")
        last_fails(case, expected)
        stops(case, 0, 0)
        stop_fails(case)
        for rank in (0, 1) if case.has_mpi else ():
            goes_on(case, expected, 2, rank, "eio", "Input/output error")
            stops(case, 2, rank)
    too_large(case)
    if subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode == 0:
        small_disk(case)
        short = new(case, "short")
        short.checked("undisturbed")
        other_disk(case, short.results())
        read_only(case)
        if case.has_mpi:
            unshared(case)
    else:
        print("without: mounts, which need root")
    case.finish()


if __name__ == "__main__":
    main()
