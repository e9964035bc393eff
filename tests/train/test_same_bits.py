# RUN: timeout=600 label=contract,slow cuda_slow
"""The promise: weights and every logged number are the same for any number of processes, threads, loader workers,
prefetched steps, bucket sizes, transports, with and without recording, overlap and ZeRO, in every precision: in f32 each factor
alone, then seeded random combinations; in 16 bit a pairwise cover.
With --full (label full, test_same_bits_full.py) the whole product."""
import itertools
import os
import random
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import trainer

FACTORS = {
    "np": [1, 2, 3, 4, 8],
    "device.threads": [1, 2, 3],
    "data.workers": [0, 1, 2, 3, 4],
    "data.prefetch": [1, 3],
    "comm.bucket_bytes": ["64k", "25M"],
    "device.graphs": ["off", "on"],
    "comm.zero": ["auto", "0", "1"],
    "comm.overlap": ["auto", "true", "false"],
    "comm.transport": ["auto", "mpi", "shm"],
}
BASE = {"np": 1, "device.threads": 2, "data.workers": 2, "data.prefetch": 1, "comm.bucket_bytes": "25M",
        "device.graphs": "off", "comm.zero": "auto", "comm.overlap": "auto", "comm.transport": "auto"}


def one_by_one():
    for factor, values in FACTORS.items():
        for value in values:
            if value != BASE[factor]:
                yield dict(BASE, **{factor: value})
    for np, transport in itertools.product((2, 3, 8), ("mpi", "shm")):     # alone each would carry nothing
        yield dict(BASE, **{"np": np, "comm.transport": transport})


def pairwise(seed, factors=None, fits=lambda combination: True):
    """Combinations in which every pair of values of two factors occurs: greedy, from random candidates. `fits`: whether
    a combination, or a pair of values alone, may be."""
    factors = factors or FACTORS
    rng = random.Random(seed)
    names = list(factors)
    missing = {(a, x, b, y) for a, b in itertools.combinations(names, 2) for x in factors[a] for y in factors[b]
               if fits({a: x, b: y})}

    def covers(combination):
        return {(a, combination[a], b, combination[b]) for a, b in itertools.combinations(names, 2)} & missing

    while missing:
        candidates = []
        while len(candidates) < 20:
            combination = {name: rng.choice(factors[name]) for name in names}
            a, x, b, y = rng.choice(sorted(missing, key=str))
            combination.update({a: x, b: y})
            candidates += [combination] if fits(combination) else []
        best = max(candidates, key=lambda c: len(covers(c)))
        missing -= covers(best)
        yield best


def at_random(n, seed):
    rng = random.Random(seed)
    for _ in range(n):
        yield {factor: rng.choice(values) for factor, values in FACTORS.items()}


def everything():
    """The transports in turn: their number would multiply the rest."""
    others = {name: values for name, values in FACTORS.items() if name != "comm.transport"}
    transports = itertools.cycle(FACTORS["comm.transport"])
    for values in itertools.product(*others.values()):
        yield dict(zip(others, values), **{"comm.transport": next(transports)})


def configs(case):
    """V = 8: lanes of one slot; V = 20: lanes of two and three. Each model in each precision."""
    for make in (trainer.mlp_config, trainer.gpt_config):
        for compute, n_slots in (("f32", 8), ("f32", 20), ("bf16", 20), ("f16", 20)):
            config = make(case)
            yield dict(config, **{"train.global_batch": n_slots * config["train.micro_batch"],
                                  "precision.compute": compute, "loss_scale.initial": "2^20",
                                  "loss_scale.growth_interval": 2})


def compare(case, config, combinations):
    first = None
    for combination in combinations:
        np = combination["np"]
        if combination["comm.transport"] == "shm" and os.environ.get("LOCKSTEP_DEVICE_BACKEND") == "cuda":
            continue        # of host memory
        if np not in case.worlds(1, 2, 3, 4, 8) or (combination["comm.transport"] == "mpi" and not case.has_mpi):
            continue
        settings = {k: v for k, v in combination.items() if k != "np"}
        got = trainer.results(case.train(dict(config, **settings), np=np))
        if first is None:
            first = got
            kinds = [event["event"] for event in first]
            case.check(kinds.count("step") == config["train.steps"] and kinds.count("eval") == 2 and kinds[-1] == "done",
                       f"one line per step, two evaluations, one done line: {kinds}")
            case.check("weights_hash" in first[-1], "the done line has the weights hash")
        else:
            case.check(got == first, f"{config['model.kind']} {config['precision.compute']}, batch "
                       f"{config['train.global_batch']}: other numbers with {combination}")


def main(combinations_of):
    case = trainer.Case()
    for i, config in enumerate(configs(case)):
        compare(case, config, itertools.chain([BASE], combinations_of(i)))
    case.finish()


if __name__ == "__main__":
    main(lambda i: itertools.chain(one_by_one(), at_random(5, seed=i)) if i % 4 < 2 else pairwise(seed=i))
