# RUN: timeout=300 label=slow
"""Where a run begins: it goes on in its folder, refuses what does not fit and warns of what changes, moves aside what
it leaves, keeps the best, and says when it is finished."""
import gzip
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import checkpoint_runs
import trainer


def new(case, name, **more):
    return checkpoint_runs.Run(case, name, checkpoint_runs.small_config(case, **{"checkpoint.keep": 0, **more}))


def refused(case, run, what, *texts, np=0, code=9, **changes):
    """One line with all the texts, and nothing is touched."""
    before = run.tree()
    result = run.start(np, **changes)
    errors = checkpoint_runs.error_lines(result)
    case.check(result.returncode == code and len(errors) == 1 and all(text in errors[0] for text in texts),
               f"{what}: exit {result.returncode}, not {texts}\n{result.stderr}")
    case.check(run.tree() == before, f"{what}: output was touched")


# ---- keys ------------------------------------------------------------------------------------------------------------

SYNTHETIC = {"model.kind": "mlp", "model.hidden": "16", "data.kind": "synthetic", "data.samples": 64,
             "data.features": 8, "data.classes": 4, "data.train": None, "data.val_fraction": None, "train.eval_every": 0}
FAST = {**SYNTHETIC, "comm.reduction": "fast", "comm.dtype": "bf16"}

# By base: key, another value, what else must change for it to be allowed.
FIXED = {
    "idx": [("model.hidden", "256,32"), ("model.activation", "relu"), ("model.vocab", 12), ("data.val_fraction", 0.3),
            ("data.shuffle", "false"), ("train.global_batch", 12), ("train.micro_batch", 1), ("train.lanes", 1),
            ("train.seed", 2), ("optimizer.kind", "sgd"), ("precision.compute", "bf16"), ("comm.reduction", "fast"),
            ("data.kind", "synthetic", {"data.train": None, "data.val_fraction": None})],
    "synthetic": [("data.samples", 65), ("data.features", 9), ("data.classes", 5),
                  ("model.kind", "gpt", {"model.hidden": None, "model.vocab": 4, "model.width": 32, "model.heads": 2})],
    "gpt": [("model.layers", 1), ("model.heads", 4), ("model.width", 32), ("model.context", 16),
            ("model.tied", "false")],
    "fast": [("comm.dtype", "f32")],
}


def bases(case):
    gpt = {**trainer.gpt_config(case), "train.steps": 1, "train.global_batch": 4, "train.lanes": 2, "device.threads": 1,
           "train.eval_every": 0}
    return {"idx": new(case, "idx"), "synthetic": new(case, "synthetic", **SYNTHETIC),
            "gpt": checkpoint_runs.Run(case, "gpt", gpt), "fast": new(case, "fast", **FAST)}


def fixed_keys(case):
    help_config = case.run(["--help-config"]).stdout
    section, key, fixed = "", "", set()
    for line in help_config.splitlines():
        section = line[1:line.index("]")] if line.startswith("[") else section
        key = line.split()[0] if re.match(r"  \w+ =", line) else key
        if "bits, fixed" in line and line.startswith("      "):
            fixed.add(f"{section}.{key}")
    tried = {row[0] for rows in FIXED.values() for row in rows}
    case.check(len(fixed) > 20 and fixed == tried, f"keys that are fixed: {fixed ^ tried} not tried, or none")
    for name, run in bases(case).items():
        run.checked(name, train__steps=1)
        printed = case.run(["--print-config", run.write(train__steps=1)]).stdout
        for key, value, *more in FIXED[name]:
            old = value_of(printed, key)
            changes = {**(more[0] if more else {}), key: value}
            refused(case, run, f"{name}, {key}", f"{key} was {old}, now {value}", run.checkpoint(1),
                    train__steps=1, **{k.replace(".", "__"): v for k, v in changes.items()})


def value_of(printed, key):
    """As --print-config has it."""
    section, name = key.split(".")
    inside = printed.split(f"[{section}]", 1)[1]
    return re.search(rf"^{name} = ([^#;\n]*?)\s*(?:[#;].*)?$", inside, re.MULTILINE).group(1).strip('"')


def changed_keys(case):
    """What may change warns, names old and new, and does something."""
    base = new(case, "bits")
    base.checked("bits", train__steps=1)
    same = base.copy("bits-same")
    result = same.checked("unchanged", train__steps=1)
    case.check(checkpoint_runs.warnings(result) == [], f"unchanged: {result.stderr}")
    changes = {"optimizer.lr": ("0.001", "0.5"), "optimizer.clip": ("1", "0.25"), "train.steps": ("1", "2"),
               "model.dropout": ("0.1", "0.5"), "schedule.kind": ("constant", "linear")}
    run = base.copy("bits-changed")
    result = run.checked("changed", **{key.replace(".", "__"): now for key, (_, now) in changes.items()})
    warnings = checkpoint_runs.warnings(result)
    case.check(len(warnings) == 1 and all(f"{key} was {old}, now {now}" in warnings[0]
                                          for key, (old, now) in changes.items()), f"changed: {result.stderr}")
    case.check(run.resumed_from() == run.checkpoint(1), f"changed: from {run.resumed_from()}")
    # The library's other instructions are another fingerprint.
    run = base.copy("fingerprint")
    result = run.checked("fingerprint", train__steps=1, env={"ONEDNN_MAX_CPU_ISA": "SSE41"})
    case.check(any("fingerprint" in line and run.checkpoint(1) in line for line in checkpoint_runs.warnings(result)),
               f"fingerprint: {result.stderr}")


def data(case):
    """Content counts, the place does not."""
    base = new(case, "data", **{"train.steps": 2})
    base.checked("data", train__steps=1)
    images = base.config["data.train"]
    labels = os.path.join(os.path.dirname(images), "train-labels-idx1-ubyte.gz")

    def altered(name, change_images=lambda data: data, change_labels=lambda data: data):
        folder = case.path(name)
        os.mkdir(folder)
        for path, change in ((images, change_images), (labels, change_labels)):
            with gzip.open(os.path.join(folder, os.path.basename(path)), "wb", 1) as file:
                file.write(change(gzip.open(path).read()))
        return os.path.join(folder, os.path.basename(images))

    def flip(content):
        return content[:-1] + bytes([content[-1] ^ 1])

    def shorter(header, size):
        return lambda data: data[:4] + (199).to_bytes(4, "big") + data[8:header + 199 * size]

    refused(case, base, "one pixel", "data was", ", now", train__steps=1, data__train=altered("pixel", flip))
    refused(case, base, "one label", "data was", ", now", train__steps=1,
            data__train=altered("label", change_labels=flip))
    refused(case, base, "one image less", "data was", "199", train__steps=1,
            data__train=altered("count", shorter(16, 64), shorter(8, 1)))
    quiet = new(case, "not-moved", **{"train.steps": 2})
    quiet.checked("not moved")
    result = base.checked("moved", data__train=altered("moved"))
    case.check(base.resumed_from() == base.checkpoint(1) and "data was" not in result.stderr,
               f"moved: {result.stderr}")
    case.check(trainer.results(base.events())[-1] == quiet.results()[-1], "moved: other bits")


# ---- where from ------------------------------------------------------------------------------------------------------

def never(case, base, expected):
    run = base.copy("never")
    before = run.tree()
    run.checked("never", checkpoint__resume="never")
    case.check(run.resumed_from() is None and run.results() == expected, "never: other lines")
    after = run.tree()
    case.check({name[len("previous-1/"):]: after[name] for name in run.previous()} == before,
               f"never: not all in one previous-1: {run.previous()}")
    run.checked("never again", checkpoint__resume="never")
    case.check(os.path.isdir(os.path.join(run.folder, "previous-2", "checkpoints", "step-00000003")), "never again")


def named(case, base, expected):
    """An older one of the same folder: what came after it moves aside."""
    for np, spelled in ((0, lambda run: run.checkpoint(1)), (2, lambda run: run.checkpoint(1) + "/../step-00000001/")):
        what = f"older one, np {np}"
        run = base.copy(f"older-{np}")
        before = run.tree()
        run.checked(what, np, checkpoint__resume=spelled(run))
        case.check(run.results() == expected, f"{what}: other lines")
        after = run.tree()
        aside = {name for name in before if "step-00000002/" in name or "step-00000003/" in name} | {"metrics.jsonl"}
        case.check({name: before[name] for name in aside} ==
                   {name[len("previous-1/"):]: after[name] for name in run.previous()}, f"{what}: {run.previous()}")
        case.check(run.steps() == [1, 2, 3], f"{what}: {run.steps()}")
    # Of another run: its folder stays as it is, the own output begins there.
    other = base.copy("other")
    before = other.tree()
    run = new(case, "from-other")
    run.checked("used before", train__steps=1)
    run.checked("from another run", checkpoint__resume=other.checkpoint(2))
    case.check(other.tree() == before, "from another run: it was touched")
    case.check(run.resumed_from() == other.checkpoint(2) and run.steps() == [2, 3], f"from another run: {run.steps()}")
    case.check(run.results() == [e for e in expected if e.get("step", 0) > 2], "from another run: other lines")
    case.check("previous-1/metrics.jsonl" in run.previous() and
               "previous-1/checkpoints/step-00000001/manifest.json" in run.previous(), f"{run.previous()}")
    refused(case, run, "no such", case.path("nowhere"), "no such checkpoint", checkpoint__resume=case.path("nowhere"))
    refused(case, run, "not in a checkpoint", "manifest.json", run.checkpoint(3), checkpoint__resume=run.folder)


def finished(case, base, expected):
    run = base.copy("finished")
    for np in case.worlds(0, 2):
        result = run.checked("finished", np, log__level="info")
        case.check("finished" in result.stdout + result.stderr and "validation loss" in result.stdout + result.stderr,
                   f"finished: {result.stdout}{result.stderr}")
        case.check(run.results() == expected and run.steps() == [1, 2, 3], f"finished: lines of np {np}")
        case.check(run.previous() == [], f"finished: moved aside {run.previous()}")
    longer = new(case, "longer", **{"train.steps": 5})
    longer.checked("longer at once")
    result = run.checked("longer", train__steps=5)
    case.check("train.steps was 3, now 5" in result.stderr, f"longer: {result.stderr}")
    # The short run has evaluated at its end.
    case.check([e for e in run.results() if e != expected[-2]] == longer.results(), "longer: other lines")


def two_at_once(case):
    run = new(case, "two", **{"train.steps": 100000, "checkpoint.every": 0, "train.eval_every": 0})
    first = subprocess.Popen(case.command([run.write()]), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                             env={**trainer.MPI_ENVIRONMENT, **os.environ}, cwd=case.folder)
    try:
        deadline = time.time() + 60
        while not any(e == b'{"event":"step"' for e in events_of(run)) and time.time() < deadline:
            time.sleep(0.02)
        for changes in ({}, {"checkpoint__resume": "never"}, {"checkpoint__save": "false"}):
            result = run.start(**changes)
            errors = checkpoint_runs.error_lines(result)
            case.check(result.returncode in (9, 10) and len(errors) == 1 and "another run" in errors[0],
                       f"two at once, {changes}: exit {result.returncode}\n{result.stderr}")
        # With its own metrics, but the same checkpoints.
        other = new(case, "two-other", **{"checkpoint.dir": run.checkpoints})
        result = other.start()
        case.check(result.returncode == 9 and run.checkpoints in result.stderr and "another run" in result.stderr,
                   f"two with one checkpoint.dir: exit {result.returncode}\n{result.stderr}")
        case.check(not os.path.exists(other.metrics), "two with one checkpoint.dir: metrics were begun")
    finally:
        first.send_signal(signal.SIGTERM)
        code = first.wait(timeout=120)
    steps = [e["step"] for e in run.events() if e["event"] == "step"]
    case.check(code == 75 and steps == list(range(1, len(steps) + 1)), f"two at once: the first ended with {code}")
    case.check(run.steps() == steps[-1:] and run.previous() == [], f"two at once: {run.steps()} {run.previous()}")
    run.checked("after two", train__steps=len(steps) + 1)
    case.check(run.resumed_from() == run.checkpoint(len(steps)), f"after two: {run.resumed_from()}")


def events_of(run):
    return [line.split(b",", 1)[0] for line in checkpoint_runs.read(run.metrics).splitlines()] \
        if os.path.exists(run.metrics) else []


# ---- what is kept ----------------------------------------------------------------------------------------------------

def leads_to(run):
    link = os.path.join(run.checkpoints, "best")
    return os.readlink(link) if os.path.islink(link) else None


def best(case):
    """The lowest validation loss stays beyond `keep`, also when another run decides."""
    config = {"train.steps": 12, "train.eval_every": 1, "checkpoint.every": 3, "checkpoint.keep": 1,
              "checkpoint.best": "loss", "optimizer.lr": 0.2, "model.dropout": 0.3, "model.hidden": "16"}

    def check(run, what, until):
        losses = {e["step"]: e["loss"] for e in run.events() if e["event"] == "eval" and e["step"] <= until}
        lowest = min(losses, key=lambda step: (losses[step], step))
        case.check(leads_to(run) == f"step-{lowest:08d}",
                   f"{what}: best leads to {leads_to(run)}, not {lowest}: {losses}")
        case.check(run.steps() == sorted({lowest, until}), f"{what}: kept {run.steps()}, best {lowest}")
        return lowest

    quiet = new(case, "best", **config)
    quiet.checked("best")
    lowest = check(quiet, "best", 12)
    case.check(1 < lowest < 12, f"best: step {lowest} decides nothing")
    run = new(case, "best-resumed", **config)
    for until in (1, lowest - 1, lowest, lowest + 1, 12):
        run.checked(f"best until {until}", 2 if until % 2 else 0, train__steps=until)
        check(run, f"best until {until}", until)
    # Going back before the best: the link leads to what is there.
    back = new(case, "best-back", **{**config, "checkpoint.keep": 0})
    back.checked("best, all kept")
    back.checked("best, going back", checkpoint__resume=back.checkpoint(lowest - 1) if lowest - 1 in back.steps()
                 else back.checkpoint(back.steps()[0]), checkpoint__keep=1)
    check(back, "best, going back", 12)
    back.checked("best, never", checkpoint__resume="never", train__steps=1)
    check(back, "best, never", 1)
    # The save of the best fails: what was best before stays, and is kept.
    if case.sanitizer != "thread":
        run = new(case, "best-fails", **{**config, "checkpoint.every": 0})
        log = case.path("best.log")
        copy = new(case, "best-counted", **{**config, "checkpoint.every": 0})
        copy.start_with({"LOG": log, "ONLY": "pwrite"})
        at = [i for i, line in enumerate(open(log), 1) if f"step-{lowest:08d}" in line][0]
        result = run.start_with({"ONLY": "pwrite", "AT": at, "HOW": "enospc"})
        link = leads_to(run)
        case.check(result.returncode == 0 and link is not None and
                   os.path.isdir(os.path.join(run.checkpoints, link)) and link != f"step-{lowest:08d}",
                   f"best fails: {link}, {run.steps()}\n{result.stderr}")


def gives_up(case):
    """The checkpoint that was under way when training gave up is finished."""
    for np in case.worlds(0, 2):
        run = new(case, f"gives-up-{np}", **{
            "train.steps": 50, "precision.compute": "f16", "optimizer.kind": "sgd", "optimizer.clip": 0,
            "optimizer.lr": 1000, "loss_scale.give_up_after": 1, "loss_scale.mode": "static",
            "loss_scale.initial": 1024})
        result = run.start(np)
        steps = [e["step"] for e in run.events() if e["event"] == "step"]
        case.check(result.returncode == 8 and len(steps) < 50, f"gives up: exit {result.returncode}\n{result.stderr}")
        case.check(run.steps() == steps[:-1] and run.leftovers() == [],
                   f"gives up after {steps[-1]}: {run.steps()} {run.leftovers()}")


def kept(case, expected):
    for keep, steps in ((1, [3]), (2, [2, 3]), (0, [1, 2, 3])):
        run = new(case, f"keep{keep}", **{"checkpoint.keep": keep})
        run.checked(f"keep {keep}")
        case.check(run.steps() == steps, f"keep {keep}: {run.steps()}")
    run = new(case, "unsaved", **{"checkpoint.save": "false"})
    run.checked("save = false")
    case.check(not os.path.exists(run.checkpoints) and run.results() == expected, "save = false: other lines")
    run.checked("save = false, again")
    case.check(run.resumed_from() is None and run.previous() == ["previous-1/metrics.jsonl"], f"{run.previous()}")


def places(case, base, expected):
    """Checkpoints and metrics that do not lie together, and metrics that are not what they were."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None) as other:
        run = new(case, "apart", **{"checkpoint.dir": os.path.join(other, "saved")})
        run.checked("apart", train__steps=2)
        run.checked("apart, resumed")
        case.check(run.resumed_from() == os.path.join(other, "saved", "step-00000002"), f"apart: {run.resumed_from()}")
        case.check([e for e in run.results()] == expected, "apart: other lines")
        run.checked("apart, never", checkpoint__resume="never")
        case.check(sorted(os.listdir(os.path.join(other, "previous-1", "saved")))[-1] == "step-00000003" and
                   run.previous() == ["previous-1/metrics.jsonl"], f"apart, never: {os.listdir(other)}")
    run = new(case, "no-metrics", **{"log.metrics": "/dev/null"})
    run.checked("no metrics", train__steps=2)
    result = run.checked("no metrics, resumed", log__level="info")
    case.check(f"from {run.checkpoint(2)}" in result.stdout + result.stderr and run.steps() == [1, 2, 3],
               f"no metrics: {result.stdout}{result.stderr}")
    run.checked("metrics from now on", log__metrics=None)
    run = base.copy("short-metrics")
    shutil.rmtree(run.checkpoint(3))
    with open(run.metrics, "rb+") as file:
        file.truncate(100)
    result = run.checked("short metrics")
    case.check(any(run.metrics in line and "100 bytes" in line for line in checkpoint_runs.warnings(result)),
               f"short metrics: {result.stderr}")
    run = base.copy("gone-metrics")
    os.remove(run.metrics)
    result = run.checked("metrics gone")
    case.check(any(run.metrics in line and "gone" in line for line in checkpoint_runs.warnings(result)),
               f"metrics gone: {result.stderr}")


def main():
    case = trainer.Case()
    base = new(case, "base")
    base.checked("undisturbed")
    expected = base.results()
    fixed_keys(case)
    changed_keys(case)
    data(case)
    never(case, base, expected)
    named(case, base, expected)
    finished(case, base, expected)
    two_at_once(case)
    best(case)
    gives_up(case)
    kept(case, expected)
    places(case, base, expected)
    case.finish()


if __name__ == "__main__":
    main()
