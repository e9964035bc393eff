# RUN: timeout=600 label=slow
"""comm.transport = shm in the trainer: chosen by auto on one node, the same numbers as without it, there and between nodes
(pretended by host names); MPI with one line where the system denies shared memory; nothing left of a job whose processes
are killed at any moment."""
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import trainer

ON_NODES = 'hostname node$((OMPI_COMM_WORLD_RANK / 2)) && exec "$0" "$@"'     # two ranks on each


def transport_of(events):
    return events[0]["transport"] if events else None


def same_numbers(case):
    """Precision, ZeRO stage, unequal shares of lanes; and MPI beside it."""
    for make, settings in ((trainer.mlp_config, {}), (trainer.gpt_config, {"precision.compute": "bf16"}),
                           (trainer.mlp_config, {"comm.zero": "0", "comm.bucket_bytes": "64k"}),
                           (trainer.gpt_config, {"device.graphs": "on", "comm.overlap": "true"})):
        config = make(case, **settings)
        expected = trainer.results(case.train(config, np=1))
        for np, transport in ((2, "auto"), (3, "auto"), (4, "shm"), (3, "mpi")):
            events = case.train(dict(config, **{"comm.transport": transport}), np=np)
            name = "shm" if transport == "auto" else transport
            case.check(transport_of(events) == name, f"np {np}, {transport}: over {transport_of(events)}")
            case.check(trainer.results(events) == expected, f"{config['model.kind']} {settings}, np {np}, {transport}: "
                       "other numbers")


def several_nodes(case):
    try:
        possible = subprocess.run(["unshare", "--uts", "true"], capture_output=True).returncode == 0
    except OSError:
        possible = False
    if not possible:
        print("several nodes left out: this process may not give another one a host name of its own (unshare --uts)")
        return
    config = trainer.gpt_config(case, **{"comm.bucket_bytes": "64k"})
    expected = trainer.results(case.train(config, np=1))
    for np, settings in ((3, {}), (4, {}), (5, {"device.graphs": "on"}), (4, {"comm.zero": "0"})):
        log = tempfile.mkdtemp(dir=case.folder)
        path = os.path.join(log, "run.ini")
        trainer.write_config(path, dict(config, **{"comm.transport": "shm", "log.dir": log}, **settings))
        command = case.command([path], np)
        ranks = command.index(os.path.join(case.build, "trainer"))
        command[ranks:ranks] = ["unshare", "--uts", "sh", "-c", ON_NODES]
        result = subprocess.run(command, capture_output=True, text=True, env=case.environment, timeout=300 * case.slow)
        if case.check(result.returncode == 0, f"{np} ranks on nodes of two: exit {result.returncode}\n{result.stderr}"):
            events = trainer.read_events(os.path.join(log, "metrics.jsonl"))
            case.check(transport_of(events) == "shm", f"nodes: over {transport_of(events)}")
            case.check(trainer.results(events) == expected, f"{np} ranks on nodes of two, {settings}: other numbers")


def denied(case):
    """One line names the rank and what it was denied; asked for by name, shared memory ends with that line."""
    if case.sanitizer:
        print("denials left out: a sanitizer has the place of the library that denies")
        return
    library = os.path.join(case.build, "tests", "bin", "denied.so")
    config = trainer.mlp_config(case)
    for what, rank, reason in (("memfd_create", 1, "memfd_create: Operation not permitted"),
                               ("bind", 0, "cannot bind a UNIX socket: Permission denied"),
                               ("mmap", 2, r"cannot map \d+ bytes of shared memory: Cannot allocate memory")):
        for transport in ("auto", "shm"):
            log = tempfile.mkdtemp(dir=case.folder)
            path = os.path.join(log, "run.ini")
            trainer.write_config(path, dict(config, **{"comm.transport": transport, "log.dir": log}))
            result = case.run([path], 3, env={"LD_PRELOAD": library, "DENIED": what, "DENIED_RANK": str(rank)})
            lines = re.findall(r"^trainer: .*$", result.stderr, re.M)
            name = f"{what} denied to rank {rank}, {transport}"
            case.check(len(lines) == 1 and re.search(f"cannot share memory: rank {rank}: {reason}", lines[0]),
                       f"{name}: {result.stderr}")
            if transport == "shm":
                case.check(result.returncode == 6, f"{name}: exit {result.returncode}")
            elif case.check(result.returncode == 0, f"{name}: exit {result.returncode}"):
                events = trainer.read_events(os.path.join(log, "metrics.jsonl"))
                case.check(transport_of(events) == "mpi", f"{name}: over {transport_of(events)}")


def names_left(pids):
    """Files of shared memory that are ours or these processes', but for what other tests keep there. (Their sockets have
    no name that outlives them.)"""
    return {name for name in os.listdir("/dev/shm") if "vader" not in name and not name.startswith("lockstep-test-")
            and ("lockstep" in name or any(str(pid) in re.findall(r"\d+", name) for pid in pids))}


def mappers(pids):
    """Those of these processes that still map memory of ours."""
    found = []
    for pid in pids:
        try:
            if "memfd:lockstep" in open(f"/proc/{pid}/maps").read():
                found.append(pid)
        except OSError:
            pass
    return found


def killed(case):
    config = trainer.mlp_config(case, **{"train.steps": 1000000, "train.eval_every": 0, "device.threads": 1,
                                         "checkpoint.save": "false", "comm.timeout": "5s"})
    rng = random.Random(int(os.environ.get("LOCKSTEP_KILL_SEED", "7")))
    n_mapped = 0
    for i in range(12 if not case.sanitizer else 4):
        log = tempfile.mkdtemp(dir=case.folder)
        path = os.path.join(log, "run.ini")
        trainer.write_config(path, dict(config, **{"log.dir": log}))
        process = case.start([path], 3)
        time.sleep(rng.random() * 1.5 * case.slow)      # start-up or steps
        ranks = trainer.children(process.pid)
        n_mapped += len(mappers(ranks)) == 3
        victim = process.pid if i % 4 == 3 or not ranks else rng.choice(ranks)
        os.kill(victim, signal.SIGKILL)
        try:
            process.wait(timeout=30 * case.slow)
        except subprocess.TimeoutExpired:
            process.kill()
            case.check(False, "mpirun outlives a rank by 30 s")
        deadline = time.time() + 30 * case.slow
        while any(trainer.is_alive(pid) for pid in ranks) and time.time() < deadline:
            time.sleep(0.01)
        case.check(not [pid for pid in ranks if trainer.is_alive(pid)], f"kill {i}: ranks outlive the job by 30 s")
        case.check(not mappers(ranks), f"kill {i}: memory is still mapped")
        case.check(not names_left(ranks), f"kill {i}: left {names_left(ranks)}")
        trainer.output_of(process)
    case.check(n_mapped > 0, "no kill came while memory was shared")


def main():
    case = trainer.Case()
    if not case.has_mpi:
        print("skipped: needs several processes, this build has no MPI")
        return
    same_numbers(case)
    several_nodes(case)
    denied(case)
    killed(case)
    case.finish()


if __name__ == "__main__":
    main()
