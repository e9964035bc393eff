# RUN: timeout=300 label=contract,slow
"""Commands on checkpoints: --eval, --hash, --generate, --verify-runs, and what they refuse."""
import os
import shutil
import struct
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import trainer

USAGE, DATA, CHECKPOINT, OUTPUT = 2, 3, 9, 10


def saved(case, name, config, np=0):
    """Trains; returns the checkpoint of the last step and the events of the run."""
    log, path = case.path(name), case.path(name + ".ini")
    trainer.write_config(path, dict(config, **{"log.dir": log}))
    result = case.run([path], np=np)
    case.check(result.returncode == 0, f"{name}: exit {result.returncode}\n{result.stderr}")
    events = trainer.read_events(os.path.join(log, "metrics.jsonl"))
    return checkpoint(case, name, last(events, "done")["step"]), events


def checkpoint(case, name, step):
    return case.path(name, "checkpoints", f"step-{step:08d}")


def last(events, kind):
    return [e for e in events if e["event"] == kind][-1]


def refuses(case, name, arguments, code, parts, np=0, **options):
    result = case.run(arguments, np=np, **options)
    errors = [line for line in result.stderr.splitlines() if line.startswith("trainer: error")]
    case.check(result.returncode == code and len(errors) == 1 and result.stdout == "",
               f"{name}: exit {result.returncode}, expected {code}\n{result.stderr}{result.stdout}")
    for part in parts:
        case.check(errors and part in errors[0], f"{name}: '{part}' is not in {errors}")


# ---- --eval ----------------------------------------------------------------------------------------------------------

def evaluate(case, folder, *more, np=0, **options):
    """Step, loss and accuracy as printed."""
    result = case.run(["--eval", folder, *more], np=np, **options)
    words = result.stdout.split()
    if not case.check(result.returncode == 0 and result.stdout.count("\n") == 1 and len(words) in (5, 7), str(result)):
        return None, None, None
    case.check(words[0::2][:1] == ["step"] and words[2:4] == ["validation", "loss"], result.stdout)
    return int(words[1]), float(words[4]), float(words[6]) if len(words) == 7 else None


def evaluation(case, folder, events):
    """The run's own numbers, to the last bit, at any number of processes."""
    expected = last(events, "eval")
    numbers = (expected["step"], expected["loss"], expected.get("accuracy"))
    for np in [0] + case.worlds(2, 4):
        got = evaluate(case, folder, np=np)
        case.check(got == numbers, f"{folder}: np {np}: {got}, expected {numbers}")
    return numbers


def evaluations(case):
    for precision in ("f32", "f16"):
        config = trainer.mlp_config(case, **{"precision.compute": precision})
        evaluation(case, *saved(case, f"mlp-{precision}", config))


def evaluation_of_every_step(case):
    """Of a checkpoint in the middle, made by several processes."""
    config = trainer.gpt_config(case, **{"checkpoint.every": 2, "train.eval_every": 2, "precision.compute": "f16"})
    _, events = saved(case, "steps", config, np=case.worlds(1, 3)[-1])
    for line in [e for e in events if e["event"] == "eval"]:
        for np in case.worlds(1, 2):
            got = evaluate(case, checkpoint(case, "steps", line["step"]), np=np)
            case.check(got == (line["step"], line["loss"], None), f"np {np}: {got}, expected {line}")


def evaluation_elsewhere(case):
    """From another folder, by a link, on other data, and when the data has moved."""
    images = trainer.write_images(case.folder, name="here")
    val = trainer.write_images(case.folder, n=60, seed=2, name="val")
    config = trainer.mlp_config(case, **{"data.train": images, "train.steps": 3})
    folder, events = saved(case, "moves", config)
    os.symlink(folder, case.path("best"))
    numbers = evaluation(case, case.path("best"), events)
    relative = os.path.relpath(folder, case.folder)
    case.check(evaluate(case, relative, np=case.worlds(1, 2)[-1]) == numbers, "a path relative to the current folder")

    other = evaluate(case, folder, "--set", "data.val_fraction=0", "--set", f"data.val={val}")
    expected = last(case.train(dict(config, **{"data.val": val, "data.val_fraction": 0, "train.eval_every": 1,
                                               "train.steps": 1})), "eval")
    case.check(other[1] != numbers[1] and other[1] != expected["loss"], "other data, other weights: other numbers")
    few = evaluate(case, folder, "--set", "train.eval_batches=1")
    case.check(few[1] != numbers[1], "--set train.eval_batches is followed")

    refuses(case, "--set without --set", ["--eval", folder, "data.val=x"], USAGE, ["write --set data.val=x"])
    refuses(case, "nothing held out", ["--eval", folder, "--set", "data.val_fraction=0"], USAGE, ["data.val", "--set"])
    for kind in ("images-idx3", "labels-idx1"):
        os.rename(images.replace("images-idx3", kind), images.replace("images-idx3", kind).replace("here", "there"))
    for np in [0] + case.worlds(2):
        refuses(case, "moved data", ["--eval", folder], DATA, [images, "--set data.train="], np=np if np > 1 else 0)
    moved = "data.train=" + images.replace("here", "there")
    case.check(evaluate(case, folder, "--set", moved) == numbers, "moved data is found by one --set, its labels too")
    # With a file of its own the training data need not be there.
    case.check(evaluate(case, folder, "--set", "data.val_fraction=0", "--set", f"data.val={val}") == other,
               "training data is not needed")


def refused_checkpoints(case, folder):
    torn = case.path("torn")
    shutil.copytree(folder, torn)
    with open(os.path.join(torn, "model.safetensors"), "r+b") as file:
        file.seek(-100, os.SEEK_END)
        byte = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte[0] ^ 1]))
    empty = case.path("empty")
    os.mkdir(empty)
    for option in (["--eval"], ["--hash"], ["--generate", "--prompt", "x"]):
        absent = case.path("nowhere")
        for name, path, np in (("torn", torn, 0), ("torn", torn, 3), ("empty", empty, 0), ("absent", absent, 0)):
            refuses(case, f"{option[0]} of a {name} one (np {np})", option + [path], CHECKPOINT, [path], np=np)
    refuses(case, "another model", ["--eval", folder, "--set", "model.width=32"], CHECKPOINT,
            ["wte.weight", "64", "32"])
    refuses(case, "another kind", ["--eval", folder, "--set", "model.kind=mlp"], USAGE, ["model.kind"])


# ---- --hash ----------------------------------------------------------------------------------------------------------

def hashes(case, folder, events):
    expected = last(events, "done")["weights_hash"] + "\n"
    link = case.path("hash-link")
    os.symlink(folder, link)
    for path in (folder, link, os.path.join(folder, "model.safetensors")):
        for np in [0] + case.worlds(3):
            result = case.run(["--hash", path], np=np)
            case.check(result.returncode == 0 and result.stdout == expected, f"{path}: {result}, expected {expected}")


# ---- --verify-runs ---------------------------------------------------------------------------------------------------

def verify(case, a, b, code, parts, np=0):
    result = case.run(["--verify-runs", a, b], np=np)
    case.check(result.returncode == code, f"{a} against {b}: exit {result.returncode}, expected {code}\n{result}")
    for part in parts:
        case.check(part in result.stdout, f"{a} against {b}: '{part}' is not in {result.stdout!r}")


def runs(case):
    config = trainer.mlp_config(case, **{"checkpoint.every": 2})
    for name, more, np in (("run-a", {}, 0), ("run-b", {"device.threads": 1}, case.worlds(1, 3)[-1]),
                           ("run-c", {"train.seed": 2}, 0)):
        saved(case, name, dict(config, **more), np=np)
    for np in [0] + case.worlds(3):
        verify(case, case.path("run-a"), case.path("run-b"), 0, [], np=np)
        verify(case, case.path("run-a"), case.path("run-c"), 1, ["step 1", "step 2", "fc0.weight"], np=np)
    verify(case, checkpoint(case, "run-a", 6), checkpoint(case, "run-b", 6), 0, [])
    refuses(case, "one is missing", ["--verify-runs", case.path("run-a")], USAGE, ["--verify-runs needs A B"])
    refuses(case, "no run", ["--verify-runs", case.path("run-a"), case.path("nowhere")], USAGE, [case.path("nowhere")])


# ---- --generate ------------------------------------------------------------------------------------------------------

def generate(case, folder, prompt, *more, np=0, **options):
    result = case.run(["--generate", folder, "--prompt", prompt, *more], np=np, **options)
    case.check(result.returncode == 0 and result.stderr == "", f"{more}: {result}")
    return result.stdout


def texts(case, folder):
    first = generate(case, folder, "the lane ", "--tokens", "80")
    case.check(first.startswith("the lane ") and first.endswith("\n") and len(first) == 9 + 80 + 1, repr(first))
    for threads in (1, 2, 3):
        again = generate(case, folder, "the lane ", "--tokens", "80", "--set", f"device.threads={threads}")
        case.check(again == first, f"{threads} threads: {again!r}, before: {first!r}")
    for np in case.worlds(1, 3):
        again = generate(case, folder, "the lane ", "--tokens=80", np=np)
        case.check(again == first, f"np {np}: {again!r}")
    # A longer one begins as the shorter one: a token depends on what stands before it alone.
    case.check(generate(case, folder, "the lane ")[:89] == first[:-1], "256 tokens begin as 80 do")
    case.check(generate(case, folder, "the lane ", "--tokens", "80", "--seed", "2") != first, "another seed")
    case.check(generate(case, folder, "the lane ", "--tokens", "80", "--top-k", "0", "--temperature", "5") != first,
               "another temperature")
    greedy = generate(case, folder, "the lane ", "--tokens", "40", "--temperature", "0")
    for more in (["--seed", "7"], ["--top-k", "1"], ["--top-k", "0"]):
        case.check(generate(case, folder, "the lane ", "--tokens", "40", "--temperature", "0", *more) == greedy,
                   f"temperature 0 with {more}")
    case.check(generate(case, folder, "the lane ", "--tokens", "40", "--temperature", "3", "--top-k", "1") == greedy,
               "top-k 1 is temperature 0")
    for precision in ("f16", "bf16"):
        once = [generate(case, folder, "the lane ", "--tokens", "40", "--set", f"precision.compute={precision}",
                         "--set", f"device.threads={threads}") for threads in (1, 3)]
        case.check(once[0] == once[1] and len(once[0]) == 50, f"{precision}: {once}")


def counting(case):
    """A model that has learned to count goes on counting, also where its window is full and slides."""
    path = case.path("digits.txt")
    with open(path, "w") as file:
        file.write("0123456789" * 2000)
    config = trainer.gpt_config(case, **{"data.train": path, "model.dropout": 0, "model.context": 16,
                                         "train.steps": 120, "optimizer.lr": 3e-3, "train.eval_every": 0})
    folder, _ = saved(case, "digits", config)
    os.remove(path)     # no data is needed
    for prompt in ("456", "7", "234567890123456789012345678"):
        for more in (["--temperature", "0"], ["--top-k", "1"]):
            text = generate(case, folder, prompt, "--tokens", "60", *more)
            expected = ("0123456789" * 20)[int(prompt[0]):][:len(prompt) + 60] + "\n"
            case.check(text == expected, f"counting from {prompt}: {text!r}, expected {expected!r}")


def tokens(case):
    shard, n = case.path("ids.bin"), 5000
    with open(shard, "wb") as file:
        file.write(struct.pack("<3i", 20240520, 1, n) + bytes(1024 - 12))
        file.write(struct.pack(f"<{n}H", *[(7 * i) % 50 for i in range(n)]))
    config = trainer.gpt_config(case, **{"data.kind": "tokens", "data.train": shard, "model.vocab": 50,
                                         "model.dropout": 0, "train.steps": 120, "optimizer.lr": 3e-3,
                                         "train.eval_every": 0, "model.tied": "false"})
    folder, events = saved(case, "tokens", config)
    evaluation(case, folder, events)
    for prompt in ("0 7 14", "0,7,14"):
        text = generate(case, folder, prompt, "--tokens", "40", "--temperature", "0")
        case.check(text == " ".join(str(7 * i % 50) for i in range(43)) + "\n", f"tokens: {text!r}")
    refuses(case, "no id", ["--generate", folder, "--prompt", "Hello"], USAGE, ["Hello", "list of ids"])
    refuses(case, "id out of range", ["--generate", folder, "--prompt", "3 50"], USAGE, ["50", "position 1", "0 to 49"])


def refused_prompts(case, text_folder, mlp_folder):
    for np in case.worlds(1, 3):
        refuses(case, "no prompt", ["--generate", text_folder], USAGE, ["--prompt"], np=np)
        refuses(case, "mlp", ["--generate", mlp_folder, "--prompt", "x"], USAGE, ["model.kind = mlp", "gpt"], np=np)
    refuses(case, "empty prompt", ["--generate", text_folder, "--prompt", ""], USAGE, ["--prompt is empty"])
    refuses(case, "range", ["--generate", text_folder, "--prompt", "x", "--tokens", "0"], USAGE,
            ["--tokens 0", "1 and"])
    refuses(case, "not for --eval", ["--eval", text_folder, "--prompt", "x"], USAGE, ["--prompt goes with --generate"])
    with open("/dev/full", "w") as full:
        result = subprocess.run(case.command(["--generate", text_folder, "--prompt", "x"]), stdout=full, text=True,
                                stderr=subprocess.PIPE, timeout=60 * case.slow, env=case.environment)
        case.check(result.returncode == OUTPUT and "No space left" in result.stderr, f"full output: {result}")


def main():
    case = trainer.Case()
    text = saved(case, "text", trainer.gpt_config(case, **{"train.steps": 40, "optimizer.lr": 3e-3}))
    evaluations(case)
    evaluation(case, *text)
    evaluation_of_every_step(case)
    evaluation_elsewhere(case)
    refused_checkpoints(case, text[0])
    hashes(case, *text)
    runs(case)
    texts(case, text[0])
    counting(case)
    tokens(case)
    refused_prompts(case, text[0], checkpoint(case, "mlp-f32", 6))
    case.finish()


if __name__ == "__main__":
    main()
