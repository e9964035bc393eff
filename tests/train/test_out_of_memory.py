# RUN: timeout=300 label=cuda,slow
"""Memory that is missing: the message has the plan by class, what is free of how much, and the largest micro_batch that
fits with the same global batch: the run with it then does fit, and with the next larger one does not. Where none fits it
says what else takes less. On simulated GPUs of a described size, alone and shared; on the cpu with the plan alone."""
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import trainer

os.environ.pop("LOCKSTEP_DEVICE_BACKEND", None)      # each run here says its own

MEMORY = 4
CLASSES = ["weights ", "gradients ", "optimizer state ", "activations ", "batch ", "communication staging ",
           "step control ", "checkpoint snapshot ", "op scratch ", "samples prepared ahead "]
GLOBAL_BATCH = 96


def config(case, **more):
    return dict({"model.kind": "gpt", "model.layers": 2, "model.heads": 2, "model.width": 64, "model.context": 32,
                 "data.kind": "synthetic", "data.samples": 192, "train.steps": 1, "train.global_batch": GLOBAL_BATCH,
                 "train.micro_batch": GLOBAL_BATCH // 2, "train.lanes": 2, "device.threads": 1,
                 "device.backend": "cuda", "log.level": "warn"}, **more)


def machine(case, mib, n=2):
    """A described machine of n GPUs of that many MiB each; the environment that names it."""
    path = case.path(f"machine-{mib}-{n}.txt")
    with open(path, "w") as file:
        for _ in range(n):
            file.write(f'gpu name="Small" cc=8.0 mem={mib}\n')
    return {"CUSIM_MACHINE": path, "CUSIM_QUIET": "1"}


def run(case, name, values, np, env, arguments=()):
    path = case.path(name + ".ini")
    trainer.write_config(path, dict(values, **{"log.dir": case.path("log-" + name)}))
    result = case.run([path, *arguments], np if np > 1 else 0, env=env)
    return result.returncode, result.stdout + result.stderr


def error_of(case, what, code, said):
    lines = [line for line in said.splitlines() if line.startswith("trainer: error")]
    case.check(code == MEMORY and len(lines) == 1, f"{what}: exit {code}\n{said}")
    return lines[0] if lines else ""


def check_words(case, what, line, words):
    missing = [word for word in words if word not in line]
    case.check(not missing, f"{what}: lacks {missing}: {line}")


def divisors_above(n):
    return [m for m in range(n + 1, GLOBAL_BATCH + 1) if GLOBAL_BATCH % m == 0]


def check_way_out(case, what, values, np, env):
    """Follows the message; returns the micro_batch that it names."""
    code, said = run(case, "full", values, np, env)
    line = error_of(case, what, code, said)
    check_words(case, what, line, CLASSES + [" free", "needs ", " in "])
    found = re.search(r"train\.micro_batch = (\d+) \(now (\d+)\) fits", line)
    if not case.check(found and int(found[2]) == values["train.micro_batch"], f"{what}: no micro_batch in: {line}"):
        return 0
    fits = int(found[1])
    code, said = run(case, f"fits-{what}", dict(values, **{"train.micro_batch": fits}), np, env)
    case.check(code == 0, f"{what}: micro_batch {fits} was said to fit: exit {code}\n{said}")
    larger = divisors_above(fits)[0]
    if larger < values["train.micro_batch"]:
        code, said = run(case, "larger", dict(values, **{"train.micro_batch": larger}), np, env)
        error_of(case, f"{what}, micro_batch {larger}", code, said)
    return fits


def check_gpus(case):
    alone = check_way_out(case, "one process", config(case), 1, machine(case, 142))
    none = config(case, **{"train.micro_batch": 2})
    code, said = run(case, "none", none, 1, machine(case, 96))
    check_words(case, "none fits", error_of(case, "none fits", code, said),
                ["no smaller train.micro_batch fits", "precision.compute = bf16 or f16", "fewer train.lanes",
                 "more GPUs", "op scratch 128.0 MiB"])
    # The driver refuses although the plan fits.
    code, said = run(case, "refused", config(case), 1, {**machine(case, 1024), "CUSIM_FAIL": "cudaMalloc@9=2"})
    check_words(case, "refused", error_of(case, "refused", code, said),
                ["GPU 0: cannot allocate", "cudaMalloc: out of memory", "That would fit", "train.micro_batch = "] + CLASSES)
    code, said = run(case, "pinned", config(case), 1, {**machine(case, 1024), "CUSIM_FAIL": "cudaHostAlloc@9=2"})
    check_words(case, "pinned", error_of(case, "pinned", code, said), ["GPU 0: cannot allocate", "cudaHostAlloc: "])
    if not case.has_mpi:
        return
    two = check_way_out(case, "two processes", config(case), 2, machine(case, 142))
    case.check(two >= alone > 0, f"each has a GPU of its own: {two} fits, alone {alone}")
    # On one GPU they are added up: what fits twice on two does not here.
    shared = config(case, **{"train.micro_batch": two})
    code, said = run(case, "shared", shared, 2, machine(case, 142, n=1))
    check_words(case, "shared", error_of(case, "shared", code, said), ["the 2 processes of that GPU together "])
    check_way_out(case, "shared", config(case), 2, machine(case, 278, n=1))


def check_cpu(case):
    """No run of that size: what the way out plans is held against what is free."""
    available = 0
    for line in open("/proc/meminfo"):
        if line.startswith("MemAvailable:"):
            available = int(line.split()[1]) * 1024
    if available == 0:
        print("the cpu's part is left out: this system does not tell what is free")
        return
    # Activations of one slot take about twice what is free.
    samples = 1 << max(4, (available // (2 * 300 * 1024)).bit_length())
    values = config(case, **{"device.backend": "cpu", "train.global_batch": samples, "train.micro_batch": samples,
                             "train.lanes": 1, "data.samples": samples, "model.width": 256, "data.prefetch": 1})
    code, said = run(case, "cpu", values, 1, None)
    line = error_of(case, "cpu", code, said)
    check_words(case, "cpu", line, CLASSES)
    found = re.search(r"train\.micro_batch = (\d+) ", line)
    if not case.check(found, f"cpu: no micro_batch in: {line}"):
        return
    fits = int(found[1])
    totals = []
    for micro_batch in (fits, samples):
        code, said = run(case, "cpu-dry", dict(values, **{"train.micro_batch": micro_batch, "log.level": "info"}), 1, None,
                         ["--dry-run"])
        rows = [line for line in said.splitlines() if re.match(r"\s+0\s", line)]
        case.check(code == 0 and len(rows) == 1, f"cpu, --dry-run: exit {code}\n{said}")
        totals.append(int(rows[0].split()[-1]) if rows else 0)
    case.check(0 < totals[0] < 1.1 * available < totals[1], f"cpu: {fits} takes {totals[0]}, {samples} takes {totals[1]}, "
                                                             f"free {available}")


def main():
    case = trainer.Case()
    check_cpu(case)
    if case.simulates_gpus:
        check_gpus(case)
    else:
        print("the GPUs' part is left out: needs simulated ones (LOCKSTEP_CUDA=SIM)")
    case.finish()


if __name__ == "__main__":
    main()
