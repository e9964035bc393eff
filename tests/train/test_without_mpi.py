# RUN: timeout=1200 label=full
"""A build without MPI, by the same compiler with the same flags, trains to the weights of one process of this build."""
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import trainer

SAME = ("CMAKE_BUILD_TYPE", "CMAKE_C_COMPILER", "CMAKE_C_FLAGS", "CMAKE_C_FLAGS_RELEASE",
        "CMAKE_C_FLAGS_RELWITHDEBINFO", "CMAKE_C_FLAGS_DEBUG", "LOCKSTEP_SANITIZE")


def build_without(case):
    source = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
    options = []
    for line in open(os.path.join(case.build, "CMakeCache.txt")):
        name, _, value = line.strip().partition("=")
        if name.split(":")[0] in SAME and value:
            options.append(f"-D{name}={value}")
    folder = case.path("build")
    for command in (["cmake", "-S", source, "-B", folder, "-DLOCKSTEP_MPI=OFF", "-DLOCKSTEP_TESTS=OFF"] + options,
                    ["cmake", "--build", folder, "--parallel", "2", "--target", "trainer"]):
        result = subprocess.run(command, capture_output=True, text=True)
        if not case.check(result.returncode == 0, f"{command}:\n{result.stdout}\n{result.stderr}"):
            return None
        case.check("warning:" not in result.stderr + result.stdout, f"warnings:\n{result.stdout}\n{result.stderr}")
    return folder


def main():
    case = trainer.Case()
    if not case.has_mpi:
        print("skipped: this build is the one without MPI")
        return
    folder = build_without(case)
    if folder is not None:
        linked = subprocess.run(["ldd", os.path.join(folder, "trainer")], capture_output=True, text=True).stdout
        case.check("libmpi" not in linked, f"the build without MPI is linked to it:\n{linked}")
        for name, config in (("mlp", trainer.mlp_config(case)), ("gpt", trainer.gpt_config(case))):
            with_mpi = trainer.results(case.train(config, np=1))
            build, case.build = case.build, folder
            without = trainer.results(case.train(config))
            case.build = build
            case.check(with_mpi == without and with_mpi[-1]["event"] == "done",
                       f"{name}: {with_mpi[-1:]} {without[-1:]}")
    case.finish()


if __name__ == "__main__":
    main()
