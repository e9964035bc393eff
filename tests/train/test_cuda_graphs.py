# RUN: timeout=300 label=cuda
"""device.graphs on simulated GPUs: who records and who does not and what both say, with the same numbers; a step that
cannot be recorded, on all ranks or on one; recordings that are made again."""
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import trainer

os.environ.pop("LOCKSTEP_DEVICE_BACKEND", None)      # each run here says its own

CONFIG, MEMORY, DEVICE = 2, 4, 5
# (processes, settings, whether steps are recorded, the line that says so or why not)
CHOICES = [
    (1, {}, True, "graphs     on: a step is recorded once and replayed"),
    (2, {}, True, "graphs     on: a step is recorded once and replayed"),
    (2, {"device.graphs": "off"}, False, None),
    (2, {"comm.transport": "mpi"}, False, "graphs     off: comm.transport = mpi exchanges through"),
    (2, {"comm.transport": "mpi", "device.graphs": "on"}, True, "graphs     on: "),
    (1, {"device.sync_each_op": "true"}, False, "graphs     off: device.sync_each_op = true waits"),
    (1, {"device.backend": "cpu"}, False, None),
    (1, {"device.backend": "cpu", "device.graphs": "on"}, True, "graphs     on: "),
]
# Calls that fail while a step is recorded, and the exit code of who insists: a driver that cannot capture waits for
# flags (each of two steps before has one), a refused capture, no room for the executable, or for that of odd steps.
FAILURES = [("cuStreamWaitValue32@3=900", DEVICE), ("cudaStreamBeginCapture@1=901", DEVICE),
            ("cudaGraphInstantiateWithFlags@1=2", MEMORY), ("cudaGraphInstantiateWithFlags@2=801", DEVICE)]


class Runs:
    def __init__(self, case, config):
        self.case, self.config, self.n = case, config, 0

    def settings(self, settings):
        self.n += 1
        log = self.case.path(str(self.n))
        os.makedirs(log)
        path = os.path.join(log, "run.ini")
        trainer.write_config(path, dict(self.config, **{**settings, "log.dir": log}))
        return path, os.path.join(log, "metrics.jsonl")

    def train(self, np, settings, **env):
        """Events, and the process."""
        path, metrics = self.settings(settings)
        result = self.case.run([path], np if np > 1 else 0, env={"CUSIM_QUIET": "1", **env})
        return (trainer.read_events(metrics) if result.returncode == 0 else []), result


def check_choices(case, runs):
    first = None
    for np, settings, records, line in CHOICES:
        if np not in case.worlds(1, 2):
            continue
        events, result = runs.train(np, {"log.level": "info", **settings})
        what = f"np {np}, {settings}"
        if not case.check(result.returncode == 0, f"{what}: exit {result.returncode}\n{result.stderr}"):
            continue
        case.check(events[0]["graphs"] is records, f"{what}: graphs {events[0]['graphs']}")
        said = [text for text in result.stdout.splitlines() if text.startswith("graphs ")]
        case.check(len(said) == (line is not None) and (line is None or said[0].startswith(line)), f"{what}: {said}")
        if events[0]["backend"] == "cuda":
            first = first or trainer.results(events)
            case.check(trainer.results(events) == first, f"{what}: other numbers")
    _, result = runs.train(1, {"device.graphs": "on", "device.sync_each_op": "true"})
    why = "device.graphs = on: device.sync_each_op = true waits after every op; use auto or off"
    case.check(result.returncode == CONFIG and why in result.stderr,
               f"on, sync_each_op: exit {result.returncode}\n{result.stderr}")
    return first


def warnings(stderr):
    return [line for line in stderr.splitlines() if "a step cannot be recorded" in line]


def check_failures(case, runs, want):
    for call, code in FAILURES:
        events, result = runs.train(1, {}, CUSIM_FAIL=call)
        case.check(result.returncode == 0 and trainer.results(events) == want,
                   f"{call}: exit {result.returncode}, or other numbers\n{result.stderr}")
        case.check(len(warnings(result.stderr)) == 1, f"{call}: said {result.stderr}")
        _, result = runs.train(1, {"device.graphs": "on"}, CUSIM_FAIL=call)
        case.check(result.returncode == code and "device.graphs = on, but a step cannot be recorded: " in result.stderr
                   and "use auto or off" in result.stderr, f"{call}, on: exit {result.returncode}\n{result.stderr}")


def check_one_rank_fails(case, runs, want):
    """Rank 1 goes on alone without recordings, among others that replay theirs."""
    if not case.has_mpi:
        return
    path, metrics = runs.settings({"comm.overlap": "true", "comm.bucket_bytes": "64k"})
    program = [os.path.join(case.build, "trainer"), path]
    command = ["mpirun", "--bind-to", "none", "-np", "1", *program, ":", "-np", "1", "env",
               "CUSIM_FAIL=cudaGraphInstantiateWithFlags@2=2", *program]
    result = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=300,
                            env={**case.environment, "CUSIM_QUIET": "1"}, cwd=case.folder)
    case.check(result.returncode == 0 and trainer.results(trainer.read_events(metrics)) == want,
               f"one rank without recordings: exit {result.returncode}, or other numbers\n{result.stderr}")
    said = warnings(result.stderr)
    case.check(len(said) == 1 and "[rank 1/2" in said[0], f"one rank without recordings: said {said}")


def count(path, call):
    with open(path) as file:
        return sum(f" {call}" in line for line in file if line.startswith("call "))


def check_recaptures(case, runs):
    """comm.overlap = auto changes its mind once or twice: recordings for each parity, each time."""
    if not case.has_mpi:
        return
    record = case.path("calls.%r")
    events, result = runs.train(2, {"train.steps": 24, "log.level": "info"}, CUSIM_RECORD=record)
    decided = [line for line in result.stdout.splitlines() if line.startswith("overlap ")]
    if not case.check(result.returncode == 0 and len(decided) == 1, f"overlap: {result.returncode} {result.stdout}"):
        return
    for rank in "01":
        path = record.replace("%r", rank)
        ways = 3 if " on: " in decided[0] else 2
        case.check(count(path, "cudaStreamBeginCapture") == 2 * ways,
                   f"rank {rank}: {count(path, 'cudaStreamBeginCapture')} recordings after {decided[0]}")
        case.check(count(path, "cudaGraphLaunch") == 22, f"rank {rank}: {count(path, 'cudaGraphLaunch')} replays")
    other, _ = runs.train(2, {"train.steps": 24, "device.graphs": "off"})
    case.check(trainer.results(events) == trainer.results(other), "overlap: other numbers")


def main():
    case = trainer.Case()
    case.needs_simulated_gpus()
    config = trainer.mlp_config(case, **{"model.hidden": "96", "train.global_batch": 12, "train.lanes": 4,
                                         "train.eval_every": 0, "device.threads": 1, "checkpoint.save": "false",
                                         "device.backend": "cuda"})
    runs = Runs(case, config)
    want = check_choices(case, runs)
    check_failures(case, runs, want)
    check_one_rank_fails(case, runs, want)
    check_recaptures(case, runs)
    case.finish()


if __name__ == "__main__":
    main()
