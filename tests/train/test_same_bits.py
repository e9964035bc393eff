# RUN: timeout=600 label=contract,slow
"""The promise: weights and every logged number are the same for any number of processes, threads, loader workers,
prefetched steps, bucket sizes, and with and without recording; each factor alone, then seeded random combinations.
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
}
BASE = {"np": 1, "device.threads": 2, "data.workers": 2, "data.prefetch": 1, "comm.bucket_bytes": "25M",
        "device.graphs": "off"}


def one_by_one():
    yield BASE
    for factor, values in FACTORS.items():
        for value in values:
            if value != BASE[factor]:
                yield dict(BASE, **{factor: value})


def at_random(n, seed):
    rng = random.Random(seed)
    for _ in range(n):
        yield {factor: rng.choice(values) for factor, values in FACTORS.items()}


def everything():
    for values in itertools.product(*FACTORS.values()):
        yield dict(zip(FACTORS, values))


def configs(case):
    """V = 8: lanes of one slot; V = 20: lanes of two and three."""
    for make in (trainer.mlp_config, trainer.gpt_config):
        config = make(case)
        for n_slots in (8, 20):
            yield dict(config, **{"train.global_batch": n_slots * config["train.micro_batch"]})


def compare(case, config, combinations):
    first = None
    for combination in combinations:
        np = combination["np"]
        if np not in case.worlds(1, 2, 3, 4, 8):
            continue
        settings = {k: v for k, v in combination.items() if k != "np"}
        got = trainer.results(case.train(dict(config, **settings), np=np))
        if first is None:
            first = got
            case.check(len(first) == config["train.steps"] + 3, "one line per step, two evaluations, one done line")
            case.check("weights_hash" in first[-1], "the done line has the weights hash")
        else:
            case.check(got == first, f"{config['model.kind']}, batch {config['train.global_batch']}: other numbers with "
                       f"{combination}")


def main(combinations_of):
    case = trainer.Case()
    for i, config in enumerate(configs(case)):
        compare(case, config, combinations_of(i))
    case.finish()


if __name__ == "__main__":
    main(lambda i: itertools.chain(one_by_one(), at_random(5, seed=i)))
