# RUN: timeout=600 label=contract,cuda
"""Training on a GPU, or on simulated ones with every policy of the simulator: weights and every logged number are the
same recorded or not, whatever the buckets, loader workers and order of streams; and the losses are the cpu's within
rounding."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import trainer

os.environ.pop("LOCKSTEP_DEVICE_BACKEND", None)      # each run here says its own

# Each alone, on top of nothing; the last one is a seed of the simulator (they go round its policies).
SETTINGS = [{"device.graphs": "on"}, {"comm.bucket_bytes": "64k"}, {"comm.zero": "1"}, {"comm.overlap": "true"},
            {"data.workers": "0"}, {"device.sync_each_op": "true"}, {"device.poison": "true"},
            {"device.graphs": "on", "comm.bucket_bytes": "64k", "comm.overlap": "true", "comm.zero": "1"}]
SEEDS = [1, 2, 3, 4, 5]
# Largest relative difference of a step's loss from the cpu's: six steps of roundings of the type.
TOLERANCE = {"f32": 1e-5, "tf32": 1e-2, "bf16": 2e-2, "f16": 5e-3}


def losses(events):
    return [event["loss"] for event in events if event["event"] == "step"]


def check_precision(case, config, compute):
    config = dict(config, **{"precision.compute": compute, "loss_scale.initial": "2^16", "device.backend": "cuda"})

    def run(seed, **settings):
        return case.train(dict(config, **settings), env={"CUSIM_SEED": str(seed)})

    events = run(0)
    first = trainer.results(events)
    kinds = [event["event"] for event in first]
    case.check(kinds.count("step") == config["train.steps"] and "weights_hash" in first[-1], f"{compute}: {kinds}")
    case.check(events[0]["backend"] == "cuda", f"{compute}: it ran on {events[0]['backend']}")
    for i, settings in enumerate(SETTINGS):
        seed = SEEDS[i % len(SEEDS)]
        case.check(trainer.results(run(seed, **settings)) == first, f"{compute}, seed {seed}: other numbers with {settings}")
    for seed in SEEDS if case.simulates_gpus else []:
        case.check(trainer.results(run(seed)) == first, f"{compute}: other numbers with seed {seed}")

    cpu = dict(config, **{"device.backend": "cpu", "precision.compute": "f32" if compute == "tf32" else compute})
    for step, (ours, cpus) in enumerate(zip(losses(events), losses(case.train(cpu))), 1):
        case.check(abs(ours - cpus) <= TOLERANCE[compute] * cpus, f"{compute}: loss {ours} in step {step}, {cpus} on the cpu")
    return first


def check_attention_is_named(case, config):
    """Start line and fingerprint say which way attention takes: by type and by GPU."""
    machine = case.path("machine.txt")
    for capability, compute, way in (("9.0", "f16", "f16 by mma m16n8k16"), ("9.0", "bf16", "bf16 by mma m16n8k16"),
                                     ("9.0", "f32", "f32 in plain arithmetic"), ("7.5", "f16", "f16 by mma m16n8k8"),
                                     ("7.0", "f16", "f16 in f32 arithmetic, without tensor cores")):
        with open(machine, "w") as file:
            file.write(f'gpu name="A" cc={capability} mem=16384 sms=40 bus=0000:01:00.0 '
                       "uuid=GPU-11111111-0000-0000-0000-000000000001\n")
        path = os.path.join(case.folder, "attention.ini")
        log = case.path(f"attention-{capability}-{compute}")
        trainer.write_config(path, dict(config, **{"precision.compute": compute, "device.backend": "cuda",
                                                   "train.steps": 1, "log.level": "info", "log.dir": log}))
        result = case.run([path], env={"CUSIM_MACHINE": machine})
        case.check(result.returncode == 0 and f", {compute}, attention {way}\n" in result.stdout + result.stderr,
                   f"{capability} {compute}: {result.stdout}{result.stderr}")
        start = trainer.read_events(os.path.join(log, "metrics.jsonl"))[0]
        case.check(f"attention {way};" in start["fingerprint"], f"{capability} {compute}: {start['fingerprint']}")


def main():
    case = trainer.Case()
    case.needs_gpus()
    config = trainer.mlp_config(case)
    trainer.write_config(case.path("probe.ini"), dict(config, **{"device.backend": "cuda", "log.dir": case.path("probe")}))
    result = case.run([case.path("probe.ini")])
    if "not in this build" in result.stderr:
        case.skip(result.stderr.strip())
    weights = {compute: check_precision(case, config, compute)[-1].get("weights_hash")
               for compute in ("f32", "tf32", "bf16", "f16")}
    if case.simulates_gpus:
        check_attention_is_named(case, trainer.gpt_config(case))
    case.check(len(set(weights.values())) == len(weights), f"each precision has weights of its own: {weights}")
    case.finish()


if __name__ == "__main__":
    main()
