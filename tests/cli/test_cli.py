# RUN: timeout=300 label=contract
"""The face of the program: what it prints, writes, and leaves alone."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import trainer


def answers(case):
    for np in case.worlds(1, 3):
        world = np if np > 1 else 0
        text = case.run(["--help"], np=world).stdout
        case.check(text.count("usage: trainer CONFIG") == 1, f"--help is printed once (np {np})")
        for option in ("--set", "--help-config", "--print-config", "--dry-run", "--version"):
            case.check(option in text, f"--help names {option}")
        text = case.run(["--version"], np=world).stdout
        case.check(text.startswith("lockstep ") and text.count("\n") == 1, "--version is one line")
    text = case.run(["--help-config"]).stdout
    for key in ("global_batch", "micro_batch", "bucket_bytes", "give_up_after"):
        case.check(key in text, f"--help-config has {key}")
    case.check("bits" in text and "free" in text, "--help-config marks every key bits or free")


def configuration(case):
    path = case.path("run.ini")
    trainer.write_config(path, trainer.mlp_config(case))
    env = {"LOCKSTEP_OPTIMIZER_LR": "0.25", "LOCKSTEP_TRAIN_SEED": "7"}
    result = case.run(["--print-config", path, "--set", "train.seed=9"], env=env)
    case.check(result.returncode == 0, result.stderr)
    lines = {line.split("=")[0].strip(): line for line in result.stdout.splitlines() if "=" in line}
    case.check("0.25" in lines["lr"] and "LOCKSTEP_OPTIMIZER_LR" in lines["lr"], "the environment beats the file")
    case.check("= 9" in lines["seed"] and "--set" in lines["seed"], "--set beats the environment")
    case.check("run.ini:" in lines["hidden"], "the origin of a value in the file is its line")
    printed = case.path("printed.ini")
    with open(printed, "w") as file:
        file.write(result.stdout)
    again = case.run(["--print-config", printed])

    def values(text):
        return [line for line in (line.split(";")[0].strip() for line in text.splitlines()) if line]

    case.check(values(again.stdout) == values(result.stdout), "--print-config can be fed back")


def dry_run(case):
    path = case.path("run.ini")
    trainer.write_config(path, dict(trainer.mlp_config(case), **{"log.level": "info", "log.dir": case.path("dry")}))
    for np in case.worlds(1, 2):
        result = case.run(["--dry-run", path], np=np)
        case.check(result.returncode == 0 and "parameters" in result.stdout and "lanes" in result.stdout, result.stderr)
    case.check(not os.path.exists(case.path("dry")), "--dry-run writes nothing")


def metrics(case):
    log = case.path("log")
    config = dict(trainer.mlp_config(case), **{"log.dir": log, "log.level": "info", "train.log_every": 2,
                                            "checkpoint.resume": "never"})
    path = case.path("run.ini")
    trainer.write_config(path, config)
    for np in case.worlds(1, 3):
        result = case.run([path], np=np)
        case.check(result.returncode == 0, result.stderr)
        case.check("step 6/6" in result.stdout and result.stdout.count("done:") == 1, f"progress is shown once (np {np})")
        events = trainer.read_events(os.path.join(log, "metrics.jsonl"))
        case.check([e["event"] for e in events] == ["start"] + ["step"] * 3 + ["eval"] + ["step"] * 3 +
                   ["eval", "checkpoint", "done"],
                   f"order of events: {[e['event'] for e in events]}")
        start, steps, done = events[0], [e for e in events if e["event"] == "step"], events[-1]
        case.check(start["world"] == np and len(start["slots_per_rank"]) == np and sum(start["slots_per_rank"]) == 8,
                   f"start: {start}")
        for key in ("version", "git", "backend", "transport", "device", "fingerprint", "config_hash", "parameters", "lanes"):
            case.check(key in start, f"the start event has {key}")
        for i, step in enumerate(steps):
            case.check(step["step"] == i + 1 and step["applied"] == i + 1 and step["samples"] == 24 * (i + 1), str(step))
            for key in ("epoch", "loss", "grad_norm", "lr", "loss_scale", "step_seconds", "data_wait_seconds",
                        "compute_seconds", "comm_seconds", "comm_exposed_seconds", "samples_per_second", "skipped"):
                case.check(key in step, f"a step event has {key}")
        saved = events[-2]
        case.check(saved["step"] == 6 and os.path.isdir(saved["path"]) and saved["bytes"] > 0 and saved["seconds"] > 0,
                   str(saved))
        case.check(done["step"] == 6 and len(done["weights_hash"]) == 32 and 0 <= done["accuracy"] <= 1, str(done))
    moved = case.has_mpi
    case.check(os.path.exists(os.path.join(log, "previous-1", "metrics.jsonl")) == moved, "used output moves aside")
    case.check(os.path.exists(os.path.join(log, "previous-1", "checkpoints", "step-00000006", "manifest.json")) == moved,
               "and so do its checkpoints")
    case.run([path])
    case.check(os.path.exists(os.path.join(log, "previous-2" if moved else "previous-1", "metrics.jsonl")), "and again")


def unused_keys(case):
    path = case.path("run.ini")
    trainer.write_config(path, dict(trainer.mlp_config(case), **{"model.width": 64, "log.dir": case.path("unused")}))
    result = case.run([path])
    warnings = [line for line in result.stderr.splitlines() if "warning" in line]
    case.check(result.returncode == 0 and len(warnings) == 1 and "model.width" in warnings[0], f"one warning: {warnings}")


def learns(case):
    """Not only the machinery: a small model learns a small task."""
    config = dict(trainer.mlp_config(case), **{"model.dropout": 0, "train.steps": 150, "train.eval_every": 0,
                                               "optimizer.lr": 3e-3})
    done = case.train(config)[-1]
    case.check(done["accuracy"] > 0.9, f"accuracy {done['accuracy']}")


def main():
    case = trainer.Case()
    answers(case)
    configuration(case)
    dry_run(case)
    metrics(case)
    unused_keys(case)
    learns(case)
    case.finish()


if __name__ == "__main__":
    main()
