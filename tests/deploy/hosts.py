"""For tests: two hosts on this machine. Each is a set of namespaces (network, host name, shared memory, mounts), with its own
address on a cable between them; files are the same, as on a shared disk. Programs get there through an agent script
that stands in for ssh."""
import os
import shutil
import subprocess
import time

NAMES = ["nodea", "nodeb"]
WITH_US = ["setpriv", "--pdeathsig", "KILL"]     # ends with the test, also when that is killed
NAMESPACES = ["--net", "--uts", "--ipc", "--mount"]

AGENT = """#!/bin/sh
# As ssh: HOST COMMAND...
case $1 in
{cases}*) echo "agent: no host $1" >&2; exit 255 ;;
esac
shift
exec nsenter -t $pid -n -u -i -m -- sh -c "$*"
"""


def why_not():
    """Why there can be none here; empty when there can."""
    absent = [name for name in ("unshare", "nsenter", "setpriv", "ip") if shutil.which(name) is None]
    if absent:
        return f"no {', '.join(absent)} here; Debian's packages are util-linux and iproute2"
    tried = subprocess.run(["unshare"] + NAMESPACES + ["ip", "link", "add", "probe0", "type", "veth", "peer", "probe1"],
                           capture_output=True, text=True, check=False)
    return "" if tried.returncode == 0 else f"namespaces are not allowed here: {tried.stderr.strip()}"


class Hosts:
    """self.agent is the script's path; close() ends both hosts with whatever runs there."""

    def __init__(self, folder):
        self.keepers = []
        self.folder = folder
        hosts = os.path.join(folder, "hosts")
        with open(hosts, "w", encoding="utf-8") as file:
            file.write("127.0.0.1 localhost\n" + "".join(f"10.99.0.{i + 1} {n}\n" for i, n in enumerate(NAMES)))
        for name in NAMES:
            ready = os.path.join(folder, name)
            script = (f"hostname {name} && mount --make-rprivate / && mount --bind {hosts} /etc/hosts && "
                      f"mount -t tmpfs tmpfs /dev/shm && ip link set lo up && touch {ready} && exec sleep 100000")
            self.keepers.append(subprocess.Popen(WITH_US + ["unshare"] + NAMESPACES + ["sh", "-c", script]))
            end = time.monotonic() + 20
            while not os.path.exists(ready) and self.keepers[-1].poll() is None and time.monotonic() < end:
                time.sleep(0.02)
        pids = [keeper.pid for keeper in self.keepers]
        self.inside(0, "ip", "link", "add", "cable", "type", "veth", "peer", "name", "cable", "netns", str(pids[1]))
        for i in range(2):
            self.inside(i, "ip", "addr", "add", f"10.99.0.{i + 1}/24", "dev", "cable")
            self.inside(i, "ip", "link", "set", "cable", "up")
        self.agent = os.path.join(folder, "agent")
        self.write_agent(range(len(NAMES)))

    def enter(self, i):
        """What stands before a command that is to run on host i."""
        return ["nsenter", "-t", str(self.keepers[i].pid), "-n", "-u", "-i", "-m", "--"]

    def inside(self, i, *command):
        subprocess.run(self.enter(i) + list(command), check=True, capture_output=True, text=True)

    def processes(self, i):
        """Of host i, its first process left out."""
        mine = os.readlink(f"/proc/{self.keepers[i].pid}/ns/net")
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                if os.readlink(f"/proc/{pid}/ns/net") == mine and int(pid) != self.keepers[i].pid:
                    found.append(int(pid))
            except OSError:
                pass
        return found

    def write_agent(self, there):
        """there: the hosts it finds."""
        cases = "".join(f"{NAMES[i]}) pid={self.keepers[i].pid} ;;\n" for i in there)
        with open(self.agent + ".new", "w", encoding="utf-8") as file:
            file.write(AGENT.format(cases=cases))
        os.chmod(self.agent + ".new", 0o755)
        os.rename(self.agent + ".new", self.agent)

    def end_all(self, i):
        for pid in self.processes(i):
            try:
                os.kill(pid, 9)
            except ProcessLookupError:
                pass

    def lose(self, i):
        """All that runs on host i is gone, and the agent finds it no more. The cable stays: the other end is in it."""
        self.write_agent([k for k in range(len(NAMES)) if k != i])
        self.end_all(i)

    def close(self):
        for i, keeper in enumerate(self.keepers):
            self.end_all(i)
            keeper.kill()
            keeper.wait()
