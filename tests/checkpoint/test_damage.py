# RUN: timeout=300 label=slow
"""Checkpoints that were damaged after they were written: a run that may choose warns and goes on from the newest that
is whole, the damaged one moves aside; one that is named must be whole, or nothing is touched."""
import concurrent.futures
import os
import shutil
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import checkpoint_runs
import trainer

FILES = ("model.safetensors", "optimizer.safetensors", "manifest.json")
NEWEST, OLDER = 3, 2


def rewrite(path, change):
    data = checkpoint_runs.read(path)
    with open(path, "wb") as file:
        file.write(change(data))


def flip(at):
    def change(data):
        i = int(at * (len(data) - 1))
        return data[:i] + bytes([data[i] ^ 1]) + data[i + 1:]
    return change


CHANGES = {"one byte short": lambda data: data[:-1], "half": lambda data: data[:len(data) // 2],
           "empty": lambda data: b"", "one byte more": lambda data: data + b" ",
           "first byte": flip(0), "byte in the middle": flip(0.5), "last byte": flip(1)}


def damages():
    """(what, function of the run, whether the folder itself stays to be found)."""
    for name in FILES:
        for what, change in CHANGES.items():
            yield f"{name}: {what}", lambda run, name=name, change=change: rewrite(run.checkpoint(NEWEST, name), change)
        yield f"{name} missing", lambda run, name=name: os.remove(run.checkpoint(NEWEST, name))
        yield f"{name} a folder", lambda run, name=name: (os.remove(run.checkpoint(NEWEST, name)),
                                                         os.mkdir(run.checkpoint(NEWEST, name)))
    yield "the older manifest", lambda run: shutil.copy(run.checkpoint(OLDER, "manifest.json"), run.checkpoint(NEWEST))
    yield "another checkpoint", lambda run: (shutil.rmtree(run.checkpoint(NEWEST)),
                                             shutil.copytree(run.checkpoint(OLDER), run.checkpoint(NEWEST)))
    yield "empty folder", lambda run: (shutil.rmtree(run.checkpoint(NEWEST)), os.mkdir(run.checkpoint(NEWEST)))


def check_auto(case, run, expected, what, found, path):
    """`found`: the step to go on from; `path`: what is passed over."""
    content = tree_of(path)
    result = run.start()
    if not case.check(result.returncode == 0, f"{what}: exit {result.returncode}\n{result.stderr}"):
        return
    case.check(any(path in line and "not whole" in line for line in checkpoint_runs.warnings(result)),
               f"{what}: no warning names {path}\n{result.stderr}")
    case.check(run.resumed_from() == run.checkpoint(found), f"{what}: went on from {run.resumed_from()}")
    case.check(run.results() == expected, f"{what}: other lines")
    aside = os.path.join(run.folder, "previous-1", "checkpoints", os.path.basename(path))
    case.check(os.path.lexists(aside) and tree_of(aside) == content, f"{what}: was not moved aside: {run.previous()}")
    case.check(run.steps()[-1] == NEWEST, f"{what}: {run.steps()}")


def tree_of(path):
    if not os.path.isdir(path):
        return checkpoint_runs.read(path) if os.path.exists(path) else None
    return {name: tree_of(os.path.join(path, name)) for name in os.listdir(path)}


def check_named(case, run, what, path):
    before = run.tree()
    result = run.start(checkpoint__resume=path)
    errors = checkpoint_runs.error_lines(result)
    case.check(result.returncode == 9, f"{what}, named: exit {result.returncode}\n{result.stderr}")
    case.check(len(errors) == 1 and path in errors[0], f"{what}, named: {result.stderr}")
    case.check(run.tree() == before, f"{what}, named: output was touched")


def one(case, base, expected, name, damage):
    what, harm = damage
    run = base.copy(name)
    harm(run)
    if what != "another checkpoint":        # which is whole, whatever its name
        check_named(case, run, what, run.checkpoint(NEWEST))
    check_auto(case, run, expected, what, OLDER, run.checkpoint(NEWEST))
    shutil.rmtree(run.folder)


def strays(case, base, expected):
    """Names that look like a newer checkpoint: a file, a link that leads nowhere."""
    run = base.copy("stray-file")
    with open(run.checkpoint(99), "w") as file:
        file.write("not mine")
    check_auto(case, run, expected, "stray file", NEWEST, run.checkpoint(99))
    run = base.copy("stray-link")
    os.symlink("nowhere", run.checkpoint(100))
    check_auto(case, run, expected, "stray link", NEWEST, run.checkpoint(100))
    run = base.copy("other-names")
    others = ["step-5", "step-00000009x", "step-000000010", "notes.txt", "step-00000007.tar"]
    for name in others:
        os.mkdir(os.path.join(run.checkpoints, name))
    result = run.checked("other names")
    case.check(checkpoint_runs.warnings(result) == [] and set(others) <= set(os.listdir(run.checkpoints)) and
               run.resumed_from() == run.checkpoint(NEWEST), f"other names: {result.stderr}")
    # What is somebody's is not removed in the place of old checkpoints, and a folder in one goes with it.
    run = base.copy("old-strays", **{"train.steps": 5, "checkpoint.keep": 1})
    shutil.rmtree(run.checkpoint(1))
    with open(run.checkpoint(1), "w") as file:
        file.write("not mine")
    os.makedirs(run.checkpoint(2, "mine", "too"))
    result = run.checked("old strays")
    case.check(run.steps() == [1, 5] and os.path.isfile(run.checkpoint(1)) and run.leftovers() == [],
               f"old strays: {run.steps()} {run.leftovers()}\n{result.stderr}")
    run.checked("old strays, again")


def none_whole(case, base):
    run = base.copy("none")
    for step in run.steps():
        rewrite(run.checkpoint(step, "model.safetensors"), flip(0.9))
    before = run.tree()
    for np in case.worlds(0, 2):
        result = run.start(np)
        errors = checkpoint_runs.error_lines(result)
        case.check(result.returncode == 9 and len(errors) == 1 and run.checkpoints in errors[0] and
                   "checkpoint.resume = never" in errors[0], f"none whole: exit {result.returncode}\n{result.stderr}")
        case.check(run.tree() == before, "none whole: output was touched")
    result = run.checked("none whole, never", checkpoint__resume="never")
    case.check(run.resumed_from() is None and "previous-1/metrics.jsonl" in run.previous() and
               all(f"previous-1/checkpoints/step-{k:08d}/model.safetensors" in run.previous() for k in (1, 2, 3)),
               f"none whole, never: {run.previous()}")


def main():
    case = trainer.Case()
    base = checkpoint_runs.Run(case, "base", checkpoint_runs.small_config(case, **{"checkpoint.keep": 0}))
    base.checked("undisturbed")
    expected = base.results()
    case.check(base.steps() == [1, 2, 3], f"undisturbed: {base.steps()}")
    all_damages = list(damages())
    if case.sanitizer:
        all_damages = all_damages[::5]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda job: one(case, base, expected, f"damage{job[0]}", job[1]), enumerate(all_damages)))
    strays(case, base, expected)
    none_whole(case, base)
    case.finish()


if __name__ == "__main__":
    main()
