# RUN: timeout=7200 label=full,cuda
"""test_cuda_same_bits.py with ten seeds of the simulator, which go round its policies twice, and all precisions."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import test_cuda_same_bits
import trainer

if __name__ == "__main__":
    test_cuda_same_bits.main([(make, compute, None) for make in (trainer.mlp_config, trainer.gpt_config)
                              for compute in ("f32", "bf16", "f16")], range(1, 11))
