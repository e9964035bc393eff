"""blas_bugs.py VARIANT BLAS_BUGS: every planted bug around a matrix product is caught, the same done right gives no
report.

VARIANT is plain, address or thread."""
import os
import subprocess
import sys

# In the data of some seeds; or not at all, where only ThreadSanitizer can see it.
BUGS = {"factor_early": True, "factor_overwritten": True, "shared_workspace": False}
failures = []


def run(program, name, kind, seed):
    environment = dict(os.environ, CUSIM_SEED=str(seed))
    done = subprocess.run([program, name, kind], capture_output=True, text=True, env=environment, timeout=120)
    return done.returncode, done.stdout + done.stderr


def expect(what, holds, output):
    if not holds:
        failures.append(what)
        print(f"FAILED: {what}\n{output}")


def main():
    variant, program = sys.argv[1:]
    for name, in_data in BUGS.items():
        caught = 0
        seeds = range(0, 3) if variant == "thread" else range(1, 11)
        for seed in seeds:
            code, output = run(program, name, "good", seed)
            expect(f"{name} done right, seed {seed}", code == 0, output)
            code, output = run(program, name, "bad", seed)
            caught += code != 0
            if variant == "thread":
                expect(f"{name}, seed {seed}: data race", code == 66 and "data race" in output, output)
            else:
                expect(f"{name}, seed {seed}: only the data may be wrong", code in (0, 1), output)
        if in_data or variant == "thread":
            expect(f"{name}: caught in none of the seeds", caught > 0, "")
        print(f"{name}: caught in {caught} of {len(seeds)} seeds")
    print(f"{len(failures)} expectations failed")
    sys.exit(len(failures) > 0)


main()
