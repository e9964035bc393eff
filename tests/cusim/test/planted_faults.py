"""planted_faults.py VARIANT FAULTS: injected failures, faults, protected memory, special machines, the record."""
import os
import re
import signal
import subprocess
import sys
import tempfile

failures = []
SEEDS = range(0, 6)


def run(program, scenario, **settings):
    environment = dict(os.environ)
    environment["ASAN_OPTIONS"] = "detect_leaks=0"  # these programs end where they fail
    environment.update({key: str(value) for key, value in settings.items()})
    done = subprocess.run([program, scenario], capture_output=True, text=True, env=environment, timeout=60)
    return done.returncode, done.stdout + done.stderr


def expect(what, holds, output):
    if not holds:
        failures.append(what)
        print(f"FAILED: {what}\n{output}")


def succeeds(program, scenario, **settings):
    for seed in SEEDS:
        code, output = run(program, scenario, CUSIM_SEED=seed, **settings)
        expect(f"{scenario}, seed {seed}", code == 0, output)


def machine(folder, text):
    path = os.path.join(folder, "machine.txt")
    with open(path, "w") as out:
        out.write(text)
    return path


def record(program, folder):
    path = os.path.join(folder, "record.%r")
    code, output = run(program, "recorded", CUSIM_RECORD=path, CUSIM_SEED=3, OMPI_COMM_WORLD_RANK=5)
    expect("recorded", code == 0, output)
    with open(path.replace("%r", "5")) as lines:
        text = lines.read()
    steps = text.split("mark step\n")[1:]
    expect("three steps in the record", len(steps) == 3, text)
    for step in steps[1:]:
        calls = re.findall(r"^call thread=\d+ (\w+)(.*)$", step.split("mark end")[0], re.M)
        names = [name for name, _ in calls]
        expect("calls of a step", names == ["cudaLaunchKernel", "cudaEventRecord", "cudaEventSynchronize"], step)
        expect("one call waits", [" waits" in rest for _, rest in calls] == [False, False, True], step)
        expect("none allocates", not any(" allocates" in rest for _, rest in calls), step)
    runs = re.findall(r"^run stream=(\d+) from=([\d.]+) to=([\d.]+) fill$", text, re.M)
    expect("the kernel's runs, in order", len(runs) == 3 and runs == sorted(runs, key=lambda r: float(r[1])), text)


def main():
    variant, program = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        succeeds(program, "nth_call", CUSIM_FAIL="cudaMalloc@2=2")
        succeeds(program, "sticky_kernel", CUSIM_FAIL="kernel:axpy@2=214")
        code, output = run(program, "nth_call", CUSIM_FAIL="cudaMalloc@2=kill")
        expect("killed", code == -signal.SIGKILL, output)
        code, output = run(program, "nth_call", CUSIM_FAIL="cudaMalloc=2")
        expect("a rule that is none", code == -signal.SIGABRT and "CUSIM_FAIL" in output, output)
        succeeds(program, "device_trap", CUSIM_FAULT="sticky")
        code, output = run(program, "device_trap")
        found = re.search(r"__trap\(\) at .*test_exec\.cu:\d+", output)
        expect("a fault ends the program", code == -signal.SIGABRT and found, output)
        succeeds(program, "out_of_memory", CUSIM_MACHINE=machine(folder, "gpu name=small cc=8.0 mem=64\n"))
        succeeds(program, "no_device", CUDA_VISIBLE_DEVICES="")
        succeeds(program, "old_driver", CUSIM_MACHINE=machine(folder, "cuda 11020\ngpu name=old cc=7.0 mem=64\n"))
        record(program, folder)
        code, output = run(program, "leaks", CUSIM_LEAKS=1)
        expect("leaks", code == 23 and "left at exit: 4000 bytes of memory, 1 streams, 0 events" in output, output)
        if variant == "plain":  # a sanitizer has its own say about such an access
            for scenario in ("host_touches_device", "foreign_device"):
                code, output = run(program, scenario)
                expect(f"{scenario} goes unseen without protection", code == 0, output)
                code, output = run(program, scenario, CUSIM_PROTECT=1)
                expect(f"{scenario} under CUSIM_PROTECT", code == -signal.SIGSEGV, output)
    print(f"{len(failures)} expectations failed")
    sys.exit(len(failures) > 0)


main()
