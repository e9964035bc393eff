# RUN: gpus label=cuda,slow timeout=600
"""Two trainers that start at the same moment with device.select = auto on two GPUs never share one, 50 times: each trains
until both have one. test_binding.py has the same law for the binding alone, in every build."""
import os
import re
import signal
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "launch"))
import launch_case
import trainer

PAIRS = 50


def given(text):
    return re.findall(r"^rank 0 on \S+ cuda:\d+, .*, (GPU-\S+), PCI", text, re.M)


def pair(case, config, i):
    jobs = [case.start_program([case.trainer, config, "--set", f"log.dir={case.path(f'pair-{i}-{k}')}"]) for k in range(2)]
    seen = launch_case.wait_until(lambda: all(given(launch_case.text_so_far(job)) or job.poll() is not None for job in jobs),
                                  120 * case.slow)
    uuids = [given(launch_case.text_so_far(job)) for job in jobs]
    alive = [job.poll() is None for job in jobs]
    for job in jobs:
        if job.poll() is None:
            job.send_signal(signal.SIGUSR1)
    codes = [job.wait(120 * case.slow) for job in jobs]
    texts = [launch_case.text_so_far(job) for job in jobs]
    for job in jobs:
        job.output.close()
    case.check(seen and all(alive) and sorted(uuids) == [[f"GPU-a000000{n}-0000-0000-0000-00000000000{n}"] for n in (0, 1)],
               f"pair {i}: {uuids}, exit {codes}: {texts[0][-600:]} {texts[1][-600:]}")
    case.check(set(codes) <= {75, 138}, f"pair {i}: exit {codes}")     # 138: asked before the first step


class PairsCase(launch_case.LaunchCase):
    def start_program(self, command):
        launch, self.launch = self.launch, command[0]
        try:
            return self.start_launch(command[1:])
        finally:
            self.launch = launch


def main():
    case = PairsCase()
    case.needs_simulated_gpus()
    machine = case.path("two.txt")
    with open(machine, "w", encoding="utf-8") as file:
        file.write("driver 580.65.06\ncuda 13000\n" + "".join(
            f'gpu name="NVIDIA A100" cc=8.0 mem=4096 bus=0000:{0x10 + n:02x}:00.0 '
            f"uuid=GPU-a{n:07x}-0000-0000-0000-{n:012x}\n" for n in range(2)))
    for name in [n for n in case.environment if n.startswith(("CUDA_", "CUSIM_", "LOCKSTEP_DEVICE"))]:
        del case.environment[name]
    case.environment.update({"CUSIM_MACHINE": machine, "LOCKSTEP_DEVICE_LEASES": case.path("leases"),
                             "LOCKSTEP_DEVICE_SAMPLE": "0"})
    config, _ = case.config({"model.kind": "mlp", "model.hidden": "16", "data.kind": "synthetic", "data.samples": 256,
                             "train.steps": 10 ** 7, "train.global_batch": 16, "train.micro_batch": 2,
                             "device.backend": "cuda", "device.select": "auto", "device.threads": 1,
                             "checkpoint.save": "false", "train.log_every": 10 ** 6})
    for i in range(PAIRS):
        pair(case, config, i)
    case.finish()


if __name__ == "__main__":
    main()
