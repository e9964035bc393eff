# RUN: timeout=600 label=slow
"""Every file operation of a save in turn ends the process, fails, or is done by half: nothing valid is lost, the run
goes on from the newest checkpoint, and its lines and weights are those of a run that nothing happened to."""
import concurrent.futures
import itertools
import os
import shutil
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import checkpoint_runs
import trainer

REASON = {"enospc": "No space left on device", "short": "No space left on device", "eio": "Input/output error"}


class Faults:
    def __init__(self, case):
        self.case = case
        self.config = checkpoint_runs.small_config(case, **{"checkpoint.best": "loss"})
        self.names = itertools.count()
        quiet = checkpoint_runs.Run(case, "quiet", self.config)
        quiet.checked("undisturbed")
        self.expected = quiet.results()
        self.n = {}

    def operations(self, np, rank):
        """Those of an undisturbed run: a list of (name, path)."""
        run = checkpoint_runs.Run(self.case, f"count{np}{rank}", self.config)
        log = self.case.path(f"count{np}{rank}.log")
        result = run.start_with({"LOG": log, "RANK": rank}, np)
        self.case.check(result.returncode == 0 and run.results() == self.expected,
                        f"np {np}: the library alone changes something: {result.returncode}\n{result.stderr}")
        return read_log(log)

    def one(self, np, rank, how, k, stop=False):
        what = f"np {np}, rank {rank}, {how} at operation {k}{', stop' if stop else ''}"
        name = f"run{next(self.names)}"
        run = checkpoint_runs.Run(self.case, name, self.config)
        log = self.case.path(name + ".log")
        faults = {"AT": k, "HOW": how, "RANK": rank, "LOG": log}
        result = run.start_with(faults, np, checkpoint__on_error="stop" if stop else "continue")
        done = read_log(log)
        if not self.case.check(len(done) >= k, f"{what}: only {len(done)} operations"):
            return
        what += f" ({done[k - 1][0]} {os.path.relpath(done[k - 1][1], run.folder)})"
        if how in REASON:
            self.check_failure(run, result, what, REASON[how], stop)
        else:
            self.case.check(result.returncode != 0, f"{what}: did not die")
        if rank == 0:
            self.check_kept(run, what, done, k, how)
        self.check_restart(run, what, np)
        shutil.rmtree(run.folder)

    def check_failure(self, run, result, what, reason, stop):
        """It is said where, and the run ends well, or as on_error says, or because its last save failed."""
        errors = checkpoint_runs.error_lines(result)
        self.case.check(result.returncode in (0, 9, 10), f"{what}: exit {result.returncode}\n{result.stderr}")
        self.case.check(reason in result.stderr and run.checkpoints in result.stderr,
                        f"{what}: does not say what failed\n{result.stderr}")
        self.case.check(len(errors) == (1 if result.returncode else 0), f"{what}: {result.stderr}")
        if result.returncode == 0:
            self.case.check(run.results() == self.expected, f"{what}: other lines")
            self.case.check(run.steps()[-1:] == [3], f"{what}: ended well with {run.steps()}")

    def check_kept(self, run, what, done, k, how):
        """The newest checkpoint that got its name is there."""
        published = [path for i, (name, path) in enumerate(done, 1)
                     if name == "rename" and path.endswith(".partial") and "step-" in os.path.basename(path)
                     and not (i == k and how != "short")]
        newest = max((int(os.path.basename(path)[5:-8]) for path in published), default=None)
        self.case.check(run.steps()[-1:] == ([newest] if newest else []), f"{what}: {newest} became {run.steps()}")

    def check_restart(self, run, what, np):
        steps = run.steps()
        before = run.checkpoint(steps[-1]) if steps else None
        result = run.start(np)
        ok = self.case.check(result.returncode == 0, f"{what}: restart: exit {result.returncode}\n{result.stderr}")
        if ok:
            self.case.check(run.resumed_from() == before, f"{what}: went on from {run.resumed_from()}, not {before}")
            self.case.check(run.results() == self.expected, f"{what}: other lines after the restart")
            self.case.check(run.leftovers() == [], f"{what}: left behind {run.leftovers()}")


def check_durable(case, np):
    """Nothing is named before it is on disk: each file, the folder, the metrics that it counts on."""
    for rank in range(max(np, 1)):
        log = case.path(f"durable{np}-{rank}.log")
        run = checkpoint_runs.Run(case, f"durable{np}-{rank}", checkpoint_runs.small_config(case))
        run.start_with({"LOG": log, "FOLDER": run.folder, "RANK": rank}, np)
        operations = [(name, os.path.relpath(path, run.folder)) for name, path in read_log(log)]
        for step in (1, 2, 3):
            check_durable_step(case, f"np {np}, rank {rank}, step {step}", operations, step, rank)


def check_durable_step(case, what, operations, step, rank):
    partial = f"checkpoints/step-{step:08d}.partial"
    named = operations.index(("rename", partial)) if rank == 0 else len(operations)
    written = {}        # path -> index of its last write
    for k, (name, path) in enumerate(operations[:named]):
        if name in ("write", "pwrite") and path.startswith(partial + "/"):
            written[path] = k
    case.check(len(written) == (3 if rank == 0 else 2), f"{what}: wrote {sorted(written)}")
    for path, k in written.items():
        case.check(("fsync", path) in operations[k:named], f"{what}: {path} is not on disk when it is named")
    if rank > 0:
        return
    manifest = max(k for k, path in enumerate(p for _, p in operations[:named]) if "manifest.json" in path)
    case.check(("fsync", partial) in operations[manifest:named], f"{what}: the folder is not on disk when it is named")
    case.check(("fdatasync", "metrics.jsonl") in operations[min(written.values()):named], f"{what}: metrics are not")
    case.check(operations[named + 1] == ("fsync", "checkpoints"), f"{what}: its name is not on disk")


class MovingAside:
    """Start-up that leaves checkpoints behind, killed at each operation in turn: none is lost."""

    def __init__(self, case):
        self.case = case
        self.base = checkpoint_runs.Run(case, "aside", checkpoint_runs.small_config(case, **{"checkpoint.keep": 0}))
        self.base.checked("undisturbed")
        self.expected = self.base.results()
        self.files = self.whole_files(self.base)
        self.names = itertools.count()

    @staticmethod
    def whole_files(run):
        """What is in checkpoints, wherever they are."""
        return {(os.path.basename(os.path.dirname(name)), os.path.basename(name), content)
                for name, content in run.tree().items() if "/step-" in "/" + name}

    def new(self, damaged):
        run = self.base.copy(f"aside{next(self.names)}")
        if damaged:
            os.remove(run.checkpoint(3, "manifest.json"))
        return run

    def start(self, run, faults, changes):
        changes = {key: value.replace("RUN", run.folder) for key, value in changes.items()}
        return run.start_with({"FOLDER": run.folder, **faults}, **changes)

    def n_operations(self, damaged, changes):
        """Those before the run saves its first step."""
        run = self.new(damaged)
        log = run.folder + ".log"
        self.start(run, {"LOG": log}, changes)
        names = [path for _, path in read_log(log)]
        return next(k for k, path in enumerate(names) if path.endswith(".partial"))

    def one(self, what, damaged, changes, k):
        run = self.new(damaged)
        what = f"{what}, killed at operation {k}"
        lost = {file for file in self.files if damaged and file[:2] == ("step-00000003", "manifest.json")}
        result = self.start(run, {"AT": k, "HOW": "kill"}, changes)
        self.case.check(result.returncode == -9, f"{what}: exit {result.returncode}\n{result.stderr}")
        self.case.check(self.files - lost <= self.whole_files(run), f"{what}: files are lost: {sorted(run.tree())}")
        result = self.start(run, {}, changes)
        self.case.check(result.returncode == 0 and run.results() == self.expected,
                        f"{what}: restart: exit {result.returncode}, other lines\n{result.stderr}")
        self.case.check(self.files - lost <= self.whole_files(run), f"{what}: lost later: {sorted(run.tree())}")
        shutil.rmtree(run.folder)

    def jobs(self, stride):
        for what, damaged, changes in (("never", False, {"checkpoint__resume": "never"}),
                                       ("older", False, {"checkpoint__resume": "RUN/checkpoints/step-00000001"}),
                                       ("damaged", True, {})):
            n = self.n_operations(damaged, changes)
            print(f"{what}: {n} operations")
            self.case.check(n > 3, f"{what}: nothing moves")
            yield from ((what, damaged, changes, k) for k in range(1, n + 1, stride))


def read_log(path):
    if not os.path.exists(path):
        return []
    with open(path) as file:
        return [tuple(line.rstrip("\n").split(" ", 2)[1:]) for line in file]


def plan(faults, stride, kill_stride):
    """What is tried: (np, rank, how, k, stop). Strides of 1: everything."""
    operations = faults.operations(0, 0)
    writes = [k for k, (name, _) in enumerate(operations, 1) if "write" in name]
    print(f"np 1: {len(operations)} operations")
    jobs = [(0, 0, "kill", k, False) for k in range(1, len(operations) + 1, kill_stride)]
    jobs += [(0, 0, "enospc", k, False) for k in range(2, len(operations) + 1, stride)]
    jobs += [(0, 0, "eio", k, False) for k in range(2 + stride // 2, len(operations) + 1, stride)]
    jobs += [(0, 0, how, k, False) for how in ("torn", "short") for k in writes[::stride]]
    jobs += [(0, 0, "enospc", k, True) for k in range(3, len(operations) + 1, 3 * stride)]
    for rank in (0, 1) if faults.case.has_mpi else ():
        operations = faults.operations(2, rank)
        print(f"np 2, rank {rank}: {len(operations)} operations")
        faults.case.check(len(operations) > 10, f"np 2: rank {rank} writes nothing")
        few = range(2 + rank, len(operations) + 1, 4 * stride)
        jobs += [(2, rank, "kill", k, False) for k in few]
        jobs += [(2, rank, "enospc", k, k % 2 == 0) for k in few[::2]]
    return jobs


def main(everything=False):
    case = trainer.Case()
    stride, kill_stride = (1, 1) if everything else (24, 12) if case.sanitizer else (6, 1)
    if case.sanitizer == "thread":
        print("skipped: a library before libc and ThreadSanitizer do not go together")
        return
    for np in (0, 2) if case.has_mpi else (0,):
        check_durable(case, np)
    faults = Faults(case)
    jobs = plan(faults, stride, kill_stride)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda job: faults.one(*job), jobs))
        aside = MovingAside(case)
        moves = list(aside.jobs(1 if everything else 2 * kill_stride))
        list(pool.map(lambda job: aside.one(*job), moves))
    print(f"{len(jobs) + len(moves)} faults")
    case.finish()


if __name__ == "__main__":
    main()
