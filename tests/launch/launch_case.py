"""For tests of launch: starts it, finds the processes below it."""
import os
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import trainer

FAKE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "fake_program.py")


class LaunchCase(trainer.Case):
    """launch with the trainer, or with a program that does what it is told."""

    def __init__(self):
        super().__init__()
        self.launch = os.path.join(self.build, "launch")
        self.trainer = os.path.join(self.build, "trainer")
        self.environment["FAKE_TRAINER"] = self.trainer
        self.n_runs = 0

    def config(self, values):
        """A configuration file with a log folder of its own: (path, log folder)."""
        self.n_runs += 1
        log = self.path(f"run{self.n_runs}")
        os.mkdir(log)
        path = os.path.join(log, "run.ini")
        trainer.write_config(path, dict(values, **{"log.dir": log}))
        return path, log

    def run_launch(self, arguments, env=None, timeout=120):
        return subprocess.run([self.launch] + arguments, capture_output=True, text=True, errors="replace",
                              env={**self.environment, **(env or {})}, cwd=self.folder, timeout=timeout * self.slow,
                              check=False)

    def start_launch(self, arguments, env=None):
        """In a process group of its own; its output goes to `process.output`."""
        output = open(self.path(f"output-{time.monotonic_ns()}"), "w+", encoding="utf-8", errors="replace")
        process = subprocess.Popen([self.launch] + arguments, stdout=output, stderr=output, cwd=self.folder,
                                   env={**self.environment, **(env or {})}, start_new_session=True)
        process.output = output
        return process


def below(pid):
    """All processes that `pid` has started, directly or not, the nearest first."""
    found = trainer.children(pid)
    for child in list(found):
        found += below(child)
    return found


def name_of(pid):
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8") as file:
            return file.read().strip()
    except OSError:
        return ""


def ranks(process, name="trainer"):
    return [pid for pid in below(process.pid) if name_of(pid) == name]


def wait_until(condition, seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.01)
    return bool(condition())


def text_so_far(process):
    process.output.flush()
    with open(process.output.name, encoding="utf-8", errors="replace") as file:
        return file.read()


def hash_of(text):
    """The weights hash of the line `done: ...`."""
    for line in text.splitlines():
        if "done: " in line and "weights " in line:
            return line.split("weights ")[1].split(",")[0]
    return None
