# RUN: timeout=600 label=slow cuda
"""Memory: what a run takes, class by class, is what --dry-run plans: a small model with every precision and ZeRO stage,
and one of about 30 million parameters, whose process is held against the plan, too. On simulated GPUs the calls that
allocate are counted as well: to the byte what is planned on the GPU and what in pinned memory."""
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import trainer

TOLERANCE = 0.15        # of what the process holds on top of its start-up, against the plan


def config(case):
    return trainer.gpt_config(case, **{"model.layers": 10, "model.heads": 8, "model.width": 512, "model.context": 64,
                                       "train.steps": 3, "train.global_batch": 16, "train.micro_batch": 2,
                                       "train.eval_every": 2, "train.eval_batches": 2, "device.threads": 1})


def planned(case, values, np):
    """The table of --dry-run: one {class: bytes} per rank, with "total"."""
    path = case.path("plan.ini")
    trainer.write_config(path, dict(values, **{"log.dir": case.path("plan"), "log.level": "info"}))
    result = case.run([path, "--dry-run"], np)
    case.check(result.returncode == 0, f"--dry-run at np={np}: {result.stderr}")
    lines = [line.strip() for line in (result.stdout + result.stderr).splitlines()]
    header = next(i for i, line in enumerate(lines) if line.startswith("rank  lanes"))
    names = re.split(r" {2,}", lines[header])
    rows = [dict(zip(names, map(int, line.split()))) for line in lines[header + 1:header + 1 + np]]
    case.check([row["rank"] for row in rows] == list(range(np)), f"--dry-run at np={np}: one line per rank: {rows}")
    return [{name: row[name] for name in names[4:]} for row in rows]


HOST = "of it on the host"
# Of the backend itself: the counter of time stamps on the GPU; their ring and the record of faults in pinned memory.
STAMP_COUNTER, STAMP_RING, FAULT = 8, 4096 * 24, 48


def allocated(path):
    """The most that was held at one time by cudaMalloc and by cudaHostAlloc, from a record of calls."""
    live, most = [0, 0], [0, 0]
    with open(path) as file:
        for line in file:
            match = re.match(r"call thread=\d+ (cudaMalloc|cudaHostAlloc|cudaFree|cudaFreeHost)\b.* bytes=(\d+)", line)
            if match:
                pool = "Host" in match[1]
                live[pool] += int(match[2]) * (-1 if "Free" in match[1] else 1)
                most[pool] = max(most[pool], live[pool])
    return most


def check_calls(case, what, plan, values, np):
    """What the planned bytes come to where they are taken."""
    record = case.path("record.%r")
    if not case.train(values, np, env={"CUSIM_RECORD": record}):
        return
    for rank, row in enumerate(plan):
        names = [record.replace("%r", str(rank))] if np > 1 else \
            [case.path(name) for name in os.listdir(case.folder) if name.startswith("record.")]
        device, host = allocated(names[0])
        case.check(device == row["total"] - row[HOST] + STAMP_COUNTER,
                   f"{what}: rank {rank} took {device} bytes of its GPU, planned {row['total'] - row[HOST]}")
        case.check(host == row[HOST] + STAMP_RING + FAULT,
                   f"{what}: rank {rank} took {host} pinned bytes, planned {row[HOST]}")
        os.unlink(names[0])


def check_classes(case, what, plan, done):
    """Every class, staging and control included, and their sum: allocated to the byte as planned."""
    most = {name: max(rank[name] for rank in plan) for name in plan[0] if name != HOST}
    case.check(done["memory_planned_bytes"] == most,
               f"{what}: the run plans what --dry-run does: {done['memory_planned_bytes']} and {most}")
    case.check(done["memory_peak_bytes"] == most,
               f"{what}: at the most {done['memory_peak_bytes']} bytes, planned {most}")
    return most


def check_small(case):
    """Precision and stage change the plan as they should, and the run follows it."""
    peaks = {}
    for np in case.worlds(1, 2):
        for compute in ("f32", "bf16", "f16"):
            for zero in (0, 1):
                what = f"np={np} {compute} zero={zero}"
                values = trainer.gpt_config(case, **{"precision.compute": compute, "comm.zero": zero, "train.steps": 3,
                                                     "comm.bucket_bytes": "128k", "train.eval_every": 2,
                                                     "device.threads": 1})
                plan, events = planned(case, values, np), case.train(values, np)
                if HOST in plan[0]:
                    check_calls(case, what, plan, values, np)
                if events:
                    peaks[np, compute, zero] = check_classes(case, what, plan, events[-1])
    for (np, compute, zero), classes in peaks.items():
        what, whole = f"np={np} {compute} zero={zero}", peaks.get((np, compute, 0), classes)
        full = peaks.get((np, "f32", zero), classes)
        case.check((classes["activations"] < full["activations"]) == (compute != "f32"),
                   f"{what}: activations of 16 bit take less than in f32: {classes}")
        case.check((classes["optimizer state"] < whole["optimizer state"]) == (np > 1 and zero == 1),
                   f"{what}: a rank keeps optimizer state for its chunks alone exactly under stage 1: {classes}")
        case.check((classes["communication staging"] > 0) == (np > 1), f"{what}: staging where something is sent")


def main():
    case = trainer.Case()
    check_small(case)
    on_gpus = os.environ.get("LOCKSTEP_DEVICE_BACKEND") == "cuda"
    # What a process holds is the simulator's there, and millions of parameters take it minutes.
    for np in [] if on_gpus else case.worlds(1, 2):
        # A process of transport shm holds what it has read and written of the others' memory as well: each would count.
        values = dict(config(case), **({"comm.transport": "mpi"} if np > 1 else {}))
        plan = planned(case, values, np)
        events = case.train(values, np)
        if not events:
            continue
        parameters, done = events[0]["parameters"], events[-1]
        case.check(28e6 < parameters < 34e6, f"about 30 million parameters, not {parameters}")
        check_classes(case, f"np={np}", plan, done)
        if "resident_peak_bytes" not in done:
            print(f"np={np}: this system does not tell what a process holds: compared with the account alone")
            continue
        if case.sanitizer:
            print(f"np={np}: the process holds a sanitizer's memory too: compared with the account alone")
            continue
        for rank in range(np):
            held = done["resident_peak_bytes"][rank] - done["resident_start_bytes"][rank]
            off = held / plan[rank]["total"] - 1
            print(f"np={np} rank {rank}: {held} bytes on top of start-up, {plan[rank]['total']} planned: {off:+.1%}")
            case.check(abs(off) <= TOLERANCE, f"np={np} rank {rank}: off by {off:+.1%}")
    case.finish()


if __name__ == "__main__":
    main()
