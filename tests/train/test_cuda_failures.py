# RUN: timeout=600 label=cuda,slow
"""Calls of CUDA, cuBLASLt and NCCL that fail, hang or end the process, on simulated GPUs: one line that names the call,
the rank and the GPU, the documented exit code, no output harmed; started again, the run ends as if nothing had been.
Here a sample; test_cuda_failures_full.py takes the first, second and last call of every function."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import cuda_failures
import trainer

os.environ.pop("LOCKSTEP_DEVICE_BACKEND", None)      # each run here says its own


def main(everything=False):
    case = trainer.Case()
    case.needs_simulated_gpus()
    seed = int(os.environ.get("LOCKSTEP_FAILURES_SEED", "1"))
    faults, expected = cuda_failures.plan(case, everything, seed)
    done = cuda_failures.try_all(case, faults, expected)
    cuda_failures.print_table(done)
    case.finish()


if __name__ == "__main__":
    main()
