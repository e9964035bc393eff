# RUN: gpus timeout=300 label=cuda,slow
"""Several hosts with GPUs: launch asks each how many a job can have there, and starts that many ranks. Two sets of
namespaces, each with a described machine of its own."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "launch"))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import hosts as two_hosts
import launch_case
import test_hosts
import trainer


def machine(case, name, first, n, **figures):
    path = case.path(name)
    more = " ".join(f"{key}={value}" for key, value in figures.items())
    with open(path, "w", encoding="utf-8") as file:
        file.write("driver 580.65.06\ncuda 13000\n")
        for i in range(first, first + n):
            file.write(f'gpu name="NVIDIA A100-SXM4-40GB" cc=8.0 mem=4096 bus=0000:{0x10 + i:02x}:00.0 '
                       f"uuid=GPU-a{i:07x}-0000-0000-0000-{i:012x} {more}\n")
        if n == 0:
            file.write(f'gpu name="NVIDIA H100" cc=9.0 mem=8192 mig=on bus=0000:80:00.0 '
                       f"uuid=GPU-c0000000-0000-0000-0000-000000000000\n")
            for i in range(1, 3):
                file.write(f"instance gpu=0 gi={i} ci=0 mem=4096 sms=16 uuid=MIG-d{i:07x}-0000-0000-0000-{i:012x}\n")
    return path


def counted(text):
    """Of --dry-run: (ranks, what mpirun's --host says)."""
    ranks = [line.split()[2].rstrip(",") for line in text.splitlines() if line.startswith("# ranks: ")]
    words = [line for line in text.splitlines() if line.startswith("mpirun ")]
    words = words[-1].split() if words else []
    return int(ranks[0]) if ranks else None, words[words.index("--host") + 1] if "--host" in words else None


def main():
    case = test_hosts.HostsCase()
    case.needs_simulated_gpus(mpi=True)
    reason = two_hosts.why_not()
    if reason:
        case.skip(reason)
    config = trainer.mlp_config(case, **{"device.threads": 1, "train.steps": 40, "train.eval_every": 0,
                                         "device.backend": "cuda", "log.level": "info"})
    here, there = machine(case, "here.txt", 0, 2), machine(case, "there.txt", 8, 1)
    for name in [n for n in case.environment if n.startswith(("CUDA_", "CUSIM_", "LOCKSTEP_DEVICE"))]:
        del case.environment[name]
    case.environment.update({"CUSIM_MACHINE": here, "LOCKSTEP_DEVICE_LEASES": case.path("leases"),
                             "LOCKSTEP_DEVICE_SAMPLE": "0"})
    path, log = case.config(config)
    alone = case.run([path])
    case.check(alone.returncode == 0, alone.stderr)
    expected = trainer.results(trainer.read_events(os.path.join(log, "metrics.jsonl")))
    case.open()
    os.makedirs(case.path("leases"), exist_ok=True)
    os.makedirs(case.path("leases-there"))
    case.hosts.inside(1, "mount", "--bind", there, here)       # each host finds its own under the same name
    case.hosts.inside(1, "mount", "--bind", case.path("leases-there"), case.path("leases"))
    launch = [case.launch, "-x", "CUSIM_MACHINE"]
    with open(case.path("hostfile"), "w", encoding="utf-8") as file:
        file.write("# two\nnodea slots=1\nnodeb\n")
    try:
        for arguments, n, hosts in ((["--host", "nodea,nodeb"], 3, "nodea:2,nodeb:1"),
                                    (["--host", "nodea:1,nodeb:4"], 2, "nodea:1,nodeb:1"),
                                    (["--hostfile", case.path("hostfile")], 2, "nodea:1,nodeb:1"),
                                    (["--host", "nodea:2,nodeb:2", "-n", "4"], 4, "nodea:2,nodeb:2")):
            path, _ = case.config(config)
            code, text = case.run_there(launch + ["--dry-run"] + arguments + [case.trainer, path])
            case.check(code == 0 and counted(text) == (n, hosts), f"{arguments}: exit {code} {counted(text)}\n{text}")
        path, _ = case.config(dict(config, **{"device.exclude": "GPU-a0000008"}))
        code, text = case.run_there(launch + ["--dry-run", "--host", "nodea,nodeb", case.trainer, path])
        case.check(code == 0 and counted(text) == (2, "nodea:2") and "no rank on nodeb" in text and
                   "in device.exclude" in text, f"a host whose GPUs are excluded: exit {code}\n{text}")
        path, _ = case.config(config)
        code, text = case.run_there(launch + ["--host", "nodea,nowhere", case.trainer, path])
        case.check(code == 6 and "host nowhere does not answer" in text, f"no such host: exit {code}\n{text}")
        path, log = case.config(config)
        code, text = case.run_there(launch + ["--host", "nodea,nodeb", case.trainer, path])
        case.check(code == 0 and "launch: 3 ranks, one for each GPU that can be had of 2 hosts" in text,
                   f"training: exit {code}\n{text[-2000:]}")
        case.check(trainer.results(trainer.read_events(os.path.join(log, "metrics.jsonl"))) == expected, "other bits")
        instances = machine(case, "instances.txt", 0, 0)
        case.hosts.inside(1, "mount", "--bind", instances, here)
        path, log = case.config(dict(config, **{"device.mixed": "allow"}))
        code, text = case.run_there(launch + ["--host", "nodea:1,nodeb", case.trainer, path])
        case.check(code == 0 and "launch: 3 ranks" in text and "MIG-d0000001" in text and "MIG-d0000002" in text,
                   f"instances on the other host: exit {code}\n{text[-2500:]}")
    finally:
        case.hosts.close()
    case.finish()


if __name__ == "__main__":
    main()
