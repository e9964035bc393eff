"""For tests: a real Slurm of our own on this host, all of it in one folder, with two nodes that are slurmd processes."""
import os
import re
import shutil
import socket
import subprocess
import time

PROGRAMS = ["slurmctld", "slurmd", "sbatch", "scontrol", "scancel", "setpriv"]
WITH_US = ["setpriv", "--pdeathsig", "KILL"]     # ends with the test, also when that is killed

# A requeued job waits until its credentials have expired: cred_expire makes that seconds instead of two minutes.
CONFIG = """
ClusterName=lockstep-test
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/none
CredType=cred/none
AuthInfo=cred_expire=5
SlurmctldPort={port}
SlurmdPort={port}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/ctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/ctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
ReturnToService=2
JobRequeue=1
KillWait=5
MinJobAge=600
NodeName=n[1-2] NodeHostName={host} NodeAddr=127.0.0.1 Port={ports} CPUs=8 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def why_not():
    """Why there can be no cluster here; empty when there can."""
    absent = [name for name in PROGRAMS if shutil.which(name) is None]
    if absent:
        return f"no Slurm here ({', '.join(absent)}); Debian's package is slurm-wlm"
    return "" if os.geteuid() == 0 else "a Slurm of our own needs root"


def free_port(n):
    """The first of n ports in a row that nobody uses now."""
    for base in range(21000 + os.getpid() % 1000 * 10, 60000, n):
        try:
            for port in range(base, base + n):
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", port))
            return base
        except OSError:
            continue
    raise RuntimeError("no free ports")


class Cluster:
    """Started by start(), which says why when it cannot; close() ends its processes."""

    def __init__(self, folder):
        self.folder = folder
        self.daemons = []
        os.makedirs(os.path.join(folder, "state"))
        port = free_port(3)
        self.environment = {key: value for key, value in os.environ.items() if not key.startswith("SLURM")}
        self.environment["SLURM_CONF"] = os.path.join(folder, "slurm.conf")
        with open(self.environment["SLURM_CONF"], "w", encoding="utf-8") as file:
            file.write(CONFIG.format(host=socket.gethostname().split(".")[0], folder=folder, port=port,
                                     ports=f"[{port + 1}-{port + 2}]"))

    def start(self):
        for command in (["slurmctld", "-D", "-i"], ["slurmd", "-D", "-N", "n1"], ["slurmd", "-D", "-N", "n2"]):
            self.daemons.append(subprocess.Popen(WITH_US + command, env=self.environment, stdout=subprocess.DEVNULL,
                                                 stderr=subprocess.DEVNULL, start_new_session=True))
        end = time.monotonic() + 30
        while time.monotonic() < end:
            nodes = self.call("scontrol", "show", "nodes").stdout
            if re.findall(r"State=(\S+)", nodes) == ["IDLE", "IDLE"]:
                return ""
            time.sleep(0.2)
        with open(os.path.join(self.folder, "ctld.log"), encoding="utf-8") as file:
            return "slurmctld and slurmd do not come up: " + " / ".join(file.read().splitlines()[-3:])

    def call(self, *command, check=False, env=None, cwd=None):
        return subprocess.run(command, capture_output=True, text=True, check=check, cwd=cwd,
                              env={**self.environment, **(env or {})})

    def submit(self, *arguments, env=None, cwd=None):
        """sbatch; the number of the job."""
        return self.call("sbatch", "--parsable", *arguments, check=True, env=env, cwd=cwd).stdout.strip()

    def job(self, number):
        """What Slurm knows of a job: {name: value}."""
        text = self.call("scontrol", "--oneliner", "show", "job", number).stdout
        return dict(re.findall(r"(\w+)=(\S*)", text))

    def wait(self, number, states, seconds):
        """Until the job is in one of the states; what Slurm then knows."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            job = self.job(number)
            if job.get("JobState") in states:
                return job
            time.sleep(0.2)
        return self.job(number)

    def close(self):
        self.call("scancel", "--state=RUNNING", "--full", "--signal=KILL", "--user=root")
        for daemon in reversed(self.daemons):
            daemon.terminate()
        for daemon in self.daemons:
            try:
                daemon.wait(20)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
