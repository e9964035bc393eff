# RUN: timeout=120
"""Every header compiles alone, and the check sees one that does not."""
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CHECK = os.path.join(ROOT, "scripts", "check_headers.sh")

# A public header, and whether it stands alone.
CASES = [
    ("typedef struct a { int *at; } a;", True),
    ("void a(size_t n);", False),
    ("static inline int *a(void *p)\n{\n    return p;\n}", False),     # C only
]


def run(root):
    return subprocess.run([CHECK, root], capture_output=True, text=True, check=False)


def main():
    for text, alone in CASES:
        with tempfile.TemporaryDirectory() as root:
            os.makedirs(os.path.join(root, "kernels"))
            os.makedirs(os.path.join(root, "runtime", "include"))
            with open(os.path.join(root, "runtime", "include", "a.h"), "w", encoding="utf-8") as file:
                file.write(text + "\n")
            result = run(root)
            if (result.returncode == 0) != alone:
                sys.exit(f"{text}: expected {'success' if alone else 'failure'}, got\n{result.stdout}{result.stderr}")
    result = run(ROOT)
    print(result.stdout + result.stderr, end="")
    sys.exit(result.returncode)


if __name__ == "__main__":
    main()
