# RUN: timeout=300 label=contract,cuda
"""Failures of NCCL on simulated GPUs: a call that fails, hangs or kills its process, a peer that is lost, joining that
fails or never ends, a GPU for two ranks. Each ends the job within the timeout, with one cause in words and its code."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import trainer

os.environ.pop("LOCKSTEP_DEVICE_BACKEND", None)      # each run here says its own

COMM, TIMEOUT, CONFIG, KILLED = 6, 7, 2, 137
HANGS = STILL = "(comm.timeout is 2 s)"      # the watchdog's, which knows who is behind
# (environment, settings, exit code, what an error line must hold)
CASES = [
    ({"CUSIM_FAIL": "ncclGetUniqueId@1=2"}, {}, COMM, "ncclGetUniqueId: unhandled system error"),
    ({"CUSIM_FAIL": "ncclCommInitRankConfig@1=3"}, {}, COMM, "ncclCommInitRankConfig: internal error"),
    ({"CUSIM_FAIL": "ncclCommGetAsyncError@2=6"}, {}, COMM, "ncclCommInitRankConfig: remote process exited"),
    ({"CUSIM_FAIL": "ncclSend@4=2"}, {}, COMM, "ncclSend to rank "),
    ({"CUSIM_FAIL": "ncclRecv@1=2"}, {"device.graphs": "on"}, COMM, "ncclRecv from rank "),
    ({"CUSIM_FAIL": "ncclGroupEnd@3=6"}, {}, COMM, "ncclGroupEnd: remote process exited"),
    ({"CUSIM_FAIL": "ncclAllGather@1=3"}, {}, COMM, "gather of "),
    ({"CUSIM_FAIL": "ncclReduceScatter@2=2"}, {"comm.reduction": "fast"}, COMM, "fast reduction of "),
    ({"CUSIM_FAIL": "ncclAllReduce@2=2"}, {"comm.reduction": "fast", "comm.zero": "0"}, COMM, "fast reduction of "),
    ({"CUSIM_FAIL": "ncclAllGather@3=hang"}, {}, TIMEOUT, HANGS),
    ({"CUSIM_NCCL_HANG": "1:7"}, {}, TIMEOUT, STILL),
    ({"CUSIM_NCCL_HANG": "0:9"}, {"device.graphs": "on"}, TIMEOUT, STILL),
    ({"CUSIM_NCCL_KILL": "1:7", "CUSIM_NCCL_DETECT": "1"}, {}, KILLED, ""),
    ({"CUSIM_FAIL": "ncclRecv@3=kill"}, {}, KILLED, ""),
    ({"CUSIM_DEVICES": "1"}, {"comm.transport": "nccl"}, CONFIG, "ranks 0 and 1 both use the GPU at "),
    ({}, {"comm.transport": "nccl", "device.backend": "cpu"}, CONFIG, "this run is on the cpu backend"),
]


def main():
    case = trainer.Case()
    case.needs_simulated_gpus(mpi=True)
    # One bucket of four blocks: chunks are equal, so that fast reductions scatter.
    config = trainer.mlp_config(case, **{"model.hidden": "256,128", "device.backend": "cuda", "comm.timeout": "2s",
                                         "train.eval_every": 0, "checkpoint.save": "false"})
    for i, (environment, settings, code, words) in enumerate(CASES):
        path = case.path(f"{i}.ini")
        trainer.write_config(path, dict(config, **settings, **{"log.dir": case.path(str(i))}))
        result = case.run([path], np=2, env={"CUSIM_QUIET": "1", "CUSIM_SEED": str(i), **environment}, timeout=60)
        errors = [line for line in result.stderr.splitlines() if "trainer: error" in line]
        what = f"{environment} {settings}"
        case.check(result.returncode == code, f"{what}: exit {result.returncode}\n{result.stderr[-2000:]}")
        case.check(not words or any(words in line for line in errors), f"{what}: said\n{result.stderr[-2000:]}")
        # The call fails on every rank, and each may say so.
        most = 2 if "CUSIM_FAIL" in environment and code == COMM else 1
        case.check(len(errors) <= most, f"{what}: {len(errors)} lines\n{result.stderr[-2000:]}")
    case.finish()


if __name__ == "__main__":
    main()
