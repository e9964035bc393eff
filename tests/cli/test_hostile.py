# RUN: timeout=600 label=contract,slow
"""A hostile and a clumsy user: odd places for output, closed streams, signals, models that no machine holds, shapes at
the edge. The program ends with one clear line and its code, harms nothing, and leaves nobody behind."""
import json
import os
import random
import signal
import stat
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import trainer

CONFIG, DATA, MEMORY, CHECKPOINT, OUTPUT, STOPPED = 2, 3, 4, 9, 10, 75


def errors_of(text):
    return [line for line in text.splitlines() if line.startswith("trainer: error")]


class Hostile(trainer.Case):
    def __init__(self):
        super().__init__()
        self.ini = {}
        for name, config in (("mlp", trainer.mlp_config(self)), ("gpt", trainer.gpt_config(self))):
            config.pop("log.level")
            self.ini[name] = self.path(name + ".ini")
            # The cases share a folder: none goes on from what another one has saved.
            trainer.write_config(self.ini[name], dict(config, **{"log.dir": self.path("log"), "checkpoint.resume": "never"}))

    def arguments(self, name, settings):
        return [self.ini[name]] + [word for setting in settings for word in ("--set", setting)]

    def refuses(self, label, name, settings, code, parts, np=0, limit=20):
        start = time.time()
        result = self.run(self.arguments(name, settings), np=np)
        lines = errors_of(result.stderr)
        good = result.returncode == code and len(lines) == 1 and all(part in lines[0] for part in parts)
        self.check(good, f"{label}: exit {result.returncode}, expected {code} with {parts}\n{result.stderr}")
        self.check(time.time() - start < limit * self.slow, f"{label}: took {time.time() - start:.1f} s")

    def weights(self, label, name, settings, np=0):
        """Trains into a folder of its own; its weights hash."""
        log = self.path("run-" + label.replace(" ", "-"))
        result = self.run(self.arguments(name, settings + ["log.dir=" + log]), np=np)
        if not self.check(result.returncode == 0, f"{label}: exit {result.returncode}\n{result.stderr}"):
            return None
        return trainer.read_events(os.path.join(log, "metrics.jsonl"))[-1]["weights_hash"]


def output_places(case):
    folder = case.path("results")
    os.makedirs(os.path.join(folder, "kept"))
    case.refuses("metrics is a folder", "mlp", ["log.metrics=" + folder, "log.dir=" + case.path("unmade")], OUTPUT,
                 [folder, "is a folder"])
    case.check(os.path.isdir(os.path.join(folder, "kept")), "a folder given as log.metrics stays where it is")
    case.check(not os.path.exists(case.path("unmade")), "nothing is made before the refusal")
    plain = case.path("plain")
    open(plain, "w").write("kept")
    case.refuses("log.dir is a file", "mlp", ["log.dir=" + plain], OUTPUT, [plain, "is not a folder"])
    case.refuses("log.dir under a file", "mlp", ["log.dir=" + plain + "/below"], OUTPUT, [plain])
    case.check(open(plain).read() == "kept", "a file given as log.dir is untouched")
    case.refuses("log.dir cannot be made", "mlp", ["log.dir=/proc/none"], OUTPUT, ["/proc/none"])
    device = os.stat("/dev/full")
    for np in case.worlds(1, 3):
        case.refuses(f"full disk, np {np}", "mlp", ["log.metrics=/dev/full"], OUTPUT, ["/dev/full", "No space left"],
                     np=np)
        for place, part in ((folder, "Is a directory"), ("/dev/full", "not a regular file"),
                            ("/proc/none/t", "create the folder")):
            case.refuses(f"trace to {place}, np {np}", "mlp", ["log.trace=" + place], OUTPUT, [part], np=np)
    after = os.stat("/dev/full")
    case.check(stat.S_ISCHR(after.st_mode) and after.st_ino == device.st_ino, "/dev/full is still there")
    pipe = case.path("pipe")
    os.mkfifo(pipe)
    case.refuses("a pipe nobody reads", "mlp", ["log.metrics=" + pipe], OUTPUT, [pipe, "nobody reads"])
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    with subprocess.Popen(case.command(case.arguments("mlp", ["log.metrics=" + pipe, "train.steps=1000000"])),
                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        time.sleep(0.5 * case.slow)
        os.close(reader)
        try:
            text = process.communicate(timeout=30 * case.slow)[1]
        except subprocess.TimeoutExpired:
            process.kill()
            text = "it hung"
        case.check(process.returncode == OUTPUT and len(errors_of(text)) == 1,
                   f"reader gone: {process.returncode} {text}")
    log = case.path("elsewhere")
    other = f"/dev/shm/lockstep-test-{os.getpid()}"
    if os.path.isdir("/dev/shm") and os.access("/dev/shm", os.W_OK):
        for _ in range(2):
            result = case.run(case.arguments("mlp", [f"log.metrics={other}/m.jsonl", "log.dir=" + log,
                                                     "checkpoint.resume=never"]))
            case.check(result.returncode == 0, "metrics on another file system, twice: " + result.stderr)
        case.check(os.path.exists(f"{other}/previous-1/m.jsonl"), "the first metrics are kept beside the second")
        subprocess.run(["rm", "-r", other], check=True)


def two_at_once(case):
    log = case.path("shared")
    settings = ["log.dir=" + log, "train.steps=1000000"]
    with subprocess.Popen(case.command(case.arguments("mlp", settings)), stdout=subprocess.DEVNULL) as first:
        metrics = os.path.join(log, "metrics.jsonl")
        while not os.path.exists(metrics) or os.path.getsize(metrics) == 0:
            time.sleep(0.05)
        case.refuses("a second run in the same folder", "mlp", ["log.dir=" + log], CHECKPOINT,
                     [os.path.join(log, "checkpoints"), "another run"])
        case.refuses("the same metrics file", "mlp", ["log.metrics=" + metrics, "log.dir=" + case.path("shared-not")],
                     OUTPUT, [metrics, "another run"])
        case.check(first.poll() is None and sorted(os.listdir(log)) == ["checkpoints", "metrics.jsonl"], "the first run goes on undisturbed")
        first.terminate()
    case.check(first.returncode == STOPPED, f"SIGTERM ends it: {first.returncode}")
    case.check(case.run(case.arguments("mlp", ["log.dir=" + log])).returncode == 0, "its folder is free afterwards")


def closed_streams(case):
    for closing in (">&-", "<&- >&-", ">&- 2>&-", "<&- >&- 2>&-", "<&- 2>&-"):
        log = case.path("closed")
        command = case.command(case.arguments("mlp", ["log.dir=" + log]))
        code = subprocess.run(["sh", "-c", '"$@" ' + closing, "sh"] + command, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL).returncode
        try:
            events = trainer.read_events(os.path.join(log, "metrics.jsonl"))
        except (OSError, json.JSONDecodeError) as problem:
            events = [{"event": str(problem)}]
        case.check(code == 0 and events[-1]["event"] == "done",
                   f"streams closed by {closing}: {code}, {events[-1]['event']}")
    for option, target in (("--help", ">&-"), ("--help-config", ">/dev/full")):
        result = subprocess.run(["sh", "-c", '"$@" ' + target, "sh"] + case.command([option]), capture_output=True,
                                text=True)
        case.check(result.returncode == OUTPUT and len(errors_of(result.stderr)) == 1, f"{option} {target}: {result}")
    shell = '"$@" | head -1 >/dev/null; exit ${PIPESTATUS[0]}'
    result = subprocess.run(["bash", "-c", shell, "bash"] + case.command(case.arguments("mlp", ["train.log_every=1"])))
    case.check(result.returncode == 0, f"nobody reads standard output to its end: {result.returncode}")


def trainers_of(launcher):
    """Processes of mpirun that run the trainer by now."""
    found = []
    for name in os.listdir("/proc"):
        try:
            parent = int(open(f"/proc/{name}/stat").read().rsplit(")", 1)[1].split()[1]) if name.isdigit() else -1
            if parent == launcher and os.path.basename(os.readlink(f"/proc/{name}/exe")) == "trainer":
                found.append(int(name))
        except OSError:
            pass
    return found


def lives(pid):
    try:
        return open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def signals(case):
    rng = random.Random(20)
    settings = ["train.steps=100000000", "log.dir=" + case.path("signalled")]
    for world in case.worlds(1, 3):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
            for delay in (rng.uniform(0.05, 0.4), rng.uniform(0.4, 1.2)):
                np = world if world > 1 else 0
                process = subprocess.Popen(case.command(case.arguments("mlp", settings), np=np),
                                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                           env={**trainer.MPI_ENVIRONMENT, **os.environ})
                ranks = [] if np else [process.pid]
                while len(ranks) < world and process.poll() is None:
                    ranks = trainers_of(process.pid)
                time.sleep(delay * (case.slow if number != signal.SIGKILL else 1))
                victim = rng.choice(ranks)
                os.kill(victim, number)
                label = f"signal {number} to a process of {world} after {delay:.2f} s"
                try:
                    code = process.wait(timeout=20 * case.slow)
                except subprocess.TimeoutExpired:
                    process.kill()
                    code = "a hang"
                end = time.time() + 10
                while any(map(lives, ranks)) and time.time() < end:
                    time.sleep(0.05)
                left = [pid for pid in ranks if lives(pid)]
                expected = (128 + number,) if np else (-number,)
                if number == signal.SIGTERM:        # a request, once the process is there to hear it
                    expected += (STOPPED,)
                case.check(code in expected, f"{label}: ended with {code}, expected {expected}")
                case.check(not left, f"{label}: processes {left} live on")
                for pid in left:
                    os.kill(pid, signal.SIGKILL)


def too_large(case):
    """Refused from the plan alone: within seconds, whatever the size, with the size of each class."""
    giant = ["model.width=65536", "model.layers=1024", "model.heads=256", "comm.bucket_bytes=1G",
             "comm.zero=0"]
    classes = ["not enough memory", "weights 192.0 TiB", "gradients", "optimizer state 384.0 TiB", "activations"]
    for np in case.worlds(1, 2):
        case.refuses(f"giant gpt, np {np}", "gpt", giant, MEMORY, classes, np=np)
    ahead = ["data.kind=synthetic", "data.features=1048576", "data.samples=10000000", "train.global_batch=65536",
             "train.micro_batch=1024", "model.hidden=1", "data.prefetch=64"]
    case.refuses("prefetched samples", "mlp", ahead, MEMORY, ["samples prepared ahead 16.0 TiB"])
    case.refuses("buckets beyond counting", "gpt", giant + ["comm.bucket_bytes=64k"], CONFIG, ["comm.bucket_bytes"])
    slot = ["data.kind=synthetic", "data.samples=1099511627776", "train.global_batch=16777216",
            "train.micro_batch=16777216", "train.lanes=1", "model.context=65536"]
    case.refuses("a slot beyond counting", "gpt", giant + slot, CONFIG, ["too large"])
    available = 0
    for line in open("/proc/meminfo"):
        if line.startswith("MemAvailable:"):
            available = int(line.split()[1]) * 1024
    if case.has_mpi and available > 0:
        # Each of four alone would fit, all together do not: the system would kill one of them after minutes.
        side = int((available / 3 / 5 / 4) ** 0.5)
        wide = [f"model.hidden={side},{side}", "train.micro_batch=3", "train.lanes=4", "train.global_batch=12",
                "comm.zero=0"]
        case.refuses("too much together", "mlp", wide, MEMORY, ["not enough memory", "together"], np=4)


def small_shapes(case):
    for name, text in (("empty", b""), ("one", b"a"), ("two", b"ab"), ("nul", b"\0\0")):
        open(case.path(name + ".txt"), "wb").write(text)
    single = ["train.global_batch=1", "train.micro_batch=1", "train.lanes=1", "data.val_fraction=0"]
    for name in ("empty", "one"):
        case.refuses(name + " text", "gpt", single + ["data.train=" + case.path(name + ".txt")], DATA, [name + ".txt"])
    for name in ("two", "nul"):
        for context in (1, 32):
            train = "data.train=" + case.path(name + ".txt")
            case.weights(f"{name} bytes, context {context}", "gpt", single + [train, f"model.context={context}"])
    case.weights("validation of one sample", "gpt", ["data.val_fraction=0", "data.val=" + case.path("two.txt")])
    case.weights("one lane", "gpt", ["train.lanes=1"])
    case.weights("one slot", "gpt", ["train.micro_batch=16", "train.lanes=1"])
    case.weights("one channel", "gpt", ["model.width=1", "model.heads=1", "model.layers=1", "model.context=1"])
    case.weights("a fraction of an epoch", "mlp", ["train.steps=0", "train.epochs=0.0001"])
    case.weights("one hidden unit", "mlp", ["model.hidden=1"])
    case.refuses("vocabulary of one", "gpt", ["model.vocab=1"], DATA, ["text.txt", "vocabulary of 1"])
    case.refuses("batch above the data", "gpt", ["train.global_batch=160000"], DATA, ["160000"])


def odd_worlds(case):
    batch = ["train.global_batch=26", "train.micro_batch=2"]
    for lanes in (7, 12, 13):
        wanted = case.weights(f"{lanes} lanes", "gpt", batch + [f"train.lanes={lanes}"])
        for np in (5, 6, 7):
            if case.has_mpi:
                found = case.weights(f"{lanes} lanes on {np}", "gpt", batch + [f"train.lanes={lanes}"], np=np)
                case.check(found == wanted, f"13 slots in {lanes} lanes: the same weights on {np} processes")


def odd_settings(case):
    log = case.path("a b;c#d")
    for setting in (f"log.dir={log}", f'log.dir="{log}"'):
        result = case.run(["--print-config", case.ini["mlp"], "--set", setting])
        case.check(result.returncode == 0 and f'dir = "{log}"' in result.stdout, f"--set {setting}: {result.stderr}")
    environment = {"LOCKSTEP_TRAIN_SEED": '"5"', "LOCKSTEP_": "x", "LOCKSTEP_X": ""}
    result = case.run(["--print-config", case.ini["mlp"]], env=environment)
    case.check(result.returncode == 0 and "seed = 5" in result.stdout, f"quotes in the environment: {result.stderr}")
    below, settings = case.path("below"), {"log.trace": "t.json", "train.steps": 1, "data.kind": "synthetic"}
    os.mkdir(below)
    trainer.write_config(os.path.join(below, "trace.ini"), settings)
    result = case.run(["--print-config", "below/trace.ini"])
    case.check(f"trace = {below}/t.json" in result.stdout, f"log.trace lies beside its file: {result.stdout}")
    case.refuses("trace in place of metrics", "mlp", ["log.trace=m", "log.metrics=m"], CONFIG,
                 ["log.trace", "log.metrics"])
    for setting, part in (
            ("log.trace=~/trace.json", "'~'"),
            ('log.dir="x', "quote"), ('log.dir="x"y', "quote"), ("log.dir=~/runs", "'~'"), ("=", "section.key"),
            ("train.steps", "section.key"), ("", "section.key"), (".steps=3", "unknown section"),
            ("train.=3", "unknown key"), ("TRAIN.STEPS=3", "unknown section"), ("train.steps=", "no value"),
            ("train.steps='3'", "whole number"), ("train.steps=3=4", "whole number"),
            ("train.steps=3\n", "whole number"),
            ("train.steps=99999999999999999999", "too large"), ("log.dir=a\nb", "control character"),
            ("log.dir=" + "/y" * 3000, "4095"), ("log.dir=" + "y" * 300, "255"),
            ("data.val_fraction=1e400", "too large")):
        result = case.run(case.arguments("mlp", [setting]))
        lines = errors_of(result.stderr)
        case.check(result.returncode == CONFIG and len(lines) == 1 and part in lines[0] and len(lines[0]) < 400,
                   f"--set {setting[:40]!r}: {result.returncode} {result.stderr[:500]}")
    for name, text in (("long line", "#" + "y" * 900000 + "\n"), ("many lines", "# x\n" * 200000)):
        path = case.path("large.ini")
        open(path, "w").write(open(case.ini["mlp"]).read() + text)
        case.check(case.run([path]).returncode == 0, f"a configuration with a {name}")
    open(path, "a").write("# x\n" * 300000)
    result = case.run([path])
    case.check(result.returncode == CONFIG and "large.ini" in result.stderr, "a configuration above 1 MiB is refused")


def another_user(case):
    """Without a home, in a folder that cannot be written."""
    if os.getuid() != 0:
        return
    os.chmod(case.folder, 0o755)
    log = case.path("open")
    os.mkdir(log)
    os.chmod(log, 0o777)
    readonly = case.path("readonly")
    os.mkdir(readonly)
    environment = {"PATH": os.environ["PATH"], **trainer.MPI_ENVIRONMENT}
    user = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
    if subprocess.run(user + case.command(["--version"]), capture_output=True, env=environment).returncode != 0:
        print("skipped: cannot run as another user here")
        return
    for world in case.worlds(1, 2):
        for settings, code in ((["log.dir=" + log], 0), (["log.dir="], OUTPUT)):
            command = user + case.command(case.arguments("mlp", settings), np=world if world > 1 else 0)
            result = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=readonly)
            good = code == 0 or ("Permission denied" in result.stderr and len(errors_of(result.stderr)) == 1)
            case.check(result.returncode == code and good,
                       f"another user, {settings}, np {world}: {result.returncode} {result.stderr}")


def main():
    case = Hostile()
    for part in (output_places, two_at_once, closed_streams, signals, too_large, small_shapes, odd_worlds, odd_settings,
                 another_user):
        start = time.time()
        part(case)
        print(f"{part.__name__}: {time.time() - start:.1f} s", flush=True)
    case.finish()


if __name__ == "__main__":
    main()
