# RUN: timeout=300 label=contract,slow cuda
"""comm.reduction = fast: the gradient of one step differs from the ordered one by rounding alone, is the same on all
ranks, and passes Inf and NaN on."""
import array
import os
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import trainer

LIMITS = {"f32": 4e-7, "bf16": 8e-3, "f16": 1e-3}


def gradient(case, config, np):
    dump = case.path("dump")
    settings = [f"{k}={v}" for k, v in config.items() if k != "train.eval_every"]
    result = case.run(["--dump", dump] + settings, np=np, program="tests/bin/train_probe")
    if not case.check(result.returncode == 0, f"probe: {result.stderr}"):
        case.finish()
    data = open(dump, "rb").read()
    n = struct.unpack_from("<q", data, 16)[0]
    return array.array("f", data[24:24 + 4 * n])


def distance(a, b):
    return (sum((x - y) ** 2 for x, y in zip(a, b)) / sum(y * y for y in b)) ** 0.5


def main():
    case = trainer.Case()
    if not case.has_mpi:
        print("skipped: needs several processes, this build has no MPI")
        return
    for make in (trainer.mlp_config, trainer.gpt_config):
        config = make(case, **{"train.steps": 1, "comm.bucket_bytes": "64k"})
        ordered = gradient(case, config, 1)
        for np in (1, 2, 3, 4):
            for wire, limit in LIMITS.items():
                for zero in ("0", "1"):
                    fast = dict(config, **{"comm.reduction": "fast", "comm.dtype": wire, "comm.zero": zero})
                    off = distance(gradient(case, fast, np), ordered)
                    case.check(off <= limit, f"{config['model.kind']}, np {np}, {wire}, zero {zero}: off by {off:.2e}")
    config = trainer.mlp_config(case, **{"train.steps": 4, "comm.reduction": "fast", "comm.dtype": "f16",
                                         "fault.inject": "nan@1:3"})
    events = case.train(config, np=3, env={"LOCKSTEP_ALLOW_FAULTS": "1"})
    case.check([e["skipped"] for e in events if e["event"] == "step"] == [False, False, True, False], "NaN on one rank")
    case.finish()


if __name__ == "__main__":
    main()
