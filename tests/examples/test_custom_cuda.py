# RUN: timeout=300 label=contract,cuda
"""A layer of one's own with a kernel of one's own on a GPU: the cpu's losses within rounding, in every precision; on
simulated GPUs the same weights for 1, 2 and 4 processes, recorded or not, whatever the order of streams."""
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import trainer

os.environ.pop("LOCKSTEP_DEVICE_BACKEND", None)      # each run here says its own
TOLERANCE = {"f32": 1e-5, "bf16": 2e-2, "f16": 5e-3}


def run(case, backend, compute, np=0, seed=0, **settings):
    """(weights, losses) of six steps of the template program."""
    where = case.path(f"run-{len(os.listdir(case.folder))}")
    os.mkdir(where)
    sets = {"device.backend": backend, "precision.compute": compute, "train.steps": 6, "loss_scale.initial": "2^16", **settings}
    arguments = [word for key, value in sets.items() for word in ("--set", f"{key}={value}")]
    result = case.run(arguments, np=np, program="examples/custom_layer", cwd=where, env={"CUSIM_SEED": str(seed)})
    if not case.check(result.returncode == 0, f"{backend} {compute} np {np}: exit {result.returncode}\n{result.stderr}"):
        return None, []
    events = trainer.read_events(os.path.join(where, "runs", "custom_layer", "metrics.jsonl"))
    case.check(events[0]["backend"] == backend, f"it ran on {events[0]['backend']}")
    return re.search(r"weights ([0-9a-f]{32})", result.stdout)[1], [e["loss"] for e in events if e["event"] == "step"]


def main():
    case = trainer.Case()
    case.needs_simulated_gpus()
    for compute, tolerance in TOLERANCE.items():
        weights, losses = run(case, "cuda", compute)
        _, expected = run(case, "cpu", compute)
        case.check(len(losses) == len(expected) == 6 and
                   all(abs(a - b) <= tolerance * abs(b) for a, b in zip(losses, expected)),
                   f"{compute}: losses {losses}, {expected} on the cpu")
        for seed, np in enumerate(case.worlds(1, 2, 4), 3):
            graphs = "on" if seed % 2 else "off"
            again, _ = run(case, "cuda", compute, np, seed, **{"device.graphs": graphs})
            case.check(again == weights, f"{compute}, np {np}, seed {seed}: other weights")
    case.finish()


if __name__ == "__main__":
    main()
