# RUN: timeout=300 label=slow
"""An installed copy, moved elsewhere: templates and the program of the README are built by CMake, by pkg-config, and run."""
import os
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import trainer

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TEMPLATES = ["custom_training", "custom_layer", "custom_dataset"]
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]


def call(case, command, **options):
    result = subprocess.run(command, capture_output=True, text=True, check=False, cwd=case.folder, **options)
    case.check(result.returncode == 0, f"{' '.join(command)}\n{result.stdout}{result.stderr}")
    return result


def install(case):
    """Installs to one place, moves it to another; nothing may remember the first one or the sources."""
    first, second = case.path("first"), case.path("second place")
    call(case, ["cmake", "--install", case.build, "--prefix", first])
    os.rename(first, second)
    for where, _, names in os.walk(second):
        for name in names:
            path = os.path.join(where, name)
            if not name.endswith((".a", "trainer", "gpus", "launch")):
                with open(path, encoding="utf-8") as file:
                    text = file.read()
                for forbidden in (first, case.build, ROOT + "/runtime"):
                    case.check(forbidden not in text, f"{path} names {forbidden}")
    libraries = [name for _, _, names in os.walk(second) for name in names if name.endswith(".a")]
    case.check(libraries == ["liblockstep.a"], f"libraries: {libraries}")
    return second


def hash_of(case, command, np=0):
    """What a program that trains 20 steps says of its weights."""
    if np and case.has_mpi:
        command = ["mpirun", "-np", str(np), "--bind-to", "none"] + command
    where = case.path(f"run-{len(os.listdir(case.folder))}")
    os.mkdir(where)
    result = subprocess.run(command + ["--set", "train.steps=20"], capture_output=True, text=True, check=False, cwd=where,
                            env={**trainer.MPI_ENVIRONMENT, **os.environ}, timeout=120)
    hashes = re.findall(r"weights ([0-9a-f]{32})", result.stdout)
    case.check(result.returncode == 0 and len(hashes) == 1, f"{command}: {result.stdout}{result.stderr}")
    return hashes[0] if hashes else None


def by_cmake(case, prefix):
    """The templates' own CMakeLists.txt, out of tree; as another build than ours."""
    build = case.path("by-cmake")
    call(case, ["cmake", "-S", os.path.join(prefix, "share/lockstep/examples"), "-B", build,
                f"-DCMAKE_PREFIX_PATH={prefix}"])
    call(case, ["cmake", "--build", build])
    hashes = {}
    for name in TEMPLATES:
        hashes[name] = hash_of(case, [os.path.join(build, name)])
        case.check(hash_of(case, [os.path.join(build, name)], np=4) == hashes[name], f"{name} built by CMake, np 4")
    return hashes


def flags(case, prefix):
    folder = next(where for where, _, names in os.walk(prefix) if "lockstep.pc" in names)
    environment = {**os.environ, "PKG_CONFIG_PATH": folder}
    text = call(case, ["pkg-config", "--cflags", "--libs", "lockstep"], env=environment).stdout
    return re.findall(r"(?:\\.|[^\s\\])+", text.strip())


def unescape(flag):
    return re.sub(r"\\(.)", r"\1", flag)


def by_pkg_config(case, prefix, hashes):
    words = [unescape(flag) for flag in flags(case, prefix)]
    for name in TEMPLATES:
        source = os.path.join(prefix, "share/lockstep/examples", name + ".c")
        call(case, [os.environ.get("CC", "cc"), "-std=c11"] + WARNINGS + ["-O2", source, "-o", name + "-pc"] + words)
        case.check(hash_of(case, [case.path(name + "-pc")]) == hashes[name], f"{name} built with pkg-config")
    return words


def headers(case, prefix):
    """Each public header alone, as C11 and as C++17, with nothing but the installed folder."""
    include = os.path.join(prefix, "include")
    names = sorted(name for name in os.listdir(os.path.join(include, "lockstep")) if name.endswith(".h"))
    case.check(len(names) >= 10, f"headers: {names}")
    for name in names:
        text = f"#include <lockstep/{name}>\n#ifndef __cplusplus\nextern int not_empty;\n#endif\n"
        if name == "config_keys_undef.h":       # ends a list of macros: nothing to include alone
            continue
        for compiler, standard, language in (("cc", "-std=c11", "c"), ("c++", "-std=c++17", "c++")):
            call(case, [compiler, standard, "-x", language, "-fsyntax-only", "-I", include] + WARNINGS + ["-"], input=text)


def readme_program(case, words):
    """The first C program of the README does what is said there."""
    with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as file:
        blocks = re.findall(r"```c\n(.*?)```", file.read(), re.S)
    if not case.check(len(blocks) == 1, f"{len(blocks)} C programs in README.md"):
        return
    case.check(blocks[0].count("\n") <= 30, "the program of the README is short")
    with open(case.path("mine.c"), "w", encoding="utf-8") as file:
        file.write(blocks[0])
    call(case, ["cc", "-std=c11"] + WARNINGS + ["mine.c", "-o", "mine"] + words)
    one = hash_of(case, [case.path("mine")])
    case.check(hash_of(case, [case.path("mine")], np=2) == one, "the program of the README, np 2")


def main():
    case = trainer.Case()
    if case.sanitizer:
        print("skipped: an installed copy of a sanitizer build needs its flags in every program")
        shutil.rmtree(case.folder)
        return
    prefix = install(case)
    headers(case, prefix)
    hashes = by_cmake(case, prefix)
    if case.check(shutil.which("pkg-config") is not None, "pkg-config is installed (scripts/setup.sh)"):
        readme_program(case, by_pkg_config(case, prefix, hashes))
    case.finish()


if __name__ == "__main__":
    main()
