# RUN: timeout=300 label=slow
"""Several hosts: two sets of namespaces and mpirun over an agent. The same bits as on one host; the cause of a failure,
requests to stop, logs and starts again reach across; nothing stays behind on either host."""
import os
import re
import signal
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "launch"))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import launch_case
import hosts as two_hosts
from launch_case import wait_until
import trainer


WHOLE = re.compile(r"step-\d{8}$")


class HostsCase(launch_case.LaunchCase):
    """launch and mpirun run on the first host."""

    def open(self):
        folder = self.path("hosts-folder")
        os.mkdir(folder)
        self.hosts = two_hosts.Hosts(folder)
        self.environment.update({"OMPI_MCA_btl": "self,vader,tcp", "OMPI_MCA_btl_tcp_if_include": "cable",
                                 "OMPI_MCA_oob_tcp_if_include": "cable", "OMPI_MCA_plm_rsh_agent": self.hosts.agent})
        for name in [name for name in self.environment if name.startswith("SLURM")]:
            del self.environment[name]

    def start_there(self, command):
        output = open(self.path("there"), "w+", encoding="utf-8", errors="replace")
        process = subprocess.Popen(self.hosts.enter(0) + command, stdout=output, stderr=output, cwd=self.folder,
                                   env=self.environment)
        process.output = output
        return process

    def run_there(self, command):
        process = self.start_there(command)
        code = process.wait(120 * self.slow)
        return code, trainer.output_of(process)

    def ranks_on(self, i):
        return [pid for pid in self.hosts.processes(i) if launch_case.name_of(pid) == "trainer"]

    def empty(self):
        return wait_until(lambda: not any(self.hosts.processes(i) for i in range(2)), 15 * self.slow)


def same_bits(case, config, expected):
    """mpirun by hand, launch with --host, launch with --hostfile."""
    with open(case.path("hostfile"), "w", encoding="utf-8") as file:
        file.write("nodea slots=1\nnodeb slots=2\n")
    starts = [
        ["mpirun", "-n", "4", "--bind-to", "none", "--host", "nodea:2,nodeb:2", case.trainer],
        [case.launch, "--host", "nodea:2,nodeb:2", case.trainer],
        [case.launch, "--hostfile", case.path("hostfile"), case.trainer],
    ]
    for start in starts:
        path, log = case.config(config)
        code, text = case.run_there(start + [path])
        case.check(code == 0, f"{start}: exit {code}\n{text[-2000:]}")
        events = trainer.read_events(os.path.join(log, "metrics.jsonl")) if code == 0 else []
        case.check(trainer.results(events) == expected, f"{start}: other bits")
        if start[0] == case.launch and case.check(case.empty(), f"{start}: processes stay"):
            case.check("[0] " in text, text[-500:])


def lost_rank(case, config, expected):
    """A rank on the second host is killed: launch, on the first, names it and starts again from the last checkpoint."""
    path, log = case.config(config)
    process = case.start_there([case.launch, "--host", "nodea:2,nodeb:2", "--max-restarts", "2", "--restart-delay", "0",
                                case.trainer, path])
    folder = os.path.join(log, "checkpoints")
    wait_until(lambda: os.path.isdir(folder) and any(map(WHOLE.match, os.listdir(folder))),
               60 * case.slow)
    victims = case.ranks_on(1)
    if case.check(len(victims) == 2, f"{len(victims)} ranks on the second host"):
        os.kill(victims[1], signal.SIGKILL)
    code = process.wait(120 * case.slow)
    text = trainer.output_of(process)
    case.check(code == 0 and "on nodeb failed first (killed by signal 9" in text,
               f"exit {code}\n" + "\n".join(line for line in text.splitlines() if line.startswith("launch: ")))
    case.check("starts again from step" in text, text[-1500:])
    case.check(trainer.results(trainer.read_events(os.path.join(log, "metrics.jsonl"))) == expected, "other bits")


def stopped(case, config):
    path, log = case.config(dict(config, **{"train.steps": 10 ** 7}))
    process = case.start_there([case.launch, "--host", "nodea:1,nodeb:2", case.trainer, path])
    metrics = os.path.join(log, "metrics.jsonl")
    wait_until(lambda: os.path.exists(metrics) and os.path.getsize(metrics) > 3000, 60 * case.slow)
    process.send_signal(signal.SIGTERM)
    code = process.wait(60 * case.slow)
    text = trainer.output_of(process)
    case.check(code == 75 and trainer.read_events(metrics)[-1]["event"] == "stopped", f"exit {code}\n{text[-2000:]}")


def killed(case, config):
    """launch is killed: neither host keeps a process."""
    path, log = case.config(dict(config, **{"train.steps": 10 ** 7}))
    process = case.start_there([case.launch, "--host", "nodea:1,nodeb:2", case.trainer, path])
    metrics = os.path.join(log, "metrics.jsonl")
    wait_until(lambda: os.path.exists(metrics) and os.path.getsize(metrics) > 3000, 60 * case.slow)
    process.kill()
    process.wait()
    left = [launch_case.name_of(p) for i in range(2) for p in case.hosts.processes(i)] if not case.empty() else []
    case.check(not left, f"launch is killed, alive: {left}")


def no_host(case, config):
    """A host that cannot be reached: mpirun's own words are shown."""
    path, _ = case.config(config)
    code, text = case.run_there([case.launch, "--host", "nodea:1,nowhere:1", case.trainer, path])
    case.check(code == 6 and "mpirun has started no rank" in text and "nowhere" in text, f"exit {code}\n{text[-1500:]}")


def lost_host(case, config, expected):
    """The second host is gone for good: launch starts again without it, from the last checkpoint. Comes last."""
    path, log = case.config(config)
    process = case.start_there([case.launch, "--host", "nodea:2,nodeb:2", "--max-restarts", "1", "--restart-delay", "0",
                                case.trainer, path])
    folder = os.path.join(log, "checkpoints")
    wait_until(lambda: os.path.isdir(folder) and any(map(WHOLE.match, os.listdir(folder))), 60 * case.slow)
    case.hosts.lose(1)
    code = process.wait(180 * case.slow)
    text = trainer.output_of(process)
    said = "\n".join(line for line in text.splitlines() if line.startswith("launch: "))
    case.check(code == 0 and "host nodeb does not answer: the start again goes without it" in said and
               "launch: 2 ranks" in said, f"exit {code}\n{said}\n{text[-1500:]}")
    case.check(trainer.results(trainer.read_events(os.path.join(log, "metrics.jsonl"))) == expected, "other bits")


def main():
    case = HostsCase()
    reason = "the build has no MPI" if not case.has_mpi else two_hosts.why_not()
    if reason:
        print("skipped: " + reason)
        case.finish()
    config = trainer.mlp_config(case, **{"checkpoint.every": 100, "device.threads": 1, "train.steps": 1000,
                                         "device.backend": "cpu", "log.level": "info", "train.log_every": 100,
                                         "train.eval_every": 0})
    path, log = case.config(config)
    result = case.run([path], np=1)
    case.check(result.returncode == 0, result.stderr)
    expected = trainer.results(trainer.read_events(os.path.join(log, "metrics.jsonl")))
    case.open()
    try:
        same_bits(case, config, expected)
        lost_rank(case, config, expected)
        stopped(case, config)
        killed(case, config)
        no_host(case, config)
        lost_host(case, config, expected)
    finally:
        case.hosts.close()
    case.finish()


if __name__ == "__main__":
    main()
