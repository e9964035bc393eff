"""nccl_bugs.py VARIANT NCCL_BUGS: every planted bug of communication is caught, the same done right gives no report,
and the failures of a rank reach the others.

VARIANT is plain, address or thread."""
import os
import re
import subprocess
import sys

SEEDS = range(1, 11)
TSAN_SEEDS = range(0, 3)
QUICK_SEEDS = (0, 4)

# Seen in the data of some seeds; ThreadSanitizer sees them in every seed.
RACES = ("reduced_early", "received_early")
# Named in every seed, by a message with both sides.
NAMED = {
    "other_count": r"collective 1 differs: rank \d AllReduce\(count 1(200|199), float32, sum\), "
                   r"rank \d AllReduce\(count 1(200|199), float32, sum\)",
    "other_collective": r"collective 0 differs: rank \d (AllReduce|Broadcast)\(.*\), rank \d (AllReduce|Broadcast)\(",
    "no_group": r"deadlock: rank \d in Send\(count 1200, float32, to \d\) waits for rank \d; "
                r"rank \d in Send\(count 1200, float32, to \d\) waits for rank \d",
    "crossed_messages": r"message 0 from rank 0 to rank 1 differs: rank 0 Send\(count 100, float32, to 1\), "
                        r"rank 1 Recv\(count 200, float32, from 0\)",
    "collective_between": r"deadlock: rank \d in (AllReduce|Recv)\(.*\) waits for rank \d; "
                          r"rank \d in (AllReduce|Recv)\(.*\) waits for rank \d",
    "one_gpu": r"Duplicate GPU detected : rank \d and rank \d both on CUDA device 1000",
}
failures = []


def run(program, name, kind, ranks=2, **settings):
    environment = dict(os.environ)
    environment.update({key: str(value) for key, value in settings.items()})
    done = subprocess.run([program, name, kind, str(ranks)], capture_output=True, text=True, env=environment,
                          timeout=300)
    return done.returncode, done.stdout + done.stderr


def expect(what, holds, output):
    if not holds:
        failures.append(what)
        print(f"FAILED: {what}\n{output}")


def races(variant, program):
    seeds = TSAN_SEEDS if variant == "thread" else SEEDS
    for name in RACES:
        caught = 0
        for seed in seeds:
            ranks = 2 + seed % 2
            code, output = run(program, name, "good", ranks, CUSIM_SEED=seed)
            expect(f"{name} done right, seed {seed}", code == 0, output)
            code, output = run(program, name, "bad", ranks, CUSIM_SEED=seed)
            caught += code != 0
            if variant == "thread":
                expect(f"{name}, seed {seed}: data race", code == 66 and "data race" in output, output)
            else:
                expect(f"{name}, seed {seed}: only the data may be wrong", code in (0, 1), output)
        expect(f"{name}: caught in none of the seeds", caught > 0, "")
        print(f"{name}: caught in {caught} of {len(seeds)} seeds")


def named(program):
    for name, message in NAMED.items():
        for seed in QUICK_SEEDS:
            ranks = 2 if seed == 0 else 4
            code, output = run(program, name, "good", ranks, CUSIM_SEED=seed)
            expect(f"{name} done right, seed {seed}", code == 0, output)
            code, output = run(program, name, "bad", ranks, CUSIM_SEED=seed)
            expect(f"{name}, seed {seed}: message", code != 0 and re.search(message, output), output)
    code, output = run(program, "one_gpu", "bad", 1, NCCL_HOSTID="elsewhere")
    expect("a single rank has no duplicate", code == 0, output)


def of_others(program):
    code, output = run(program, "watched", "good", 3)
    expect("nothing happens", code == 0 and "rank" not in output, output)
    code, output = run(program, "watched", "good", 2, CUSIM_NCCL_HANG="1:3")
    expect("a hang is left by abort", code == 0 and "rank 0: step 3: no progress" in output and
           "rank 1 hangs in operation 3" in output, output)
    code, output = run(program, "watched", "good", 2, CUSIM_NCCL_KILL="1:3")
    expect("a dead peer is a hang", code == 0 and "rank 0: step 3: no progress" in output, output)
    code, output = run(program, "watched", "good", 2, CUSIM_NCCL_KILL="1:3", CUSIM_NCCL_DETECT=1)
    expect("a dead peer is found out", code == 0 and re.search("rank 0: step [23]: remote process exited", output) and
           "rank 0: rank 1 is lost" in output, output)
    code, output = run(program, "watched", "good", 2, CUSIM_FAIL="ncclAllReduce@3=3")
    expect("an injected error is returned", code == 2 and "internal error" in output, output)
    code, output = run(program, "watched", "good", 2, CUSIM_FAIL="ncclCommGetAsyncError@2=6")
    expect("an injected asynchronous error is told", code == 0 and "remote process exited" in output, output)
    code, output = run(program, "absent", "good", 2)
    expect("a rank that never joins", code == 0 and "rank 0: NCCL operation in progress" in output, output)
    code, output = run(program, "absent", "good", 2, CUSIM_NCCL_DETECT=1)
    expect("joining can be given up whatever is known of the other", code == 0 and "rank 0: " in output, output)


def shared_memory():
    return set(os.listdir("/dev/shm")) if os.path.isdir("/dev/shm") else set()


def main():
    variant, program = sys.argv[1:]
    before = shared_memory()
    races(variant, program)
    named(program)
    of_others(program)
    left = [name for name in shared_memory() - before if "cusim" in name]
    expect("nothing is left in shared memory", not left, str(left))
    print(f"{len(failures)} expectations failed")
    sys.exit(len(failures) > 0)


main()
