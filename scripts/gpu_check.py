"""What scripts/gpu_check.sh does, which says how to call it: runs the stages of gpu_stages.py, each under a limit, and
writes what they found as one table and one JSON. Python's standard library only."""
import argparse
import datetime
import json
import os
import re
import signal
import subprocess
import sys
import time

import gpu_bundle
import gpu_stages

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LEAST_SECONDS = 3       # a stage that has less left is not begun


class Check:
    """One run: options, the clock, what stages have found so far."""

    def __init__(self, options):
        self.root, self.options, self.tiny = ROOT, options, options.tiny
        self.end = time.monotonic() + 60 * options.minutes - (0 if options.tiny else 5)
        self.build = os.path.abspath(options.build or os.path.join(ROOT, "build-gpu"))
        self.own_build = options.build is None
        self.environment = gpu_bundle.environment(ROOT)
        self.facts = {}             # what later stages need to know of earlier ones
        self.stage_end = self.end

    @property
    def simulated(self):
        return cached(self.build, "LOCKSTEP_CUDA") == "SIM"

    def left(self):
        return max(0.0, min(self.end, self.stage_end) - time.monotonic())

    def run(self, command, env=None, cwd=None, limit=None):
        """Runs a command within what is left of the stage's time; (exit code, output). A command that runs out of time
        is ended with all it started, and its code is None."""
        limit = self.left() if limit is None else min(limit, self.left())
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                                   env={**self.environment, **(env or {})}, cwd=cwd or self.root, start_new_session=True)
        try:
            output, _ = process.communicate(timeout=max(limit, 0.1))
            return process.returncode, output
        except subprocess.TimeoutExpired:
            # mpirun ends its processes when it is asked to, and cannot when it is killed.
            for number, seconds in ((signal.SIGTERM, 3), (signal.SIGKILL, 5)):
                os.killpg(process.pid, number)
                try:
                    output, _ = process.communicate(timeout=seconds)
                    return None, output
                except subprocess.TimeoutExpired:
                    continue
            return None, "did not end when it was killed"


def cached(build, name):
    """The value of a variable of a build, or None."""
    try:
        with open(os.path.join(build, "CMakeCache.txt")) as file:
            for line in file:
                if re.match(rf"{name}:\w+=", line):
                    return line.strip().split("=", 1)[1]
    except OSError:
        pass
    return None


def run_stage(check, stage):
    """{name, result, seconds, note, rows}; rows are {case, result, value}."""
    began = time.monotonic()
    check.stage_end = began + stage.limit
    done = {"name": stage.name, "result": "skipped", "seconds": 0.0, "note": "", "rows": []}
    if check.end - began < LEAST_SECONDS:
        done["note"] = f"no time left of {check.options.minutes:g} minutes"
        return done
    print(f"gpu_check: {stage.name}", file=sys.stderr, flush=True)
    found = stage.run(check)
    done.update(found.as_dict(), seconds=round(time.monotonic() - began, 1))
    return done


def device_name(check):
    name = check.facts.get("gpu", "no GPU")
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def table(stages, simulated):
    """One row for each stage, and one for each of its cases."""
    rows = [("stage", "case", "result", "value")]
    for stage in stages:
        rows.append((stage["name"], f"{stage['seconds']:.1f} s", stage["result"], stage["note"]))
        for row in stage["rows"]:
            mark = " (simulated)" if simulated and row.get("speed") else ""
            rows.append(("", row["case"], row["result"], row["value"] + mark))
    rows = [tuple(cell.replace("|", "/").replace("\n", " ") for cell in row) for row in rows]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = ["| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths)) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "|".join("-" * (width + 2) for width in widths) + "|"] + lines[1:]) + "\n"


def write(check, stages):
    date = datetime.date.today().isoformat()
    path = check.options.result or os.path.join(ROOT, "bench", "results", f"{date}-{device_name(check)}")
    path = re.sub(r"\.(md|json)$", "", path)
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    _, commit = check.run(["git", "describe", "--always", "--dirty"], limit=10)
    said = {"date": date, "commit": commit.strip(), "device": check.facts.get("gpu"), "simulated": check.simulated,
            "tiny": check.tiny, "stages": stages}
    with open(path + ".json", "w") as file:
        json.dump(said, file, indent=1)
        file.write("\n")
    text = table(stages, check.simulated)
    with open(path + ".md", "w") as file:
        file.write(f"# gpu_check on {said['device']}, {date}\n\nCommit {said['commit']}. {gpu_stages.NOTE}\n\n{text}")
    print(text, end="")
    print(f"written: {path}.md and {path}.json")


def options_of(arguments):
    parser = argparse.ArgumentParser(prog="gpu_check.sh", description="What only a GPU can show; see the script's head.")
    parser.add_argument("result", nargs="?", help="path of what is written, without .md and .json")
    parser.add_argument("--minutes", type=float, default=8)
    parser.add_argument("--only", default="", help="stages, with commas: " + ", ".join(s.name for s in gpu_stages.STAGES))
    parser.add_argument("--build", help="a build that exists, taken as it is")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--bundle", action="store_true")
    parser.add_argument("--list-files", action="store_true")
    options = parser.parse_args(arguments)
    unknown = set(filter(None, options.only.split(","))) - {stage.name for stage in gpu_stages.STAGES}
    if unknown:
        parser.error(f"no such stage: {', '.join(sorted(unknown))}")
    return options


def main():
    options = options_of(sys.argv[1:])
    if options.list_files:
        print(gpu_bundle.PATH)
        return 0
    if options.bundle:
        return gpu_bundle.pack(ROOT)
    check = Check(options)
    only = set(filter(None, options.only.split(",")))
    stages = [run_stage(check, stage) for stage in gpu_stages.STAGES if not only or stage.name in only]
    check.end = check.stage_end = time.monotonic() + 10
    write(check, stages)
    return 1 if any(stage["result"] == "failed" for stage in stages) else 0


if __name__ == "__main__":
    sys.exit(main())
