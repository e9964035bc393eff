# RUN: timeout=300 label=cuda,cusim
"""A rank makes a context on its own GPU and nowhere else, and all that any of its threads calls is on that one; and
what a GPU cannot do is said before it is asked to. On simulated GPUs, by the simulator's record of every call."""
import os
import re
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import trainer  # noqa: E402

MACHINES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cusim", "machines")


def gpu(n, **figures):
    figures = {"name": '"NVIDIA A100"', "cc": "8.0", "mem": 1024, "bus": f"0000:{0x10 + n:02x}:00.0",
               "uuid": f"GPU-a{n:07x}-0000-0000-0000-{n:012x}", **figures}
    return "gpu " + " ".join(f"{key}={value}" for key, value in figures.items())


def machine(case, *lines):
    path = os.path.join(tempfile.mkdtemp(dir=case.folder), "machine.txt")
    with open(path, "w", encoding="utf-8") as file:
        file.write("driver 580.65.06\ncuda 13000\n" + "\n".join(lines) + "\n")
    return path


def environment(path, leases, **more):
    return {"CUSIM_MACHINE": path, "LOCKSTEP_DEVICE_BACKEND": "cuda", "LOCKSTEP_DEVICE_SHARING": "refuse",
            "LOCKSTEP_DEVICE_SAMPLE": "0", "LOCKSTEP_DEVICE_LEASES": leases, **more}


def check_calls(case, np, select, expected, **more):
    """expected: CUDA's number of the GPU of each rank. Returns how many threads made calls at the most."""
    folder = tempfile.mkdtemp(dir=case.folder)
    config = dict(trainer.mlp_config(case), **{"device.select": select, "data.workers": "3", "checkpoint.every": "2"})
    path = os.path.join(folder, "run.ini")
    trainer.write_config(path, dict(config, **{"log.dir": folder}))
    env = environment(os.path.join(MACHINES, "four.txt"), os.path.join(folder, "leases"),
                      CUSIM_RECORD=os.path.join(folder, "record.%r"), **more)
    result = case.run([path], np, env=env)
    most = 0
    if not case.check(result.returncode == 0, f"{select}: {result.stderr}"):
        return most
    for rank, ordinal in enumerate(expected):
        with open(os.path.join(folder, f"record.{rank}"), encoding="utf-8") as file:
            text = file.read()
        contexts = re.findall(r"^context device=(\d+)$", text, re.M)
        case.check(contexts == [str(ordinal)], f"{select}: rank {rank} makes contexts on {contexts}, not {ordinal}")
        calls = re.findall(r"^call thread=(\d+) (\w+)(?: stream=\d+)? device=(\d+)(.*)$", text, re.M)
        case.check(len(calls) > 100, f"{select}: the record of rank {rank} has {len(calls)} calls")
        most = max(most, len({thread for thread, *_ in calls}))
        # A thread's first call says where it is, or asks what needs no GPU.
        harmless = {"cudaGetDevice", "cudaSetDevice", "cudaGetDeviceCount", "cudaGetLastError", "cudaDriverGetVersion",
                    "cudaRuntimeGetVersion", "cudaGetErrorString", "cudaGetErrorName", "cudaPeekAtLastError",
                    "cudaGetDeviceProperties", "cublasLtGetVersion", "ncclGetUniqueId", "ncclGetVersion"}
        foreign = [c for c in calls if c[2] != str(ordinal) and c[1] not in harmless]
        case.check(not foreign, f"{select}: rank {rank} calls on another GPU than {ordinal}: {foreign[:5]}")
    return most


def check_refusals(case):
    """(what, machine, keys, environment, parts of the message)"""
    old = machine(case, gpu(0, name='"Tesla V100"', cc="7.0"))
    small = machine(case, gpu(0, name='"NVIDIA GeForce GTX 1650"', cc="7.5"))
    taken = machine(case, gpu(0, mode="exclusive"), "proc gpu=0 pid=4242")
    cases = [
        ("bf16 on Volta", old, {"precision.compute": "bf16"}, {}, 5,
         ["needs compute capability 8.0", "Tesla V100", "GPU-a0000000", "has 7.0", "f16"]),
        ("tf32 on Volta", old, {"precision.compute": "tf32"}, {}, 5, ["needs compute capability 8.0", "f32"]),
        ("f16 without tensor cores", small, {"precision.compute": "f16"}, {}, 0, ["no tensor cores", "GTX 1650"]),
        ("exclusive, NVML absent", taken, {}, {"CUSIM_NVML_FAIL": "nvmlInit_v2=12"}, 5,
         ["exclusive compute mode", "GPU-a0000000", "device.wait"]),
    ]
    for what, path, keys, env, code, parts in cases:
        folder = tempfile.mkdtemp(dir=case.folder)
        config = os.path.join(folder, "run.ini")
        trainer.write_config(config, dict(trainer.mlp_config(case), **{**keys, "log.dir": folder}))
        result = case.run([config], env=environment(path, os.path.join(folder, "leases"), **env))
        case.check(result.returncode == code, f"{what}: ends with {result.returncode}: {result.stderr}")
        for part in parts:
            case.check(part in result.stderr, f"{what}: no '{part}' in {result.stderr}")


def main():
    case = trainer.Case()
    case.needs_simulated_gpus()
    threads = [check_calls(case, 1, "2", [2])]
    if case.has_mpi:
        threads += [check_calls(case, 2, "3,1", [3, 1]),
                    check_calls(case, 2, "3,1", [3, 1], LOCKSTEP_COMM_TRANSPORT="mpi"),
                    check_calls(case, 2, "visible", [0, 1], CUDA_VISIBLE_DEVICES="2,3")]
    print(f"threads of a rank that called CUDA or NCCL, run by run: {threads}")
    check_refusals(case)
    case.finish()


if __name__ == "__main__":
    main()
