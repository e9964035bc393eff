# RUN: timeout=600 label=contract,slow
"""Bad input: one line beginning `trainer: error`, the documented code on all ranks within ten seconds, output folders as
they were. Also: what looks bad but is fine."""
import gzip
import os
import re
import struct
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import trainer

CONFIG, DATA, DEVICE, NUMERIC = 2, 3, 5, 8


class Errors(trainer.Case):
    def __init__(self):
        super().__init__()
        self.log = self.path("log")
        os.mkdir(self.log)
        with open(os.path.join(self.log, "metrics.jsonl"), "w") as file:
            file.write('{"event":"kept"}\n')
        os.mkdir(self.path("data"))
        self.base = {k: v for k, v in trainer.mlp_config(self).items() if k not in ("log.level", "device.threads")}
        self.base.update({"train.steps": 2, "log.dir": self.log, "checkpoint.resume": "never"})

    def config(self, **changes):
        values = dict(self.base)
        for key, value in changes.items():
            key = key.replace("__", ".")
            if value is None:
                values.pop(key, None)
            else:
                values[key] = value
        path = self.path("run.ini")
        trainer.write_config(path, values)
        return path

    def lacks(self, choice):
        """Whether help says that this build does not have it."""
        lists = re.findall(r"\(not in this build: ([^)]*)\)", self.run(["--help-config"]).stdout)
        return choice in [name for text in lists for name in text.split(", ")]

    def snapshot(self):
        # A run that is ended while it reads may have moved the old file away and not yet begun a new one.
        path = os.path.join(self.log, "metrics.jsonl")
        metrics = open(path).read() if os.path.exists(path) else None
        return sorted((root, sorted(files)) for root, _, files in os.walk(self.log)), metrics

    def refuses(self, name, arguments, code, parts, np=(1, 3), keeps_output=True, **options):
        for world in self.worlds(*np):
            before, start = self.snapshot(), time.time()
            result = self.run(arguments, np=world if world > 1 else 0, **options)
            seconds = time.time() - start
            errors = [line for line in result.stderr.splitlines() if line.startswith("trainer: error")]
            label = f"{name} (np {world})"
            self.check(result.returncode == code, f"{label}: exit {result.returncode}, expected {code}\n{result.stderr}")
            self.check(len(errors) == 1, f"{label}: {len(errors)} error lines\n{result.stderr}")
            for part in parts:
                self.check(errors and part in errors[0], f"{label}: '{part}' is not in: {errors}")
            limit = 60 if self.sanitizer else 10
            self.check(seconds < limit, f"{label}: took {seconds:.1f} s")
            self.check(not keeps_output or self.snapshot() == before, f"{label}: the output folder has changed")

    def accepts(self, name, arguments, np=0, **options):
        result = self.run(arguments, np=np, **options)
        self.check(result.returncode == 0, f"{name}: exit {result.returncode}\n{result.stderr}")
        return result


def command_line(case):
    good = case.config()
    case.refuses("no arguments", [], CONFIG, ["no configuration file"])
    case.refuses("unknown option", [good, "--sett", "a.b=1"], CONFIG, ["--sett", "--set"])
    case.refuses("two files", [good, "other.ini"], CONFIG, ["other.ini"])
    case.refuses("--set alone", [good, "--set"], CONFIG, ["--set"])
    case.refuses("missing file", [case.path("none.ini")], CONFIG, ["none.ini", "No such file"])
    case.refuses("directory", [case.folder], CONFIG, [case.folder, "directory"])
    case.refuses("unknown key in --set", [good, "--set", "train.step=3"], CONFIG, ["train.step", "train.steps"])
    case.refuses("unknown key in the environment", [good], CONFIG, ["LOCKSTEP_TRAIN_STEP"], env={"LOCKSTEP_TRAIN_STEP": "3"})


def values(case):
    for text in ("0,0003", "nan", "1e-4x", "inf", "-1", "0x10"):
        case.refuses(f"lr = {text}", [case.config(optimizer__lr=text)], CONFIG, ["run.ini:", "optimizer.lr"], np=(1,))
    case.refuses("comma", [case.config(optimizer__lr="0,0003")], CONFIG, ["0.0003"])
    case.refuses("unknown key", [case.config(train__stepss=3)], CONFIG, ["run.ini:", "train.steps"])
    case.refuses("unknown section", [case.config(trian__steps=3)], CONFIG, ["run.ini:", "train"], np=(1,))
    with open(case.path("twice.ini"), "w") as file:
        file.write(open(case.config()).read() + "[optimizer]\nlr = 1\nlr = 2\n")
    case.refuses("duplicate key", [case.path("twice.ini")], CONFIG, ["twice.ini:", "lr"])
    case.refuses("micro_batch", [case.config(train__global_batch=20)], CONFIG, ["20", "3", "21", "18"], np=(1,))
    case.refuses("unknown kind", [case.config(model__kind="mpl")], CONFIG, ["mlp"], np=(1,))
    tf32 = (CONFIG, "not in this build") if case.lacks("tf32") else (DEVICE, "needs a GPU")
    case.refuses("another build's choice", [case.config(precision__compute="tf32", device__backend="cpu")], tf32[0],
                 ["tf32", tf32[1]], np=(1,))
    case.refuses("gpt on images", [case.config(model__kind="gpt")], CONFIG, ["data.kind"], np=(1,))
    case.refuses("heads", [case.config(model__kind="gpt", data__kind="synthetic", model__width=64, model__heads=5)], CONFIG,
                 ["64", "5"], np=(1,))
    case.refuses("no length", [case.config(train__steps=None)], CONFIG, ["train.steps", "train.epochs"], np=(1,))
    if case.has_mpi:
        case.refuses("more processes than lanes", [case.config(train__lanes=2)], CONFIG, ["train.lanes", "3"], np=(3,))
        case.refuses("transport self", [case.config(comm__transport="self")], CONFIG, ["comm.transport"], np=(2,))


def images(case):
    good = gzip.open(case.base["data.train"]).read()
    labels = gzip.open(case.base["data.train"].replace("images-idx3", "labels-idx1")).read()

    def pair(name, image_bytes, label_bytes):
        path = case.path("data", f"{name}-images-idx3-ubyte")
        if image_bytes is not None:
            open(path, "wb").write(image_bytes)
        if label_bytes is not None:
            open(path.replace("images-idx3", "labels-idx1"), "wb").write(label_bytes)
        return case.config(data__train=path)

    def bad(name, image_bytes, label_bytes, parts, code=DATA, **more):
        case.refuses(name, [pair(name.replace(" ", "-"), image_bytes, label_bytes)], code, parts, **more)

    bad("missing", None, labels, ["missing-images-idx3-ubyte", "No such file"])
    bad("no labels", good, None, ["no-labels-labels-idx1-ubyte"], np=(1,))
    bad("truncated", good[:-100], labels, ["truncated-images"])
    bad("garbage", os.urandom(5000), labels, ["garbage-images"], np=(1,))
    bad("empty", b"", labels, ["empty-images"])
    bad("gzip cut short", gzip.compress(good)[:-200], labels, ["gzip-cut-short-images"])
    bad("trailing", good + b"x", labels, ["trailing-images"], np=(1,))
    bad("counts differ", good, trainer.idx_bytes([199], labels[8:-1]), ["200", "199"])
    os.mkdir(case.path("data", "folder-images-idx3-ubyte"))
    case.refuses("directory", [pair("folder", None, labels)], DATA, ["folder-images-idx3-ubyte", "directory"])
    case.refuses("smaller than a batch", [case.config(train__global_batch=300, train__micro_batch=3)], DATA, ["300"])
    case.refuses("label out of range", [case.config(model__vocab=9)], DATA, ["label", "9"])
    case.refuses("text as images", [case.config(data__train=case.path("run.ini"))], DATA, ["data.labels"], np=(1,))
    if os.getuid() == 0:
        secret = pair("secret", good, labels)
        path = case.path("data", "secret-images-idx3-ubyte")
        os.chmod(path, 0)
        unreadable_to_another(case, secret, path)


def unreadable_to_another(case, config, path):
    """Root reads everything, so this is tried as nobody."""
    os.chmod(case.folder, 0o755)
    command = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"] + case.command([config])
    # Neither may it write into the folder that this test's own programs give Open MPI.
    environment = {k: v for k, v in os.environ.items() if k != "OMPI_MCA_orte_tmpdir_base"}
    result = subprocess.run(command, capture_output=True, text=True, cwd="/tmp", env=environment, timeout=60 * case.slow)
    if "setpriv" in result.stderr or result.returncode in (126, 127):
        print("skipped: cannot run as another user here: " + result.stderr.strip())
        return
    case.check(result.returncode == DATA and path in result.stderr and "Permission denied" in result.stderr,
               f"unreadable file: exit {result.returncode}\n{result.stderr}")


def tokens(case):
    def shard(name, ids, version=1, magic=20240520, n=None, width="H"):
        header = struct.pack("<3i", magic, version, len(ids) if n is None else n) + bytes(1024 - 12)
        path = case.path("data", name)
        open(path, "wb").write(header + struct.pack(f"<{len(ids)}{width}", *ids))
        return path

    def config(path, **more):
        return case.config(model__kind="gpt", model__layers=1, model__heads=2, model__width=32, model__context=8,
                           model__hidden=None, data__kind="tokens", data__train=path, data__val_fraction=0, **more)

    ids = [i % 100 for i in range(2000)]
    ids[1234] = 777
    # Found when it is read, which is after the run has begun to write.
    case.refuses("token id", [config(shard("a.bin", ids), model__vocab=100, train__steps=20)], DATA, ["a.bin", "777", "100"],
                 keeps_output=False)
    case.refuses("wrong magic", [config(shard("b.bin", ids, magic=1))], DATA, ["b.bin"], np=(1,))
    case.refuses("wrong count", [config(shard("c.bin", ids, n=5000))], DATA, ["c.bin", "5000"], np=(1,))
    case.refuses("no such shard", [config(case.path("data", "none-*.bin"))], DATA, ["none-*.bin"], np=(1,))


def accepted(case):
    good = case.config()
    text = open(good).read()
    with open(case.path("windows.ini"), "wb") as file:
        file.write(b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode())
    case.accepts("BOM and CRLF", [case.path("windows.ini")])
    case.accepts("another locale", [good], env={"LC_ALL": "de_DE.UTF-8", "LANG": "de_DE.UTF-8"})
    case.accepts("without mpirun", [good])
    if case.has_mpi:
        command = ["mpirun", "--bind-to", "none", "-np", "1", os.path.join(case.build, "trainer"), good, ":", "-np", "1",
                   os.path.join(case.build, "trainer"), "/nonexistent"]
        result = subprocess.run(command, capture_output=True, text=True, cwd=case.folder, timeout=120 * case.slow,
                                env={**trainer.MPI_ENVIRONMENT, **os.environ})
        case.check(result.returncode == 0, f"configuration on rank 0 only: exit {result.returncode}\n{result.stderr}")
    relative = case.config(data__train=os.path.basename(case.base["data.train"]))
    case.accepts("paths beside the file", [relative], cwd="/")


def give_up(case):
    """Weights that blow up: steps are skipped, and the run ends with code 8 on all ranks."""
    for world in case.worlds(1, 2):
        result = case.run([case.config(optimizer__lr=1000, optimizer__kind="sgd", optimizer__clip=0, train__steps=400,
                                       loss_scale__give_up_after=3)], np=world if world > 1 else 0)
        errors = [line for line in result.stderr.splitlines() if line.startswith("trainer: error")]
        case.check(result.returncode == 8 and len(errors) == 1 and "give_up_after" in errors[0],
                   f"give up (np {world}): exit {result.returncode}\n{result.stderr}")
        events = trainer.read_events(os.path.join(case.log, "metrics.jsonl"))
        steps = [e for e in events if e["event"] == "step"]
        skipped = [e for e in steps if e["skipped"]]
        numbers = [e["step"] for e in steps]
        case.check(f"step {len(steps)}:" in errors[0] and numbers == list(range(1, len(steps) + 1)) and
                   steps[-3:] == skipped[-3:], f"every step up to the last is in the metrics: {steps[-4:]} {errors}")
        case.check(all(isinstance(e["grad_norm"], str) or isinstance(e["loss"], str) for e in skipped),
                   "skipped steps are in the metrics, their non-finite numbers as texts")


def give_up_where_the_scale_cannot_fall(case):
    """Dynamic scaling in f16: at its minimum, or with a back-off that changes nothing."""
    for scale in ({"loss_scale__min": "2^16"}, {"loss_scale__backoff": 1}):
        for world in case.worlds(1, 2):
            config = case.config(precision__compute="f16", optimizer__lr=1000, optimizer__kind="sgd", optimizer__clip=0,
                                 train__steps=400, loss_scale__give_up_after=3, **scale)
            case.refuses(f"give up, {scale}", [config], NUMERIC, ["give_up_after", "65536"], np=(world,),
                         keeps_output=False)


def main():
    case = Errors()
    command_line(case)
    values(case)
    images(case)
    tokens(case)
    accepted(case)
    give_up(case)
    give_up_where_the_scale_cannot_fall(case)
    case.finish()


if __name__ == "__main__":
    main()
