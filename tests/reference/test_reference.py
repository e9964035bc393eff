# RUN: timeout=600 label=contract cuda_slow
"""PyTorch's numbers, through the real graph, trainer and optimizer; and proof that the check can fail: any single
gradient scaled by 1.001 breaks it."""
import glob
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import trainer

FOLDER = os.path.dirname(os.path.abspath(__file__))


def main():
    case = trainer.Case()
    sets = sorted(os.path.basename(path).split(".")[0] for path in glob.glob(os.path.join(FOLDER, "*.weights.safetensors")))
    case.check(len(sets) == 4, f"four sets are here: {sets}")
    for name in sets:
        for np in case.worlds(1, 2, 4):
            result = case.run([FOLDER, name], np=np if np > 1 else 0, program="reference_check")
            case.check(result.returncode == 0 and "0 rules broken" in result.stdout,
                       f"{name}, np {np}: exit {result.returncode}\n{result.stdout}{result.stderr}")
        gradients = re.findall(r"grad\.(\S+)", result.stdout)
        case.check(len(gradients) >= 4, f"{name}: gradients are compared")
        if name in ("mlp_relu", "gpt_untied"):
            for gradient in gradients:
                result = case.run([FOLDER, name, "--scale-gradient", gradient, "1.001"], program="reference_check")
                case.check(result.returncode == 1 and f"FAIL batch 0        grad.{gradient} " in result.stdout,
                           f"{name}: {gradient} scaled by 1.001 passes\n{result.stdout}{result.stderr}")
        for compute in ("bf16", "f16"):
            np = case.worlds(1, 2)[-1]
            result = case.run([FOLDER, name, "--compute", compute], np=np, program="reference_check")
            case.check(result.returncode == 0 and "0 rules broken" in result.stdout,
                       f"{name} {compute}, np {np}: exit {result.returncode}\n{result.stdout}{result.stderr}")
    result = case.run([FOLDER, sets[0], "--micro-batch", "4"], program="reference_check")
    case.check(result.returncode == 0, f"micro-batch 4: exit {result.returncode}\n{result.stdout}{result.stderr}")
    case.finish()


if __name__ == "__main__":
    main()
