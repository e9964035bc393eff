"""The libraries that a build needs, for a machine that has compilers and a GPU but neither them nor a network: packed
where they are installed (scripts/gpu_check.sh --bundle), found again where the file was brought to. oneDNN, xxHash,
jansson, zlib, cmocka, Open MPI, and what these link with, without the C library and the compilers' own."""
import glob
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

PATH = "build-gpu-bundle/libraries.tar.gz"      # from the root of the project; ignored by git

INCLUDES = ["oneapi", "xxhash.h", "xxh3.h", "jansson.h", "jansson_config.h", "zlib.h", "zconf.h", "cmocka.h",
            "cmocka_pbc.h"]
LIBRARIES = ["dnnl", "xxhash", "jansson", "z", "cmocka", "mpi"]
# Of the C library and of the compilers: every machine has its own, and two of one process would not agree.
SYSTEM = r"^(ld-linux|libc|libm|libdl|librt|libpthread|libutil|libresolv|libstdc\+\+|libgcc_s|libgomp|linux-vdso)[.-]"


def multiarch():
    try:
        text = subprocess.run(["gcc", "-print-multiarch"], capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        text = ""
    return text or f"{os.uname().machine}-linux-gnu"


def needed(path):
    """Shared libraries that a file is loaded with: paths."""
    said = subprocess.run(["ldd", path], capture_output=True, text=True, check=False).stdout
    return [found for name, found in re.findall(r"^\s*(\S+) => (/\S+)", said, re.M) if not re.match(SYSTEM, name)]


def add(tar, path, name):
    """A file, not a link to it; once."""
    if name not in tar.getnames():
        tar.add(os.path.realpath(path), name, recursive=True)


def pack(root):
    out = os.path.join(root, PATH)
    folder = f"/usr/lib/{multiarch()}"
    plugins = os.path.join(folder, "openmpi", "lib", "openmpi3")
    files = {name: os.path.join(folder, f"lib{name}.so") for name in LIBRARIES}
    absent = [name for name, path in files.items() if not os.path.exists(path)]
    programs = {name: shutil.which(name) for name in ("mpirun", "orted")}
    absent += [name for name, path in programs.items() if path is None]
    if absent:
        print(f"gpu_check: error: not found here: {', '.join(absent)}; run scripts/setup.sh", file=sys.stderr)
        return 1
    os.makedirs(os.path.dirname(out), exist_ok=True)
    with tarfile.open(out, "w:gz") as tar:
        for name in INCLUDES:
            for path in (f"/usr/include/{name}", f"/usr/include/{multiarch()}/{name}"):
                if os.path.exists(path):
                    tar.add(path, f"include/{name}", filter=plain)
        add(tar, os.path.join(folder, "openmpi", "include"), "include/openmpi")
        closure = list(files.values()) + [os.path.realpath(path) for path in programs.values()]
        closure += glob.glob(os.path.join(plugins, "*.so"))
        for path in closure:        # grows as it is walked
            closure += [each for each in needed(path) if each not in closure]
        for name, path in files.items():
            add(tar, path, f"lib/lib{name}.so")
        for path in closure:
            if re.search(r"\.so(\.\d+)*$", path) and plugins not in path and path not in files.values():
                add(tar, path, f"lib/{os.path.basename(path)}")
        for name, path in programs.items():
            add(tar, path, f"bin/{name}")
        # Open MPI looks for these from its prefix on, where Debian has put them.
        add(tar, plugins, f"lib/{multiarch()}/openmpi/lib/openmpi3")
        add(tar, "/usr/share/openmpi", "share/openmpi")
    print(f"written: {PATH}, {os.path.getsize(out) / 1e6:.1f} MB")
    return 0


def plain(entry):
    """No links that lead out of the tree."""
    return None if entry.issym() and entry.linkname.startswith("/") else entry


def unpacked(root):
    """The folder with what was brought, unpacked at the first call; None where nothing was."""
    path = os.path.join(root, PATH)
    folder = os.path.join(os.path.dirname(path), "prefix")
    if not os.path.exists(path):
        return None
    if not os.path.isdir(folder):
        scratch = tempfile.mkdtemp(dir=os.path.dirname(path))
        with tarfile.open(path) as tar:
            tar.extractall(scratch)     # made by pack()
        os.rename(scratch, folder)
    return folder


def environment(root):
    """The environment of everything that is run: the machine's, with what was brought behind what it has."""
    found = dict(os.environ)
    if os.geteuid() == 0:
        found.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    found.setdefault("OMPI_MCA_rmaps_base_oversubscribe", "1")
    found.setdefault("OMPI_MCA_pml", "ob1")
    found.setdefault("OMPI_MCA_btl", "self,vader")
    if shutil.which("ssh") is None and shutil.which("rsh") is None:
        found.setdefault("OMPI_MCA_plm", "isolated")        # it looks for them even on one machine
    prefix = unpacked(root)
    if prefix is not None:
        found["LD_LIBRARY_PATH"] = os.path.join(prefix, "lib") + ":" + found.get("LD_LIBRARY_PATH", "")
        found["CMAKE_PREFIX_PATH"] = prefix + ":" + found.get("CMAKE_PREFIX_PATH", "")
        if shutil.which("mpirun") is None:
            found["OPAL_PREFIX"] = prefix
            found["PATH"] += ":" + os.path.join(prefix, "bin")
    return found


def cmake_options(root):
    """What CMake is told of the MPI that was brought, as it has no compiler wrapper that could tell."""
    prefix = unpacked(root)
    if prefix is None or shutil.which("mpirun") is not None:
        return []
    return ["-DMPI_SKIP_COMPILER_WRAPPER=ON", f"-DMPI_C_HEADER_DIR={prefix}/include/openmpi", "-DMPI_C_LIB_NAMES=mpi",
            f"-DMPI_mpi_LIBRARY={prefix}/lib/libmpi.so", f"-DMPIEXEC_EXECUTABLE={prefix}/bin/mpirun"]
