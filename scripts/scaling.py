"""What scripts/scaling.sh does, which says how to call it: runs a configuration at several numbers of processes and
compares. Python's standard library only."""
import json
import os
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile

USAGE = "usage: scaling.sh CONFIG PROCESSES... [--steps N] [--json FILE] [-- TRAINER ARGUMENT...]"
DEFAULT_STEPS = 60
COLUMNS = ("mode", "np", "global batch", "samples/s", "efficiency", "step ms", "exposed comm", "data wait", "weights")


def fail(message, code=2):
    print(f"scaling: error: {message}", file=sys.stderr)
    sys.exit(code)


def positive(text, what):
    if not text.isascii() or not text.isdigit() or int(text) == 0:
        fail(f"{what} is '{text}', not a positive whole number\n{USAGE}")
    return int(text)


class Options:
    def __init__(self, arguments):
        self.steps, self.json, self.extra = None, None, []
        words = []
        while arguments:
            word = arguments.pop(0)
            if word == "--":
                self.extra, arguments = arguments, []
            elif word in ("--steps", "--json"):
                if not arguments or arguments[0] == "--":
                    fail(f"{word} needs a value\n{USAGE}")
                value = arguments.pop(0)
                if word == "--steps":
                    self.steps = positive(value, "--steps")
                else:
                    self.json = value
            elif word in ("--help", "-h"):
                print(USAGE)
                sys.exit(0)
            elif word.startswith("-"):
                fail(f"unknown option {word}; the trainer's own go behind --\n{USAGE}")
            else:
                words.append(word)
        if len(words) < 2:
            fail(USAGE.replace("usage: ", "expected a configuration and numbers of processes: "))
        self.config = words[0]
        self.worlds = [positive(word, "a number of processes") for word in words[1:]]
        if sorted(set(self.worlds)) != self.worlds:
            fail(f"numbers of processes are given once each, smallest first, not {' '.join(words[1:])}")
        if not os.path.isfile(self.config):
            fail(f"{self.config}: no such file")


class Job:
    """The trainer and how it is started here."""

    def __init__(self, options):
        self.trainer = os.path.abspath(os.path.join(os.environ["BUILD"], "trainer"))
        self.options = options
        if not os.access(self.trainer, os.X_OK):
            fail(f"{self.trainer} not found: build first, or name the build's folder with BUILD=")
        self.mpirun = shutil.which("mpirun")
        if self.mpirun is None and options.worlds != [1]:
            fail("mpirun not found: without it only one process can be started")
        self.cores = len(os.sched_getaffinity(0))

    def settings(self, world):
        """What Open MPI must be told as root, and with fewer cores than processes. What is set already stays."""
        settings = {}
        if os.geteuid() == 0:
            settings.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
        if world > self.cores:
            settings["OMPI_MCA_rmaps_base_oversubscribe"] = "1"
        return {name: value for name, value in settings.items() if name not in os.environ}

    def command(self, world, arguments):
        launcher = ["mpirun", "-np", str(world), "--bind-to", "none"] if self.mpirun else []
        return launcher + [self.trainer, self.options.config, *self.options.extra, *arguments]

    def resolved(self):
        """The values that a run would use, as {section.key: text}."""
        command = [self.trainer, self.options.config, *self.options.extra, "--print-config"]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace")
        if done.returncode != 0:
            fail(done.stderr.strip() or f"{shlex.join(command)}: exit code {done.returncode}")
        values, section = {}, ""
        for line in done.stdout.splitlines():
            line = line.split(" ;", 1)[0].strip()
            if line.startswith("["):
                section = line.strip("[]")
            elif "=" in line and not line.startswith(";"):
                key, value = line.split("=", 1)
                values[f"{section}.{key.strip()}"] = value.strip().strip('"')
        return values

    def train(self, world, settings):
        """One run; returns the events of its metrics file."""
        with tempfile.TemporaryDirectory(prefix="lockstep-scaling-") as folder:
            metrics = os.path.join(folder, "metrics.jsonl")
            sets = {**settings, "log.dir": folder, "log.metrics": metrics, "log.trace": "", "log.level": "warn",
                    "checkpoint.save": "false", "checkpoint.resume": "never"}
            arguments = [word for key, value in sets.items() for word in ("--set", f"{key}={value}")]
            command, more = self.command(world, arguments), self.settings(world)
            print("+ " + " ".join(f"{k}={v}" for k, v in more.items()) + (" " if more else "") + shlex.join(command),
                  file=sys.stderr, flush=True)
            done = subprocess.run(command, stdout=subprocess.DEVNULL, env={**os.environ, **more})
            if done.returncode != 0:
                fail(f"{world} processes, {describe(settings)}: exit code {done.returncode}", 1)
            with open(metrics) as file:
                return [json.loads(line) for line in file]


def describe(settings):
    return ", ".join(f"{key}={value}" for key, value in settings.items())


def median_share(steps, part):
    shares = [step[part] / step["step_seconds"] for step in steps if step["step_seconds"] > 0]
    return statistics.median(shares) if shares else 0.0


def measure(job, mode, world, batch, run_settings):
    events = job.train(world, {**run_settings, "train.global_batch": batch})
    steps = [event for event in events if event["event"] == "step"]
    ends = [event for event in events if event["event"] == "done"]
    if not steps or not ends:
        fail(f"{world} processes: the run left no steps or no end in its metrics", 1)
    warm_up = min(10, len(steps) // 4)
    timed = steps[warm_up:]
    return {
        "mode": mode, "world": world, "global_batch": batch, "steps": len(steps), "warm_up_steps": warm_up,
        "samples_per_second": statistics.median(step["samples_per_second"] for step in timed),
        "step_seconds": statistics.median(step["step_seconds"] for step in timed),
        "comm_exposed_share": median_share(timed, "comm_exposed_seconds"),
        "data_wait_share": median_share(timed, "data_wait_seconds"),
        "skipped": sum(1 for step in steps if step["skipped"]), "weights_hash": ends[-1]["weights_hash"],
        "backend": events[0].get("backend"), "transport": events[0].get("transport"), "git": events[0].get("git"),
    }


def add_efficiency(runs):
    """Samples per second and process, relative to the smallest number of processes."""
    per_process = [run["samples_per_second"] / run["world"] for run in runs]
    for run, value in zip(runs, per_process):
        run["efficiency"] = value / per_process[0] if per_process[0] > 0 else 0.0


def table(runs):
    rows = [COLUMNS]
    for run in runs:
        rows.append((run["mode"], str(run["world"]), str(run["global_batch"]), f"{run['samples_per_second']:.1f}",
                     f"{100 * run['efficiency']:.1f}%", f"{1e3 * run['step_seconds']:.3f}",
                     f"{100 * run['comm_exposed_share']:.1f}%", f"{100 * run['data_wait_share']:.1f}%",
                     run["weights_hash"][:12]))
    widths = [max(len(row[i]) for row in rows) for i in range(len(COLUMNS))]
    return "\n".join("  ".join(cell.ljust(width) if i == 0 else cell.rjust(width)
                               for i, (cell, width) in enumerate(zip(row, widths))) for row in rows)


def remarks(job, values, runs):
    """What a reader must know before believing the efficiency."""
    lines = []
    if runs[0]["backend"] == "cpu":
        if values.get("device.threads") == "0":
            lines.append(f"device.threads is 0: every run shares all {job.cores} cores among its processes, so the "
                         "best to expect is equal samples/s at any number of them; to see how cores scale, add "
                         "-- --set device.threads=1")
        elif max(job.options.worlds) * int(values.get("device.threads", "1")) > job.cores:
            lines.append(f"some runs have more compute threads than the {job.cores} cores of this machine")
    skipped = [str(run["world"]) for run in runs if run["skipped"] > 0]
    if skipped:
        lines.append(f"steps were skipped at np {', '.join(skipped)}")
    return lines


def differing(runs):
    """Runs whose weights are not those of the first."""
    return [run for run in runs if run["weights_hash"] != runs[0]["weights_hash"]]


def run_settings_of(values, options):
    """Short runs without what would only add time: evaluation is cut to a batch at the end."""
    steps = int(values["train.steps"])
    if options.steps is not None:
        return {"train.steps": options.steps, "train.epochs": 0, "train.eval_every": 0, "train.eval_batches": 1}
    bounded = min(steps, DEFAULT_STEPS) if steps > 0 else DEFAULT_STEPS
    return {"train.steps": bounded, "train.eval_every": 0, "train.eval_batches": 1}


def main():
    options = Options(sys.argv[1:])
    job = Job(options)
    values = job.resolved()
    batch = int(values["train.global_batch"])
    settings = run_settings_of(values, options)
    path = options.json or f"scaling-{os.path.splitext(os.path.basename(options.config))[0]}.json"
    folder = os.path.dirname(os.path.abspath(path))
    if not os.access(folder, os.W_OK):
        fail(f"{path}: its folder does not exist or cannot be written")
    if os.path.isdir(path):
        fail(f"{path}: is a folder; --json is the name of a file")

    strong = [measure(job, "strong", world, batch, settings) for world in options.worlds]
    # One process has the same batch either way.
    weak = [dict(strong[0], mode="weak") if world == 1 else measure(job, "weak", world, batch * world, settings)
            for world in options.worlds]
    add_efficiency(strong)
    add_efficiency(weak)
    ordered = values.get("comm.reduction") == "ordered"
    wrong = differing(strong) if ordered else []
    notes = remarks(job, values, strong)
    print(table(strong + weak))
    for note in notes:
        print(f"note: {note}")
    if not ordered:
        print("strong scaling: comm.reduction is fast, so the weights are not compared")
    elif not wrong:
        print(f"strong scaling: equal weights at np {', '.join(str(world) for world in options.worlds)}")
    try:
        with open(path, "w") as file:
            json.dump({"config": os.path.abspath(options.config), "arguments": options.extra, "cores": job.cores,
                       "reduction": values.get("comm.reduction"), "weights_compared": ordered,
                       "weights_equal": not differing(strong), "notes": notes, "runs": strong + weak}, file, indent=1)
            file.write("\n")
    except OSError as error:
        fail(f"{path}: cannot write: {error.strerror}", 1)
    print(f"written to {path}")
    if wrong:
        fail("strong scaling: the weights differ: " + ", ".join(f"np {run['world']} {run['weights_hash']}"
                                                                for run in [strong[0]] + wrong), 1)


if __name__ == "__main__":
    main()
