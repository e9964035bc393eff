# RUN: timeout=1800 label=full
"""Twenty runs under launch whose processes are killed at random moments."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import launch_case
import disturb


def main():
    case = launch_case.LaunchCase()
    disturb.check(case, 20)
    case.finish()


if __name__ == "__main__":
    main()
