# RUN: timeout=600 label=contract,cuda
"""The promise on simulated GPUs: weights and every step's numbers are the same for 1, 2 and 4 processes, with steps
recorded or not, whatever the free keys. Every free key that the program knows is walked, or left out below for a
reason.

Here with one seed of the simulator, a pairwise cover of their values for an MLP in f32 and the beginning of one for a
GPT in f16, which takes ten times as long; test_cuda_same_bits_full.py (label full) has ten seeds, whole covers and more
precisions."""
import itertools
import os
import re
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import trainer
from test_same_bits import pairwise

os.environ.pop("LOCKSTEP_DEVICE_BACKEND", None)      # each run here says its own

FACTORS = {
    "np": [1, 2, 4],
    "device.graphs": ["auto", "on", "off"],
    "device.threads": [1, 2],
    "device.poison": ["false", "true"],
    "device.sync_each_op": ["false", "true"],
    "data.workers": [0, 1, 3],
    "data.prefetch": [1, 3],
    "comm.transport": ["auto", "mpi", "nccl"],
    "comm.bucket_bytes": ["64k", "25M"],
    "comm.overlap": ["auto", "true", "false"],
    "comm.zero": ["auto", "0", "1"],
    "comm.timeout": ["5m", "10m"],
    "train.eval_every": [0, 2],
    "train.eval_batches": [0, 1],
    "train.log_every": [1, 10],
    "checkpoint.save": ["false", "true"],
    "checkpoint.every": [0, 2],
    "checkpoint.keep": [1, 3],
    "checkpoint.best": ["none", "loss"],
    "checkpoint.on_error": ["continue", "stop"],
    "device.cpu_affinity": ["inherit", "auto"],
    "monitor.interval": ["0s", "0.1s"],
    "log.level": ["warn", "info"],
    "log.trace": ["", "trace.json"],
}
LEFT_OUT = {
    "model.init_from": "what lies there are other weights", "train.max_time": "ends the run", "data.val": "a path",
    "data.val_labels": "a path", "checkpoint.dir": "a path", "log.dir": "a path", "log.metrics": "a path",
    "checkpoint.resume": "goes on from somewhere else", "monitor.port": "one for all runs of a host",
    "monitor.textfile": "a path", "device.leases": "a path",
    # Which GPUs, of four equal ones: tests/device tries them.
    **dict.fromkeys((f"device.{key}" for key in (
        "select", "min_free", "max_utilization", "min_capability", "name", "exclude", "idle", "links", "sharing", "mixed",
        "wait", "priority", "reserve", "sample")), "which GPUs"),
}


def fits(combination):
    """Who insists on recordings cannot have every op waited for."""
    return not (combination.get("device.graphs") == "on" and combination.get("device.sync_each_op") == "true")


def free_keys(case):
    """As --help-config lists them: a section, a key below it, its kind and what it may change in the last line."""
    section = key = None
    found = set()
    for line in case.run(["--help-config"]).stdout.splitlines():
        section = (re.match(r"\[(\w+)\]", line) or [None, section])[1]
        key = (re.match(r"  (\w+) =", line) or [None, key])[1]
        if re.match(r" {6}\S.*; free(;|$)", line):
            found.add(f"{section}.{key}")
    return found


def numbers(events):
    """Steps and final weights: evaluations and checkpoints come and go with their keys."""
    return [{k: v for k, v in event.items() if k not in ("loss", "accuracy") or event["event"] == "step"}
            for event in trainer.results(events) if event["event"] in ("step", "done")]


def config_of(case, make, compute):
    """Lanes of two and three slots, several buckets; f16 skips steps and changes its scale."""
    config = make(case, **{"precision.compute": compute, "loss_scale.initial": "2^20", "loss_scale.growth_interval": 2,
                           "train.steps": 6, "device.backend": "cuda"})
    return dict(config, **{"train.global_batch": 10 * config["train.micro_batch"], "train.lanes": 4})


def run_all(case, runs, seeds):
    walked = set(FACTORS) - {"np"}
    case.check(walked | set(LEFT_OUT) == free_keys(case) and not walked & set(LEFT_OUT),
               f"every free key is walked or left out: {(walked | set(LEFT_OUT)) ^ free_keys(case)}")
    for make, compute, most in runs:
        config, first = config_of(case, make, compute), None
        for seed in seeds:
            for combination in itertools.islice(pairwise(seed, FACTORS, fits), most):
                settings = {k: v for k, v in combination.items() if k != "np" and v != ""}
                env = {"CUSIM_SEED": str(seed), "CUSIM_QUIET": "1"}
                got = numbers(case.train(dict(config, **settings), np=combination["np"], env=env))
                first = first or got
                case.check(got == first and len(got) == config["train.steps"] + 1 and "weights_hash" in got[-1],
                           f"{config['model.kind']} {config['precision.compute']}, seed {seed}: other numbers with "
                           f"{combination}")


def main(runs, seeds):
    """runs: (model, precision, how many combinations of each cover; None: all)."""
    if os.access("/dev/shm", os.W_OK):
        tempfile.tempdir = "/dev/shm"       # many small checkpoints: none waits for a disk
    case = trainer.Case()
    case.needs_simulated_gpus(mpi=True)
    run_all(case, runs, seeds)
    case.finish()


if __name__ == "__main__":
    main([(trainer.mlp_config, "f32", None), (trainer.gpt_config, "f16", 6)], [1])
