# RUN: timeout=120 label=contract,tsan cuda
"""A regression on real targets with a model of two inputs: it learns; evaluation with a short last slot is the mean
over the targets that count; bits do not depend on how it is run; data sets of other targets are refused. Under
ThreadSanitizer also with the order that streams promise alone, what kernels declare to read and write."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import trainer

PROBE = os.path.join("tests", "bin", "regression_probe")
BASE = ["data.kind=synthetic", "train.global_batch=16", "train.micro_batch=2", "train.lanes=8", "optimizer.lr=0.02",
        "comm.bucket_bytes=64k", "device.threads=1", "log.level=warn"]
N_VAL = 13
COUNTED = sum(1 for i in range(N_VAL) if i % 11 != 5)

case = trainer.Case()


def start(settings, np=1, arguments=(), env=None):
    return case.run([*arguments, *BASE, *settings], np, program=PROBE, env=env)


def train(settings, np=1, env=None):
    result = start(settings, np, env=env)
    if not case.check(result.returncode == 0, f"np={np} {settings}: exit {result.returncode}\n{result.stderr}"):
        return None
    words = result.stdout.split()
    return dict(zip(words[::2], words[1::2]))


def check_evaluation(numbers, compute):
    limit = {"f32": 1e-5, "f16": 1e-2, "bf16": 1e-1}[compute]
    loss, reference = float(numbers["eval"]), float(numbers["reference"])
    case.check(abs(loss - reference) <= limit * reference, f"{compute}: evaluation {loss}, own model {reference}")
    case.check(int(numbers["samples"]) == N_VAL and int(numbers["counted"]) == COUNTED,
               f"{compute}: {numbers['samples']} samples, {numbers['counted']} counted")


untrained = train(["train.steps=1", "optimizer.lr=1e-9"])
for compute in ["f32", "f16", "bf16"]:
    settings = [f"precision.compute={compute}", "train.steps=150"]
    first = train(settings)
    if not (first and untrained):
        continue
    check_evaluation(first, compute)
    case.check(float(first["eval"]) < 0.3 * float(untrained["eval"]),
               f"{compute}: evaluation {first['eval']} after training, {untrained['eval']} before")
    others = [(2, ["device.threads=3"]), (3, ["comm.zero=0"])]
    if compute == "f32":
        others += [(1, ["device.graphs=on", "data.workers=0"]), (4, ["comm.overlap=false"])]
    for np, more in others:
        if np in case.worlds(np):
            case.check(train(settings + more, np) == first, f"{compute}: other numbers with np={np} {more}")

for np in case.worlds(2, 3)[-1:]:
    result = start(["train.steps=1"], np, ["--alter", "1"])
    case.check(result.returncode == 2 and "different models" in result.stderr,
               f"ranks with different models: exit {result.returncode}\n{result.stderr}")

if case.sanitizer == "thread":
    for np in case.worlds(1, 2):
        for graphs in ["off", "on"]:
            train(["train.steps=12", f"device.graphs={graphs}"], np, {"LOCKSTEP_TSAN_EDGES": "1"})

for np in case.worlds(1, 2):
    for which, name in [("train", "data"), ("val", "evaluation data")]:
        result = start(["train.steps=1"], np, ["--whole", which])
        message = f"the model takes f32 targets, the {name} has i32 (ls_dataset.real_targets)"
        case.check(result.returncode == 2 and result.stderr.count(message) == 1,
                   f"whole targets in {which}, np={np}: exit {result.returncode}\n{result.stderr}")
case.finish()
