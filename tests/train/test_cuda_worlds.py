# RUN: timeout=600 label=contract,cuda,slow
"""Training on simulated GPUs by several processes: weights and every logged number are the same for 1, 2 and 4 of them,
over NCCL or through the host, whatever the free keys, the order of streams (the simulator's seed), and how many
processes share a GPU; the losses are the cpu's within rounding; a fast reduction is close; checkpoints go to the cpu and back."""
import os
import shutil
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import trainer

os.environ.pop("LOCKSTEP_DEVICE_BACKEND", None)      # each run here says its own

# (processes, seed, GPUs, transport that must carry it, settings): together every value of every factor.
RUNS = [
    (2, 0, 4, "nccl", {}),
    (4, 1, 4, "nccl", {"device.graphs": "on", "comm.bucket_bytes": "64k"}),
    (2, 2, 4, "nccl", {"comm.zero": "0", "comm.overlap": "true"}),
    (4, 3, 4, "nccl", {"comm.zero": "0", "comm.bucket_bytes": "64k", "device.graphs": "on", "comm.overlap": "false"}),
    (2, 4, 4, "mpi", {"comm.transport": "mpi", "comm.bucket_bytes": "64k", "comm.overlap": "true"}),
    (4, 5, 4, "mpi", {"comm.transport": "mpi", "device.graphs": "on", "comm.zero": "0"}),
    (3, 6, 2, "mpi", {"device.poison": "true"}),
    (2, 7, 1, "mpi", {"device.graphs": "on", "comm.bucket_bytes": "64k", "comm.overlap": "true"}),
    (3, 8, 4, "nccl", {"comm.bucket_bytes": "64k", "comm.overlap": "true", "data.workers": "0"}),
    (1, 9, 4, "mpi", {"comm.transport": "mpi"}),
    (1, 10, 4, "nccl", {"comm.transport": "nccl", "device.graphs": "on"}),
]
# Largest relative difference of a step's loss from the cpu's: some steps of roundings of the type.
TOLERANCE = {"f32": 1e-5, "bf16": 2e-2, "f16": 5e-3}
FAST_TOLERANCE = {"f32": 1e-5, "bf16": 2e-2, "f16": 2e-3}


def losses(events):
    return [event["loss"] for event in events if event["event"] == "step"]


def check_close(case, what, ours, others, tolerance):
    case.check(len(ours) == len(others) > 0, f"{what}: {len(ours)} steps, and {len(others)}")
    for step, (a, b) in enumerate(zip(ours, others), 1):
        case.check(abs(a - b) <= tolerance * abs(b), f"{what}: loss {a} in step {step}, {b} there")


def check_precision(case, config, compute, runs):
    name = f"{config['model.kind']} {compute}"
    config = dict(config, **{"precision.compute": compute, "loss_scale.initial": "2^16", "device.backend": "cuda"})
    events = case.train(config, env={"CUSIM_SEED": "0"})
    first = trainer.results(events)
    case.check(first and "weights_hash" in first[-1], f"{name}: no weights hash")
    for np, seed, gpus, transport, settings in runs:
        got = case.train(dict(config, **settings), np=np, env={"CUSIM_SEED": str(seed), "CUSIM_DEVICES": str(gpus)})
        what = f"{name}, {np} processes on {gpus} GPUs, seed {seed}, {settings}"
        if not got:
            continue
        case.check(got[0]["transport"] == transport, f"{what}: over {got[0]['transport']}")
        case.check(trainer.results(got) == first, f"{what}: other numbers")
    check_close(case, name, losses(events), losses(case.train(dict(config, **{"device.backend": "cpu"}))),
                TOLERANCE[compute])
    return losses(events), first[-1].get("weights_hash")


def check_fast(case, config, want):
    """NCCL sums in its own order, in several types on the wire; all ranks hold the same, or the step would tell."""
    cases = ((2, 0, "off", "f32"), (4, 1, "on", "f32"), (2, 1, "off", "bf16"), (4, 0, "on", "f16"))
    for np, zero, graphs, wire in cases:
        settings = {"device.backend": "cuda", "comm.reduction": "fast", "comm.dtype": wire, "comm.zero": zero,
                    "device.graphs": graphs, "comm.bucket_bytes": "25M" if np == 2 else "64k"}
        got = case.train(dict(config, **settings), np=np, env={"CUSIM_SEED": str(np)})
        check_close(case, f"fast, {np} processes, {wire}", losses(got), want, FAST_TOLERANCE[wire])


def train_part(case, config, folder, steps, backend, np):
    """Trains up to `steps` in a folder that is used again; the events so far, and what was printed."""
    path = os.path.join(folder, "run.ini")
    os.makedirs(folder, exist_ok=True)
    trainer.write_config(path, dict(config, **{"log.dir": folder, "train.steps": steps, "device.backend": backend,
                                               "checkpoint.every": 2}))
    result = case.run([path], np, env={"CUSIM_SEED": "3"})
    case.check(result.returncode == 0, f"{backend}, {np} processes: exit {result.returncode}\n{result.stderr}")
    return trainer.read_events(os.path.join(folder, "metrics.jsonl")), result.stderr


def check_checkpoints(case, config):
    """Half of a run here, the rest there: the same steps within rounding, and a warning that the bits are others; with
    another number of processes on the same backend the same bits, and no warning."""
    config = dict(config, **{"train.eval_every": 0})
    for compute in ("f32", "f16"):
        config["precision.compute"] = compute
        whole = {backend: case.train(dict(config, **{"device.backend": backend})) for backend in ("cpu", "cuda")}
        for first, second in (("cuda", "cpu"), ("cpu", "cuda"), ("cuda", "cuda")):
            folder = case.path(f"{compute}-{first}-{second}")
            train_part(case, config, folder, 3, first, 2)
            events, said = train_part(case, config, folder, 6, second, 4 if second == "cuda" else 1)
            what = f"{compute} from {first} to {second}"
            steps = [event["step"] for event in events if event["event"] == "step"]
            case.check(steps == [1, 2, 3, 4, 5, 6], f"{what}: steps {steps}")
            if first == second:
                case.check(losses(events) == losses(whole[first]), f"{what}: other losses")
                case.check(events[-1]["weights_hash"] == whole[first][-1]["weights_hash"], f"{what}: other weights")
            else:
                check_close(case, what, losses(events), losses(whole[first]), TOLERANCE[compute])
            case.check(("fingerprint" in said) == (first != second), f"{what}: said\n{said}")
            shutil.rmtree(folder)


def main():
    case = trainer.Case()
    case.needs_simulated_gpus(mpi=True)
    mlp = trainer.mlp_config(case)
    hashes = []
    for compute in ("f32", "bf16", "f16"):
        curve, weights = check_precision(case, mlp, compute, RUNS)
        hashes.append(weights)
        if compute == "f32":
            check_fast(case, mlp, curve)
    case.check(len(set(hashes)) == 3, f"each precision has weights of its own: {hashes}")
    check_checkpoints(case, mlp)
    gpt = trainer.gpt_config(case)
    for compute, runs in (("f32", RUNS[0:2]), ("bf16", RUNS[3:5]), ("f16", RUNS[7:9])):
        check_precision(case, gpt, compute, runs)
    case.finish()


if __name__ == "__main__":
    main()
