# RUN: timeout=400 label=slow
"""The batch scripts under a real Slurm: a signal stops the job with 75 and a checkpoint, requeued it goes on, and ends
with the lines of a run that nobody disturbed; on one node and on several."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "launch"))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import launch_case
import cluster
import trainer

SCRIPTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "scripts", "deploy", "slurm")
ENDED = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL")


class Batch:
    """One job of a batch script with the trainer, in a folder of its own."""

    def __init__(self, case, slurm, script, config, options):
        self.case, self.slurm = case, slurm
        self.path, self.log = case.config(config)
        self.output = os.path.join(self.log, "slurm.out")
        # Open MPI takes the two nodes for two machines: no shared memory between them.
        environment = {**trainer.MPI_ENVIRONMENT, "OMPI_MCA_btl": "self,tcp", "LAUNCH": case.launch}
        self.number = slurm.submit(*options, "--output", self.output, os.path.join(SCRIPTS, script), case.trainer,
                                   self.path, env=environment, cwd=self.log)

    def events(self):
        path = os.path.join(self.log, "metrics.jsonl")
        return trainer.read_events(path) if os.path.exists(path) else []

    def text(self):
        if not os.path.exists(self.output):
            return "no output"
        with open(self.output, encoding="utf-8", errors="replace") as file:
            return file.read()

    def await_steps(self, n):
        return launch_case.wait_until(lambda: sum(e["event"] == "step" for e in self.complete_events()) >= n,
                                      60 * self.case.slow)

    def complete_events(self):
        try:
            return self.events()
        except ValueError:      # a line is being written
            return []

    def signal(self, name):
        self.slurm.call("scancel", "--batch", "--signal=" + name, self.number, check=True)

    def await_end(self, what, exit_code):
        job = self.slurm.wait(self.number, ENDED, 90 * self.case.slow)
        self.case.check(job.get("ExitCode") == exit_code,
                        f"{what}: {job.get('JobState')} {job.get('ExitCode')}, not {exit_code}\n{self.text()[-2500:]}")


def compare(case, batch, expected, what):
    found = trainer.results(batch.events())
    case.check(found == expected, f"{what}: {len(found)} lines, other than the {len(expected)} of a quiet run")


def stopped_and_requeued(case, slurm, config, expected):
    """The user's signal: 75, and a requeue by hand."""
    batch = Batch(case, slurm, "one_node.sbatch", config, ["--ntasks-per-node=2"])
    batch.await_steps(20)
    batch.signal("USR1")
    batch.await_end("stopped", "75:0")
    case.check(batch.complete_events()[-1]["event"] == "stopped", f"last event: {batch.complete_events()[-1]}")
    slurm.call("scontrol", "requeue", batch.number, check=True)
    slurm.wait(batch.number, ("RUNNING",), 60 * case.slow)
    batch.await_end("requeued", "0:0")
    case.check("resumed " in batch.text(), "the requeued job has not resumed")
    compare(case, batch, expected, "requeued")


def time_over(case, slurm, config, expected):
    """The signal that comes before the time limit: the job requeues itself."""
    batch = Batch(case, slurm, "several_nodes.sbatch", config, ["--ntasks-per-node=2"])
    batch.await_steps(20)
    batch.signal("USR2")
    launch_case.wait_until(lambda: "queued again" in batch.text(), 60 * case.slow)
    slurm.wait(batch.number, ("RUNNING",), 60 * case.slow)
    batch.await_end("time over", "0:0")
    job = slurm.job(batch.number)
    case.check(job.get("Restarts") == "1" and job.get("NumNodes") == "2", f"restarts and nodes: {job}")
    compare(case, batch, expected, "time over, two nodes")


def time_over_really(case, slurm, config):
    """Slurm itself sends what the script waits for: a limit of a minute, the signal more than that before it."""
    batch = Batch(case, slurm, "one_node.sbatch", config, ["--ntasks-per-node=2", "--time=1", "--signal=B:USR2@50"])
    case.check(launch_case.wait_until(lambda: "queued again" in batch.text(), 100 * case.slow),
               f"no signal before the time limit\n{batch.text()[-2000:]}")
    case.check("stopped" in [e["event"] for e in batch.complete_events()], "it has not stopped by itself")
    slurm.call("scancel", batch.number)


def same_body(case):
    bodies = []
    for name in ("one_node.sbatch", "several_nodes.sbatch"):
        with open(os.path.join(SCRIPTS, name), encoding="utf-8") as file:
            bodies.append(file.read().split("# ---- the same in ")[1])
    case.check(bodies[0] == bodies[1], "the two scripts do not do the same")


def main():
    case = launch_case.LaunchCase()
    same_body(case)
    reason = "the build has no MPI" if not case.has_mpi else cluster.why_not()
    if reason:
        print("skipped: " + reason)
        case.finish()
    slurm = cluster.Cluster(case.path("slurm"))
    try:
        reason = slurm.start()
        if reason:
            print("skipped: " + reason)
            case.finish()
        # Long enough for a signal to find it running on any machine, and short in time.
        config = trainer.mlp_config(case, **{"checkpoint.every": 500, "device.threads": 1, "train.steps": 4000,
                                             "device.backend": "cpu", "log.level": "info", "train.eval_every": 700})
        quiet, log = case.config(config)
        result = case.run([quiet], np=2)
        case.check(result.returncode == 0, result.stderr)
        expected = trainer.results(trainer.read_events(os.path.join(log, "metrics.jsonl")))
        stopped_and_requeued(case, slurm, config, expected)
        time_over(case, slurm, config, expected)
        time_over_really(case, slurm, dict(config, **{"train.steps": 10 ** 7}))
    finally:
        slurm.close()
    case.finish()


if __name__ == "__main__":
    main()
