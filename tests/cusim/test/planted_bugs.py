"""planted_bugs.py VARIANT KERNEL_BUGS STREAM_BUGS: every planted bug is caught as this variant of the build must catch
it, and the same code done right gives no report.

VARIANT is plain, address or thread. Kernels run in three orders of threads and blocks, stream scenarios with ten seeds,
which take each policy twice."""
import os
import re
import subprocess
import sys
import tempfile

ORDERS = {"forward": 0, "reverse": 1, "random": 2}
SEEDS = range(1, 11)
TSAN_SEEDS = (0, 1, 5)      # in order, others first, lazy: reports do not depend on the seed

# What the plain build must show: "wrong" data in these orders, or a message in every one.
ALL = tuple(ORDERS)
KERNELS = {
    # name: (plain: orders with wrong data, message in all variants, address report, thread report)
    "static_overrun": ((), None, "global-buffer-overflow|out of bounds", None),
    "dynamic_overrun": ((), None, "heap-buffer-overflow", None),
    "global_overrun": ((), None, "heap-buffer-overflow", None),
    "misaligned": (None, None, "misaligned address", None),
    "last_barrier": (("reverse", "random"), None, None, "data race"),
    "second_barrier": (("forward", "random"), None, None, "data race"),
    "no_syncwarp": (ALL, None, None, "data race"),
    "uninitialised": (ALL, None, None, None),
    "no_fence": ((), None, None, "data race"),
    "no_atomic": ((), None, None, "data race"),
    "divergent_barrier": ((), "divergent barrier: others of the block wait at line", None, None),
    "early_return": ((), "ends while others of its block wait|after some threads of the block have ended", None, None),
    "different_operations": ((), "meet in different operations", None, None),
    "mask_without_caller": ((), "leaves out its caller", None, None),
    "mask_of_ended": ((), "names it|names lanes that have ended", None, None),
    "deadlock": ((), "deadlock in the block", None, None),
    "copy_not_awaited": (ALL, None, None, None),
}
# Stream scenarios: what the plain build says besides wrong data (None: data alone), and the sanitizers' reports.
STREAMS = {
    "copy_not_awaited": "data race",
    "gradient_not_awaited": "data race",
    "pinned_refilled": "data race",
    "result_not_awaited": "data race",
    "prefetch_overtakes": "data race",
    "graph_not_joined": None,           # cudaStreamEndCapture refuses it
    "graph_edge_missing": "data race",
    "recorded_early": "data race",
    "freed_early": "data race|heap-use-after-free",
    "default_stream_trusted": "data race",
    "full_not_awaited": "data race",
    "free_not_awaited": "data race",
    "thread_not_joined": "data race",
}
LINE = re.compile(r"planted\.cu:\d+")
failures = []


def run(program, name, kind, **settings):
    environment = dict(os.environ)
    environment.update({key: str(value) for key, value in settings.items()})
    done = subprocess.run([program, name, kind], capture_output=True, text=True, env=environment, timeout=120)
    return done.returncode, done.stdout + done.stderr


def expect(what, holds, output):
    if not holds:
        failures.append(what)
        print(f"FAILED: {what}\n{output}")


def kernel_bugs(variant, program):
    for name, (wrong, message, address, thread) in KERNELS.items():
        for order, number in ORDERS.items():
            code, output = run(program, name, "good", CUSIM_ORDER=number)
            expect(f"{name} done right, {order}", code == 0, output)
            code, output = run(program, name, "bad", CUSIM_ORDER=number)
            report = {"plain": None, "address": address, "thread": thread}[variant]
            if message is not None:
                found = re.search(message, output) and LINE.search(output) and f"{name}_kernel" in output
                expect(f"{name}, {order}: message", code != 0 and found, output)
            elif report is not None:
                found = re.search(report, output) and LINE.search(output)
                expect(f"{name}, {order}: {report}", code != 0 and found, output)
            elif wrong is not None and order in wrong and variant != "thread":
                expect(f"{name}, {order}: wrong data", code == 1, output)


def stream_bugs(variant, program):
    for name, report in STREAMS.items():
        seeds = TSAN_SEEDS if variant == "thread" else SEEDS
        caught = 0
        for seed in seeds:
            code, output = run(program, name, "good", CUSIM_SEED=seed)
            expect(f"{name} done right, seed {seed}", code == 0, output)
            code, output = run(program, name, "bad", CUSIM_SEED=seed)
            caught += code != 0
            if variant == "thread" and report is not None:
                expect(f"{name}, seed {seed}: {report}", code == 66 and re.search(report, output), output)
            elif variant == "thread" or report is None:
                expect(f"{name}, seed {seed}", code == 1, output)
        expect(f"{name}: caught in none of the seeds", caught > 0, "")
        print(f"{name}: caught in {caught} of {len(seeds)} seeds")


def replays(program):
    """The same seed gives the same record of every call and operation; seeds differ."""
    records = []
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "record")
        for seed in list(SEEDS) * 2:
            run(program, "prefetch_overtakes", "good", CUSIM_SEED=seed, CUSIM_RECORD=path)
            with open(path) as lines:
                records.append(lines.read())
    half = len(records) // 2
    expect("replays", records[:half] == records[half:], "")
    expect("seeds differ", len(set(records)) > half // 2, "")


def main():
    variant, kernels, streams = sys.argv[1:]
    kernel_bugs(variant, kernels)
    stream_bugs(variant, streams)
    if variant == "plain":
        replays(streams)
    print(f"{len(failures)} expectations failed")
    sys.exit(len(failures) > 0)


main()
