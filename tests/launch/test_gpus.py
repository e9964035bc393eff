# RUN: gpus timeout=300 label=cuda
"""How many ranks launch starts on described machines: one for each GPU that can be had; a start again takes those that
still can. Needs a build for GPUs, of simulated ones."""
import fcntl
import os
import re
import signal
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import launch_case
from launch_case import FAKE


def uuid(n):
    return f"GPU-a{n:07x}-0000-0000-0000-{n:012x}"


def gpu(n, **figures):
    figures = {"name": '"NVIDIA A100-SXM4-40GB"', "cc": "8.0", "mem": 40960, "bus": f"0000:{0x10 + n:02x}:00.0",
               "uuid": uuid(n), **figures}
    return "gpu " + " ".join(f"{key}={value}" for key, value in figures.items())


class GpuCase(launch_case.LaunchCase):
    def machine(self, name, *lines):
        path = self.path(name + ".txt")
        with open(path, "w", encoding="utf-8") as file:
            file.write("driver 580.65.06\ncuda 13000\n" + "\n".join(lines) + "\n")
        return path

    def on(self, machine, **more):
        """The environment of a job on this machine."""
        for name in [n for n in self.environment if n.startswith(("CUDA_", "SLURM_", "CUSIM_", "LOCKSTEP_DEVICE"))]:
            del self.environment[name]
        return {"CUSIM_MACHINE": machine, "LOCKSTEP_DEVICE_LEASES": self.path("leases"), "LOCKSTEP_DEVICE_SAMPLE": "0",
                "LOCKSTEP_DEVICE_SHARING": "refuse", **more}

    def lease(self, n):
        """Takes a GPU as another job does; closing the file gives it back."""
        os.makedirs(self.path("leases"), exist_ok=True)
        file = open(os.path.join(self.path("leases"), uuid(n) + ".lease"), "a", encoding="utf-8")
        fcntl.flock(file, fcntl.LOCK_EX)
        return file


def ranks(result):
    """Of --dry-run: how many; None when it refuses."""
    for line in result.stdout.splitlines():
        if line.startswith("# ranks: "):
            return int(line.split()[2].rstrip(","))
    return None


def counts(case, config, three):
    unlike = case.machine("unlike", gpu(0), gpu(1), gpu(2, name='"NVIDIA H100"', cc="9.0"))
    cores = min(len(os.sched_getaffinity(0)), 8)
    expected = [
        ("all", three, {}, [], 3),
        ("those that are visible", three, {"CUDA_VISIBLE_DEVICES": "0,2"}, [], 2),
        ("at most the lanes", three, {}, ["train.lanes=2"], 2),
        ("a filter", three, {}, ["device.exclude=" + uuid(1)], 2),
        ("a list", three, {}, ["device.select=" + uuid(2)], 1),
        ("alike ones", unlike, {}, [], 2),
        ("unlike ones", unlike, {}, ["device.mixed=allow"], 3),
        ("the cpu", three, {}, ["device.backend=cpu"], cores),
        ("none is visible", three, {"CUDA_VISIBLE_DEVICES": ""}, [], cores),
        ("none is good enough", three, {}, ["device.min_free=1000G"], None),
        ("none is visible, cuda is wanted", three, {"CUDA_VISIBLE_DEVICES": ""}, ["device.backend=cuda"], None),
    ]
    for what, machine, environment, sets, n in expected:
        words = [word for text in sets for word in ("--set", text)]
        result = case.run_launch(["--dry-run", case.trainer, config] + words, env=case.on(machine, **environment))
        case.check(ranks(result) == n and result.returncode == (5 if n is None else 0),
                   f"{what}: {ranks(result)} ranks, not {n}: exit {result.returncode} {result.stdout} {result.stderr}")
    with case.lease(0):
        result = case.run_launch(["--dry-run", case.trainer, config], env=case.on(three))
        case.check(ranks(result) == 2, f"one is leased: {result.stdout} {result.stderr}")


def waits(case, config):
    """device.wait: until another job ends; not without it."""
    one = case.machine("one", gpu(0))
    other = case.lease(0)
    result = case.run_launch(["--dry-run", case.trainer, config], env=case.on(one))
    case.check(result.returncode == 5, f"the only one is leased: {result.returncode} {result.stderr}")
    threading.Timer(2, other.close).start()
    begun = time.monotonic()
    result = case.run_launch(["--dry-run", case.trainer, config, "--set", "device.wait=60s"], env=case.on(one))
    case.check(ranks(result) == 1 and time.monotonic() - begun > 1.5, f"it has waited: {result.stdout} {result.stderr}")


def starts_again(case, config, three):
    """After a failure on three GPUs another job has one of them: two ranks go on."""
    count, taken = case.path("count"), []

    def take():
        if launch_case.wait_until(lambda: os.path.exists(count), 60 * case.slow):
            taken.append(case.lease(1))

    thread = threading.Thread(target=take)
    thread.start()
    result = case.run_launch(["--max-restarts", "1", "--restart-delay", "3s", FAKE, config],
                             env=case.on(three, FAKE_DO="count", FAKE_CODE="5", FAKE_COUNT=count))
    thread.join()
    for file in taken:
        file.close()
    starts = [line.split()[1] for line in result.stdout.splitlines() if line.startswith("launch: ")]
    case.check(starts == ["3", "2"], f"ranks of the starts: {starts} {result.stdout} {result.stderr}")


def leaves_failed(case, values):
    """A GPU that tells of a fatal Xid is left alone by the start that follows, by later jobs and in what `gpus` offers,
    until its note is removed; who names it gets it."""
    failing = case.machine("failing", gpu(0), gpu(1, xid=79), gpu(2))
    config, _ = case.config(dict(values, **{"train.steps": 400, "monitor.interval": "0.1s"}))
    note = os.path.join(case.path("leases"), uuid(1) + ".fault")
    environment = case.on(failing)
    process = case.start_launch(["--max-restarts", "1", "--restart-delay", "100ms", case.trainer, config], env=environment)
    case.check(launch_case.wait_until(lambda: os.path.exists(note), 60 * case.slow), "no note of a failed GPU")
    for pid in launch_case.ranks(process)[:1]:
        os.kill(pid, signal.SIGKILL)
    code = process.wait(180 * case.slow)
    said = launch_case.text_so_far(process)
    starts = [line.split()[1] for line in said.splitlines() if line.startswith("launch: ") and " rank" in line and
              line.split()[1].isdigit()]
    case.check(code == 0 and starts == ["3", "2"], f"exit {code}, starts {starts}: {said}")
    for part in ("Xid 79", "fell off the bus", uuid(1), os.uname().nodename, "rank 1"):
        case.check(part in said, f"no '{part}' in {said}")
    listed = subprocess.run([os.path.join(case.build, "gpus")], capture_output=True, text=True, check=False,
                            env={**case.environment, **environment})
    case.check("Xid 79" in listed.stdout and ".fault" in listed.stdout, listed.stdout + listed.stderr)
    result = case.run_launch(["--dry-run", case.trainer, config, "--set", "device.select=" + uuid(1)], env=environment)
    case.check(ranks(result) == 1, f"who names it gets it: {result.stdout} {result.stderr}")
    with open(note, encoding="utf-8") as file:
        kept = file.read()
    with open(note, "w", encoding="utf-8") as file:     # of another start of the host
        file.write("79 00000000-0000-0000-0000-000000000000\n")
    result = case.run_launch(["--dry-run", case.trainer, config], env=environment)
    case.check(ranks(result) == 3 and not os.path.exists(note), f"an old note, {kept}: {result.stdout} {result.stderr}")


def instances(case, values):
    """On a GPU in MIG mode every rank gets an instance of its own, those that are named and free; the bits are one rank's."""
    def mig(n):
        return f"MIG-d{n:07x}-0000-0000-0000-{n:012x}"

    parts = case.machine("parts", gpu(0, mig="on"), *[f"instance gpu=0 gi={n} ci=0 mem=9728 sms=14 uuid={mig(n)}"
                                                     for n in (1, 2, 3)])
    hashes = []
    for sets, environment, leased, expected in (
            ({}, {}, None, [1, 2, 3]),
            ({}, {"CUDA_VISIBLE_DEVICES": f"{mig(3)},{mig(1)}"}, None, [1, 3]),
            ({"device.exclude": mig(2)}, {}, None, [1, 3]),
            ({}, {}, 1, [2, 3]),
            ({"device.select": mig(2)}, {}, None, [2])):
        config, _ = case.config(dict(values, **sets))
        lease = None
        if leased:
            lease = open(os.path.join(case.path("leases"), mig(leased) + ".lease"), "a", encoding="utf-8")
            fcntl.flock(lease, fcntl.LOCK_EX)
        result = case.run_launch([case.trainer, config], env=case.on(parts, **environment))
        if lease:
            lease.close()
        given = sorted(re.findall(r"^\[0\] rank \d+ on \S+ cuda:0, .*, (MIG-\S+), PCI", result.stdout, re.M))
        if len(expected) == 1:
            given = sorted(re.findall(r"^rank \d+ on \S+ cuda:0, .*, (MIG-\S+), PCI", result.stdout, re.M))
        case.check(result.returncode == 0 and given == [mig(n) for n in expected],
                   f"{sets} {environment} {leased}: exit {result.returncode}, {given}: {result.stdout} {result.stderr}")
        hashes.append(launch_case.hash_of(result.stdout))
    case.check(hashes[0] is not None and len(set(hashes)) == 1, f"weights {hashes}")
    config, _ = case.config(values)
    result = case.run_launch(["-n", "4", case.trainer, config], env=case.on(parts))
    case.check(result.returncode == 5 and "4 processes need 4 GPUs" in result.stderr + result.stdout,
               f"too many: exit {result.returncode} {result.stdout} {result.stderr}")


def trains(case, config, three):
    hashes = []
    for arguments in ([], ["-n", "1"]):
        result = case.run_launch(arguments + [case.trainer, config, "--set", "checkpoint.resume=never"],
                                 env=case.on(three))
        case.check(result.returncode == 0, f"{arguments}: exit {result.returncode} {result.stderr}")
        hashes.append(launch_case.hash_of(result.stdout))
    case.check(hashes[0] is not None and hashes[0] == hashes[1], f"weights {hashes}")


def main():
    case = GpuCase()
    case.needs_simulated_gpus(mpi=True)
    three = case.machine("three", *[gpu(n) for n in range(3)])
    values = {"model.kind": "mlp", "model.hidden": "32", "data.kind": "synthetic", "data.samples": 256,
              "train.steps": 5, "train.global_batch": 16, "train.micro_batch": 2, "train.lanes": 8}
    config, _ = case.config(values)
    counts(case, config, three)
    waits(case, config)
    starts_again(case, config, three)
    trains(case, config, three)
    leaves_failed(case, values)
    instances(case, values)
    case.finish()


if __name__ == "__main__":
    main()
