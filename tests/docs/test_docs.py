# RUN: timeout=180
"""The documentation names what exists, and all of it: keys, options, exit codes, events, fields, files, paths, commands."""
import os
import re
import shlex
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "scripts"))
import reference
import trainer

ROOT = reference.ROOT
PAGES = ["README.md", "runtime/README.md", "bench/README.md", "runtime/docs/reference.md", "runtime/docs/same_bits.md",
         "runtime/docs/checking_kernels.md", "runtime/docs/gpus.md", "runtime/docs/monitoring.md",
         "scripts/deploy/README.md"]
FOLDERS = "bench|examples|kernels|runtime|scripts|tests|build"
# Programs whose options the pages use, besides ours; what they take is not ours to check.
FOREIGN = {"--bind-to", "--build", "--install", "--preset", "--target", "--test-dir", "--prefix", "--cflags", "--libs",
           # Slurm and docker
           "--batch", "--signal", "--gpus-per-node", "--gpus-per-task", "--config", "--init", "--shm-size", "--ulimit", "--gpus",
           "--ipc", "--time"}


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def blocks(text):
    """What stands between ``` lines: [(language, text)]."""
    return re.findall(r"^```(\w*)\n(.*?)^```", text, re.S | re.M)


def marked(text):
    """Everything a page shows as code: blocks, and words in `...`."""
    return "\n".join([body for _, body in blocks(text)] + re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", text, flags=re.S)))


# ---- what a page may name ---------------------------------------------------------------------------------------------

def unknown_keys(text, keys):
    """Words like section.key of sections that exist, and LOCKSTEP_SECTION_KEY, that name no key."""
    sections = {key.split(".")[0] for key in keys}
    found = re.findall(r"(?<![\w./-])(\w+)\.([a-z_0-9]+)(?![\w.(/])", marked(text))
    names = {f"{section}.{key}" for section, key in found
             if section in sections and key not in ("c", "h", "md", "py", "def", "json", "ini", "jsonl", "safetensors")}
    variables = {name.lower() for name in re.findall(r"\bLOCKSTEP_([A-Z]+_[A-Z_]+)\b", marked(text))}
    wrong = {name for name in variables
             if name.split("_")[0] in sections and name.replace("_", ".", 1) not in keys}
    return sorted(names - keys) + sorted(wrong)


def known_options(build):
    """Options of the programs, of the benchmarks, and those that a script of the project compares with."""
    found = set()
    for program in ("trainer", "gpus", "launch"):
        found |= set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", reference.ask(build, "--help", program)))
    for folder in ("scripts", "bench"):
        for name in os.listdir(os.path.join(ROOT, folder)):
            if name.endswith((".sh", ".py", ".c")):
                found |= set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", read(os.path.join(folder, name))))
    return found | FOREIGN


def unknown_options(text, options):
    return sorted(set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", marked(text))) - options)


def absent_paths(text, page):
    """Paths of the project, from its root, from the page's folder or from runtime/, that lead nowhere."""
    wrong = []
    for path in set(re.findall(rf"(?<![\w/.<>-])(?:\.\./)?(?:{FOLDERS})/[\w./*<>-]*", marked(text))):
        if re.search(r"[*<>]", path) or re.match(r"(\.\./)?build/", path):
            continue
        places = (ROOT, os.path.dirname(os.path.join(ROOT, page)), os.path.join(ROOT, "runtime"), os.path.join(ROOT, "build"))
        if not any(os.path.exists(os.path.join(place, path.rstrip("."))) for place in places):
            wrong.append(path)
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text):
        if not re.match(r"https?:", target) and not os.path.exists(
                os.path.join(ROOT, os.path.dirname(page), target)):
            wrong.append(target)
    return sorted(wrong)


def trainer_commands(text):
    """Argument lists of the lines in code blocks that start ./trainer, with or without mpirun."""
    found = []
    for language, body in blocks(text):
        if language in ("", "sh"):
            for line in body.replace("\\\n", " ").splitlines():
                match = re.search(r"(?:^|\s)\./trainer((?:\s+[^#|;&]*)?)", line)
                if match:
                    found.append([re.sub(r"\$\w+", "1", word) for word in shlex.split(match[1])])
    return found


def pages(case):
    keys = {f"{section}.{key}" for section, _, rows in reference.keys(case.build) for key, _, _, _ in rows}
    case.check(len(keys) > 50, f"{len(keys)} keys")
    options = known_options(case.build)
    for page in PAGES:
        text = read(page)
        case.check(not unknown_keys(text, keys), f"{page} names keys that do not exist: {unknown_keys(text, keys)}")
        case.check(not unknown_options(text, options), f"{page} names unknown options: {unknown_options(text, options)}")
        case.check(not absent_paths(text, page), f"{page} names paths that do not exist: {absent_paths(text, page)}")
        for language, body in blocks(text):
            if language == "sh":
                result = subprocess.run(["bash", "-n"], input=body, capture_output=True, text=True, check=False)
                case.check(result.returncode == 0, f"{page}: a block is no shell: {result.stderr}\n{body}")
    # The checks themselves: each finds what is planted.
    planted = "`train.step` `LOCKSTEP_TRAIN_SEEDS=1` `--bogus` `scripts/absent.sh` [x](absent.md) `train.seed`"
    case.check(unknown_keys(planted, keys) == ["train.step", "train_seeds"], "a wrong key is found")
    case.check(unknown_options(planted, options) == ["--bogus"], "a wrong option is found")
    case.check(absent_paths(planted, "README.md") == ["absent.md", "scripts/absent.sh"], "a wrong path is found")


def commands(case):
    """Every ./trainer line of the README is understood: options, configuration file, keys, values."""
    found = trainer_commands(read("README.md"))
    case.check(len(found) >= 5, f"{len(found)} commands")
    for words in found:
        if any(word.startswith("--") and word != "--set" for word in words):
            continue        # answers at once: the words before, and an option, which pages() has checked
        result = case.run(["--print-config"] + words, cwd=case.build)
        case.check(result.returncode == 0, f"./trainer {' '.join(words)}: {result.stderr}")


def generated(case):
    result = subprocess.run([sys.executable, os.path.join(ROOT, "scripts", "reference.py"), "--check", case.build],
                            capture_output=True, text=True, check=False)
    case.check(result.returncode == 0, f"run scripts/reference.py: {result.stdout}{result.stderr}")


def exit_codes(case):
    """The README's own sentence about exit codes has all of them."""
    text = read("README.md").split("## When something is wrong")[1].split("\n## ")[0]
    named = {int(code) for code in re.findall(r"(?<![\w.])(\d+)(?= [a-z])", text)}
    codes = set(reference.exit_codes()) - {0}
    case.check(codes <= named, f"README.md does not name exit codes {sorted(codes - named)}")


# ---- events and files, against real runs ----------------------------------------------------------------------------

def section(page, title):
    return page.split(f"## {title}\n")[1].split("\n## ")[0]


def documented_events(page):
    """{event: fields} from the page: a line with events, then a table whose first column names fields."""
    events = {}
    for heads, table in re.findall(r"^(`\w+`, [^\n]*):\n\n((?:\|[^\n]*\n)+)", section(page, "Events"), re.M):
        fields = {field for row in table.splitlines()[2:] for field in re.findall(r"`(\w+)`", row.split("|")[1])}
        for name in re.findall(r"`(\w+)`", heads):
            events[name] = fields
    return events


def fields_of_gpus(page):
    """Fields that only runs on GPUs have (tests/train/test_gemm_plan.py sees them)."""
    rows = re.findall(r"^\| ([^|]*) \| GPUs only: ", section(page, "Events"), re.M)
    return {field for row in rows for field in re.findall(r"`(\w+)`", row)}


def documented_files(text):
    """First columns of the tables of a part of the page."""
    rows = re.findall(r"^\| ([^|]*) \|", text, re.M)
    return {name.rstrip("/") for row in rows for name in re.findall(r"`([^`]+)`", row)}


def seen_events(runs):
    events = {}
    for event in (event for run in runs for event in run):
        events.setdefault(event["event"], set()).update(set(event) - {"event"})
    return events


def listing(folder):
    return {re.sub(r"^step-\d{8}$", "step-00000100", name) for name in os.listdir(folder)}


def stopped_run(case, config):
    """The events of a run that SIGUSR1 ends."""
    path, log = case.path("long.ini"), case.path("long")
    trainer.write_config(path, dict(config, **{"train.steps": 100000, "log.dir": log}))
    process = subprocess.Popen(case.command([path]), stdout=subprocess.DEVNULL)
    metrics = os.path.join(log, "metrics.jsonl")
    end = time.monotonic() + 60 * case.slow
    while time.monotonic() < end and (not os.path.exists(metrics) or os.path.getsize(metrics) < 5000):
        time.sleep(0.05)
    process.send_signal(signal.SIGUSR1)
    case.check(process.wait(60 * case.slow) == 75, f"exit {process.returncode} after SIGUSR1")
    return trainer.read_events(metrics)


def runs_of_all_kinds(case):
    """Runs that together show every event and field; the folder of the runs in one place."""
    log, path, events = case.path("log"), case.path("gpt.ini"), []
    gpt = trainer.gpt_config(case, **{"precision.compute": "f16", "loss_scale.initial": "2^24",
                                      "checkpoint.best": "loss", "log.dir": log})
    trainer.write_config(path, gpt)
    for resume in ("auto", "auto", "never"):
        result = case.run([path, "--set", "checkpoint.resume=" + resume])
        case.check(result.returncode == 0, result.stderr)
        events.append(trainer.read_events(os.path.join(log, "metrics.jsonl")))
    mlp = trainer.mlp_config(case)
    return events + [case.train(mlp), stopped_run(case, mlp)], log


def compare(case, what, told, seen):
    case.check(told == seen, f"{what}: only told: {sorted(told - seen)}, only seen: {sorted(seen - told)}")


def events_and_files(case):
    page = read("runtime/docs/reference.md")
    runs, log = runs_of_all_kinds(case)
    told, seen = documented_events(page), seen_events(runs)
    compare(case, "events", set(told), set(seen))
    seen["done"] = seen["stopped"] = seen.get("done", set()) | seen.get("stopped", set())    # told in one table
    for name in set(told) & set(seen):
        compare(case, name, told[name] - (fields_of_gpus(page) - seen[name]), seen[name])
    compare(case, "files of a run", documented_files(section(page, "Files of a run")), listing(log))
    around, inside = section(page, "Files of checkpoints").split("Files of one checkpoint:")
    folder = os.path.join(log, "checkpoints")
    compare(case, "checkpoint.dir", documented_files(around), listing(folder))
    compare(case, "a checkpoint", documented_files(inside), listing(os.path.join(folder, "best")))


def main():
    case = trainer.Case()
    generated(case)
    pages(case)
    commands(case)
    exit_codes(case)
    events_and_files(case)
    case.finish()


if __name__ == "__main__":
    main()
