# RUN: gpus timeout=120
"""The tool gpus: lists, values for scripts, explanations, JSON, exit codes; on described machines."""
import json
import os
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from trainer import Case  # noqa: E402

CASE = Case()
CHECK = CASE.check
MACHINES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cusim", "machines")
FOUR = [f"GPU-a000000{n}-0000-0000-0000-00000000000{n}" for n in range(1, 5)]


def gpus(*arguments, machine="four", env=None, program="gpus"):
    foreign = ("CUDA_", "SLURM_", "NVIDIA_", "KUBERNETES")
    environment = {k: v for k, v in CASE.environment.items() if not k.startswith(foreign)}
    environment.update({"CUSIM_MACHINE": os.path.join(MACHINES, machine + ".txt"), "LOCKSTEP_DEVICE_SAMPLE": "0",
                        "LOCKSTEP_DEVICE_LEASES": CASE.path("leases"), "LOCKSTEP_DEVICE_SHARING": "refuse",
                        **(env or {})})
    return subprocess.run([os.path.join(CASE.build, program), *arguments], capture_output=True, text=True,
                          env=environment, timeout=60 * CASE.slow, cwd=CASE.folder)


def values():
    """(arguments, environment, what is printed, code)"""
    for arguments, env, expected, code in [
            (["--count", "2"], {}, FOUR[0] + "," + FOUR[1] + "\n", 0),
            (["--count=1", "--exclude", "0,1"], {}, FOUR[2] + "\n", 0),
            (["--count", "2", "--index"], {}, "0,1\n", 0),
            (["--count", "1", "--min-free", "20G"], {}, "", 5),
            (["--count", "5"], {}, "", 5),
            (["--count", "1"], {"CUDA_VISIBLE_DEVICES": "3"}, FOUR[3] + "\n", 0),
            (["--count", "2"], {"CUDA_VISIBLE_DEVICES": "3"}, "", 5),
            (["--count", "1", "--idle", "--max-utilization", "5"], {}, FOUR[0] + "\n", 0),
            (["--count", "1"], {"LOCKSTEP_DEVICE_EXCLUDE": FOUR[0]}, FOUR[1] + "\n", 0),
            (["--count", "0"], {}, "", 2),
            (["--count"], {}, "", 2),
            (["--cuont", "1"], {}, "", 2),
            (["--min-free", "20X"], {}, "", 2),
            (["--count", "1", "--explain"], {}, "", 2),
            (["--json=1"], {}, "", 2)]:
        result = gpus(*arguments, env=env)
        CHECK((result.stdout, result.returncode) == (expected, code),
              f"{arguments} {env}: {result.returncode} {result.stdout} {result.stderr}")
        CHECK(code == 0 or result.stderr.startswith("gpus: error: "), f"{arguments}: {result.stderr}")
    CHECK("did you mean '--count'?" in gpus("--cuont", "1").stderr, "a suggestion")
    # A value printed is a value that CUDA reads as meant.
    value = gpus("--count", "2", "--exclude", "0").stdout.strip()
    seen = json.loads(gpus("--json", env={"CUDA_VISIBLE_DEVICES": value}).stdout)
    CHECK([g["uuid"] for g in sorted(seen["gpus"], key=lambda g: g["cuda"] if g["cuda"] is not None else 99)][:2] ==
          value.split(","), f"{value} is read as {seen}")


def facts():
    inventory = json.loads(gpus("--json", machine="mixed").stdout)
    by_uuid = {g["uuid"]: g for g in inventory["gpus"]}
    busy, lost = by_uuid["GPU-aaaaaaaa-0000-0000-0000-000000000002"], by_uuid[None]
    CHECK(inventory["n"] == 8 and inventory["driver"] == "580.65.06", str(inventory["n"]))
    CHECK(busy["index"] == 1 and busy["memory_free_bytes"] == 2820 << 20 and busy["utilization_percent"] == 97 and
          busy["temperature_c"] == 78 and busy["power_watts"] == 391 and busy["power_limit_watts"] == 400, str(busy))
    CHECK([(p["pid"], p["bytes"]) for p in busy["processes"]] == [(4242, 78000 << 20), (4243, None)], str(busy))
    CHECK(lost["lost"] and lost["index"] == 4 and lost["memory_total_bytes"] is None, str(lost))
    whole = by_uuid["GPU-cccccccc-0000-0000-0000-000000000006"]
    part = by_uuid["MIG-eeeeeeee-0000-0000-0000-000000000008"]
    CHECK(whole["mig"] and whole["utilization_percent"] is None and whole["compute_mode"] == "exclusive", str(whole))
    CHECK(inventory["gpus"][part["parent"]] == whole and part["gpu_instance"] == 2 and
          part["memory_total_bytes"] == 10048 << 20, str(part))
    CHECK(busy["links"][by_uuid["GPU-aaaaaaab-0000-0000-0000-000000000004"]["place"]] == "NVLink", str(busy["links"]))
    # A process sees one instance; whoever starts another may give it any GPU.
    shown = [g["uuid"] for g in inventory["gpus"] if g["cuda"] is not None]
    CHECK(shown == ["MIG-dddddddd-0000-0000-0000-000000000007"], f"what CUDA shows: {shown}")
    value = gpus("--count", "1", "--name", "V100", machine="mixed").stdout
    CHECK(value == "GPU-bbbbbbbb-0000-0000-0000-000000000003\n", value)


def each_figure_may_fail():
    """Whatever NVML refuses is null, and the rest is told all the same; a lost NVML is survived."""
    whole = json.loads(gpus("--json").stdout)
    for function, key in [("nvmlDeviceGetTemperature", "temperature_c"), ("nvmlDeviceGetPowerUsage", "power_watts"),
                          ("nvmlDeviceGetUtilizationRates", "utilization_percent"),
                          ("nvmlDeviceGetMemoryInfo", "memory_free_bytes"),
                          ("nvmlDeviceGetComputeRunningProcesses_v3", "n_processes"),
                          ("nvmlDeviceGetClockInfo", "sm_clock_mhz"),
                          ("nvmlDeviceGetTotalEccErrors", "ecc_errors"),
                          ("nvmlDeviceGetRemappedRows", "row_remap_failed"),
                          ("nvmlDeviceGetCurrentClocksThrottleReasons", "throttle_reasons")]:
        result = gpus("--json", env={"CUSIM_NVML_FAIL": function + "=3"})
        told = json.loads(result.stdout)
        CHECK(all(g[key] is None for g in told["gpus"]), f"{function}: {told['gpus'][0]}")
        goes_along = (key, "memory_utilization_percent", "processes", "memory_total_bytes")
        CHECK(all(g[k] == w[k] for g, w in zip(told["gpus"], whole["gpus"]) for k in w if k not in goes_along),
              f"{function}: {told}")
    absent = json.loads(gpus("--json", env={"CUSIM_NVML_FAIL": "nvmlInit_v2=18"}).stdout)
    CHECK([g["uuid"] for g in absent["gpus"]] == FOUR, str(absent))
    CHECK("host must be restarted" in absent["nvml_trouble"], str(absent))
    CHECK(all(g["memory_total_bytes"] == 1 << 30 and g["temperature_c"] is None for g in absent["gpus"]), str(absent))


def explanations():
    """(environment, parts of what is said)"""
    for env, parts in [
            ({}, ["CUDA_VISIBLE_DEVICES is not set", "shows 4 GPUs", "this program sets it to PCI_BUS_ID"]),
            ({"CUDA_VISIBLE_DEVICES": ""}, ["set and empty", "no GPU", "unset CUDA_VISIBLE_DEVICES"]),
            ({"CUDA_VISIBLE_DEVICES": "0,0"}, ["2. '0' names the same GPU again", "So no GPU is visible"]),
            ({"CUDA_VISIBLE_DEVICES": "2"}, ["A process that sees one GPU calls it 0", "cuda:0 is nvidia-smi's GPU 2"]),
            ({"CUDA_DEVICE_ORDER": "FASTEST_FIRST"}, ["may differ from nvidia-smi's", "FASTEST_FIRST"]),
            ({"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}, ["the environment has CUDA_DEVICE_ORDER = PCI_BUS_ID"]),
            ({"NVIDIA_VISIBLE_DEVICES": "all"}, ["all GPUs of the host", "Kubernetes"]),
            ({"NVIDIA_VISIBLE_DEVICES": "2,3"}, ["numbered from 0"]),
            ({"NVIDIA_VISIBLE_DEVICES": "none"}, ["no GPU"]),
            ({"SLURM_JOB_ID": "7", "SLURM_STEP_GPUS": "5", "SLURM_GPUS_PER_TASK": "1", "CUDA_VISIBLE_DEVICES": "0"},
             ["a Slurm job", "'5'", "--gpus-per-node"]),
            ({"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, ["Kubernetes pod", "device plugin"])]:
        result = gpus("--explain", env=env)
        CHECK(result.returncode == 0, f"{env}: {result.stderr}")
        for part in parts:
            CHECK(part in result.stdout, f"{env}: no '{part}' in\n{result.stdout}")
    text = gpus("--explain", machine="mixed").stdout
    CHECK("GPU 4 does not answer" in text and "GPU 5 is in MIG mode" in text, text)


def leases_are_seen():
    holder = subprocess.Popen([os.path.join(CASE.build, "tests/bin/gpu_probe"), "-", "60", "device.select=0"],
                              stdout=subprocess.PIPE, text=True, cwd=CASE.folder,
                              env={**CASE.environment, "CUSIM_MACHINE": os.path.join(MACHINES, "four.txt"),
                                   "LOCKSTEP_DEVICE_LEASES": CASE.path("leases"), "LOCKSTEP_DEVICE_SHARING": "refuse"})
    holder.stdout.readline()
    listed, value = gpus().stdout, gpus("--count", "1").stdout
    CHECK(f"not taken: leased by process {holder.pid} of " in listed and "(probe)" in listed, listed)
    CHECK(value == FOUR[1] + "\n", value)
    shown = gpus("--list-devices", program="trainer")
    CHECK(shown.returncode == 0 and f"leased by process {holder.pid}" in shown.stdout, shown.stdout + shown.stderr)
    holder.kill()
    holder.communicate()
    CHECK(gpus("--count", "1").stdout == FOUR[0] + "\n", "the lease of a killed job is free")


def watching():
    process = subprocess.Popen([os.path.join(CASE.build, "gpus"), "--watch", "0.2"], stdout=subprocess.PIPE, text=True,
                               cwd=CASE.folder, env={**CASE.environment, "LOCKSTEP_DEVICE_LEASES": CASE.path("leases"),
                                                     "CUSIM_MACHINE": os.path.join(MACHINES, "four.txt")})
    lines = [process.stdout.readline() for _ in range(14)]
    process.stdout.close()      # the end of the pipe is the end of watching
    CHECK(sum("NVIDIA A100" in line for line in lines) >= 8, "".join(lines))
    deadline = time.time() + 30 * CASE.slow
    while process.poll() is None and time.time() < deadline:
        time.sleep(0.05)
    CHECK(process.poll() is not None, "it goes on without a reader")
    process.kill()


def without_gpus():
    with open(CASE.path("none.txt"), "w", encoding="utf-8") as file:
        file.write("driver none\n")
    result = gpus(env={"CUSIM_MACHINE": CASE.path("none.txt")})
    CHECK(result.returncode == 5 and "0 GPUs" in result.stdout, f"{result.returncode} {result.stdout} {result.stderr}")
    CHECK(gpus("--help").returncode == 0 and gpus("--version").stdout.startswith("lockstep "), "help and version")


def main():
    for case in (values, facts, each_figure_may_fail, explanations, leases_are_seen, watching, without_gpus):
        case()
    CASE.finish()


if __name__ == "__main__":
    main()
