# RUN: timeout=7200 label=full
"""test_cuda_failures.py with every function, and more pairs of calls and errors."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import test_cuda_failures

if __name__ == "__main__":
    test_cuda_failures.main(everything=True)
