# RUN: timeout=7200 label=full
"""The full product of test_same_bits.py."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import test_same_bits

if __name__ == "__main__":
    test_same_bits.main(lambda i: test_same_bits.everything())
