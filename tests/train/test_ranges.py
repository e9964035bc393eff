# RUN: timeout=120
"""What a profiler is told by NVTX: every step is a range with its slots, their layers and buckets inside, properly
nested and nothing else; a recorded step once, a replayed one as a step without parts. Weights do not change by it."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import trainer

LAYERS = ["fc0", "act0", "drop0", "fc1", "act1", "drop1", "fc2", "loss"]
N_STEPS, WARM_UP = 6, 2


def read_tree(path):
    """[(text, [children])], by nesting; raises where a pop is missing, one too many, or of another depth or thread."""
    top, open_ranges = [], []
    with open(path) as lines:
        assert next(lines) == "domain lockstep\n"
        for line in lines:
            kind, thread, depth, *text = line.rstrip("\n").split(" ", 3)
            if kind == "pop":
                open_ranges.pop()
            assert thread == "1" and int(depth) == len(open_ranges), f"'{line}' inside {[r[0] for r in open_ranges]}"
            if kind == "push":
                (open_ranges[-1][1] if open_ranges else top).append((text[0], []))
                open_ranges.append((open_ranges[-1][1] if open_ranges else top)[-1])
    assert open_ranges == [], f"never ended: {[r[0] for r in open_ranges]}"
    return top


def without_buckets(ranges):
    """Where a bucket is complete depends on sizes: the rest of a step has one shape."""
    return [(text, without_buckets(inner)) for text, inner in ranges if not text.startswith("bucket ")]


def buckets(ranges, around=()):
    found = []
    for text, inner in ranges:
        found += [(text, around)] if text.startswith("bucket ") else buckets(inner, around + (text,))
    return found


def written_step(n_slots, layers):
    # The product in front of a gelu makes it; between its gradient and the product behind it stands a dropout.
    # The loss's forward makes the gradient, too.
    forward = [name for name in layers if not name.startswith("act")]
    backward = [name for name in layers[::-1] if name != "loss"]

    def parts(part, names):
        return [(f"{name} {part}", []) for name in names]

    return [entry for slot in range(n_slots) for entry in (
        (f"slot {slot} forward", parts("forward", forward)), (f"slot {slot} backward", parts("backward", backward)))]


def check_buckets(case, what, ranges, n_slots, shared):
    found = buckets(ranges)
    reduced = {text: around for text, around in found if text.endswith("reduce")}
    gathered = [text for text, _ in found if text.endswith("gather")]
    n = len(reduced)
    case.check(n > 1 and set(reduced) == {f"bucket {k} reduce" for k in range(n)} and len(found) == n + len(gathered),
               f"{what}: each bucket is reduced once: {found}")
    case.check(sorted(gathered) == ([f"bucket {k} gather" for k in range(n)] if shared else []),
               f"{what}: gathers {gathered}")
    case.check(all(len(around) == 2 and around[0] == f"slot {n_slots - 1} backward" and around[1].endswith(" backward")
                   for around in reduced.values()), f"{what}: reductions are queued in the last backward: {reduced}")


def check_run(case, config, np, graphs):
    listener = os.path.join(case.build, "tests", "bin", "nvtx_listener.so")
    config = dict(config, **{"device.graphs": graphs})
    path = case.path(f"ranges-{np}-{graphs}-%r")
    env = {"NVTX_INJECTION64_PATH": listener, "LOCKSTEP_TEST_RANGES": path}
    seen, alone = case.train(config, np=np, env=env), case.train(config, np=np)
    what = f"np {np}, graphs {graphs}"
    case.check(seen and trainer.results(seen) == trainer.results(alone), f"{what}: a profiler changes numbers")
    for rank in range(np):
        try:
            tree = read_tree(path.replace("%r", str(rank)))
        except (OSError, AssertionError, IndexError) as error:
            case.check(False, f"{what}, rank {rank}: {error}")
            continue
        case.check([text for text, _ in tree] == [f"step {n}" for n in range(1, N_STEPS + 1)],
                   f"{what}: {[text for text, _ in tree]}")
        n_slots = config["train.global_batch"] // config["train.micro_batch"] // np
        for i, (_, parts) in enumerate(tree):
            if graphs == "on" and i >= WARM_UP + 2:
                case.check(parts == [], f"{what}, step {i + 1}: a replayed step has parts: {parts}")
                continue
            if graphs == "on" and i >= WARM_UP:
                case.check([text for text, _ in parts] == ["recording"], f"{what}, step {i + 1}: {parts}")
                parts = parts[0][1] if parts else []
            case.check(without_buckets(parts) == written_step(n_slots, LAYERS), f"{what}, step {i + 1}: {parts}")
            check_buckets(case, f"{what}, step {i + 1}", parts, n_slots, np > 1)


def main():
    case = trainer.Case()
    if not os.path.exists(os.path.join(case.build, "tests", "bin", "nvtx_listener.so")):
        print("skipped: this build has no NVTX (a CUDA toolkit's header)")
        return
    config = trainer.mlp_config(case, **{"train.steps": N_STEPS, "train.eval_every": 0, "checkpoint.save": "false",
                                         "comm.overlap": "true", "comm.bucket_bytes": "64k", "device.threads": 1})
    for np in case.worlds(1, 2):
        for graphs in ("off", "on"):
            check_run(case, config, np, graphs)
    case.finish()


if __name__ == "__main__":
    main()
