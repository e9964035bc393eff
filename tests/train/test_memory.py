# RUN: timeout=300 label=slow
"""Memory: what a run of about 30 million parameters takes is what --dry-run plans."""
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import trainer

TOLERANCE = 0.15        # of what the process holds on top of its start-up, against the plan


def config(case):
    return trainer.gpt_config(case, **{"model.layers": 10, "model.heads": 8, "model.width": 512, "model.context": 64,
                                       "train.steps": 3, "train.global_batch": 16, "train.micro_batch": 2,
                                       "train.eval_every": 2, "train.eval_batches": 2, "device.threads": 1,
                                       "log.level": "info"})


def planned(case, values, np):
    """The table of --dry-run: one {class: bytes} per rank, with "total"."""
    path = case.path("plan.ini")
    trainer.write_config(path, dict(values, **{"log.dir": case.path("plan")}))
    result = case.run([path, "--dry-run"], np)
    case.check(result.returncode == 0, f"--dry-run at np={np}: {result.stderr}")
    lines = [line.strip() for line in (result.stdout + result.stderr).splitlines()]
    header = next(i for i, line in enumerate(lines) if line.startswith("rank "))
    names = re.split(r" {2,}", lines[header])
    rows = [dict(zip(names, map(int, line.split()))) for line in lines[header + 1:header + 1 + np]]
    case.check([row["rank"] for row in rows] == list(range(np)), f"--dry-run at np={np}: one line per rank: {rows}")
    return [{name: row[name] for name in names[4:]} for row in rows]


def main():
    case = trainer.Case()
    values = config(case)
    for np in case.worlds(1, 2):
        plan = planned(case, values, np)
        events = case.train(values, np)
        if not events:
            continue
        parameters, done = events[0]["parameters"], events[-1]
        case.check(28e6 < parameters < 34e6, f"about 30 million parameters, not {parameters}")
        most = {name: max(rank[name] for rank in plan) for name in plan[0]}
        case.check(done["memory_planned_bytes"] == most,
                   f"np={np}: the run plans what --dry-run does: {done['memory_planned_bytes']} and {most}")
        case.check(done["memory_peak_bytes"].keys() == most.keys(), f"np={np}: the classes of the plan")
        for name, peak in done["memory_peak_bytes"].items():
            case.check(peak <= most[name] and (peak > 0) == (most[name] > 0),
                       f"np={np}: {name}: {peak} bytes at the most, {most[name]} planned")
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
