# RUN: timeout=600 label=cuda
"""Plans of matrix products on simulated GPUs: tuned, taken by runs of any number of processes, part of the fingerprint;
refused where they do not fit; gelus made by products or apart; advice about sizes; what a step's speed is held against;
and no step asks the library which algorithm to take."""
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import trainer

GPT = {"model.kind": "gpt", "model.layers": 1, "model.heads": 2, "model.width": 16, "model.context": 8,
       "model.vocab": 64, "data.kind": "synthetic", "data.samples": 64, "train.steps": 3, "train.global_batch": 8,
       "train.micro_batch": 2, "precision.compute": "bf16", "device.backend": "cuda", "checkpoint.every": 2}
# What of cuBLASLt a step may call: products, and the addresses that their descriptors hold.
IN_STEPS = {"cublasLtMatmul", "cublasLtMatmulDescSetAttribute"}


def write(case, name, values):
    path = case.path(name)
    trainer.write_config(path, values)
    return path


def run(case, config, np=0, expect=0, **settings):
    """A run in a folder of its own; what it said, and its events."""
    log = case.path("log")
    path = write(case, "run.ini", dict(config, **{"log.dir": log, "checkpoint.resume": "never"}, **settings))
    result = case.run([path], np)
    case.check(result.returncode == expect, f"{settings}: exit {result.returncode}\n{result.stderr}")
    return result, trainer.read_events(os.path.join(log, "metrics.jsonl")) if result.returncode == 0 else []


def tune(case, config, plan, expect=0, np=0):
    result = case.run(["--tune-gemm", plan, write(case, "tune.ini", config)], np)
    case.check(result.returncode == expect, f"tuning: exit {result.returncode}\n{result.stderr}")
    return result


def edit(case, plan, name, change):
    with open(plan) as file:
        content = json.load(file)
    change(content)
    path = case.path(name)
    with open(path, "w") as file:
        json.dump(content, file)
    return path


def use_general(split):
    """All products by the one kind of algorithm that every GPU has, and gelus apart or not."""
    def change(content):
        for product in content["products"]:
            product["algorithm"].update(id=24, tile=11, stages=2, split_k=1, reduction=0, swizzle=0)
            product["algorithm"]["split"] = int(split and product["epilogue"] != "none")
    return change


def check_round_trip(case):
    plan = case.path("plan.json")
    # The plan that a run is to take may be the one that is being made.
    said = tune(case, dict(GPT, **{"device.gemm_plan": plan}), plan).stdout
    with open(plan) as file:
        content = json.load(file)
    products = content["products"]
    epilogues = {p["epilogue"] for p in products}
    case.check(epilogues == {"none", "gelu", "gelu_bwd"}, f"epilogues {epilogues}")
    case.check("simulated" in content["library"], f"library {content['library']}")
    case.check(all(p["microseconds"] > 0 for p in products), "a product without a time")
    case.check(f"product {len(products)}/{len(products)}" in said, f"no progress:\n{said}")
    case.check(plan in said and "wrote" in said, f"where it is, is not said:\n{said}")
    again = case.path("again.json")
    tune(case, GPT, again)
    tune(case, GPT, again)      # over itself

    _, default = run(case, GPT)
    case.check("gemm_plan" not in default[0], "a plan that nobody gave")
    _, events = run(case, GPT, **{"device.gemm_plan": plan})
    hashed = events[0]["gemm_plan"]
    case.check(hashed in events[0]["fingerprint"], f"{hashed} is not in {events[0]['fingerprint']}")
    case.check(hashed in said, f"{hashed} is not in what tuning said")
    case.check(events[0]["fingerprint"] != default[0]["fingerprint"], "the fingerprint knows nothing of the plan")
    said, moved = run(case, GPT, **{"device.gemm_plan": again})
    case.check(moved[0]["gemm_plan"] == hashed and moved[0]["config_hash"] == events[0]["config_hash"],
               "the same plan elsewhere is another one")
    case.check(hashed in said.stdout, f"{hashed} is not among the first lines:\n{said.stdout}")
    for np in case.worlds(2, 4):
        _, got = run(case, GPT, np, **{"device.gemm_plan": plan})
        case.check(trainer.results(got) == trainer.results(events), f"{np} processes: other numbers")
        case.check(got[0]["gemm_plan"] == hashed, f"{np} processes: another plan")
    return plan, events


def check_other_bits(case, plan, events):
    """Another plan, other bits; gelus made by products or apart differ by roundings."""
    curves = []
    for split in (False, True):
        other = edit(case, plan, f"general-{split}.json", use_general(split))
        _, got = run(case, GPT, **{"device.gemm_plan": other})
        case.check(got[0]["gemm_plan"] != events[0]["gemm_plan"], "another plan with the same hash")
        case.check(got[-1]["weights_hash"] != events[-1]["weights_hash"], "other algorithms, the same bits")
        curves.append(([e["loss"] for e in got if e["event"] == "step"], got[-1]["weights_hash"]))
    case.check(curves[0][1] != curves[1][1], "a gelu inside a product has the bits of one apart")
    for a, b in zip(*(curve for curve, _ in curves)):
        case.check(abs(a - b) <= 5e-3 * abs(b), f"gelu inside: loss {a}, apart: {b}")


def check_resume(case, plan):
    """Under the same plan, wherever it lies, no word; under another one a warning that names both."""
    other = edit(case, plan, "other.json", use_general(False))
    moved = edit(case, plan, "moved.json", lambda content: None)
    log = case.path("resumed")
    config = dict(GPT, **{"log.dir": log, "device.gemm_plan": plan, "train.steps": 2})
    case.check(case.run([write(case, "r.ini", config)]).returncode == 0, "the first part fails")
    for steps, file, warns in ((3, moved, False), (4, other, True), (5, other, False)):
        path = write(case, "r.ini", dict(config, **{"device.gemm_plan": file, "train.steps": steps}))
        result = case.run([path])
        case.check(result.returncode == 0, f"exit {result.returncode}\n{result.stderr}")
        case.check(("numeric fingerprint" in result.stderr) == warns, f"{file}: said\n{result.stderr}")
        case.check(result.stderr.count("gemm plan") == (2 if warns else 0), f"{file}: said\n{result.stderr}")


def check_refusals(case, plan):
    def product(**values):
        return lambda content: content["products"][0].update(values)

    def algorithm(**values):
        return lambda content: content["products"][0]["algorithm"].update(values)

    for change, part in (
            (lambda content: content.update(device="NVIDIA H200, 132 SMs, sm090"), "the GPU 'NVIDIA H200"),
            (lambda content: content.update(library="cuBLASLt 12.0.1"), "the library 'cuBLASLt 12.0.1'"),
            (lambda content: content.update(lockstep_gemm_plan=7), "format 7"),
            (product(m=0), "product 1: 'm'"),
            (algorithm(id=4711), "does not know the algorithm"),
            (algorithm(tile=9999), "does not run on"),
            (algorithm(split_k=2, reduction=1), "no fixed order"),
            (algorithm(split=1), "nothing to split off")):
        result, _ = run(case, GPT, expect=2, **{"device.gemm_plan": edit(case, plan, "bad.json", change)})
        case.check(part in result.stderr and "bad.json" in result.stderr, f"'{part}' is not in\n{result.stderr}")
        case.check(result.stderr.count("error") == 1, f"more than one line:\n{result.stderr}")
    result, _ = run(case, GPT, expect=2, **{"device.gemm_plan": case.path("nowhere.json")})
    case.check("nowhere.json" in result.stderr, result.stderr)
    for np in case.worlds(2):
        result, _ = run(case, GPT, np, expect=2, **{"device.gemm_plan": edit(case, plan, "bad.json", product(m=-1))})
        case.check(result.stderr.count("trainer: error") == 1, f"not one line:\n{result.stderr}")
        case.check("without mpirun" in tune(case, GPT, case.path("two.json"), 2, np).stderr, "two processes tune")
    # FILE and CONFIG in the wrong order
    config = write(case, "mine.ini", GPT)
    before = open(config).read()
    result = case.run(["--tune-gemm", config, config])
    case.check(result.returncode == 2 and "is no plan" in result.stderr, f"{result.returncode} {result.stderr}")
    case.check(open(config).read() == before, "the configuration is gone")


def check_missing(case, plan):
    """Another micro-batch has other products: the library chooses for them, in one way at any number of processes."""
    config = dict(GPT, **{"train.micro_batch": 1, "device.gemm_plan": plan})
    said, events = run(case, config)
    case.check("products, not that of m " in said.stderr and "--tune-gemm" in said.stderr, said.stderr)
    for np in case.worlds(2):
        said, got = run(case, config, np)
        case.check(trainer.results(got) == trainer.results(events), f"{np} processes: other numbers")
        case.check(said.stderr.count("products, not that of m ") == 1, f"said not once:\n{said.stderr}")


def check_sizes(case):
    """Once, with layers, and only where tensor cores would be asked."""
    mlp = dict(trainer.mlp_config(case), **{"device.backend": "cuda", "train.steps": 2, "train.global_batch": 32,
                                              "train.micro_batch": 8, "train.lanes": 4})
    for compute, settings, named in (("bf16", {"model.hidden": "20,16"}, ["fc0", "fc1", "fc2"]),
                                     ("f16", {"model.hidden": "24,16"}, ["fc2"]),
                                     ("tf32", {"model.hidden": "24,16"}, ["fc2"]),
                                     ("bf16", {"model.hidden": "24,16", "model.vocab": 16}, []),
                                     ("f32", {"model.hidden": "20,16"}, [])):
        for np in case.worlds(1, 2):
            said, _ = run(case, mlp, np, **{"precision.compute": compute}, **settings)
            lines = [line for line in said.stderr.splitlines() if "no multiple of 8" in line]
            case.check(len(lines) == (1 if named else 0), f"{compute} {settings}: said\n{said.stderr}")
            for name in ("fc0", "fc1", "fc2"):
                case.check(not lines or (name + " (" in lines[0]) == (name in named), f"{settings}: {lines}")


def check_speed(case, events):
    start, steps = events[0], [e for e in events if e["event"] == "step"]
    case.check(start["product_flops_per_second"] > 0, "how fast a product is, is not told")
    case.check(all(0 < e["mfu"] < 100 for e in steps), f"mfu {[e.get('mfu') for e in steps]}")
    for e in steps:
        expected = start["step_flops"] / e["step_seconds"] / start["product_flops_per_second"]
        case.check(abs(e["mfu"] - expected) <= 1e-4 * expected, f"mfu {e['mfu']}, not {expected}")
    # 2 m n k: forward, and twice in the backward, of the projections and the head; attention 2 + 5 of its causal half.
    tokens, width = 64, 16
    matrices = 12 * width * width + 64 * width
    attention = 7 * 8 * 2 * 8 * 9 * 8      # samples, heads, context, context + 1, head size
    case.check(start["step_flops"] == 6 * tokens * matrices + attention, f"{start['step_flops']} FLOP a step")
    said, _ = run(case, GPT, **{"train.log_every": 1})
    case.check("mfu" in said.stdout.split("step 3/3")[1].split("\n")[0], f"no mfu in progress:\n{said.stdout}")
    _, events = run(case, dict(GPT, **{"device.backend": "cpu"}))
    case.check(events[0]["step_flops"] == start["step_flops"], "the cpu has other work")
    case.check(not any("mfu" in e or "product_flops_per_second" in e for e in events), "mfu of the cpu")


def check_steps(case):
    """Behind the first launch of a loss all that steps do has been prepared."""
    for graphs in ("off", "on"):
        record = case.path("record")
        path = write(case, "run.ini", dict(GPT, **{"log.dir": case.path("log"), "checkpoint.resume": "never",
                                                   "checkpoint.save": "false", "device.graphs": graphs}))
        case.check(case.run([path], env={"CUSIM_RECORD": record, "CUSIM_SEED": "1"}).returncode == 0, "the run fails")
        calls = [line.split()[2] for line in open(record) if line.startswith("call ")]
        launches = [line for line in open(record) if line.startswith("call ")]
        first = next(i for i, line in enumerate(launches) if "softmax_xent" in line)
        last = max(i for i, call in enumerate(calls) if call in ("cudaLaunchKernel", "cudaGraphLaunch"))
        asked = {call for call in calls[first:last] if call.startswith("cublasLt")} - IN_STEPS
        allocated = {call for call in calls[first:last] if call.startswith(("cudaMalloc", "cudaHostAlloc"))}
        case.check(not asked and not allocated, f"graphs {graphs}: steps call {asked | allocated}")
        case.check("cublasLtMatmulAlgoGetHeuristic" in calls[:first], "nobody asked at all")


def main():
    case = trainer.Case()
    case.needs_simulated_gpus()
    os.environ.pop("LOCKSTEP_DEVICE_BACKEND", None)      # each run here says its own
    case.environment.pop("LOCKSTEP_DEVICE_BACKEND", None)
    plan, events = check_round_trip(case)
    check_other_bits(case, plan, events)
    check_resume(case, plan)
    check_refusals(case, plan)
    check_missing(case, plan)
    check_sizes(case)
    check_speed(case, events)
    check_steps(case)
    case.finish()


if __name__ == "__main__":
    main()
