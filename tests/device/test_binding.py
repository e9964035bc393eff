# RUN: gpus label=slow timeout=600
"""Jobs get GPUs of their own: leases, waiting, claims, and what is said when a GPU cannot be had. On described
machines, in every build: the probe binds as the trainer does and holds the GPUs without training."""
import os
import re
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from trainer import Case  # noqa: E402

PROBE = "tests/bin/gpu_probe"
CASE = Case()
CHECK = CASE.check


def machine(name, *lines):
    path = CASE.path(name + ".txt")
    with open(path, "w", encoding="utf-8") as file:
        file.write("driver 580.65.06\ncuda 13000\n" + "\n".join(lines) + "\n")
    return path


def gpu(n, **figures):
    figures = {"name": '"NVIDIA A100-SXM4-40GB"', "cc": "8.0", "mem": 40960, "bus": f"0000:{0x10 + n:02x}:00.0",
               "uuid": uuid(n), **figures}
    return "gpu " + " ".join(f"{key}={value}" for key, value in figures.items())


def uuid(n):
    return f"GPU-a{n:07x}-0000-0000-0000-{n:012x}"


TWO = machine("two", gpu(0), gpu(1))
FOUR = machine("four", *[gpu(n) for n in range(4)])


def environment(path, leases, **more):
    result = {k: v for k, v in CASE.environment.items() if not k.startswith(("CUDA_", "SLURM_", "CUSIM_"))}
    result.update({"CUSIM_MACHINE": path, "LOCKSTEP_DEVICE_LEASES": leases, "LOCKSTEP_DEVICE_SAMPLE": "0",
                   "LOCKSTEP_DEVICE_SHARING": "refuse"})
    result.update(more)
    return {k: v for k, v in result.items() if v is not None}


def command(np, hold, keys, start):
    return CASE.command([start, str(hold)] + [f"device.{k}={v}" for k, v in keys.items()], np, PROBE)


def start(path, folder, np=0, hold=0, begin="-", env=None, **keys):
    return subprocess.Popen(command(np, hold, keys, begin), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            env=environment(path, folder, **(env or {})), cwd=CASE.folder)


def run(path, folder, np=0, env=None, hold=0, **keys):
    return subprocess.run(command(np, hold, keys, "-"), capture_output=True, text=True, timeout=120 * CASE.slow,
                          env=environment(path, folder, **(env or {})), cwd=CASE.folder)


def given(output):
    return [m[1] for m in re.finditer(r"^bound \d+ (\S+) ", output, re.M)]


def wait_until_bound(process):
    """The first line that says which GPU a probe has."""
    for line in process.stdout:
        if line.startswith("bound "):
            return line.split()[2]
    return None


def new_leases(name):
    path = CASE.path("leases-" + name)
    shutil.rmtree(path, ignore_errors=True)
    return path


def end(process):
    process.send_signal(signal.SIGKILL)
    process.communicate()


# ---- two jobs --------------------------------------------------------------------------------------------------------

def pairs():
    """50 pairs of jobs that choose at the same moment never share a GPU."""
    for i in range(50):
        begin, over, leases = CASE.path(f"begin-{i}"), CASE.path(f"over-{i}"), new_leases("pairs")
        jobs = [start(TWO, leases, begin=begin, hold=over) for _ in range(2)]
        time.sleep(0.3)
        open(begin, "w", encoding="utf-8").close()
        uuids = [wait_until_bound(job) for job in jobs]
        open(over, "w", encoding="utf-8").close()       # each held its GPU until both had one
        errors = [job.communicate(timeout=120 * CASE.slow)[1] for job in jobs]
        CHECK(all(job.returncode == 0 for job in jobs) and set(uuids) == {uuid(0), uuid(1)},
              f"pair {i}: {[job.returncode for job in jobs]} {uuids} {errors}")


def killed():
    """The lease of a job that is killed is free at once; a job that waits for it gets it, one that does not is told."""
    leases = new_leases("killed")
    first = start(TWO, leases, hold=60)
    held = wait_until_bound(first)
    CHECK(held == uuid(0), f"the first GPU was expected, got {held}")
    second = run(TWO, leases)
    CHECK(given(second.stdout) == [uuid(1)], f"a leased GPU was taken: {second.stdout}")
    refused = run(TWO, leases, select=uuid(0))
    CHECK(refused.returncode == 5 and f"leased by process {first.pid} of " in refused.stderr and
          uuid(0) in refused.stderr and "device.wait" in refused.stderr, f"{refused.returncode} {refused.stderr}")
    waiting = start(TWO, leases, select=uuid(0), wait="60s")
    time.sleep(1)
    CHECK(waiting.poll() is None, "a job that waits has ended")
    end(first)
    begun = time.time()
    out, err = waiting.communicate(timeout=60 * CASE.slow)
    CHECK(waiting.returncode == 0 and given(out) == [uuid(0)], f"waiting: {waiting.returncode} {out} {err}")
    CHECK("waiting up to" in out, f"nothing is said while waiting: {out}")
    print(f"a lease was free {time.time() - begun:.2f} s after its holder was killed, with the look every 0.25 s")


def waiting_ends():
    leases = new_leases("ends")
    first = start(TWO, leases, hold=60)
    wait_until_bound(first)
    late = run(TWO, leases, select=uuid(0), wait="1s")
    CHECK(late.returncode == 5 and "leased by" in late.stderr, f"after the wait: {late.returncode} {late.stderr}")
    stopped = start(TWO, leases, select=uuid(0), wait="1h")
    time.sleep(2)
    stopped.send_signal(signal.SIGUSR1)
    _, err = stopped.communicate(timeout=60 * CASE.slow)
    CHECK(stopped.returncode == 75 and "SIGUSR1" in err, f"stopped while waiting: {stopped.returncode} {err}")
    end(first)


def reserved():
    """A waiting job's claim is respected by jobs of lower priority that come later, and dies with it."""
    leases = new_leases("reserved")
    a = start(TWO, leases, hold=60, select=uuid(0))
    b = start(TWO, leases, hold=60, select=uuid(1))
    for job in (a, b):
        wait_until_bound(job)
    high = start(TWO, leases, np=0, hold=60, priority="high", reserve=1, wait="10m")
    deadline = time.time() + 60 * CASE.slow
    while not [n for n in os.listdir(leases) if n.startswith("claim-")] and time.time() < deadline:
        time.sleep(0.05)
    high.send_signal(signal.SIGSTOP)        # it cannot take what becomes free; its claim stands
    end(a)
    low = run(TWO, leases, priority="low")
    CHECK(low.returncode == 5 and f"reserved for waiting process {high.pid}" in low.stderr and uuid(0) in low.stderr,
          f"low: {low.returncode} {low.stdout} {low.stderr}")
    equal = run(TWO, leases, priority="high")
    CHECK(equal.returncode == 0 and given(equal.stdout) == [uuid(0)], f"equal: {equal.returncode} {equal.stderr}")
    high.send_signal(signal.SIGCONT)
    CHECK(wait_until_bound(high) == uuid(0), "the job of high priority does not get what it waits for")
    CHECK(not [n for n in os.listdir(leases) if n.startswith("claim-")], "a claim outlives its success")
    end(high)
    waiting = start(TWO, leases, priority="high", reserve=2, wait="10m", select=f"{uuid(1)}")
    while not [n for n in os.listdir(leases) if n.startswith("claim-")] and time.time() < deadline:
        time.sleep(0.05)
    end(waiting)
    end(b)
    low = run(TWO, leases, priority="low", select=uuid(1))
    CHECK(low.returncode == 0, f"a dead job's claim holds: {low.stderr}")
    CHECK(not [n for n in os.listdir(leases) if n.startswith("claim-")], "a dead job's claim is not removed")


def shared():
    """Jobs that allow it share a GPU, and keep out one that does not."""
    leases = new_leases("shared")
    one = machine("one", gpu(0))
    first = start(one, leases, hold=60, sharing="allow")
    wait_until_bound(first)
    CHECK(run(one, leases, sharing="allow").returncode == 0, "two jobs that share")
    refused = run(one, leases)
    CHECK(refused.returncode == 5 and "leased by" in refused.stderr, f"a job that does not share: {refused.stderr}")
    end(first)


# ---- what cannot be had ----------------------------------------------------------------------------------------------

def refusals():
    """(what, machine, processes, keys, environment, code, parts of the message)"""
    mixed = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cusim", "machines", "mixed.txt")
    busy = machine("busy", gpu(0, used=39000), gpu(1, used=39000), "proc gpu=0 pid=4242 mem=38000",
                   "proc gpu=1 pid=4243 mem=38000")
    exclusive = machine("exclusive", gpu(0, mode="exclusive"), "proc gpu=0 pid=4242")
    seized = machine("seized", gpu(0, mode="exclusive", seized=1), gpu(1, mode="exclusive"))
    prohibited = machine("prohibited", gpu(0, mode="prohibited"), gpu(1, mode="prohibited"))
    unlike = machine("unlike", gpu(0), gpu(1, name='"Tesla V100-SXM2-32GB"', cc="7.0"))
    unlinked = machine("unlinked", gpu(0), gpu(1), "link 0 1 phb")
    none = machine("none", "driver none")
    nvml = {"CUSIM_NVML_FAIL": "nvmlInit_v2=12"}
    return [
        ("4 ranks on 2 GPUs", TWO, 4, {}, {}, 5, ["4 processes need 4 GPUs", f"2 can be had ({uuid(0)}, {uuid(1)})",
                                                  "at most 2 processes",
                                                  "device.sharing = allow"]),
        ("two ranks on one GPU", TWO, 2, {"select": f"0,{uuid(0)}"}, {}, 2,
         [uuid(0), "twice", "device.sharing = allow"]),
        ("a short list", FOUR, 2, {"select": "3"}, {}, 5, ["2 processes need 2 GPUs", f"1 can be had ({uuid(3)})"]),
        ("a hidden UUID", TWO, 1, {"select": uuid(1)}, {"CUDA_VISIBLE_DEVICES": "0"}, 5,
         [uuid(1), "CUDA_VISIBLE_DEVICES = '0' hides", "unset"]),
        ("an unknown UUID", TWO, 1, {"select": "GPU-ffff"}, {}, 5, ["GPU-ffff", "gpus"]),
        ("an index too far", TWO, 1, {"select": "2"}, {}, 5, ["GPU 2 does not exist", "2 are visible"]),
        ("a word", TWO, 1, {"select": "best"}, {}, 2, ["'best'", "UUID"]),
        ("an ambiguous prefix", TWO, 1, {"select": "GPU-"}, {}, 2, ["fits several", "write more"]),
        ("all hidden", TWO, 1, {}, {"CUDA_VISIBLE_DEVICES": ""}, 5, ["CUDA_VISIBLE_DEVICES", "gpus --explain"]),
        ("all busy", busy, 1, {"idle": "true"}, {}, 5, [uuid(0), uuid(1), "4242", "4243", "device.wait"]),
        ("all full", busy, 1, {"min_free": "20G"}, {}, 5, [uuid(0), "device.min_free is 20.0 GiB", "device.wait"]),
        ("none capable", TWO, 1, {"min_capability": "9.0"}, {}, 5, [uuid(0), "compute capability 8.0", "is 9.0"]),
        ("none of the name", TWO, 1, {"name": "H100"}, {}, 5, [uuid(1), "device.name is 'H100'"]),
        ("all excluded", TWO, 1, {"exclude": f"0,{uuid(1)}"}, {}, 5, [uuid(0), "device.exclude"]),
        ("MIG with two ranks", mixed, 2, {}, {}, 5, ["one MIG instance", "CUDA_VISIBLE_DEVICES = MIG-UUID",
                                                     "MIG-eeeeeeee"]),
        ("exclusive and taken", exclusive, 1, {}, {}, 5, [uuid(0), "exclusive", "4242", "device.wait"]),
        ("exclusive and seized meanwhile", seized, 2, {}, {}, 5, [uuid(0), "exclusive compute mode", "unavailable, 46",
                                                                  "2 processes need 2 GPUs, 1 can be had",
                                                                  "device.wait"]),
        ("prohibited", prohibited, 1, {}, {}, 5, [uuid(0), uuid(1), "prohibited"]),
        ("unlike GPUs", unlike, 2, {}, {}, 5, ["of one model", "device.mixed = allow"]),
        ("no NVLink", unlinked, 2, {"links": "require"}, {}, 5, ["NVLink", "device.links = prefer"]),
        ("no driver", none, 1, {}, {}, 5, ["no GPU"]),
        ("no NVML, and a filter that needs it", TWO, 1, {"min_free": "20G"}, nvml, 5, [uuid(0), "not told"]),
        ("no folder for leases", TWO, 1, {"leases": "/proc/no/such"}, {}, 5, ["/proc/no/such", "device.leases"]),
    ]


def refused():
    for what, path, np, keys, env, code, parts in refusals():
        if np > 1 and not CASE.has_mpi:
            continue
        begun = time.time()
        result = run(path, new_leases("refused"), np if np > 1 else 0, env, **keys)
        lines = [line for line in result.stderr.splitlines() if "gpu_probe: error" in line]
        CHECK(result.returncode == code, f"{what}: ends with {result.returncode}, expected {code}: {result.stderr}")
        CHECK(len(lines) == 1, f"{what}: not one line: {result.stderr}")
        for part in parts:
            CHECK(lines and part in lines[0], f"{what}: no '{part}' in {lines}")
        host = os.uname().nodename
        if code == 5 and what != "no folder for leases":
            CHECK(lines and host in lines[0], f"{what}: the host is not named: {lines}")
        CHECK(time.time() - begun < 60 * CASE.slow, f"{what}: took {time.time() - begun:.0f} s")


# ---- what is taken ---------------------------------------------------------------------------------------------------

def taken():
    """(what, machine, processes, keys, environment, GPUs by rank)"""
    loaded = machine("loaded", gpu(0, used=20000, util=90), gpu(1, used=100), gpu(2, used=39000),
                     gpu(3, used=120, util=50))
    pairs_of_two = machine("linked", *[gpu(n) for n in range(4)], "link 0 3 nvlink", "link 1 2 nvlink")
    used_pair = machine("used", *[gpu(n) for n in range(4)], "link 0 1 nvlink", "link 2 3 nvlink",
                        "proc gpu=0 pid=4242")
    unlike = machine("kinds", gpu(0, name='"Tesla V100"', cc="7.0"), gpu(1), gpu(2))
    swapped = machine("swapped", gpu(0, bus="0000:80:00.0"), gpu(1, bus="0000:10:00.0"))
    errors = machine("errors", gpu(0, ecc=2), gpu(1), gpu(2, remap_failed=1))
    nvml = {"CUSIM_NVML_FAIL": "nvmlInit_v2=12"}
    seized = machine("seized-some", gpu(0, mode="exclusive", seized=1), gpu(1, mode="exclusive"),
                     gpu(2, mode="exclusive", seized=1), gpu(3, mode="exclusive"))
    unseen = machine("unseen", gpu(0, mode="exclusive"), gpu(1, mode="exclusive"), "proc gpu=0 pid=4242")
    return [
        ("the next ones when GPUs are seized meanwhile", seized, 2, {}, {}, [1, 3]),
        ("the next one of a list likewise", seized, 1, {"select": "2,3,1"}, {}, [3]),
        ("a process that cannot be seen", unseen, 1, {}, nvml, [1]),
        ("most free memory", loaded, 1, {}, {}, [1]),
        ("less load of equal memory", loaded, 2, {"links": "ignore"}, {}, [1, 3]),
        ("visible, in order", FOUR, 2, {"select": "visible"}, {"CUDA_VISIBLE_DEVICES": "3,1,2"}, [3, 1]),
        ("numbers count what is visible", FOUR, 1, {"select": "1"}, {"CUDA_VISIBLE_DEVICES": "3,1,2"}, [1]),
        ("a list, in order", FOUR, 2, {"select": f"2,{uuid(0)}"}, {}, [2, 0]),
        ("PCI addresses", FOUR, 2, {"select": "0000:13:00.0,00000000:11:00.0"}, {}, [3, 1]),
        ("a prefix", FOUR, 1, {"select": "gpu-A0000002"}, {}, [2]),
        ("exclude", FOUR, 2, {"exclude": "0,GPU-a0000001"}, {}, [2, 3]),
        ("excluded elsewhere", FOUR, 1, {"exclude": "GPU-ffffffff"}, {}, [0]),
        ("NVLink preferred", pairs_of_two, 2, {}, {}, [0, 3]),
        ("links ignored", pairs_of_two, 2, {"links": "ignore"}, {}, [0, 1]),
        ("idle before linked", used_pair, 2, {}, {}, [2, 3]),
        ("one model", unlike, 2, {}, {}, [1, 2]),
        ("a name", unlike, 1, {"name": "v100"}, {}, [0]),
        ("NVML's order is not CUDA's", swapped, 1, {"select": "0"}, {}, [1]),
        ("memory errors last", errors, 1, {}, {}, [1]),
        ("a spare in the list", errors, 1, {"select": "2,0"}, {}, [0]),
        ("processes share", TWO, 4, {"sharing": "allow"}, {}, [0, 1, 0, 1]),
        ("a list shared as written", TWO, 4, {"sharing": "allow", "select": "1,1,0,0"}, {}, [1, 1, 0, 0]),
        ("no NVML", TWO, 2, {}, nvml, [0, 1]),
        ("no leases", TWO, 2, {"leases": ""}, {}, [0, 1]),
    ]


def chosen():
    for what, path, np, keys, env, expected in taken():
        if np > 1 and not CASE.has_mpi:
            continue
        result = run(path, new_leases("chosen"), np if np > 1 else 0, env, **keys)
        ranks = sorted(re.findall(r"^bound (\d+) (\S+) ", result.stdout, re.M))
        CHECK(result.returncode == 0 and [u for _, u in ranks] == [uuid(n) for n in expected],
              f"{what}: {result.returncode} {ranks} {result.stderr}")


def apart():
    """Ranks that see different GPUs, as under Slurm's --gpus-per-task: one visible GPU each is number 0."""
    if not CASE.has_mpi:
        return
    probe = os.path.join(CASE.build, PROBE)
    ranks = []
    for n in (3, 1):
        ranks += ["-np", "1", "env", f"CUDA_VISIBLE_DEVICES={n}", probe, "-", "0", ":"]
    result = subprocess.run(["mpirun", "--bind-to", "none"] + ranks[:-1], capture_output=True, text=True,
                            env=environment(FOUR, new_leases("apart")), timeout=120 * CASE.slow, cwd=CASE.folder)
    got = sorted(re.findall(r"^bound (\d+) (\S+) (\d+)", result.stdout, re.M))
    CHECK(got == [("0", uuid(3), "0"), ("1", uuid(1), "0")], f"one GPU each: {got} {result.stderr}")
    same = [part.replace("=1", "=3") for part in ranks[:-1]]
    result = subprocess.run(["mpirun", "--bind-to", "none"] + same, capture_output=True, text=True,
                            env=environment(FOUR, new_leases("apart")), timeout=120 * CASE.slow, cwd=CASE.folder)
    CHECK(result.returncode == 5 and "2 processes need 2 GPUs, 1 can be had" in result.stderr,
          f"both see one: {result.stderr}")


def containers():
    """Two hosts to MPI that are one machine: leases in one folder keep them apart, else the UUIDs tell."""
    if not CASE.has_mpi or subprocess.run(["unshare", "-u", "true"], capture_output=True, check=False).returncode != 0:
        print("containers: not tested, no right to change the host name")
        return
    probe = os.path.join(CASE.build, PROBE)
    other = ["unshare", "-u", "sh", "-c", 'hostname lockstep-other && exec "$0" "$@"', probe]
    ranks = ["-np", "1", probe, "-", "0", ":", "-np", "1"] + other + ["-", "0"]
    for leases, code in ((new_leases("containers"), 0), ("", 5)):
        result = subprocess.run(["mpirun", "--bind-to", "none"] + ranks, capture_output=True, text=True,
                                env=environment(TWO, leases), timeout=120 * CASE.slow, cwd=CASE.folder)
        CHECK(result.returncode == code, f"leases '{leases}': {result.returncode} {result.stderr}")
        if code == 0:
            CHECK(sorted(given(result.stdout)) == [uuid(0), uuid(1)], f"{result.stdout}")
        else:
            for part in ("ranks 0", "lockstep-other", uuid(0), "device.sharing = allow"):
                CHECK(part in result.stderr, f"no '{part}' in {result.stderr}")


def equal_names():
    """Two machines with one host name: the boot id tells them apart, and each numbers its own GPUs. Should both turn
    out to have the same GPU, the ranks are named."""
    boot, leases, theirs = CASE.path("boot_id"), new_leases("names"), CASE.path("leases-theirs")
    with open(boot, "w", encoding="utf-8") as file:
        file.write("11111111-2222-3333-4444-555555555555\n")
    for folder in (leases, theirs):
        os.makedirs(folder)
    other = ["unshare", "-m", "sh", "-c", f"mount --bind {boot} /proc/sys/kernel/random/boot_id && "
             f'mount --bind {theirs} {leases} && exec "$0" "$@"']
    if not CASE.has_mpi or subprocess.run(other + ["true"], capture_output=True, check=False).returncode != 0:
        print("equal names: not tested, no right to mount")
        return
    probe = os.path.join(CASE.build, PROBE)
    for path, code in ((machine("far", gpu(8), gpu(9)), 0), (TWO, 5)):
        second = ["env", f"CUSIM_MACHINE={path}"] + other + [probe, "-", "0"]
        result = subprocess.run(["mpirun", "--bind-to", "none", "-np", "1", probe, "-", "0", ":", "-np", "1"] + second,
                                capture_output=True, text=True, cwd=CASE.folder, timeout=120 * CASE.slow,
                                env=environment(TWO, leases))
        CHECK(result.returncode == code, f"{path}: {result.returncode} {result.stdout} {result.stderr}")
        if code == 0:
            CHECK(sorted(given(result.stdout)) == [uuid(0), uuid(8)], f"{result.stdout}")
        else:
            for part in ("ranks 0", "and 1", uuid(0), os.uname().nodename, "device.sharing = allow"):
                CHECK(part in result.stderr, f"equal names: no '{part}' in {result.stderr}")


def small_shared_memory():
    """Docker's default of 64 MB is warned of, once per host."""
    small = ["unshare", "-m", "sh", "-c", 'mount -t tmpfs -o size=64m tmpfs /dev/shm && exec "$0" "$@"']
    if not CASE.has_mpi or subprocess.run(small + ["true"], capture_output=True, check=False).returncode != 0:
        print("small shared memory: not tested, no right to mount")
        return
    result = subprocess.run(small + command(2, 0, {}, "-"), capture_output=True, text=True, cwd=CASE.folder,
                            timeout=120 * CASE.slow, env=environment(TWO, new_leases("small")))
    said = result.stderr.count("/dev/shm has 64 MiB") == 1 and "--shm-size=1g" in result.stderr
    CHECK(result.returncode == 0 and said, f"{result.returncode} {result.stderr}")


def local_ranks():
    """Stale, missing and garbled variables change nothing but a warning."""
    for variables, warned in (({"SLURM_LOCALID": "7"}, "SLURM_LOCALID = 7"),
                              ({"LOCAL_RANK": "first"}, "LOCAL_RANK = 'first'"),
                              ({"MPI_LOCALRANKID": "0", "SLURM_LOCALID": "7"}, None), ({}, None)):
        result = run(TWO, new_leases("local"), 0, variables)
        CHECK(result.returncode == 0 and given(result.stdout) == [uuid(0)], f"{variables}: {result.stderr}")
        silent = "local rank" not in result.stderr and "SLURM" not in result.stderr
        CHECK(warned in result.stderr if warned else silent, f"{variables}: {result.stderr}")


def main():
    for case in (chosen, refused, apart, containers, equal_names, small_shared_memory, local_ranks, killed,
                 waiting_ends, reserved, shared, pairs):
        begun = time.time()
        case()
        print(f"{case.__name__}: {time.time() - begun:.1f} s", flush=True)
    CASE.finish()


if __name__ == "__main__":
    main()
