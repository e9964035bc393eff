# RUN: timeout=3600 label=full,cuda,swapped
"""What users run, run here: the trainer as nvcc and the real headers make it (LOCKSTEP_CUDA=ON), loaded with the simulator
in place of libcudart, libcublasLt and libnccl. It gives the bits of the simulator's own build, whose kernels a host
compiler made, alone and in two processes, with every seed; and tells of a launch that fails.

The build for GPUs is made in BUILD/swapped-on, for one architecture; LOCKSTEP_SWAPPED_BUILD names one that is there."""
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import trainer

os.environ.pop("LOCKSTEP_DEVICE_BACKEND", None)      # each run here says its own
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
SEEDS = (1, 2, 3)
MEMORY = 4


def cached(build, name):
    with open(os.path.join(build, "CMakeCache.txt")) as file:
        match = re.search(rf"^{name}:\w+=(.*)$", file.read(), re.M)
    return match[1] if match else ""


def build_for_gpus(case, nvcc):
    """The folder of a build with LOCKSTEP_CUDA=ON."""
    folder = os.environ.get("LOCKSTEP_SWAPPED_BUILD") or os.path.join(case.build, "swapped-on")
    configure = ["cmake", "-S", ROOT, "-B", folder, "-DCMAKE_BUILD_TYPE=Release", "-DLOCKSTEP_TESTS=OFF",
                 "-DLOCKSTEP_CUDA=ON", "-DLOCKSTEP_CUDA_ARCHITECTURES=80", f"-DCUDAToolkit_ROOT={os.path.dirname(nvcc)}/..",
                 f"-DLOCKSTEP_MPI={'ON' if case.has_mpi else 'OFF'}"]
    if not os.path.exists(os.path.join(folder, "CMakeCache.txt")):
        print("configuring and building with nvcc, which takes some minutes", flush=True)
        subprocess.run(configure, check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["cmake", "--build", folder, "--target", "trainer", "-j", str(os.cpu_count() or 1)], check=True,
                   stdout=subprocess.DEVNULL)
    return folder


def check_libraries(case, program, swapped, environment):
    """The program asks for CUDA's libraries, and finds them in the swapped folder; one file, which is listed once."""
    listed = subprocess.run(["ldd", program], capture_output=True, text=True,
                            env={**os.environ, **environment}).stdout
    found = re.findall(r"(lib(?:cudart|cublasLt|nccl|cuda)\.so[.\d]*) => (\S+)", listed)
    case.check(any("cudart" in name for name, _ in found), f"{program} is linked with CUDA's shared libraries: {listed}")
    for name, path in found:
        case.check(os.path.dirname(os.path.realpath(path)) == os.path.realpath(swapped), f"{name} is {path}")


def check_same(case, shipped, environment, name, config, np):
    """The shipped trainer's numbers and weights are those of the simulator's build."""
    own = trainer.results(case.train(config, np, env={"CUSIM_SEED": "0"}))
    case.check(own and "weights_hash" in own[-1], f"{name}: no weights hash")
    for seed in SEEDS:
        got = case.train(config, np, program=os.path.join(shipped, "trainer"),
                         env={**environment, "CUSIM_SEED": str(seed)})
        if not got:
            continue
        what = f"{name}, np {np}, seed {seed}"
        case.check(got[0]["backend"] == "cuda", f"{what}: on {got[0]['backend']}")
        case.check(np == 1 or got[0]["transport"] == "nccl", f"{what}: over {got[0]['transport']}")
        case.check(trainer.results(got) == own, f"{what}: other numbers\n{trainer.results(got)[-1]}\n{own[-1]}")


def check_failure(case, shipped, environment, config):
    """A launch tells of its failure by the call after it, as only nvcc's code does."""
    path = case.path("failure.ini")
    trainer.write_config(path, dict(config, **{"log.dir": case.path("failure")}))
    result = case.run([path], program=os.path.join(shipped, "trainer"),
                      env={**environment, "CUSIM_FAIL": "kernel:lsi_softmax_xent_f32@2=2"})
    lines = [line for line in result.stderr.splitlines() if line.startswith("trainer: error")]
    case.check(result.returncode == MEMORY and len(lines) == 1 and "GPU 0: op softmax_xent " in lines[0] and
               "cudaLaunchKernel: out of memory" in lines[0], f"exit {result.returncode}\n{result.stderr}")


def main():
    case = trainer.Case()
    swapped = os.path.join(case.build, "tests", "cusim", "swapped")
    nvcc = cached(case.build, "CUDAToolkit_NVCC_EXECUTABLE")
    if cached(case.build, "LOCKSTEP_CUDA") != "SIM" or case.sanitizer:
        print("skipped: needs the simulator's build (LOCKSTEP_CUDA=SIM) without sanitizers")
        return
    if not os.path.exists(nvcc):
        print("skipped: no nvcc here")
        return
    if not os.path.exists(swapped + ".map"):
        print("skipped: the simulator was built without the toolkit's shared libraries, whose names it takes")
        return
    subprocess.run(["cmake", "--build", case.build, "--target", "cusim_swapped"], check=True, stdout=subprocess.DEVNULL)
    shipped = build_for_gpus(case, nvcc)
    environment = {"LD_LIBRARY_PATH": swapped + ":" + os.environ.get("LD_LIBRARY_PATH", ""), "CUSIM_QUIET": "1"}
    check_libraries(case, os.path.join(shipped, "trainer"), swapped, environment)
    mlp = trainer.mlp_config(case, **{"device.backend": "cuda", "comm.bucket_bytes": "64k"})
    gpt = trainer.gpt_config(case, **{"device.backend": "cuda", "train.steps": 3, "device.graphs": "on"})
    for np in case.worlds(1, 2):
        for compute in ("f32", "f16"):
            check_same(case, shipped, environment, f"mlp {compute}", dict(mlp, **{"precision.compute": compute}), np)
        check_same(case, shipped, environment, "gpt f16", dict(gpt, **{"precision.compute": "f16"}), np)
    check_failure(case, shipped, environment, mlp)
    case.finish()


if __name__ == "__main__":
    main()
