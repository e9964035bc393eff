# RUN: timeout=240
"""The template programs: short, through public headers alone, the same bits at np = 1 and 4."""
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import trainer

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TEMPLATES = ["custom_training", "custom_layer", "custom_dataset"]
MOST_LINES = 99


def program(name):
    return os.path.join("examples", name)


def sources(case):
    found = sorted(name for name in os.listdir(os.path.join(ROOT, "examples")) if name.endswith(".c"))
    case.check(found == sorted(name + ".c" for name in TEMPLATES), f"the templates are {found}")
    for name in found:
        with open(os.path.join(ROOT, "examples", name), encoding="utf-8") as file:
            text = file.read()
        case.check(text.count("\n") <= MOST_LINES, f"{name}: {text.count(chr(10))} lines, at most {MOST_LINES}")
        case.check("lsi_" not in text, f"{name} uses internal names")
        for header in re.findall(r'#include\s*([<"][^>"]+)', text):
            allowed = header.startswith("<lockstep/") or re.fullmatch(r"<[a-z]+\.h", header) or header == f'"{name[:-2]}.h'
            case.check(allowed, f"{name} includes {header}, which is no public or system header")


def weights_hash(case, name, np, sets, config=None):
    """Runs a template in a folder of its own; the hash it ends with."""
    where = case.path(f"{name}-{np}-{len(os.listdir(case.folder))}")
    os.mkdir(where)
    arguments = ([config] if config else []) + [part for value in sets for part in ("--set", value)]
    result = case.run(arguments, np=np, program=program(name), cwd=where)
    if not case.check(result.returncode == 0, f"{name} {arguments} at np {np}: exit {result.returncode}\n{result.stderr}"):
        return None
    hashes = re.findall(r"weights ([0-9a-f]{32})", result.stdout)
    if not case.check(len(hashes) == 1, f"{name} says its weights once:\n{result.stdout}"):
        return None
    metrics = os.path.join(where, "runs", name, "metrics.jsonl")
    if config is None and name != "custom_training":
        done = trainer.read_events(metrics)[-1]
        case.check(done["event"] == "done" and done["weights_hash"] == hashes[0], f"{name}: {done}")
        case.check(0 <= done["accuracy"] <= 1, f"{name} is evaluated: {done}")
    return hashes[0]


def same_bits(case):
    for name in TEMPLATES:
        for more in ([], ["precision.compute=bf16"]):
            sets = ["train.steps=20"] + more
            hashes = {np: weights_hash(case, name, np, sets) for np in case.worlds(1, 4)}
            case.check(len(set(hashes.values())) == 1, f"{name} {more}: weights differ: {hashes}")


def learns(case):
    """Each as a user starts it: no argument at all."""
    for name, lowest in (("custom_layer", 0.95), ("custom_dataset", 0.9)):
        result = case.run([], program=program(name), cwd=case.folder)
        if not case.check(result.returncode == 0, f"{name}: {result.stderr}"):
            continue
        done = trainer.read_events(case.path("runs", name, "metrics.jsonl"))[-1]
        case.check(done["accuracy"] > lowest, f"{name} reaches accuracy {done['accuracy']}")
    result = case.run([], program=program("custom_training"), cwd=case.folder)
    accuracy = re.findall(r"accuracy ([0-9.]+)", result.stdout)
    case.check(result.returncode == 0 and len(accuracy) == 1 and float(accuracy[0]) > 0.95,
               f"custom_training: {result.stdout}{result.stderr}")


def own_data(case):
    """custom_layer and custom_training take other data from a configuration file."""
    path = case.path("images.ini")
    config = dict(trainer.mlp_config(case), **{"log.level": "info"})
    trainer.write_config(path, {key: value for key, value in config.items() if not key.startswith("model.")})
    for name in ("custom_layer", "custom_training"):
        weights_hash(case, name, 0, [], config=path)


def command_line(case):
    """Options as the trainer's, answered before anything runs, once at any number of processes."""
    for np in case.worlds(1, 3):
        text = case.run(["--help"], np=np, program=program("custom_dataset")).stdout
        case.check(text.count("usage: custom_dataset [CONFIG]") == 1 and "spirals" in text, f"--help at np {np}: {text}")
    for option in ("--set", "--help-config", "--print-config", "--dry-run", "--version"):
        case.check(option in text, f"--help names {option}")
    result = case.run(["--print-config", "--set", "train.seed=9"], program=program("custom_dataset"))
    case.check(result.returncode == 0 and re.search(r"steps = 1500 +; custom_dataset:\d", result.stdout) is not None,
               f"--print-config shows the program's own values: {result.stdout}")
    result = case.run(["--help-config"], program=program("custom_layer"))
    case.check(result.returncode == 0 and "global_batch" in result.stdout, "--help-config")
    result = case.run(["--dry-run", "--set", "log.dir=" + case.path("dry")], program=program("custom_dataset"))
    case.check(result.returncode == 0 and "parameters" in result.stdout and not os.path.exists(case.path("dry")),
               f"--dry-run: {result.stdout}{result.stderr}")
    for arguments, message in ((["--bogus"], "unknown option '--bogus'"), (["--set", "train.stepz=1"], "train.stepz"),
                               (["--set", "data.kind=idx"], "data.train is not set"), (["absent.ini"], "absent.ini")):
        for np in case.worlds(1, 2):
            result = case.run(arguments, np=np, program=program("custom_layer"))
            lines = [line for line in result.stderr.splitlines() if "error" in line and "custom_layer" in line]
            case.check(result.returncode == 2 and len(lines) == 1 and message in lines[0],
                       f"{arguments} at np {np}: exit {result.returncode}\n{result.stderr}")


def resumes(case):
    """custom_training stops at step 10 and goes on to 20 with other processes: as if it had run through."""
    whole = weights_hash(case, "custom_training", 1, ["train.steps=20"])
    where = case.path("resumed")
    os.mkdir(where)
    for np, steps, begins in ((2, 10, False), (3, 20, True)):
        result = case.run(["--set", f"train.steps={steps}"], np=np, program=program("custom_training"), cwd=where)
        case.check(result.returncode == 0 and ("going on from" in result.stdout) == begins,
                   f"{steps} steps at np {np}: {result.stdout}{result.stderr}")
    case.check(f"weights {whole}" in result.stdout, f"resumed, not {whole}: {result.stdout}")


def failures(case):
    """A failure in the middle of one's own loop ends all processes with one line and the right code."""
    faults = ["--set", "fault.inject=nan@0:3", "--set", "loss_scale.give_up_after=1"]
    for np in case.worlds(1, 2):
        result = case.run(faults, np=np, program=program("custom_training"), cwd=case.folder,
                          env={"LOCKSTEP_ALLOW_FAULTS": "1"})
        lines = [line for line in result.stderr.splitlines() if "custom_training: error" in line]
        case.check(result.returncode == 8 and len(lines) == 1, f"np {np}: exit {result.returncode}\n{result.stderr}")
    result = case.run(["--dry-run"], program=program("custom_training"), cwd=case.folder)
    case.check(result.returncode == 2 and "--dry-run" in result.stderr, f"--dry-run of one's own loop: {result.stderr}")


def main():
    case = trainer.Case()
    sources(case)
    command_line(case)
    same_bits(case)
    own_data(case)
    resumes(case)
    failures(case)
    learns(case)
    case.finish()


if __name__ == "__main__":
    main()
