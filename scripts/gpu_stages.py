"""The stages of scripts/gpu_check.sh: what each runs, and what it makes of what that says. A stage is `passed`, `failed`,
or `missing` something that the machine does not have; gpu_check.py adds `skipped` for want of time."""
import concurrent.futures
import glob
import importlib.util
import itertools
import json
import os
import re
import shutil
import statistics
import sys
import tempfile

import gpu_bundle

NOTE = ("Speeds of ops are medians of recorded launches over 512 MiB of buffers; `of copy` is beside a copy of 256 MiB, "
        "counted as bytes read and written. Tokens/s are medians over the steps behind the first four. MFU counts "
        "6 x parameters (without positions) + 12 x layers x width x context flops a token, as nanoGPT does, against the "
        "dense 16-bit peak of the datasheet; `of product` is the same against the measured product of the stage `ops`.")

# Dense 16-bit peak with f32 sums, flops per second, from the vendor's datasheets, by what the name contains.
PEAKS = [("H200", 989.4e12), ("H100 PCIe", 756e12), ("H100", 989.4e12), ("B200", 2250e12), ("GB200", 2450e12),
         ("A100", 312e12), ("L40S", 362e12), ("L4", 121e12), ("RTX 4090", 165.2e12), ("A10", 125e12)]
GPT2 = {"model.kind": "gpt", "model.layers": 12, "model.heads": 12, "model.width": 768, "model.context": 1024,
        "model.vocab": 50257, "data.kind": "synthetic", "data.samples": 256, "train.global_batch": 64,
        "train.micro_batch": 16, "train.steps": 12}
SMALL = {"model.kind": "gpt", "model.layers": 4, "model.heads": 4, "model.width": 256, "model.context": 128,
         "model.vocab": 1000, "model.dropout": 0.1, "data.kind": "synthetic", "data.samples": 256,
         "train.global_batch": 32, "train.micro_batch": 2, "train.lanes": 8, "train.steps": 6}
TINY = {"model.layers": 2, "model.heads": 2, "model.width": 32, "model.context": 16, "model.vocab": 60, "data.samples": 32,
        "train.global_batch": 8, "train.micro_batch": 1, "train.lanes": 4, "train.steps": 3}
WARM_UP = 4


class Found:
    """What a stage found: failures are kept, the first of them is the note."""

    def __init__(self):
        self.result, self.note, self.rows = "passed", "", []

    def row(self, case, result, value, speed=False, **more):
        self.rows.append({"case": case, "result": result, "value": value, **({"speed": True} if speed else {}), **more})
        if result == "failed":
            self.fail(f"{case}: {value}")

    def fail(self, note):
        self.note = self.note if self.result == "failed" else note
        self.result = "failed"
        return self

    def missing(self, what):
        if self.result == "passed":
            self.result, self.note = "missing", what
        return self

    def as_dict(self):
        return {"result": self.result, "note": self.note, "rows": self.rows}


class Stage:
    def __init__(self, name, limit, run):
        self.name, self.limit, self.run = name, limit, run


def last_line(text):
    lines = [line for line in text.strip().splitlines() if line.strip()]
    return lines[-1].strip()[:300] if lines else "no output"


def cause(text):
    """The line that says what went wrong, where one does."""
    for line in text.splitlines():
        if re.search(r"\berror\b", line, re.I):
            return line.strip()[:300]
    return last_line(text)


def outcome(code, text):
    return "ran out of time" if code is None else f"exit {code}: {cause(text)}"


# ---- environment -----------------------------------------------------------------------------------------------------

def version_of(check, command, pattern):
    if shutil.which(command[0], path=check.environment.get("PATH")) is None:
        return None
    code, text = check.run(command, limit=20)
    match = re.search(pattern, text)
    return match[1] if code == 0 and match else None


def python_module(name):
    return importlib.util.find_spec(name) is not None


def nccl_folder():
    """Where a Python package of NCCL lies, for machines without another one."""
    spec = importlib.util.find_spec("nvidia") if python_module("nvidia") else None
    for place in spec.submodule_search_locations if spec else []:
        folder = os.path.join(place, "nccl")
        if os.path.exists(os.path.join(folder, "include", "nccl.h")):
            return folder
    return None


def find_gpu(check, found):
    if check.simulated:
        check.facts.update(gpu="simulated GPU", capability="90")
        return True
    query = "name,compute_cap,driver_version,memory.total"
    if shutil.which("nvidia-smi") is None:
        return False
    code, text = check.run(["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader"], limit=30)
    parts = [part.strip() for part in text.strip().splitlines()[0].split(",")] if code == 0 and text.strip() else []
    if len(parts) != 4:
        return False
    check.facts.update(gpu=parts[0], capability=parts[1].replace(".", ""))
    found.row("GPU", "", f"{parts[0]}, compute capability {parts[1]}, {parts[3]}")
    found.row("driver", "", parts[2])
    return True


def environment(check):
    found = Found()
    if not find_gpu(check, found):
        found.missing("no GPU: nvidia-smi does not tell of one")
    found.row("processor", "", f"{len(os.sched_getaffinity(0))} cores")
    check.facts["mpi"] = version_of(check, ["mpirun", "--version"], r"\(Open MPI\) (\S+)")
    check.facts["torch"] = python_module("torch")
    tools = [("nvcc", version_of(check, ["nvcc", "--version"], r"release (\S+),")),
             ("compiler", version_of(check, ["gcc", "--version"], r"(\d+\.\d+\.\d+)")),
             ("cmake", version_of(check, ["cmake", "--version"], r"(\d\S+)")),
             ("ninja", version_of(check, ["ninja", "--version"], r"(\d\S+)")),
             ("Open MPI", check.facts["mpi"]),
             ("compute-sanitizer", version_of(check, ["compute-sanitizer", "--version"], r"Version (\S+)")),
             ("PyTorch", version_of(check, [sys.executable, "-c", "import torch; print(torch.__version__)"], r"(\d\S+)")
              if check.facts["torch"] else None),
             ("libraries brought along", gpu_bundle.PATH if gpu_bundle.unpacked(check.root) else None)]
    for name, version in tools:
        found.row(name, "" if version else "missing", version or "not found")
    return found


# ---- build -----------------------------------------------------------------------------------------------------------

def configure(check, tests):
    command = ["cmake", "-S", check.root, "-B", check.build, "-DCMAKE_BUILD_TYPE=Release", "-DLOCKSTEP_CUDA=ON",
               f"-DLOCKSTEP_CUDA_ARCHITECTURES={check.facts.get('capability', '')}",
               f"-DLOCKSTEP_TESTS={'ON' if tests else 'OFF'}", f"-DLOCKSTEP_MPI={'ON' if check.facts.get('mpi') else 'OFF'}"]
    if shutil.which("ninja"):
        command += ["-G", "Ninja"]
    nccl = nccl_folder()
    if nccl:
        libraries = glob.glob(os.path.join(nccl, "lib", "libnccl.so*"))
        command += [f"-DLOCKSTEP_NCCL_INCLUDE={nccl}/include"] + [f"-DLOCKSTEP_NCCL={path}" for path in libraries[:1]]
    return check.run(command + gpu_bundle.cmake_options(check.root))


def resources(check, found):
    """What the assembler said of kernels that keep values in memory instead of registers."""
    spills = {}
    for path in glob.glob(os.path.join(check.build, "cuda", "*.resources")):
        with open(path) as file:
            for kernel, _, stack in re.findall(r"entry function '(\w+)' for '(\w+)'.*?(\d+) bytes stack frame",
                                               file.read(), re.S):
                spills[kernel] = int(stack)
    if spills:
        used = {name: stack for name, stack in spills.items() if stack > 0}
        found.row("kernels with a stack", "", f"{len(used)} of {len(spills)}" +
                  "".join(f", {name} {stack} bytes" for name, stack in sorted(used.items())[:6]))


def build(check):
    found = Found()
    programs = ["trainer", "bench_ops", "bench_lt_bits"]
    if not check.own_build:
        absent = [name for name in programs if not os.access(os.path.join(check.build, name), os.X_OK)]
        return found.fail(f"{check.build} has no {', '.join(absent)}") if absent else found
    if check.facts.get("capability") is None:
        return found.missing("no GPU to build for")
    # A machine without cmocka still gets the programs.
    code, text = configure(check, tests=True)
    check.facts["tests"] = code == 0
    if code not in (0, None) and "cmocka" in text:
        found.row("tests", "missing", "cmocka not found: no tests in this build")
        code, text = configure(check, tests=False)
    if code != 0:
        return found.fail("configuring: " + outcome(code, text))
    code, text = check.run(["cmake", "--build", check.build, "-j", str(len(os.sched_getaffinity(0))), "--target"] + programs)
    if code != 0:
        return found.fail("building: " + outcome(code, text))
    for warning in sorted(set(re.findall(r"^.*\bwarning\b.*$", text, re.M)))[:5]:
        found.row("warning", "", warning[:200])
    resources(check, found)
    return found


# ---- runs of the trainer -----------------------------------------------------------------------------------------------

def train(check, settings, np=1):
    """(events, what went wrong or None)."""
    with tempfile.TemporaryDirectory(prefix="gpu-check-") as folder:
        config = os.path.join(folder, "run.ini")
        every = {"device.backend": "cuda", "log.dir": folder, "log.level": "warn", "checkpoint.save": "false",
                 "checkpoint.resume": "never", "optimizer.lr": "6e-4", **settings}
        with open(config, "w") as file:
            for key, value in every.items():
                section, name = key.split(".", 1)
                file.write(f"[{section}]\n{name} = {value}\n")
        # Programs that start side by side collide in one session folder of Open MPI.
        launcher = ["mpirun", "-np", str(np), "--bind-to", "none"] if np > 1 else []
        code, text = check.run(launcher + [os.path.join(check.build, "trainer"), config], cwd=folder,
                               env={"OMPI_MCA_orte_tmpdir_base": folder})
        if code != 0:
            return [], outcome(code, text)
        with open(os.path.join(folder, "metrics.jsonl")) as file:
            return [json.loads(line) for line in file], None


def ready(check, found):
    """Whether there is something to run, and something to run it on."""
    if check.facts.get("gpu") is None and not check.simulated:
        found.missing("no GPU")
    elif not os.access(os.path.join(check.build, "trainer"), os.X_OK):
        found.missing("nothing was built")
    return found.result == "passed"


def dtypes(check):
    """bf16 begins with compute capability 8.0."""
    return ["f16", "bf16"] if int(check.facts.get("capability", "90")) >= 80 else ["f16"]


def ways_to_run(check):
    """(processes, settings of free keys): the whole product; in a tiny check each pair of values once."""
    values = {"device.graphs": ("off", "on"), "comm.bucket_bytes": ("64k" if check.tiny else "1M", "25M"),
              "comm.zero": (0, 1)}
    choices = [each for each in itertools.product((0, 1), repeat=3) if not check.tiny or sum(each) % 2 == 0]
    worlds = [1, 2] if check.tiny else [1, 2, 4]
    for np in worlds if check.facts.get("mpi") else [1]:
        for choice in choices:
            settings = {key: value[i] for (key, value), i in zip(values.items(), choice)}
            yield np, {**settings, **({"comm.transport": "mpi"} if np > 1 else {})}


def weights(check):
    """The same bits however a run is executed."""
    found = Found()
    if not ready(check, found):
        return found
    if not check.facts.get("mpi"):
        found.row("np = 2 and 4", "missing", "Open MPI was not found")
    base = {**SMALL, **(TINY if check.tiny else {})}
    times = 1 if check.tiny else 2
    jobs = [(compute, np, settings) for _ in range(times) for compute in dtypes(check) for np, settings in ways_to_run(check)]
    at_once = 1 if check.tiny else max(1, min(4, len(os.sched_getaffinity(0)) // 4))
    with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
        runs = list(pool.map(lambda job: train(check, {**base, "precision.compute": job[0], **job[2]}, job[1]), jobs))
    for compute in dtypes(check):
        hashes, wrong = {}, []
        for (of, np, settings), (events, problem) in zip(jobs, runs):
            if of == compute and problem is None:
                hashes.setdefault(events[-1].get("weights_hash"), []).append((np, settings))
            elif of == compute:
                wrong.append(f"np {np} {settings}: {problem}")
        n = sum(len(same) for same in hashes.values())
        if wrong:
            found.row(f"weights {compute}", "failed", f"{len(wrong)} of {n + len(wrong)} runs did not end: {wrong[0]}")
        elif len(hashes) != 1 or None in hashes:
            odd = min(hashes.values(), key=len)[0]
            found.row(f"weights {compute}", "failed", f"{len(hashes)} different weights in {n} runs, e.g. np {odd[0]} {odd[1]}")
        else:
            found.row(f"weights {compute}", "passed", f"{next(iter(hashes))} in {n} runs", runs=n)
    return found


# ---- the library, ops --------------------------------------------------------------------------------------------------

def library(check):
    """What the runtime's choice of algorithms rests on, and what it gives up for it."""
    found = Found()
    if not ready(check, found):
        return found
    code, text = check.run([os.path.join(check.build, "bench_lt_bits")] + (["--tiny"] if check.tiny else []))
    lines = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    for line in lines:
        used = line["what"] in ("whole", "splitk compute")
        bad = used and line["unequal"] > 0
        value = f"{line['unequal']} of {line['algorithms']} algorithms gave other bits in {line['runs']} runs"
        found.row(f"{line['what']} {line['dtype']}", "failed" if bad else "passed" if used else "", value,
                  **{name: line[name] for name in ("algorithms", "unequal", "runs")})
    return found if code == 0 else found.fail(outcome(code, text))


def ops(check):
    found = Found()
    if not ready(check, found):
        return found
    with tempfile.TemporaryDirectory(prefix="gpu-check-") as folder:
        path = os.path.join(folder, "ops.json")
        types = ",".join(["f32"] + dtypes(check))
        code, text = check.run([os.path.join(check.build, "bench_ops"), "device.backend=cuda", "--types", types, "--json", path] +
                               (["--tiny"] if check.tiny else []))
        try:
            with open(path) as file:
                said = json.load(file)
        except (OSError, ValueError):
            return found.fail(outcome(code, text))
    check.facts["describe"] = said["device"]
    found.row("device", "", said["device"])
    for each in said["rows"]:
        value = f"{each['seconds'] * 1e6:.2f} us, {each['bytes_per_second'] * 1e-9:.1f} GB/s, {each['share_of_copy']:.3f} of copy"
        if each["flops"] > 0:
            value += f", {each['flops_per_second'] * 1e-12:.2f} TFLOP/s"
        if each["op"] == "gemm square":
            check.facts.setdefault("product", {})[each["dtype"]] = each["flops_per_second"]
        found.row(f"{each['op']} {each['dtype']}", "", value, speed=True, **{key: each[key] for key in
                  ("bytes", "flops", "seconds", "bytes_per_second", "share_of_copy", "flops_per_second")})
    return found if code == 0 and said["complete"] else found.fail(outcome(code, text))


# ---- GPT-2 -------------------------------------------------------------------------------------------------------------

def flops_per_token(settings, parameters):
    positions = settings["model.context"] * settings["model.width"]
    return 6 * (parameters - positions) + 12 * settings["model.layers"] * settings["model.width"] * settings["model.context"]


def speed_row(check, found, case, compute, tokens, settings, parameters):
    used = tokens * flops_per_token(settings, parameters)
    peak = next((peak for name, peak in PEAKS if name in check.facts.get("gpu", "")), None)
    product = check.facts.get("product", {}).get(compute)
    value = f"{tokens:.0f} tokens/s"
    value += f", MFU {used / peak:.3f}" if peak else ", no peak known"
    value += f", {used / product:.3f} of product" if product else ""
    found.row(case, "", value, speed=True, tokens_per_second=tokens, mfu=used / peak if peak else None,
              flops_per_token=flops_per_token(settings, parameters))


def gpt2(check):
    found = Found()
    if not ready(check, found):
        return found
    base = {**GPT2, **(TINY if check.tiny else {})}
    for compute in dtypes(check):
        for graphs in ("off", "on"):
            case = f"{compute}, graphs {graphs}"
            events, problem = train(check, {**base, "precision.compute": compute, "device.graphs": graphs})
            steps = [event for event in events if event["event"] == "step"]
            timed = steps[min(WARM_UP, len(steps) - 1):]
            if problem or not timed:
                found.row(case, "failed", problem or "no step in the metrics")
                continue
            tokens = statistics.median(step["tokens_per_second"] for step in timed)
            check.facts["parameters"] = events[0]["parameters"]
            speed_row(check, found, case, compute, tokens, base, events[0]["parameters"])
    return found


def torch(check):
    """The same model, batch and optimizer in PyTorch, on the same machine in the same minutes."""
    found = Found()
    if not check.facts.get("torch", python_module("torch")):
        return found.missing("PyTorch was not found")
    if check.simulated or check.facts.get("gpu") is None:
        return found.missing("no GPU for PyTorch")
    for compute in dtypes(check)[::-1]:
        for mode in ("eager", "compiled"):
            case = f"PyTorch {mode}, {compute}"
            code, text = check.run([sys.executable, "bench/gpt2_torch.py", "--dtype", compute, "--mode", mode] +
                                   (["--tiny"] if check.tiny else []))
            lines = [line for line in text.splitlines() if line.startswith("{")]
            if code != 0 or not lines:
                found.row(case, "failed", outcome(code, text))
                continue
            said = json.loads(lines[-1])
            speed_row(check, found, case, compute, said["tokens_per_second"], GPT2, said["parameters"])
    return found


# ---- tests -------------------------------------------------------------------------------------------------------------

def tests(check):
    """Every test that runs on a GPU, on this one."""
    found = Found()
    if not ready(check, found):
        return found
    if check.own_build:
        if not check.facts.get("tests", True):
            return found.missing("cmocka was not found")
        code, text = check.run(["cmake", "--build", check.build, "-j", str(len(os.sched_getaffinity(0)))])
        if code != 0:
            return found.fail("building the tests: " + outcome(code, text))
    limit = str(max(10, int(check.left() / 2)))
    which = ["-L", "^cuda$", "-LE", "^full$"] + (["-R", "^ops/cast@"] if check.tiny else [])
    at_once = str(max(1, min(4, len(os.sched_getaffinity(0)) // 4)))
    code, text = check.run(["ctest", "--test-dir", check.build, *which, "-j", at_once, "--timeout", limit])
    failed = re.findall(r"^\s*\d+ - (\S+) \((?!Skipped|Not Run)", text, re.M)
    skipped = text.count("***Skipped")
    n = len(re.findall(r"^\s*\d+/\d+ Test +#\d+", text, re.M))
    if n == 0:
        return found.fail("no test ran: " + outcome(code, text))
    for name in failed:
        found.row(name, "failed", "run it alone: ctest -R")
    if code is None:
        found.fail(f"ran out of time after {n} tests")
    found.row("tests", "passed" if not failed else "failed", f"{n - len(failed) - skipped} passed, {len(failed)} failed, "
              f"{skipped} skipped", tests=n)
    return found


def sanitizer(check):
    """NVIDIA's checkers over small cases."""
    found = Found()
    if not ready(check, found):
        return found
    if check.simulated or shutil.which("compute-sanitizer") is None:
        return found.missing("compute-sanitizer was not found" if not check.simulated else
                             "the simulator's own checks are tests of asan and tsan builds")
    folder = os.path.join(check.build, "tests", "bin")
    cases = [(tool, name) for tool in ("memcheck", "racecheck", "synccheck")
             for name in ("layernorm", "bias", "softmax_xent", "embedding", "attention_16bit")]
    for tool, name in cases:
        program = os.path.join(folder, f"t_ops_{name}")
        if not os.access(program, os.X_OK):
            found.row(f"{tool} {name}", "missing", "the tests were not built")
            continue
        if check.left() < 5:
            found.row(f"{tool} {name}", "skipped", "no time left")
            continue
        code, text = check.run(["compute-sanitizer", "--tool", tool, "--error-exitcode", "9", program],
                               env={"LOCKSTEP_TEST_BACKEND": "cuda"}, limit=30)
        if "Device not supported" in text:
            return found.missing("compute-sanitizer does not support this device")
        found.row(f"{tool} {name}", "passed" if code == 0 else "skipped" if code is None else "failed",
                  "no error" if code == 0 else outcome(code, text))
    return found


STAGES = [Stage("environment", 60, environment), Stage("build", 150, build), Stage("weights", 90, weights),
          Stage("ops", 45, ops), Stage("gpt2", 75, gpt2), Stage("library", 30, library), Stage("torch", 100, torch),
          Stage("tests", 120, tests), Stage("sanitizer", 60, sanitizer)]
