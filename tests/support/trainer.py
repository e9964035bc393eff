"""For tests in Python: runs the trainer, reads its metrics, makes data files."""
import gzip
import json
import os
import random
import re
import shutil
import struct
import subprocess
import sys
import tempfile


# What Open MPI needs as root and on few cores, for tests started by hand; ctest sets the same.
MPI_ENVIRONMENT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                   "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_pml": "ob1", "OMPI_MCA_btl": "self,vader"}


class Case:
    """One test program: a folder of its own, a count of what failed, the build it tests."""

    def __init__(self):
        self.build = os.path.abspath(sys.argv[1])
        self.folder = tempfile.mkdtemp(prefix="lockstep-test-")
        self.n_checks = self.n_failed = 0
        with open(os.path.join(self.build, "CMakeCache.txt")) as file:
            cache = dict(re.findall(r"^(LOCKSTEP_\w+):\w+=(.*)$", file.read(), re.M))
        self.has_mpi = cache["LOCKSTEP_MPI"] == "ON"
        self.simulates_gpus = cache["LOCKSTEP_CUDA"] == "SIM"
        self.sanitizer = cache["LOCKSTEP_SANITIZE"]
        # Open MPI keeps a folder for every program started without mpirun under one name: two at once may collide.
        self.environment = {**MPI_ENVIRONMENT, "OMPI_MCA_orte_tmpdir_base": self.folder, **os.environ}
        # The time limits of ctest grow by the same factor.
        self.slow = 8 if self.sanitizer else 1
        if os.environ.get("LOCKSTEP_DEVICE_BACKEND") == "cuda":
            self.needs_gpus()

    def skip(self, why):
        shutil.rmtree(self.folder, ignore_errors=True)
        print("skipped: " + why)
        sys.exit(0)

    def needs_simulated_gpus(self, mpi=False):
        if not self.simulates_gpus or (mpi and not self.has_mpi):
            self.skip("needs simulated GPUs (LOCKSTEP_CUDA=SIM)" + (" and MPI" if mpi else ""))

    def needs_gpus(self):
        found = subprocess.run([os.path.join(self.build, "gpus"), "--count", "1"], capture_output=True, text=True)
        if found.returncode != 0:
            self.skip(found.stderr.strip())

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def check(self, condition, what):
        self.n_checks += 1
        if not condition:
            self.n_failed += 1
            print("FAILED: " + what, flush=True)
        return condition

    def finish(self):
        shutil.rmtree(self.folder, ignore_errors=True)
        print(f"{self.n_checks - self.n_failed} passed, {self.n_failed} failed")
        sys.exit(1 if self.n_failed else 0)

    def worlds(self, *worlds):
        """Those numbers of processes this build can start."""
        return [n for n in worlds if n == 1 or self.has_mpi]

    def command(self, arguments, np=0, program="trainer"):
        command = [os.path.join(self.build, program)] + arguments
        if np and self.has_mpi:
            command = ["mpirun", "-np", str(np), "--bind-to", "none"] + command
        return command

    def run(self, arguments, np=0, program="trainer", env=None, cwd=None, timeout=300):
        """Runs a program (under mpirun when np is given); returns the finished process with text output."""
        environment = {**self.environment, **(env or {})}
        return subprocess.run(self.command(arguments, np, program), capture_output=True, text=True, errors="replace",
                              env=environment, cwd=cwd or self.folder, timeout=timeout * self.slow)

    def start(self, arguments, np=0):
        """Starts the trainer under mpirun (np) without waiting; returns the process, whose `output` is a file."""
        environment = {**MPI_ENVIRONMENT, **os.environ}
        output = open(self.path("output"), "w+")
        process = subprocess.Popen(self.command(arguments, np), stdout=output, stderr=output, env=environment,
                                   cwd=self.folder)
        process.output = output
        return process

    def train(self, config, np=0, **options):
        """Trains with a configuration given as {key: value}; returns the events of its metrics file."""
        log = tempfile.mkdtemp(dir=self.folder)
        path = os.path.join(log, "run.ini")
        write_config(path, dict(config, **{"log.dir": log}))
        result = self.run([path], np, **options)
        if not self.check(result.returncode == 0, f"np={np} {config}: exit {result.returncode}\n{result.stderr}"):
            return []
        events = read_events(os.path.join(log, "metrics.jsonl"))
        shutil.rmtree(log)
        return events


def output_of(process):
    """What a process of Case.start has written; closes the file."""
    process.output.seek(0)
    text = process.output.read()
    process.output.close()
    return text


def children(pid):
    """Processes that `pid` has started: of mpirun, the ranks."""
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            return [int(word) for word in file.read().split()]
    except OSError:
        return []


def is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def write_config(path, values):
    sections = {}
    for key, value in values.items():
        section, name = key.split(".", 1)
        sections.setdefault(section, []).append(f"{name} = {value}\n")
    with open(path, "w") as file:
        for section, lines in sections.items():
            file.write(f"[{section}]\n" + "".join(lines))


def read_events(path):
    with open(path) as file:
        return [json.loads(line) for line in file]


TIMES = {"step_seconds", "data_wait_seconds", "compute_seconds", "comm_seconds", "comm_exposed_seconds",
         "samples_per_second", "tokens_per_second", "mfu", "product_flops_per_second", "train_seconds"}
MEMORY = {"memory_planned_bytes", "memory_peak_bytes", "resident_start_bytes", "resident_peak_bytes"}


def results(events):
    """What must not depend on how a run was executed: step, eval and done lines without times and memory."""
    left_out = TIMES | MEMORY
    return [{k: v for k, v in e.items() if k not in left_out} for e in events
            if e["event"] in ("step", "eval", "skip", "done")]


def idx_bytes(dims, data):
    return struct.pack(">BBBB", 0, 0, 8, len(dims)) + b"".join(struct.pack(">I", d) for d in dims) + bytes(data)


def write_images(folder, n=200, side=8, classes=10, seed=1, name="train"):
    """A learnable image set in two IDX files, the images gzipped; returns the path of the images."""
    rng = random.Random(seed)
    labels = [rng.randrange(classes) for _ in range(n)]
    labels[0] = classes - 1
    pixels = bytearray()
    for label in labels:
        pixels += bytes(min(255, max(0, int(rng.gauss(200 if (i + label) % classes == 0 else 60, 30))))
                        for i in range(side * side))
    images = os.path.join(folder, f"{name}-images-idx3-ubyte.gz")
    with gzip.open(images, "wb", 1) as file:
        file.write(idx_bytes([n, side, side], pixels))
    with open(os.path.join(folder, f"{name}-labels-idx1-ubyte.gz"), "wb") as file:
        file.write(gzip.compress(idx_bytes([n], labels)))
    return images


def write_text(path, n=20000, seed=1):
    rng = random.Random(seed)
    words = ["lock", "step", "lane", "slot", "bucket", "stream", "event", "rank", "world", "the", "of", "a", "and"]
    text = ""
    while len(text) < n:
        text += rng.choice(words) + (" " if rng.random() < 0.9 else ".\n")
    with open(path, "w") as file:
        file.write(text[:n])
    return path


def mlp_config(case, **more):
    """A small MLP over several buckets, with dropout."""
    config = {"model.kind": "mlp", "model.hidden": "256,128", "model.dropout": 0.1, "data.kind": "idx",
              "data.train": write_images(case.folder), "data.val_fraction": 0.2, "train.steps": 6,
              "train.global_batch": 24, "train.micro_batch": 3, "train.lanes": 8, "train.eval_every": 3,
              "optimizer.lr": 1e-3, "device.threads": 2, "log.level": "warn"}
    return dict(config, **more)


def gpt_config(case, **more):
    """A small GPT over several buckets, with dropout."""
    config = {"model.kind": "gpt", "model.layers": 2, "model.heads": 2, "model.width": 64, "model.context": 32,
              "model.dropout": 0.1, "data.kind": "text", "data.train": write_text(case.path("text.txt")),
              "data.val_fraction": 0.05, "train.steps": 5, "train.global_batch": 16, "train.micro_batch": 2,
              "train.lanes": 8, "train.eval_every": 3, "optimizer.lr": 1e-3, "device.threads": 2, "log.level": "warn"}
    return dict(config, **more)
