"""For tests of checkpoints in Python: runs that go on in one folder, what lies in it, file operations that go wrong."""
import os
import re
import shutil
import subprocess

import trainer

# One process that starts no helper of Open MPI's: a third of the time.
ALONE = {"OMPI_MCA_ess_singleton_isolated": "1"}


def small_config(case, **more):
    """A run of three short steps over three blocks of parameters, a checkpoint after each."""
    config = trainer.mlp_config(case, **{
        "model.hidden": "256,64", "train.steps": 3, "train.global_batch": 6, "train.lanes": 2, "train.eval_every": 2,
        "device.threads": 1, "checkpoint.every": 1, "checkpoint.keep": 1})
    return dict(config, **more)


class Run:
    """One log.dir, and what is run in it."""

    def __init__(self, case, name, config):
        self.case, self.folder, self.config = case, case.path(name), config
        self.checkpoints = os.path.join(self.folder, "checkpoints")
        self.metrics = os.path.join(self.folder, "metrics.jsonl")
        os.makedirs(self.folder, exist_ok=True)

    def write(self, **changes):
        """The configuration, outside the folder; changes: keys with "__" for the point."""
        path = self.folder + ".ini"
        changes = {key.replace("__", "."): value for key, value in changes.items()}
        values = {"log.dir": self.folder, **self.config, **changes}
        trainer.write_config(path, {key: value for key, value in values.items() if value is not None})
        return path

    def start(self, np=0, env=None, before=(), **changes):
        """Runs the trainer, `before` it another program. Returns the finished process."""
        command = self.case.command([self.write(**changes)], np)
        session = self.folder + ".session"      # of its own: runs alone do not know of each other
        os.makedirs(session, exist_ok=True)
        alone = {} if np else {**ALONE, "OMPI_MCA_orte_tmpdir_base": session}
        environment = {**trainer.MPI_ENVIRONMENT, **os.environ, **alone, **(env or {})}
        return subprocess.run([*before, *command], capture_output=True, text=True, errors="replace", env=environment,
                              cwd=self.case.folder, timeout=300 * self.case.slow)

    def copy(self, name, **changes):
        """Another run with a copy of everything."""
        other = Run(self.case, name, {**self.config, **changes})
        shutil.copytree(self.folder, other.folder, symlinks=True, dirs_exist_ok=True)
        return other

    def start_with(self, faults, np=0, **changes):
        """The same with faults: FILE_FAULTS_<key> = value, in the folder of checkpoints unless they name another."""
        names = {"FOLDER": self.checkpoints, **faults}
        env = {f"FILE_FAULTS_{key}": str(value) for key, value in names.items()}
        preload = preloaded(self.case)
        if np and self.case.has_mpi:       # for the ranks, not for mpirun
            env["OMPI_MCA_mca_base_env_list"] = f"LD_PRELOAD={preload}"
        else:
            env["LD_PRELOAD"] = preload
        return self.start(np, env, **changes)

    def checked(self, what, *args, **changes):
        result = self.start(*args, **changes)
        self.case.check(result.returncode == 0, f"{what}: exit {result.returncode}\n{result.stderr}")
        return result

    def steps(self):
        """The steps that have a checkpoint of that name, oldest first."""
        names = os.listdir(self.checkpoints) if os.path.isdir(self.checkpoints) else []
        return sorted(int(name[5:]) for name in names if re.fullmatch(r"step-\d{8,}", name))

    def checkpoint(self, step, *names):
        return os.path.join(self.checkpoints, f"step-{step:08d}", *names)

    def tree(self):
        """Every file and its content, every link and where it leads."""
        paths = [os.path.join(folder, name) for folder, _, files in os.walk(self.folder) for name in files]
        return {os.path.relpath(path, self.folder): os.readlink(path) if os.path.islink(path) else read(path)
                for path in paths}

    def previous(self):
        """Paths of what moved aside, from previous-<n> on."""
        return sorted(name for name in self.tree() if name.startswith("previous-"))

    def leftovers(self):
        """What no run may leave for ever."""
        return [os.path.join(folder, name) for folder, folders, files in os.walk(self.checkpoints)
                for name in folders + files if ".partial" in name or ".tmp-" in name or name.startswith(".probe-")]

    def events(self):
        return trainer.read_events(self.metrics) if os.path.exists(self.metrics) else []

    def results(self):
        return trainer.results(self.events())

    def resumed_from(self):
        """What the last start event names; None where it began afresh."""
        starts = [e for e in self.events() if e["event"] == "start"]
        return starts[-1].get("resumed_from") if starts else "no start event"


def preloaded(case):
    """LD_PRELOAD's value. The runtime of AddressSanitizer wants to be first."""
    libraries = [os.path.join(case.build, "tests", "bin", "file_faults.so")]
    if case.sanitizer == "address":
        compiler = os.environ.get("CC", "gcc")
        libraries.insert(0, subprocess.run([compiler, "-print-file-name=libasan.so"], capture_output=True,
                                           text=True).stdout.strip())
    return ":".join(libraries)


def read(path):
    with open(path, "rb") as file:
        return file.read()


def error_lines(result):
    return [line for line in result.stderr.splitlines() if line.startswith("trainer: error")]


def warnings(result):
    return [line for line in result.stderr.splitlines() if line.startswith("trainer: warning")]
