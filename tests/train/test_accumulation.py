# RUN: timeout=300 label=slow
"""How a batch is cut into micro-batches changes the sum by rounding alone; masked targets weigh as they should."""
import array
import os
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import trainer


def probe(case, config, options):
    dump = case.path("dump")
    result = case.run(options + ["--dump", dump] + [f"{k}={v}" for k, v in config.items()], program="tests/bin/train_probe")
    if not case.check(result.returncode == 0, f"probe {options}: {result.stderr}"):
        case.finish()
    data = open(dump, "rb").read()
    loss, counted, n = struct.unpack_from("<ddq", data)
    gradient = array.array("f")
    gradient.frombytes(data[24:])
    assert len(gradient) == n
    return loss, counted, gradient


def distance(a, b):
    return (sum((x - y) ** 2 for x, y in zip(a, b)) / sum(y * y for y in b)) ** 0.5


def batch_of_64(config):
    config = dict(config, **{"train.steps": 1, "train.global_batch": 64, "train.lanes": 0})
    return {k: v for k, v in config.items() if k != "train.eval_every"}


def accumulation(case, config):
    reference = None
    for micro_batch in (64, 32, 16, 8, 4, 2, 1):
        loss, counted, gradient = probe(case, dict(config, **{"train.micro_batch": micro_batch}), [])
        if reference is None:
            reference = loss, counted, gradient
            continue
        name = f"{config['model.kind']}, micro-batch {micro_batch}"
        case.check(counted == reference[1], name + ": targets counted")
        case.check(abs(loss - reference[0]) <= 5e-6 * abs(reference[0]), name + f": loss {loss} against {reference[0]}")
        case.check(distance(gradient, reference[2]) <= 5e-6, name + f": gradient off by {distance(gradient, reference[2])}")


def masks(case, config):
    """n1 g1 + n2 g2 = n g, and the losses likewise."""
    config = dict(config, **{"train.micro_batch": 8})
    whole, a, b = probe(case, config, []), probe(case, config, ["--mask", "A"]), probe(case, config, ["--mask", "B"])
    name = config["model.kind"]
    case.check(a[1] > 0 and b[1] > 0 and a[1] + b[1] == whole[1], name + ": the masks are complementary")
    loss = (a[1] * a[0] + b[1] * b[0]) / whole[1]
    case.check(abs(loss - whole[0]) <= 1e-5 * abs(whole[0]), name + f": masked losses give {loss}, not {whole[0]}")
    gradient = [(a[1] * x + b[1] * y) / whole[1] for x, y in zip(a[2], b[2])]
    case.check(distance(gradient, whole[2]) <= 1e-5, name + f": masked gradients off by {distance(gradient, whole[2])}")


def main():
    case = trainer.Case()
    # Dropout is keyed by the sample's place in the global batch, so it does not depend on the cut either.
    for make in (trainer.mlp_config, trainer.gpt_config):
        for dropout in (0, 0.1):
            accumulation(case, batch_of_64(make(case, **{"model.dropout": dropout})))
        masks(case, batch_of_64(make(case, **{"model.dropout": 0})))
    case.finish()


if __name__ == "__main__":
    main()
