# RUN: timeout=300 label=slow
"""scripts/deploy for those who watch: a real Prometheus with our configuration scrapes a real run, and has every metric of it
with the right type; alerts and dashboard ask for metrics that exist."""
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import trainer

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
DEPLOY = os.path.join(ROOT, "scripts", "deploy")


def read(*path):
    with open(os.path.join(*path), encoding="utf-8") as file:
        return file.read()


def gauges():
    """{name: type} of everything that is shown."""
    text = read(ROOT, "runtime", "metrics", "gauges.def")
    return {name: kind for kind, name in re.findall(r'^LS_\w+_GAUGE\(\w+, (\w+), "(\w+)"', text, re.M)}


def asked(text):
    return set(re.findall(r"\b(?:trainer|DCGM)_\w+", text))


def names(case):
    dashboard = json.loads(read(DEPLOY, "grafana-dashboard.json"))
    wanted = {target["expr"]: panel["title"] for panel in dashboard["panels"] for target in panel["targets"]}
    case.check(len(wanted) > 10, f"the dashboard asks {len(wanted)} questions")
    for expression, title in wanted.items():
        case.check(asked(expression) and asked(expression) <= set(gauges()), f"dashboard, {title}: {expression}")
    rates = asked(" ".join(re.findall(r"rate\([^)]*\)", " ".join(wanted))))
    case.check(all(gauges()[name] == "counter" for name in rates), f"the rate of what is no counter: {rates}")
    alerts = asked(read(DEPLOY, "prometheus-alerts.yml"))
    case.check(alerts and alerts <= set(gauges()), f"alerts: {alerts - set(gauges())}")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def ask(port, path, **query):
    url = f"http://127.0.0.1:{port}/api/v1/{path}?" + urllib.parse.urlencode(query)
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return json.load(answer)["data"]
    except (urllib.error.URLError, ConnectionError, TimeoutError):
        return None


def until(case, what, condition):
    deadline = time.monotonic() + 60 * case.slow
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(0.2)
    case.check(False, f"never: {what}")
    return None


def scrape(case):
    if not shutil.which("prometheus"):
        print("nothing was scraped: prometheus is not installed")
        return
    ours, theirs = free_port(), free_port()
    for name in ("prometheus.yml", "prometheus-alerts.yml"):
        with open(case.path(name), "w", encoding="utf-8") as file:
            file.write(read(DEPLOY, name).replace("localhost:9400", f"127.0.0.1:{ours}").replace("5s\n", "1s\n"))
    checked = subprocess.run(["promtool", "check", "config", case.path("prometheus.yml")], capture_output=True, text=True)
    case.check(checked.returncode == 0, checked.stdout + checked.stderr)
    values = trainer.gpt_config(case, **{"train.steps": 1000000, "monitor.port": ours, "monitor.interval": "0.5s",
                                         "checkpoint.every": 20, "log.dir": case.path("log")})
    trainer.write_config(case.path("run.ini"), values)
    run = case.start([case.path("run.ini")], case.worlds(1, 2)[-1])
    server = subprocess.Popen(["prometheus", "--config.file", case.path("prometheus.yml"), "--storage.tsdb.path",
                               case.path("tsdb"), "--web.listen-address", f"127.0.0.1:{theirs}"],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until(case, "the checkpoint is scraped",
              lambda: (ask(theirs, "query", query="trainer_last_checkpoint_step") or {}).get("result"))
        steps = ask(theirs, "query", query="trainer_step")
        case.check(steps and len(steps["result"]) == 1 and {"host", "rank", "instance"} <= set(steps["result"][0]["metric"]),
                   f"trainer_step: {steps}")
        up = ask(theirs, "query", query="up")
        case.check(up and [sample["value"][1] for sample in up["result"]] == ["1"], f"up: {up}")
        with urllib.request.urlopen(f"http://127.0.0.1:{ours}/metrics", timeout=10) as page:
            shown = set(re.findall(r"^# TYPE (\w+)", page.read().decode(), re.M))
        case.check({name for name in gauges() if name.startswith("trainer_")} == shown, f"on the page: {shown}")
        told = ask(theirs, "metadata") or {}
        for name in shown:
            case.check([row["type"] for row in told.get(name, [])] == [gauges()[name]] and told[name][0]["help"],
                       f"{name}: {told.get(name)}")
        firing = ask(theirs, "rules")
        rules = [rule for group in firing["groups"] for rule in group["rules"]] if firing else []
        case.check(len(rules) == 4 and all(rule["health"] in ("ok", "unknown") for rule in rules), f"rules: {rules}")
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(30)
        run.send_signal(signal.SIGUSR1)
        code = run.wait(60 * case.slow)
    case.check(code == 75, f"the run: exit {code}\n{trainer.output_of(run)}")


def main():
    case = trainer.Case()
    names(case)
    if "LOCKSTEP_MICROHTTPD:FILEPATH=/" in read(case.build, "CMakeCache.txt"):
        scrape(case)
    else:
        print("nothing was scraped: this build has no libmicrohttpd")
    case.finish()


main()
