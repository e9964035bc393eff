# RUN: timeout=600 label=contract,slow cuda_slow
"""Loss scaling in the real step: skips are agreed and leave everything untouched, scaling by powers of two changes no
bit in f32, a dynamic scale saves what f16 loses."""
import array
import os
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import trainer

ALLOW = {"LOCKSTEP_ALLOW_FAULTS": "1"}


def steps_of(events):
    return [e for e in events if e["event"] == "step"]


def scale_changes_no_bit(case):
    """f32: weights are bit-equal for static scales 1, 2^8 and 2^16."""
    for make in (trainer.mlp_config, trainer.gpt_config):
        hashes = set()
        for initial in ("1", "2^8", "2^16"):
            config = make(case, **{"loss_scale.mode": "static", "loss_scale.initial": initial, "train.steps": 5})
            events = case.train(config)
            hashes.add(events[-1]["weights_hash"])
            case.check(all(e["loss_scale"] == eval(initial.replace("^", "**")) for e in steps_of(events)), "the scale is static")
        case.check(len(hashes) == 1, f"{config['model.kind']}: static scales give {hashes}")


def powers_of_two(case):
    for key, value, near in (("initial", "60000", "65536"), ("growth", "3", "4"), ("backoff", "0.3", "0.25")):
        path = case.path("run.ini")
        trainer.write_config(path, dict(trainer.mlp_config(case), **{f"loss_scale.{key}": value, "log.dir": case.path("l")}))
        result = case.run([path])
        case.check(result.returncode == 2 and near in result.stderr and key in result.stderr,
                   f"loss_scale.{key} = {value}: {result.returncode} {result.stderr}")


def finds_its_scale(case):
    """f16 from 2^24: the first steps overflow, then hardly any, and it ends where f32 does."""
    base = trainer.mlp_config(case, **{"model.dropout": 0, "train.global_batch": 64, "train.micro_batch": 8,
                                       "train.steps": 110, "optimizer.lr": 2e-3, "train.eval_every": 0})
    f32 = case.train(base)[-1]
    events = case.train(dict(base, **{"precision.compute": "f16", "loss_scale.initial": "2^24"}))
    steps = steps_of(events)
    first, then = sum(s["skipped"] for s in steps[:10]), sum(s["skipped"] for s in steps[10:])
    case.check(first >= 1, f"{first} skips in the first 10 steps")
    case.check(then <= 2, f"{then} skips in the next 100")
    case.check(abs(events[-1]["loss"] - f32["loss"]) <= 0.01 * f32["loss"] + 0.01,
               f"validation loss {events[-1]['loss']}, f32 {f32['loss']}")
    skips = [e for e in events if e["event"] == "skip"]
    case.check(len(skips) == first + then and all("parameter" in e for e in skips), f"skips name a parameter: {skips}")


def faults(case):
    """An Inf or NaN on one rank: all ranks skip that step; weights, moments, counters are untouched."""
    for make, compute in ((trainer.mlp_config, "f32"), (trainer.gpt_config, "f16")):
        base = make(case, **{"train.steps": 6, "precision.compute": compute, "loss_scale.initial": "2^10",
                             "model.dropout": 0})
        for np in case.worlds(1, 2, 3):
            last = np - 1
            for kind in (f"inf@{last}:4", f"nan@0:4", f"nan@{last}:4:loss"):
                events = case.train(dict(base, **{"fault.inject": kind}), np=np, env=ALLOW)
                steps = steps_of(events)
                case.check([s["skipped"] for s in steps] == [False] * 3 + [True] + [False] * 2, f"{kind}: {steps}")
                case.check([s["applied"] for s in steps] == [1, 2, 3, 3, 4, 5], f"{kind}: counts of applied steps")
                case.check(steps[3]["lr"] == steps[4]["lr"] or compute == "f32", f"{kind}: the schedule waits")
                if compute == "f16":
                    case.check([s["loss_scale"] for s in steps] == [1024.0] * 4 + [512.0] * 2, f"{kind}: backs off once")
                    case.check(steps[4]["skips"] == 1 and steps[4]["scale_tracker"] == 1, f"{kind}: tracker starts again")
        refused = case.run(["--set", "fault.inject=inf@0:1", write(case, base)])
        case.check(refused.returncode == 2 and "LOCKSTEP_ALLOW_FAULTS" in refused.stderr, "faults need permission")


def write(case, config):
    path = case.path("fault.ini")
    trainer.write_config(path, dict(config, **{"log.dir": case.path("fault")}))
    return path


def skip_touches_nothing(case):
    """A run whose last step is skipped ends with the weights of the run one step shorter."""
    for compute in ("f32", "f16", "bf16"):
        base = trainer.gpt_config(case, **{"precision.compute": compute, "schedule.kind": "constant",
                                           "loss_scale.initial": "2^10"})
        for np in case.worlds(1, 2):
            shorter = case.train(dict(base, **{"train.steps": 3}), np=np)[-1]
            skipped = case.train(dict(base, **{"train.steps": 4, "fault.inject": "inf@0:4"}), np=np, env=ALLOW)[-1]
            case.check(shorter["weights_hash"] == skipped["weights_hash"], f"{compute}, np {np}: the skip changed weights")


def underflow(case):
    """A model made for it: at static scale 1 f16 loses most of the first layer's gradient, a dynamic scale next to
    nothing."""
    config = trainer.mlp_config(case, **{"model.hidden": "64,64", "model.activation": "relu", "model.dropout": 0,
                                         "train.global_batch": 4096, "train.micro_batch": 512, "train.steps": 1,
                                         "data.kind": "synthetic", "data.samples": 4096, "data.features": 64,
                                         "optimizer.clip": 0})
    config = {k: v for k, v in config.items() if k not in ("data.train", "data.val_fraction", "train.eval_every")}

    def zeros(**more):
        dump = case.path("dump")
        settings = [f"{k}={v}" for k, v in dict(config, **more).items()]
        result = case.run(["--dump", dump] + settings, program="tests/bin/train_probe")
        if not case.check(result.returncode == 0, f"probe: {result.stderr}"):
            return 0
        data = open(dump, "rb").read()
        n = struct.unpack_from("<q", data, 16)[0]
        gradient = array.array("f", data[24:24 + 4 * min(n, 64 * 64)])
        return sum(g == 0 for g in gradient) / len(gradient)

    true_zeros = zeros(**{"precision.compute": "f32"})
    static = zeros(**{"precision.compute": "f16", "loss_scale.mode": "static", "loss_scale.initial": "2^-12"})
    dynamic = zeros(**{"precision.compute": "f16", "loss_scale.mode": "dynamic"})
    case.check(true_zeros < 0.05, f"the true gradient has {true_zeros:.3f} zeros")
    case.check(static > 0.5, f"a static scale too small loses {static:.3f}")
    case.check(dynamic < 0.05, f"the dynamic scale loses {dynamic:.3f}")


def main():
    case = trainer.Case()
    scale_changes_no_bit(case)
    powers_of_two(case)
    finds_its_scale(case)
    faults(case)
    skip_touches_nothing(case)
    underflow(case)
    case.finish()


if __name__ == "__main__":
    main()
