"""Failures of CUDA's libraries, on simulated GPUs: which calls a short run makes, how one of them can end, and what
must come of it."""
import collections
import concurrent.futures
import os
import random
import re
import shutil
import signal
import subprocess
import tempfile
import time

import trainer

MEMORY, DEVICE, COMM, TIMEOUT, KILLED = 4, 5, 6, 7, 137
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")

# Calls that give no status; and those whose failure may pass, because the result of the run does not depend on them.
NO_STATUS = {"cudaGetErrorString", "cudaGetErrorName", "cublasLtGetVersion", "cublasLtGetCudartVersion",
             "cublasLtGetStatusString", "ncclGetErrorString", "ncclGetLastError", "cuGetErrorString", "cuGetErrorName"}
MAY_PASS = {
    "cudaGetDevice": "it only saves a cudaSetDevice, which then decides",
    "cudaGetLastError": "it only forgets what has been told",
    "cudaFree": "frees what nothing uses any more", "cudaFreeHost": "frees what nothing uses any more",
    "cudaStreamDestroy": "after the stream's last work was waited for",
    "cudaEventDestroy": "after the last wait for it",
    "cudaGraphDestroy": "the executable made of it stays", "cudaGraphExecDestroy": "after its last replay",
    "cublasLtDestroy": "after the last product", "cublasLtMatmulDescDestroy": "after the last product",
    "cublasLtMatrixLayoutDestroy": "after the last product",
    "cublasLtMatmulPreferenceDestroy": "the algorithm has been chosen",
    "ncclCommFinalize": "after the last collective: the communicator is given up instead",
    "ncclCommDestroy": "after the last collective", "ncclCommAbort": "what it would end is failing already",
}
# The last calls of these may fail unseen, too: every stream is waited for once more when it is destroyed, and leaving a
# communicator asks until it has been left.
MAY_PASS_AT_THE_END = {"cudaStreamSynchronize": 6, "ncclCommGetAsyncError": 3}
# Asked by threads that only watch, and seen by nobody else.
WATCHING = {"cudaStreamQuery"}
# Tells of the failure of another call.
TELLS_OF_OTHERS = {"ncclCommGetAsyncError"}

# What a call that fails in the sweep gives: an error that does not stick, so that the call itself must be told.
PLAIN_CODE = {"cudart": 800, "cuda": 800, "cublaslt": 14, "nccl": 3}
EXIT_CODE = {"cudart": DEVICE, "cuda": DEVICE, "cublaslt": DEVICE, "nccl": COMM}

Variant = collections.namedtuple("Variant", "name np settings environment")
# fault: the text of CUSIM_FAIL, or {variable: value}. words: what the line must hold. may_pass: 0 is allowed, too.
Fault = collections.namedtuple("Fault", "variant call label fault codes words may_pass")


def libraries():
    """{function: library} of everything that the simulator stands in for."""
    with open(os.path.join(ROOT, "tests", "cusim", "src", "api.def")) as file:
        return {name: library for library, name in re.findall(r"^CUSIM_API\((\w+), (\w+),", file.read(), re.M)}


def variants(case):
    """Small runs that between them make every call the trainer makes: 3 steps, evaluation, checkpoints."""
    mlp = {"model.kind": "mlp", "model.hidden": "256", "data.kind": "idx",
           "data.train": trainer.write_images(case.folder, n=80), "data.val_fraction": 0.1, "train.steps": 3,
           "train.global_batch": 8, "train.micro_batch": 2, "train.lanes": 2, "train.eval_every": 2,
           "checkpoint.every": 2, "comm.timeout": "5s", "comm.bucket_bytes": "64k", "device.threads": 1,
           "device.backend": "cuda", "device.graphs": "off", "log.level": "warn"}
    gpt = {key: value for key, value in mlp.items() if not key.startswith(("model.", "data."))}
    gpt.update({"model.kind": "gpt", "model.layers": 1, "model.heads": 1, "model.width": 128, "model.context": 64,
                "data.kind": "text", "data.train": trainer.write_text(case.path("text.txt"), 4000),
                "data.val_fraction": 0.1, "precision.compute": "f16"})
    return [
        Variant("mlp f32, 1 process", 1, mlp, {"CUSIM_SEED": "1"}),
        Variant("mlp f32, 2 over nccl", 2, mlp, {"CUSIM_SEED": "2"}),
        Variant("mlp f16 recorded, 2 over nccl", 2,
                dict(mlp, **{"precision.compute": "f16", "device.graphs": "on", "comm.zero": 0, "train.steps": 6,
                             "comm.overlap": "true"}), {"CUSIM_SEED": "3"}),
        Variant("mlp f16 fast, 2 over nccl", 2,
                dict(mlp, **{"model.hidden": "256,128", "precision.compute": "f16", "comm.reduction": "fast",
                             "comm.dtype": "f16", "comm.bucket_bytes": "25M"}),
                {"CUSIM_SEED": "0"}),
        Variant("mlp f32 fast, 2 over nccl", 2, dict(mlp, **{"comm.reduction": "fast"}), {"CUSIM_SEED": "4"}),
        Variant("mlp f32 fast stage 0, 2 over nccl", 2, dict(mlp, **{"comm.reduction": "fast", "comm.zero": 0}),
                {"CUSIM_SEED": "7"}),
        Variant("mlp f32, 2 over mpi", 2, dict(mlp, **{"comm.transport": "mpi"}), {"CUSIM_SEED": "5"}),
        Variant("gpt f16, 1 process", 1, gpt, {"CUSIM_SEED": "6"}),
    ]


def has_watchdog(mpirun):
    """Whether a rank has got as far as to watch itself, which is the first it does once MPI runs."""
    for rank in trainer.children(mpirun):
        try:
            for task in os.listdir(f"/proc/{rank}/task"):
                with open(f"/proc/{rank}/task/{task}/comm") as file:
                    if file.read().strip() == "ls-watchdog":
                        return True
        except OSError:
            continue
    return False


# ---- runs ------------------------------------------------------------------------------------------------------------


class Run:
    """One training run in a folder of its own, which can be started again there."""

    def __init__(self, case, variant, number):
        self.case, self.variant = case, variant
        self.folder = case.path(f"run-{number}")
        os.makedirs(self.folder)
        self.config = os.path.join(self.folder, "run.ini")
        trainer.write_config(self.config, dict(variant.settings, **{"log.dir": os.path.join(self.folder, "log")}))

    def start(self, environment):
        """Returns (exit code, -1: it did not end; stderr). Where mpirun hangs before a rank is out of MPI_Init, which
        happens on a machine that is busy, it is asked again."""
        for _ in range(3):
            code, said, reached = self.start_once(environment)
            if code != -1 or reached:
                break
            print("mpirun started no rank within a minute: once more", flush=True)
        return code, said

    def start_once(self, environment):
        np = self.variant.np
        command = self.case.command([self.config], np if np > 1 else 0)
        # A session folder of Open MPI's own each: runs that start side by side collide in it.
        sessions = tempfile.mkdtemp(dir=self.folder, prefix="mpi-")
        own = {**self.case.environment, "OMPI_MCA_orte_tmpdir_base": sessions, **self.variant.environment,
               **environment}
        with tempfile.TemporaryFile("w+", errors="replace") as said:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=said,
                                       env=own, cwd=self.folder, start_new_session=True)
            reached = True
            try:
                code = process.wait(timeout=60 * self.case.slow)
                code = code if code >= 0 else 128 - code
            except subprocess.TimeoutExpired:
                code, reached = -1, np == 1 or has_watchdog(process.pid)
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            said.seek(0)
            return code, said.read(), reached

    def events(self):
        """None where the file does not parse; the last line of a process that was ended may be cut."""
        path = os.path.join(self.folder, "log", "metrics.jsonl")
        if not os.path.exists(path):
            return []
        try:
            return trainer.read_events(path)
        except ValueError:
            return None

    def close(self):
        shutil.rmtree(self.folder, ignore_errors=True)


def record(case, variant, number):
    """What the variant does when nothing fails: ({(rank, function): calls}, {(rank, kernel): launches}, results)."""
    run = Run(case, variant, number)
    code, said = run.start({"CUSIM_RECORD": os.path.join(run.folder, "record.%r"), "CUSIM_QUIET": "1"})
    case.check(code == 0, f"{variant.name}: exit {code}\n{said}")
    calls, kernels = collections.Counter(), collections.Counter()
    names = [f"record.{rank}" for rank in range(variant.np)] if variant.np > 1 else \
        [name for name in os.listdir(run.folder) if name.startswith("record.")]
    for rank, name in enumerate(names):
        with open(os.path.join(run.folder, name)) as file:
            for line in file:
                match = re.match(r"call thread=\d+ (\w+)", line)
                if match:
                    calls[rank, match[1]] += 1
                match = re.search(r" kernel=(\w+)", line)
                if match:
                    kernels[rank, match[1]] += 1
    results = trainer.results(run.events() or [])
    run.close()
    return calls, kernels, results


# ---- which faults ----------------------------------------------------------------------------------------------------


def sweep(variant, calls):
    """Of every function that the run calls: its first, second and last call fails, on one of the ranks that make it."""
    library = libraries()
    for i, function in enumerate(sorted({function for _, function in calls} - NO_STATUS)):
        ranks = [rank for rank in range(variant.np) if calls[rank, function] > 0]
        rank = ranks[i % len(ranks)]
        last = calls[rank, function]
        code = PLAIN_CODE[library[function]]
        for label, n in (("first", 1), ("second", 2), ("last", last)):
            if n > last or label == "last" and n < 3:
                continue
            yield Fault(variant, function, label, f"{rank}:{function}@{n}={code}",
                        (EXIT_CODE[library[function]],), words_of(function, rank, variant.np),
                        may_pass(function, n, last))


def may_pass(function, n, last):
    return function in MAY_PASS or function in WATCHING or n > last - MAY_PASS_AT_THE_END.get(function, 0)


def words_of(function, rank, np):
    call = [] if function in TELLS_OF_OTHERS else [function]
    gpu = [] if function == "cudaGetDeviceCount" else [f"GPU {rank}"]
    return call + gpu + ([f"rank {rank}"] if np > 1 else [])


def pairs(variant, calls, kernels, rng, turn, n):
    """n pairs of a call and one of the ways in which hardware, driver, peers and people end it, from the turn-th on."""
    functions = sorted((rank, name) for rank, name in calls if name not in NO_STATUS and name not in MAY_PASS and
                       name not in WATCHING)
    several = variant.np > 1

    def pick(of, names=None):
        rank, name = rng.choice([key for key in of if names is None or key[1] in names])
        return rank, name, rng.randrange(of[rank, name]) + 1

    def line(rank, *words):
        return list(words) + [f"GPU {rank}"] + ([f"rank {rank}"] if several else [])

    def no_memory():
        rank, name, k = pick({key: calls[key] for key in functions}, {"cudaMalloc", "cudaHostAlloc"})
        return f"{rank}:{name}@{k}=2", name, (MEMORY,), line(rank, name)

    def no_memory_for_launch():
        rank, name, k = pick(kernels)
        return f"{rank}:kernel:{name}@{k}=2", name, (MEMORY,), line(rank, "cudaLaunchKernel")

    def no_memory_for_product():
        rank, name, k = pick({key: calls[key] for key in functions}, {"cublasLtCreate", "cublasLtMatmul"})
        return f"{rank}:{name}@{k}=3", name, (MEMORY,), line(rank, name, "op gemm")

    def broken_kernel(code, text):
        rank, name, k = pick(kernels)
        return f"{rank}:kernel:{name}@{k}={code}", name, (DEVICE,), line(rank, text)

    def launch_failure():
        return broken_kernel(719, "unspecified launch failure")

    def illegal_access():
        return broken_kernel(700, "illegal memory access")

    def broken_device():
        rank, name, k = pick({key: calls[key] for key in functions if libraries()[key[1]] in ("cudart", "cuda")})
        return f"{rank}:{name}@{k}=214", name, (DEVICE,), ["uncorrectable ECC error"] + \
            ([f"GPU {rank}"] if name != "cudaGetDeviceCount" else [])

    def lost_peer():
        rank, name, k = pick({key: calls[key] for key in functions}, {"ncclGroupEnd", "ncclAllGather", "ncclAllReduce",
                                                                      "ncclReduceScatter", "ncclCommInitRankConfig"})
        return f"{rank}:{name}@{k}=6", name, (COMM,), line(rank, name, "remote process exited")

    def hang():
        rank, name, k = pick({key: calls[key] for key in functions})
        return f"{rank}:{name}@{k}=hang", name, (TIMEOUT,), ["comm.timeout"]

    def hang_in_collective():
        return {"CUSIM_NCCL_HANG": f"{rng.randrange(variant.np)}:{rng.randrange(8)}"}, "collective", (TIMEOUT,), \
            ["comm.timeout"]

    def kill():
        rank, name, k = pick({key: calls[key] for key in functions})
        return f"{rank}:{name}@{k}=kill", name, (KILLED,), []

    def kill_in_collective():
        detect = {"CUSIM_NCCL_DETECT": "1"} if rng.random() < 0.5 else {}
        return {"CUSIM_NCCL_KILL": f"{rng.randrange(variant.np)}:{rng.randrange(8)}", **detect}, "collective", \
            (KILLED,), []

    ways = [no_memory, launch_failure, hang, no_memory_for_launch, broken_device, kill, no_memory_for_product,
            illegal_access]
    if any(name == "ncclGroupEnd" for _, name in functions):
        ways += [lost_peer, hang_in_collective, kill_in_collective]
    for i in range(n):
        way = ways[(turn + i) % len(ways)]
        fault, call, codes, words = way()
        n = int(re.search(r"@(\d+)", fault)[1]) if isinstance(fault, str) else 0
        last = max(calls[rank, call] for rank in range(variant.np))
        yield Fault(variant, call, way.__name__, fault, codes, words, n > 0 and last > 0 and may_pass(call, n, last))


# ---- what must come of one -------------------------------------------------------------------------------------------


def error_lines(said):
    return [line for line in said.splitlines() if line.startswith("trainer: error")]


def harm(events, expected):
    """What is wrong with the output of a run that was ended, or ""."""
    if events is None:
        return "metrics.jsonl does not parse"
    steps = [event for event in trainer.results(events) if event["event"] == "step"]
    return "" if steps == [event for event in expected if event["event"] == "step"][:len(steps)] else "other steps"


def judge(fault, code, said, events, expected):
    """(what came of it, in a word; what is wrong, or "")."""
    lines = error_lines(said)
    injected = "injected:" in said or isinstance(fault.fault, dict)
    if code == 0:
        if trainer.results(events or []) != expected:
            return "0", "it ends well with other results"
        if not injected:
            return "not reached", ""
        return "passes", "" if fault.may_pass else "it passes unnoticed"
    wrong = harm(events, expected)
    if code == -1:
        return "hangs", "it does not end"
    if code not in fault.codes:
        wrong = wrong or f"exit {code}, expected {fault.codes}"
    if KILLED in fault.codes and len(lines) > 1 or KILLED not in fault.codes and len(lines) != 1:
        wrong = wrong or f"{len(lines)} lines of errors"
    missing = [word for word in fault.words if lines and word not in lines[0]]
    if missing:
        wrong = wrong or f"the line lacks {missing}"
    return str(code), wrong


def try_fault(case, fault, expected, number):
    """Runs with the fault, then again without it: that run goes on and ends with the lines and bits of an undisturbed
    one. Returns (what came of it, what is wrong)."""
    run = Run(case, fault.variant, number)
    environment = fault.fault if isinstance(fault.fault, dict) else {"CUSIM_FAIL": fault.fault}
    code, said = run.start(environment)
    outcome, wrong = judge(fault, code, said, run.events(), expected)
    if not wrong and outcome not in ("passes", "not reached"):
        again, says = run.start({"CUSIM_QUIET": "1"})
        if again != 0:
            wrong, said = f"started again it ends with {again}", said + says
        elif trainer.results(run.events() or []) != expected:
            wrong = "started again it ends with other results"
    run.close()
    return outcome, wrong + (f"\n{said[-3000:]}" if wrong else "")


def try_all(case, faults, expected):
    """Every fault, some at a time; says how it goes. Returns [(fault, outcome, what is wrong)]."""
    began, told, done = time.time(), 0.0, []
    with concurrent.futures.ThreadPoolExecutor(max(1, min(4, os.cpu_count() or 1))) as pool:
        waiting = {pool.submit(try_fault, case, fault, expected[fault.variant.name], f"fault-{i}"): fault
                   for i, fault in enumerate(faults)}
        for future in concurrent.futures.as_completed(waiting):
            fault = waiting[future]
            outcome, wrong = future.result()
            done.append((fault, outcome, wrong))
            case.check(not wrong, f"{fault.variant.name}: {fault.fault}: {wrong}")
            spent = time.time() - began
            if spent - told >= 10 or len(done) == len(faults):
                told = spent
                left = spent / len(done) * (len(faults) - len(done))
                print(f"{len(done)} of {len(faults)} faults, {case.n_failed} checks failed, {spent:.0f} s, "
                      f"about {left:.0f} s left", flush=True)
    return done


def print_table(done):
    """One row per variant and call: what each of its faults came to."""
    rows = collections.defaultdict(dict)
    for fault, outcome, wrong in done:
        rows[fault.variant.name, fault.call].setdefault(fault.label, []).append(outcome + ("!" if wrong else ""))
    for variant in sorted({name for name, _ in rows}):
        print(f"\n{variant}")
        for (name, call), outcomes in sorted(rows.items()):
            if name == variant:
                print(f"  {call:42} " + "  ".join(f"{label} {','.join(came)}" for label, came in outcomes.items()))


def plan(case, everything, seed):
    """(faults, {variant: expected results}): all of them, or a sample of each kind."""
    library, rng, all_faults, expected, called = libraries(), random.Random(seed), [], {}, set()
    chosen = variants(case)
    for i, variant in enumerate(chosen):
        if variant.np > 1 and not case.has_mpi:
            continue
        calls, kernels, results = record(case, variant, f"plain-{i}")
        expected[variant.name] = results
        called |= {function for _, function in calls}
        # One process and several are swept whole; of the others what only they call.
        faults = list(sweep(variant, calls)) if i < 2 else \
            [fault for fault in sweep(variant, calls) if (fault.call not in {f.call for f in all_faults})]
        n_pairs = 50 // len(chosen) + 1 if everything else 3
        if not everything:
            faults = rng.sample(faults, min(len(faults), 4))
        all_faults += faults + list(pairs(variant, calls, kernels, rng, 3 * i, n_pairs))
    print(f"{len(all_faults)} faults in {len(expected)} runs, which call {len(called)} of the {len(library)} "
          f"functions; seed {seed}", flush=True)
    return all_faults, expected
