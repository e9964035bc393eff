# RUN: timeout=120
"""Plans of matrix products where there is no choice: the cpu refuses to make one and to take one, and says why."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import trainer


def main():
    case = trainer.Case()
    plan = case.path("plan.json")
    config = dict(trainer.mlp_config(case), **{"device.backend": "cpu", "train.steps": 1, "log.dir": case.path("log")})
    path = case.path("run.ini")
    trainer.write_config(path, config)
    result = case.run(["--tune-gemm", plan, path])
    case.check(result.returncode == 2, f"exit {result.returncode}")
    case.check("the cpu backend makes products in one way" in result.stderr, result.stderr)
    case.check(not os.path.exists(plan), "a plan of nothing")
    with open(plan, "w") as file:
        file.write('{"lockstep_gemm_plan": 1, "device": "x", "library": "y", "products": []}')
    result = case.run([path, "--set", "device.gemm_plan=" + plan])
    case.check(result.returncode == 2, f"exit {result.returncode}")
    case.check("leave the key empty" in result.stderr and plan in result.stderr, result.stderr)
    result = case.run(["--tune-gemm", plan])
    case.check(result.returncode == 2 and "FILE CONFIG" in result.stderr, f"{result.returncode} {result.stderr}")
    case.finish()


if __name__ == "__main__":
    main()
