# RUN: timeout=120
"""scripts/deploy: each file is right to its own tools, where those are installed, and agrees with what launch does."""
import os
import re
import shutil
import signal
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "launch"))
import launch_case
import trainer

try:
    import yaml
except ImportError:
    yaml = None
try:
    import kubernetes_validate
except ImportError:
    kubernetes_validate = None

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
DEPLOY = os.path.join(ROOT, "scripts", "deploy")
LINT = "{extends: default, rules: {line-length: {max: 130}, document-start: disable}}"


def files(*endings):
    found = [os.path.join(where, name) for where, _, names in os.walk(DEPLOY) for name in names]
    return sorted(path for path in found if path.endswith(endings))


def read(*path):
    with open(os.path.join(DEPLOY, *path), encoding="utf-8") as file:
        return file.read()


def tool(case, command, what, **options):
    """Runs a checker where it is installed; says so where it is not."""
    if shutil.which(command[0]) is None:
        print(f"not checked, no {command[0]}: {what}")
        return
    result = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    case.check(result.returncode == 0, f"{command[0]}, {what}: {result.stdout}{result.stderr}")


def by_their_tools(case):
    yamls, scripts = files(".yaml", ".yml"), files(".sh", ".sbatch")
    case.check(len(yamls) >= 3 and len(scripts) >= 3, f"{yamls} {scripts}")
    tool(case, ["yamllint", "-s", "-d", LINT] + yamls, "all YAML")
    for script in scripts:
        tool(case, ["bash", "-n", script], script)
    tool(case, ["shellcheck"] + scripts, "all scripts")
    tool(case, ["hadolint", os.path.join(DEPLOY, "Dockerfile")], "Dockerfile")
    for profile in ("cpu", "gpu"):
        tool(case, ["docker-compose", "-f", os.path.join(DEPLOY, "compose.yaml"), "--profile", profile, "config", "-q"],
             "compose.yaml", env={**os.environ, "WORK": case.folder}, cwd=case.folder)


def paths_exist(case):
    """What the images take from the project is there."""
    text = read("apptainer.def")
    section = text.split("%files\n")[1].split("\n\n")[0]
    taken = [line.split() for line in section.splitlines()]
    case.check(len(taken) > 5 and all(to == "/src/" + what for what, to in taken), f"apptainer.def: {taken}")
    for what, _ in taken:
        case.check(os.path.exists(os.path.join(ROOT, what)), f"apptainer.def: no {what}")
    # What CMake reads of the project must be among them; tests are switched off.
    with open(os.path.join(ROOT, "CMakeLists.txt"), encoding="utf-8") as file:
        folders = set(re.findall(r"(?<![\w/])(runtime|kernels|scripts|examples|bench)/", file.read()))
    case.check(folders <= {what for what, _ in taken}, f"apptainer.def lacks {folders - {what for what, _ in taken}}")
    for name in ("Dockerfile", "apptainer.def"):
        for path in re.findall(r"(?<![\w/])scripts/[\w./]+", read(name)):
            case.check(os.path.exists(os.path.join(ROOT, path)), f"{name}: no {path}")
    if shutil.which("dpkg"):
        result = subprocess.run([os.path.join(DEPLOY, "needed_packages.sh"), case.trainer, case.launch],
                                capture_output=True, text=True, check=False)
        packages = result.stdout.split()
        case.check(result.returncode == 0 and any(p.startswith("libdnnl") for p in packages) and
                   any(p.startswith("libc6") for p in packages), f"needed_packages.sh: {packages} {result.stderr}")


def no_gpu_numbers(case):
    """No recipe sets CUDA_VISIBLE_DEVICES: who gives the GPUs does."""
    for path in files(""):
        with open(path, encoding="utf-8") as file:
            wrong = re.findall(r"^[^#\n]*CUDA_VISIBLE_DEVICES.*$", file.read(), re.M)
        case.check(not wrong or path.endswith(".md"), f"{path}: {wrong}")


def commands(node):
    """Every list of words in a YAML tree that starts launch, without that word."""
    if isinstance(node, dict):
        for key, value in node.items():
            if key == "command" and isinstance(value, list) and "trainer" in value:
                yield value[1:] if value[0] == "launch" else value
            else:
                yield from commands(value)
    elif isinstance(node, list):
        for value in node:
            yield from commands(value)


def launch_takes_them(case, config):
    """The commands in the recipes are ones that launch understands."""
    hostfile = case.path("hostfile")
    with open(hostfile, "w", encoding="utf-8") as file:
        file.write("worker-0 slots=1\n")
    found = [command for path in files(".yaml") for document in yaml.safe_load_all(open(path, encoding="utf-8"))
             for command in commands(document)]
    case.check(len(found) == 5, f"{len(found)} commands: {found}")
    for command in found:
        words = [{"trainer": case.trainer, "/etc/mpi/hostfile": hostfile}.get(word, word) for word in command]
        words = [config if word.endswith("config.ini") else word for word in words]
        result = case.run_launch(["--dry-run", "-n", "1"] + words)
        case.check(result.returncode == 0, f"{command}: {result.stderr}")


def codes_agree(case):
    """Kubernetes gives up after the codes after which launch does not start again."""
    text = subprocess.run([case.launch, "--help"], capture_output=True, text=True, check=True).stdout
    told = text.split("and after\n")[1].split("\nsteps")[0]
    never = {int(code) for code in re.findall(r"(?<!\d)(\d+) [a-z]", told)}
    job = yaml.safe_load(read("kubernetes", "job.yaml"))
    rules = job["spec"]["podFailurePolicy"]["rules"]
    values = {code for rule in rules if rule["action"] == "FailJob" for code in rule["onExitCodes"]["values"]}
    case.check(values == never and len(never) > 5, f"job.yaml fails on {values}, launch gives up on {never}")
    case.check(job["spec"]["template"]["spec"]["restartPolicy"] == "Never", "podFailurePolicy needs restartPolicy: Never")


# What an MPIJob may have (kubeflow.org/v2beta1); pods inside it are Kubernetes' own.
MPIJOB = {"apiVersion": str, "kind": str, "metadata": {"name": str, "namespace": str, "labels": dict, "annotations": dict},
          "spec": {"slotsPerWorker": int, "sshAuthMountPath": str, "launcherCreationPolicy": str, "mpiImplementation": str,
                   "runPolicy": {"cleanPodPolicy": str, "ttlSecondsAfterFinished": int, "activeDeadlineSeconds": int,
                                 "backoffLimit": int, "schedulingPolicy": dict, "suspend": bool, "managedBy": str},
                   "runLauncherAsWorker": bool,
                   "mpiReplicaSpecs": {name: {"replicas": int, "restartPolicy": str, "template": dict}
                                       for name in ("Launcher", "Worker")}}}
NEEDED = ["apiVersion", "kind", "metadata.name", "spec.mpiReplicaSpecs.Launcher.template",
          "spec.mpiReplicaSpecs.Worker.template"]


def strangers(node, allowed, where=""):
    """Fields that are not allowed, or of another type."""
    if not isinstance(allowed, dict):
        return [] if type(node) is allowed else [f"{where} is no {allowed.__name__}"]
    if not isinstance(node, dict):
        return [f"{where} has no fields"]
    return [text for key, value in node.items()
            for text in (strangers(value, allowed[key], f"{where}.{key}") if key in allowed else [f"no {where}.{key}"])]


def follow(node, path):
    for key in path.split("."):
        node = node.get(key) if isinstance(node, dict) else None
    return node


def by_schema(case):
    """Kubernetes' own schemas, unknown fields refused, where the module that has them is installed; the MPIJob around its
    pods by the list above, which is ours."""
    job, mpijob = yaml.safe_load(read("kubernetes", "job.yaml")), yaml.safe_load(read("kubernetes", "mpijob.yaml"))
    case.check(mpijob["apiVersion"] == "kubeflow.org/v2beta1" and mpijob["kind"] == "MPIJob", str(mpijob)[:80])
    case.check(not strangers(mpijob, MPIJOB), f"mpijob.yaml: {strangers(mpijob, MPIJOB)}")
    case.check(all(follow(mpijob, path) is not None for path in NEEDED), "mpijob.yaml lacks a field")
    case.check(strangers({"spec": {"slotsPerworker": 4, "runPolicy": {"backoffLimit": "6"}}}, MPIJOB) ==
               ["no .spec.slotsPerworker", ".spec.runPolicy.backoffLimit is no int"], "the list lets everything pass")
    if kubernetes_validate is None:
        print("not checked, no Python module kubernetes_validate: Job and pods against the schemas of Kubernetes")
        return
    documents = [("job.yaml", job)] + [
        (f"mpijob.yaml, {name}", {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": name.lower()},
                                  "template": replica["template"]})
        for name, replica in mpijob["spec"]["mpiReplicaSpecs"].items()]
    wrong = yaml.safe_load(read("kubernetes", "job.yaml"))
    wrong["spec"]["template"]["spec"]["containers"][0]["volumeMount"] = []
    for what, document in documents + [("wrong", wrong)]:
        said = ""
        try:
            kubernetes_validate.validate(document, kubernetes_validate.latest_version(), strict=True)
        except kubernetes_validate.ValidationError as error:
            said = str(error)
        case.check(("volumeMount" in said) if what == "wrong" else said == "", f"{what}: {said[:400]}")


def as_process_1(case, config):
    """In a container launch is process 1, whose signals the kernel drops unless it asks for them."""
    inside = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]     # ends with unshare
    tried = subprocess.run(inside + ["true"], capture_output=True, text=True, check=False)
    if tried.returncode != 0:
        print(f"not checked, launch as process 1: {tried.stderr.strip()}")
        return
    path, log = case.config(dict(config, **{"train.steps": 10 ** 7}))
    process = subprocess.Popen(inside + [case.launch, "-n", "1", case.trainer, path], stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL, env=case.environment, cwd=case.folder)
    metrics = os.path.join(log, "metrics.jsonl")
    launch_case.wait_until(lambda: os.path.exists(metrics) and os.path.getsize(metrics) > 3000, 60 * case.slow)
    for pid in trainer.children(process.pid):
        os.kill(pid, signal.SIGTERM)
    code = process.wait(60 * case.slow)
    case.check(code == 75, f"as process 1, after SIGTERM: exit {code}")


def main():
    case = launch_case.LaunchCase()
    values = {"model.kind": "mlp", "model.hidden": "16", "data.kind": "synthetic", "data.samples": 256,
              "train.steps": 20, "train.global_batch": 16, "train.micro_batch": 2, "device.threads": 1,
              "device.backend": "cpu"}
    config, _ = case.config(values)
    by_their_tools(case)
    paths_exist(case)
    no_gpu_numbers(case)
    if yaml is None:
        print("not checked, no Python module yaml: commands, codes and fields in the recipes")
    else:
        launch_takes_them(case, config)
        codes_agree(case)
        by_schema(case)
    as_process_1(case, values)
    case.finish()


if __name__ == "__main__":
    main()
