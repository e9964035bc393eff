# RUN: timeout=300 label=cuda
"""What others see of a run while it trains: /metrics and the text file, by the rules of the exposition format, and by
Prometheus' own checker where it is installed; a port that is taken stops nobody. On simulated GPUs also the events `gpu` and
`warning`, against the page that documents them, and the hints."""
import http.client
import json
import math
import os
import re
import shutil
import socket
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import trainer

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")


def free_port():
    with socket.socket() as s:
        s.bind(("", 0))
        return s.getsockname()[1]


def get(port, path="/metrics", method="GET"):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request(method, path)
        answer = connection.getresponse()
        return answer.status, answer.getheader("Content-Type"), answer.read().decode()
    except OSError:
        return None
    finally:
        connection.close()


def parse(case, text):
    """{name: [(labels, value)]} of a page; every line is checked: HELP, TYPE, then all samples of the name, in one piece."""
    found, types, current = {}, {}, None
    case.check(text.endswith("\n"), "the page does not end with a newline")
    for line in text.splitlines():
        head = re.fullmatch(r"# (HELP|TYPE) ([a-zA-Z_:][a-zA-Z0-9_:]*) (.+)", line)
        if head and head[1] == "HELP":
            case.check(head[2] not in found, f"{head[2]} comes twice")
            current, found[head[2]] = head[2], []
        elif head:
            case.check(head[2] == current and head[3] in ("gauge", "counter"), f"misplaced: {line}")
            types[current] = head[3]
        else:
            sample = re.fullmatch(r'([a-zA-Z_:][a-zA-Z0-9_:]*)\{((?:[a-zA-Z_]\w*="(?:[^"\\\n]|\\[\\"n])*",?)*)\} (\S+)', line)
            if case.check(sample is not None and sample[1] == current, f"no sample of {current}: {line}"):
                value = sample[3].replace("Inf", "inf")
                found[current].append((dict(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', sample[2])), float(value)))
    for name, samples in found.items():
        case.check(samples, f"{name} has no sample")
        if name.startswith("trainer_"):
            case.check(name.endswith("_total") == (types.get(name) == "counter"), f"{name} is a {types.get(name)}")
    if shutil.which("promtool"):
        checked = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True)
        # Its style guide does not like dcgm-exporter's names; errors are another matter.
        case.check(checked.returncode in (0, 3), f"promtool: {checked.stderr}")
    return found


def long_run(case, name, np, **keys):
    """Starts a run that goes on until it is told to stop; its folder."""
    log = case.path(name)
    config = trainer.mlp_config(case, **{"train.steps": 1000000, "log.dir": log, "train.eval_every": 0, **keys})
    trainer.write_config(case.path(name + ".ini"), config)
    return case.start([case.path(name + ".ini")], np), log


def end(case, process):
    process.send_signal(10)                                                 # SIGUSR1
    code = process.wait(60 * case.slow)
    return code, trainer.output_of(process)


def page_when(case, port, part):
    deadline = time.monotonic() + 60 * case.slow
    while time.monotonic() < deadline:
        page = get(port)
        if page and page[0] == 200 and part in page[2]:
            return page
        time.sleep(0.05)
    case.check(False, f"port {port} never shows {part}: {page}")
    return None


def endpoint(case):
    port, textfile = free_port(), case.path("node.prom")
    process, _ = long_run(case, "endpoint", case.worlds(1, 2)[-1], **{
        "monitor.port": port, "monitor.interval": "0.1s", "monitor.textfile": textfile, "checkpoint.every": 50})
    page = page_when(case, port, "trainer_last_checkpoint_step")
    if page:
        case.check(page[1].startswith("text/plain; version=0.0.4"), page[1])
        first = parse(case, page[2])
        case.check(first["trainer_loss"][0][1] > 0 and first["trainer_end_step"][0][1] == 1000000, str(first))
        case.check(set(first["trainer_step"][0][0]) == {"host", "rank"}, str(first["trainer_step"]))
        case.check(get(port, "/")[0] == 404 and get(port, method="POST")[0] == 405, "other requests")
        deadline = time.monotonic() + 60 * case.slow
        step = first["trainer_step"][0][1]
        while step == first["trainer_step"][0][1] and time.monotonic() < deadline:
            step = parse(case, get(port)[2])["trainer_step"][0][1]
        case.check(step > first["trainer_step"][0][1], "the step stands still")
        with open(textfile) as file:
            case.check(set(parse(case, file.read())) <= set(first), "the text file shows something else")

    # The port is taken: one warning, and training goes on.
    other, log = long_run(case, "taken", 1, **{"monitor.port": port, "train.steps": 20})
    code, output = other.wait(60 * case.slow), trainer.output_of(other)
    warnings = [line for line in output.splitlines() if "warning" in line]
    case.check(code == 0 and len(warnings) == 1 and f"monitor.port = {port}" in warnings[0] and "in use" in warnings[0],
               f"port in use: exit {code}\n{output}")
    events = trainer.read_events(os.path.join(log, "metrics.jsonl"))
    case.check(events[-1]["event"] == "done", "port in use: not done")
    code, output = end(case, process)
    case.check(code == 75, f"endpoint: exit {code}\n{output}")
    case.check(not [name for name in os.listdir(case.folder) if name.startswith("node.prom.")], "left beside the text file")


def textfile_without_folder(case):
    log = case.path("nowhere")
    config = trainer.mlp_config(case, **{"log.dir": log, "monitor.textfile": case.path("no", "folder.prom"),
                                         "monitor.interval": "0.1s"})
    trainer.write_config(case.path("nowhere.ini"), config)
    result = case.run([case.path("nowhere.ini")])
    case.check(result.returncode == 0 and result.stderr.count("monitor.textfile") == 1, result.stderr)


# ---- on simulated GPUs ----------------------------------------------------------------------------------------------

def documented(kind):
    with open(os.path.join(ROOT, "runtime", "docs", "monitoring.md"), encoding="utf-8") as file:
        table = re.search(rf"^`{kind}`.*?\n\n(.*?)\n\n", file.read(), re.M | re.S)[1]
    return {name for row in table.splitlines()[2:] for name in re.findall(r"`(\w+)`", row.split("|")[1])}


def gpu_events(case):
    if not case.simulates_gpus:
        print("the events `gpu` were not looked at: this build has no simulated GPUs")
        return
    np = case.worlds(1, 2)[-1]
    machine = case.path("machine.txt")
    with open(machine, "w") as file:
        file.write("driver 580.65.06\ncuda 13000\n")
        for n in range(2):
            file.write(f'gpu name="NVIDIA A100" cc=8.0 mem=1024 sms=108 clock=1410 bus=0000:0{n + 1}:00.0 temp={60 + 30 * n} '
                       f"power=100 throttle={0x40 * n} xid={31 * (1 - n)} uuid=GPU-a000000{n}-0000-0000-0000-000000000000\n")
    others = os.environ.get("LOCKSTEP_DEVICE_BACKEND")              # tests of the cpu have it set, and it counts more than the file
    os.environ.update({"CUSIM_MACHINE": machine, "LOCKSTEP_DEVICE_BACKEND": "cuda"})
    process, log = long_run(case, "gpus", np, **{"device.backend": "cuda", "monitor.interval": "0.1s",
                                                 "monitor.port": (port := free_port()), "device.leases": case.path("leases")})
    page = page_when(case, port, "DCGM_FI_DEV_GPU_TEMP")
    deadline = time.monotonic() + 120 * case.slow
    metrics = os.path.join(log, "metrics.jsonl")
    while time.monotonic() < deadline and open(metrics).read().count('"event":"gpu"') < 8:
        time.sleep(0.1)
    code, output = end(case, process)
    del os.environ["CUSIM_MACHINE"], os.environ["LOCKSTEP_DEVICE_BACKEND"]
    os.environ.update({"LOCKSTEP_DEVICE_BACKEND": others} if others else {})
    case.check(code == 75, f"gpus: exit {code}\n{output}")
    if page:
        temperatures = parse(case, page[2])["DCGM_FI_DEV_GPU_TEMP"]
        case.check([value for _, value in temperatures] == [60, 90][:np], str(temperatures))
        case.check({"gpu", "UUID", "device", "modelName", "Hostname", "rank"} == set(temperatures[0][0]), str(temperatures))
    events = [e for e in trainer.read_events(metrics) if e["event"] == "gpu"]
    case.check(len(events) >= 8, f"{len(events)} events")
    seen = {field for e in events for field in e} - {"event"}
    case.check(seen == documented("gpu"), f"told and seen differ: {seen ^ documented('gpu')}")
    case.check(all(e["rank"] == list(range(np)) and e["temperature_celsius"] == [60, 90][:np] for e in events), str(events[:1]))
    timed = [e for e in events[1:] if e["steps"] > 0]
    case.check(timed, "no step between two samples")
    for e in timed:
        # 100 W each, whatever the time.
        case.check(math.isclose(e["energy_joules_per_step"] * e["steps"], e["energy_joules"], rel_tol=1e-9), str(e))
        case.check(math.isclose(e["energy_joules_per_sample"] * e["steps"] * 24, e["energy_joules"], rel_tol=1e-9), str(e))
    joules, seconds = sum(e["energy_joules"] for e in events), sum(e["seconds"] for e in events)
    case.check(0.3 * 100 * np * seconds < joules < 1.7 * 100 * np * seconds, f"{joules} J in {seconds} s at {100 * np} W")
    said = [e for e in trainer.read_events(metrics) if e["event"] == "warning"]
    case.check([e["kind"] for e in said if e["kind"] == "gpu_slow"] == ["gpu_slow"] * (np - 1), json.dumps(said))
    for e in said:
        case.check(set(e) - {"event"} == documented("warning"), str(e))
        # What a GPU's host said at once names the host first.
        words = e["message"] if e["kind"] != "gpu_xid" else e["message"].partition("reports ")[2]
        case.check(words in output, f"not said: {e}")
    slow = [e["message"] for e in said if e["kind"] == "gpu_slow"]
    case.check(len(slow) == np - 1 and all("GPU-a0000001" in m and "90 C" in m for m in slow), str(slow))
    xids = [e["message"] for e in said if e["kind"] == "gpu_xid"]
    case.check(len(xids) == 1 and all(part in xids[0] for part in ("rank 0", "GPU-a0000000", os.uname().nodename, "Xid 31",
                                                                   "page fault")), str(xids))
    case.check([e["xid"] for e in events[-1:]] == [[31, 0][:np]], f"xid: {events[-1:]}")
    case.check(not os.path.exists(case.path("leases", "GPU-a0000000-0000-0000-0000-000000000000.fault")),
               "a fault of the program is held against the GPU")


def main():
    case = trainer.Case()
    if "LOCKSTEP_MICROHTTPD:FILEPATH=/" in open(os.path.join(case.build, "CMakeCache.txt")).read():
        endpoint(case)
    else:
        print("/metrics was not looked at: this build has no libmicrohttpd")
    textfile_without_folder(case)
    gpu_events(case)
    case.finish()


main()
