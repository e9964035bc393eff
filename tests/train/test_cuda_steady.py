# RUN: timeout=600 label=cuda
"""What a steady step does on simulated GPUs, call by call and in the virtual clock, as it is written and replayed, for
1, 2 and 4 processes and 1, 2 and 5 slots each:

- the host waits once, for the commit of the step before (and the loader for a share, without a call); nothing else
  waits, makes, frees or looks up anything;
- one exchange for each bucket's sum and one for its weights, one for the step's numbers, whatever the number of slots;
- a replayed step is one launch and one record, and runs what the written step runs;
- the copy of a slot's batch goes on while the slot before is computed, reductions while the backward goes on.

Each of these is a function that lists violations; planted ones (probe_plants.c) must be in the list."""
import collections
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))
import step_record
import trainer
from step_record import overlap, span

os.environ.pop("LOCKSTEP_DEVICE_BACKEND", None)      # each run here says its own

N_STEPS, STEADY = 10, (5, 6, 7)      # the first two are written in any case, the next two recorded
PLANTED = 7         # what a planted step breaks may end the run after it
WRITES = {"cudaLaunchKernel", "cudaMemcpyAsync", "cudaMemsetAsync", "cudaEventRecord", "cudaStreamWaitEvent",
          "cuStreamWaitValue32", "cuStreamWriteValue32", "cublasLtMatmulDescSetAttribute", "cublasLtMatmul",
          "ncclGroupStart", "ncclGroupEnd", "ncclSend", "ncclRecv", "ncclAllGather", "ncclCommGetAsyncError"}
REPLAYS = {"cudaGraphLaunch", "cudaEventRecord"}
HARMLESS = {"cudaGetDevice", "cudaSetDevice", "cudaGetLastError", "cudaPeekAtLastError"}
# Threads that look after the run, not after the step.
OF_OTHERS = HARMLESS | {"cudaStreamQuery", "ncclCommGetAsyncError"}
MESSAGES = {"ncclSend", "ncclRecv", "ncclAllGather", "ncclReduce", "ncclAllReduce", "ncclReduceScatter",
            "ncclBroadcast"}


# ---- the laws: each gives what is wrong ----------------------------------------------------------------------------

def other_calls(step):
    """What neither queues the step nor is the host's one wait. What is not known to be harmless is none of a step's."""
    main = step_record.Record.MAIN
    allowed = HARMLESS | {"cudaEventSynchronize"} | (REPLAYS if step.replayed else WRITES)
    for call in step.calls:
        if call.name not in (allowed if call.thread == main else OF_OTHERS) or call.allocates:
            yield f"{call} is none of a {'replayed' if step.replayed else 'written'} step's"


def is_behind_commit(step, event):
    """The event is recorded once in the step, and right behind the commit, or behind the launch of everything."""
    calls = [c for c in step.calls if c.name not in HARMLESS]
    records = [i for i, c in enumerate(calls) if c.name == "cudaEventRecord" and c.event == event]
    if len(records) != 1:
        return False
    stream = calls[records[0]].stream
    before = [c for c in calls[:records[0]] if c.stream == stream and "kernel=lsi_stamp" not in c.details]
    if step.replayed:
        return bool(before) and before[-1].name == "cudaGraphLaunch"
    return bool(before) and "kernel=lsi_commit" in before[-1].details


def host_waits(record, step, behind):
    """`behind`: the commit that is waited for is that of so many steps before."""
    waits = [call for call in step.calls if call.waits]
    if [c.name for c in waits] != ["cudaEventSynchronize"] or waits[0].thread != record.MAIN:
        yield f"the host waits {len(waits)} times: {', '.join(map(str, waits))}"
    elif not is_behind_commit(record.step(step.number - behind), waits[0].event):
        yield "the host waits for another event than a commit"


def exchanges(calls):
    """[range] of exchanges with other ranks, in order: a group of messages is one, a call outside of groups is one."""
    found, depth = [], 0
    for call in calls:
        if call.name == "ncclGroupStart":
            depth += 1
        elif call.name == "ncclGroupEnd":
            depth -= 1
            found.append(call.path)
        elif call.name in MESSAGES and depth == 0:
            found.append(call.path)
    return found


def exchange_counts(step, np, n_buckets):
    """In the range of each bucket's sum, of its gather, and outside of both."""
    counts = collections.Counter(next((name for name in path if name.startswith("bucket ")), "the step")
                                 for path in exchanges(step.queued))
    want = {f"bucket {k} {what}": 1 for k in range(n_buckets) for what in ("reduce", "gather")} if np > 1 else {}
    want["the step"] = int(np > 1)
    for name in sorted(set(want) | set(counts)):
        if counts[name] != want.get(name, 0):
            yield f"{counts[name]} exchanges of {name}, not {want.get(name, 0)}"


def launches(step):
    n = sum(call.name == "cudaGraphLaunch" for call in step.calls)
    if n != int(step.replayed):
        yield f"{n} launches of a graph in a {'replayed' if step.replayed else 'written'} step"


def work(step):
    """What runs of a step, but for records and waits, which become a graph's edges: (where, what) and how often."""
    return collections.Counter((o.path, o.name) for o in step.operations if not o.name.startswith("event "))


def computed(step, slot, part):
    """What layers compute for a slot."""
    compute = next(o.stream for o in step.operations if o.name.startswith("lsi_commit"))
    return [o for o in step.within(f"slot {slot} {part}") if o.stream == compute and len(o.path) == 2]


def copied(step, slot):
    return [o for o in step.within(f"slot {slot} forward") if o.name == "copy"]


def copies_are_hidden(step, n_slots):
    """The first two batches have a place each from the beginning: their copies may come earlier still."""
    for slot in range(1, n_slots):
        before = span(computed(step, slot - 1, "forward") + computed(step, slot - 1, "backward"))
        copy = span(copied(step, slot))
        if copy is None or before is None or copy[0] >= before[1] or (slot >= 2 and not overlap(copy, before)):
            yield f"the copy of slot {slot}, {copy}, is not beside the computation of slot {slot - 1}, {before}"


def reductions(step):
    """[(the layer whose gradients complete it or None, bucket, span)] in the order of their beginning."""
    found = {}
    for o in step.operations:
        name = next((name for name in o.path if name.startswith("bucket ") and name.endswith("reduce")), None)
        if name is not None and o.name not in ("event wait", "event record"):
            layer = next((part for part in o.path if part.endswith(" backward") and not part.startswith("slot ")), None)
            if o.stream != next(c.stream for c in step.operations if c.name.startswith("lsi_commit")):
                found.setdefault((layer, name), []).append(o)
    return sorted(((layer, name, span(ops)) for (layer, name), ops in found.items()), key=lambda r: r[2][0])


def reductions_are_hidden(step, n_slots, n_buckets):
    """Those that the lowest layer's gradients do not complete begin before the backward is over, or right when the one
    before them ends."""
    backward = span(computed(step, n_slots - 1, "backward"))
    lowest = max(computed(step, n_slots - 1, "backward"), key=lambda o: o.end).path[1]
    found = reductions(step)
    if len(found) != n_buckets:
        yield f"{len(found)} buckets are reduced, of {n_buckets}"
    n_beside, last = 0, 0.0
    for layer, name, when in found:
        if layer != lowest and when[0] >= backward[1] and when[0] > last:
            yield f"{name}, {when}, is not beside the backward, {backward}"
        n_beside += overlap(when, backward)
        last = when[1]
    if n_beside == 0:
        yield f"no reduction is beside the backward, {backward}"


def violations(record, np, n_slots, n_buckets, behind):
    written = work(record.step(2))
    for number in STEADY:
        step = record.step(number)
        found = [*other_calls(step), *host_waits(record, step, behind), *launches(step)]
        found += [*exchange_counts(step, np, n_buckets), *copies_are_hidden(step, n_slots)]
        if np > 1:
            found += reductions_are_hidden(step, n_slots, n_buckets)
        if work(step) != written:
            found.append(f"it runs something else than step 2: {work(step) - written} {written - work(step)}")
        yield from (f"step {number}: {text}" for text in found)


# ---- runs ----------------------------------------------------------------------------------------------------------

class Runs:
    def __init__(self, case):
        self.case, self.n = case, 0

    def config(self, np, n_slots, graphs, **more):
        """Several buckets, each with work for every rank."""
        return {"model.kind": "mlp", "model.hidden": "512,256", "data.kind": "synthetic", "data.samples": 512,
                "data.features": 64, "train.global_batch": 2 * n_slots * np, "train.micro_batch": 2, "train.lanes": np,
                "train.steps": N_STEPS, "comm.bucket_bytes": "256k", "comm.transport": "nccl" if np > 1 else "self",
                "comm.overlap": "true", "comm.zero": "auto", "comm.timeout": "20s", "device.backend": "cuda",
                "device.graphs": graphs, "device.threads": 1, "checkpoint.save": "false", "log.level": "info", **more}

    def record(self, np, program, arguments, may_fail=False):
        """The record of rank 0 and the process; None where it failed."""
        self.n += 1
        path = self.case.path(f"record-{self.n}.%r")
        env = {"CUSIM_RECORD": path, "CUSIM_SEED": "0", "CUSIM_QUIET": "1",
               "CUSIM_MACHINE": os.path.join(HERE, "..", "cusim", "machines", "four.txt"),
               "NVTX_INJECTION64_PATH": os.path.join(self.case.build, "tests", "bin", "nvtx_listener.so")}
        result = self.case.run(arguments, np=np, program=program, env=env)
        what = f"np {np}, {' '.join(arguments)}"
        if not self.case.check(result.returncode == 0 or may_fail, f"{what}: {result.returncode}\n{result.stderr}"):
            return None, result
        return step_record.Record(path.replace("%r", "0")), result

    def train(self, np, config):
        folder = self.case.path(f"run-{self.n}")
        os.makedirs(folder)
        path = os.path.join(folder, "run.ini")
        trainer.write_config(path, dict(config, **{"log.dir": folder}))
        return self.record(np, "trainer", [path])

    def probe(self, np, config, *arguments):
        settings = [f"{key}={value}" for key, value in config.items()]
        return self.record(np, "tests/bin/train_probe", [*arguments, *settings], may_fail="--plant" in arguments)


def check_good_steps(case, runs):
    """The trainer waits for a step's commit before it does anything else; the probe queues as the contract allows."""
    n_buckets = None
    for np in case.worlds(1, 2, 4):
        for n_slots in (1, 2, 5):
            for graphs in ("off", "on"):
                config = runs.config(np, n_slots, graphs)
                record, result = runs.train(np, config)
                if record is None:
                    continue
                n_buckets = int(re.search(r"(\d+) buckets", result.stdout)[1])
                found = list(violations(record, np, n_slots, n_buckets, behind=0))
                what = f"np {np}, {n_slots} slots, graphs {graphs}"
                case.check(found == [], f"{what}: " + "\n".join(found[:10]))
                case.check([s.number for s in record.steps if s.replayed] == (list(range(3, N_STEPS + 1))
                           if graphs == "on" else []), f"{what}: other steps are replayed")
    for graphs in ("off", "on"):
        record, _ = runs.probe(max(case.worlds(1, 2)), runs.config(max(case.worlds(1, 2)), 2, graphs))
        found = list(violations(record, max(case.worlds(1, 2)), 2, n_buckets, behind=1)) if record else []
        case.check(found == [], f"probe, graphs {graphs}: " + "\n".join(found[:10]))
    return n_buckets


# (planted, graphs, what the list of violations holds)
PLANTS = [
    ("sync-stream", "off", "the host waits 2 times"), ("sync-stream", "on", "cudaStreamSynchronize"),
    ("sync-event", "off", "the host waits 2 times"), ("sync-event", "on", "the host waits 2 times"),
    ("device-memory", "off", "cudaMalloc"), ("device-memory", "on", "cudaFree"),
    ("pinned-memory", "off", "cudaHostAlloc"), ("make-event", "on", "cudaEventCreateWithFlags"),
    ("new-product", "off", "cublasLtMatmulAlgoGetHeuristic"),
    ("reduce-again", "off", "2 exchanges of the step"), ("reduce-again", "on", "ncclGroupStart"),
    ("reduce-each-slot", "off", "3 exchanges of the step"), ("gather-again", "off", "2 exchanges of the step"),
    ("exchange-again", "off", "2 exchanges of the step"), ("exchange-again", "on", "ncclAllGather"),
    ("fill", "off", "it runs something else"), ("fill", "on", "cudaMemsetAsync"),
    ("replay-again", "on", "2 launches of a graph"),
    ("copy-after-compute", "off", "is not beside the computation of slot 0"),
]


def check_planted(case, runs, n_buckets):
    if not case.has_mpi:
        return
    for plant, graphs, words in PLANTS:
        record, _ = runs.probe(2, runs.config(2, 2, graphs), "--plant", plant, str(PLANTED))
        found = list(violations(record, 2, 2, n_buckets, behind=1)) if record else []
        case.check(any(text.startswith(f"step {PLANTED}: ") and words in text for text in found),
                   f"{plant}, graphs {graphs}: not seen in {found[:10]}")
    for graphs in ("off", "on"):
        record, _ = runs.train(2, runs.config(2, 2, graphs, **{"comm.overlap": "false"}))
        found = list(violations(record, 2, 2, n_buckets, behind=0)) if record else []
        case.check(any("no reduction is beside the backward" in text for text in found),
                   f"without overlap, graphs {graphs}: not seen in {found[:10]}")
        # The trainer waits for the step itself: for whoever expects the one before it waits for the wrong event.
        record, _ = runs.train(2, runs.config(2, 1, graphs))
        found = list(violations(record, 2, 1, n_buckets, behind=1)) if record else []
        case.check(any("another event than a commit" in text for text in found),
                   f"a wrong event, graphs {graphs}: not seen in {found[:10]}")


def main():
    case = trainer.Case()
    case.needs_simulated_gpus()
    if not os.path.exists(os.path.join(case.build, "tests", "bin", "nvtx_listener.so")):
        print("skipped: this build has no NVTX, whose ranges say what belongs to which step")
        return
    runs = Runs(case)
    n_buckets = check_good_steps(case, runs)
    check_planted(case, runs, n_buckets)
    case.finish()


if __name__ == "__main__":
    main()
