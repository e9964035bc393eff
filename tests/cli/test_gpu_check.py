# RUN: timeout=300 label=contract,cuda
"""scripts/gpu_check.sh on simulated GPUs: it runs to its end, says what it found, marks every speed as simulated; and on
builds that are broken in known ways: it names the fault, goes on with the other stages, ends with 1."""
import json
import os
import stat
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import trainer

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
STAGES = ["environment", "build", "weights", "ops", "gpt2", "library", "torch", "tests", "sanitizer"]

# Stands in for the trainer: writes metrics as it does, with the hash that HASH computes, or does what ELSE says.
FAKE = """#!/usr/bin/env python3
import json, os, re, sys, time
text = open(sys.argv[1]).read()
{before}
with open(os.path.join(re.search(r"^dir = (.*)", text, re.M)[1], "metrics.jsonl"), "w") as file:
    for event in ({{"event": "start", "parameters": 1000}}, {{"event": "step", "tokens_per_second": 5.0}},
                  {{"event": "done", "weights_hash": {hash}}}):
        file.write(json.dumps(event) + "\\n")
"""


class Checks:
    def __init__(self, case):
        self.case, self.n = case, 0

    def run(self, *arguments):
        """(exit code, what was said, the JSON, the table)."""
        self.n += 1
        path = self.case.path(f"result-{self.n}", "gpu")
        done = subprocess.run([os.path.join(ROOT, "scripts", "gpu_check.sh"), path, "--tiny", *arguments],
                              capture_output=True, text=True, env=self.case.environment, check=False)
        said = done.stdout + done.stderr
        if not self.case.check(os.path.exists(path + ".json") and os.path.exists(path + ".md"), f"nothing written: {said}"):
            return done.returncode, said, {"stages": []}, ""
        with open(path + ".json") as data, open(path + ".md") as table:
            return done.returncode, said, json.load(data), table.read()


def results(found):
    return {stage["name"]: stage["result"] for stage in found["stages"]}


def whole(case, checks):
    code, said, found, table = checks.run("--build", case.build)
    case.check(code == 0, f"exit {code}: {said}")
    case.check([stage["name"] for stage in found["stages"]] == STAGES, f"stages: {results(found)}")
    wanted = {name: "passed" for name in STAGES}
    wanted.update(sanitizer="missing", torch="missing")
    case.check(results(found) == wanted, f"results: {results(found)}\n{said}")
    case.check(found["simulated"] is True, "it says that the GPU is simulated")
    rows = [row for stage in found["stages"] for row in stage["rows"]]
    speeds = [row for row in rows if row.get("speed")]
    case.check(len(speeds) > 50, f"{len(speeds)} speeds")
    lines = [line for line in table.splitlines() if "/s" in line and line.startswith("|")]
    case.check(len(lines) == len(speeds), f"{len(lines)} lines with a speed of {len(speeds)}")
    case.check(all(line.rstrip(" |").endswith("(simulated)") for line in lines), "every speed is marked")
    case.check(all(f"| {name} " in table for name in STAGES), f"the table has every stage:\n{table}")
    weights = next(stage for stage in found["stages"] if stage["name"] == "weights")
    runs = 4 * (2 if case.has_mpi else 1)
    for compute in ("f16", "bf16"):
        row = [row for row in weights["rows"] if row["case"] == f"weights {compute}"]
        case.check(len(row) == 1 and row[0]["runs"] == runs, f"{compute}: {row}")


def fake_build(case, name, before="", hash_text="'0' * 32"):
    """A folder that looks like a build with simulated GPUs, whose trainer is FAKE."""
    folder = case.path(name)
    os.makedirs(folder)
    with open(os.path.join(case.build, "CMakeCache.txt")) as file, open(os.path.join(folder, "CMakeCache.txt"), "w") as out:
        out.write("".join(line for line in file if line.startswith("LOCKSTEP_CUDA")))
    for program, text in (("trainer", FAKE.format(before=before, hash=hash_text)), ("bench_ops", "#!/bin/sh\nexit 5\n"),
                          ("bench_lt_bits", "#!/bin/sh\necho '{\"what\": \"splitk compute\", \"dtype\": \"f16\", "
                           "\"runs\": 20, \"algorithms\": 3, \"unequal\": 1}'\n")):
        path = os.path.join(folder, program)
        with open(path, "w") as out:
            out.write(text)
        os.chmod(path, stat.S_IRWXU)
    return folder


def broken(case, checks):
    only = "environment,build,weights,ops,library,tests"
    code, said, found, table = checks.run("--build", case.path("absent"))
    case.check(code == 1 and results(found)["build"] == "failed" and results(found)["gpt2"] == "missing",
               f"nothing there: exit {code}, {results(found)}\n{said}")

    for name, more, complaint in (
            ("differs", {"hash_text": "('a' if '64k' in text else 'b') * 32"}, "2 different weights"),
            ("fails", {"before": "sys.exit('trainer: error: no luck')"}, "no luck"),
            ("hashless", {"hash_text": "None"}, "different weights")):
        code, said, found, table = checks.run("--build", fake_build(case, name, **more), "--only", only)
        case.check(code == 1 and results(found)["weights"] == "failed", f"{name}: exit {code}, {results(found)}\n{said}")
        note = next(stage["note"] for stage in found["stages"] if stage["name"] == "weights")
        case.check(complaint in note and complaint in table, f"{name}: {note}")
        case.check(results(found)["ops"] == "failed" and "exit 5" in table, f"{name}: the next stage ran: {table}")
        case.check(results(found)["library"] == "failed", f"{name}: unequal bits of what is used: {table}")
        case.check(results(found)["tests"] == "failed" and "no test ran" in table, f"{name}: {table}")

    # A run that hangs is ended when the time is up, and what is left is said to be left out.
    code, said, found, table = checks.run("--build", fake_build(case, "hangs", before="time.sleep(1000)"), "--minutes", "0.1",
                                          "--only", "environment,weights,ops,library")
    case.check(code == 1 and results(found)["weights"] == "failed" and "ran out of time" in table, f"hangs: {said}")
    case.check(results(found)["library"] == "skipped" and "no time left" in table, f"hangs: {results(found)}")


def command_line(case):
    def run(*arguments):
        return subprocess.run([os.path.join(ROOT, "scripts", "gpu_check.sh"), *arguments], capture_output=True, text=True,
                              env=case.environment, check=False)
    listed = run("--list-files")
    case.check(listed.returncode == 0 and len(listed.stdout.split()) == 1, f"--list-files: {listed.stdout}")
    wrong = run("--only", "wheights")
    case.check(wrong.returncode == 2 and "wheights" in wrong.stderr, f"--only: {wrong.stderr}")


def main():
    case = trainer.Case()
    case.needs_simulated_gpus()
    checks = Checks(case)
    command_line(case)
    whole(case, checks)
    broken(case, checks)
    case.finish()


if __name__ == "__main__":
    main()
