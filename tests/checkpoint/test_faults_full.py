# RUN: timeout=3600 label=full
"""test_faults.py with every operation and every kind of fault."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import test_faults

if __name__ == "__main__":
    test_faults.main(everything=True)
