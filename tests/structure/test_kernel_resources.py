# RUN: timeout=120
"""What nvcc's assembler said of every kernel of this build (scripts/nvcc_report.sh): none keeps values in memory for want
of registers, none has a stack, but for those of one table. In builds by nvcc only; scripts/nvcc.sh makes one."""
import glob
import os
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import trainer

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

# Bytes of stack per thread, at most, on the architecture that takes the kernel. Turing's products are half as deep, so
# that a warp's factors and sums of a large head need more than the 255 registers there are. Smaller tiles would need
# fewer; which is faster nobody has measured.
EXCEPTIONS = {
    ("lsi_attention_dkv_f16_sm75_128", "sm_75"): 96,
    ("lsi_attention_dq_f16_sm75_128", "sm_75"): 24,
    ("lsi_attention_fwd_f16_sm75_256", "sm_75"): 120,
    ("lsi_attention_dkv_f16_sm75_256", "sm_75"): 88,
    ("lsi_attention_dq_f16_sm75_256", "sm_75"): 64,
}
# Newer GPUs take Turing's way only beside one (device.mixed): these may, up to here.
OLDER_WAY, OLDER_WAY_BYTES = re.compile(r"_f16_sm75_"), 128
LEAST_KERNELS = 150     # fewer, and the reports were not understood
# Of these there must be a line: what a GPT step spends its time in.
HOT = ["lsi_attention_{pass_}_{math}_{head}".format(pass_=p, math=m, head=h)
       for p in ("fwd", "dq", "dkv") for m in ("f16_sm80", "bf16_sm80") for h in (64, 128)]
HOT += [f"lsi_{name}_{dtype}" for name in ("gelu_fwd", "gelu_bwd", "add", "layernorm_fwd", "add_layernorm",
                                           "softmax_xent_fwd", "softmax_xent",
                                           "softmax_xent_bwd") for dtype in ("f16", "bf16")] + ["lsi_block_norms_f32"]


def parse(text):
    """[(kernel, architecture, stack, spilled bytes)] of a report; and how many kernels it begins to tell of."""
    found = re.findall(r"entry function '(\w+)' for '(\w+)'\n[^\n]*Function properties[^\n]*\n"
                       r"\s*(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", text)
    begun = len(re.findall(r"Compiling entry function", text))
    return [(name, arch, int(stack), int(stores) + int(loads)) for name, arch, stack, stores, loads in found], begun


def complaints(kernels):
    for name, arch, stack, spilled in kernels:
        if OLDER_WAY.search(name) and arch != "sm_75":
            most = OLDER_WAY_BYTES
        else:
            most = EXCEPTIONS.get((name, arch), 0)
        if stack > most or (spilled > 0 and most == 0):
            yield f"{name} on {arch}: a stack of {stack} bytes, {spilled} bytes spilled; at most {most}"
        elif (name, arch) in EXCEPTIONS and stack < most:
            yield f"{name} on {arch}: only {stack} bytes of stack now: lower its {most} in the table"


def check_itself(case):
    """The check finds what is planted, and the wrapper lets warnings through."""
    report = ("ptxas info    : Compiling entry function 'lsi_a' for 'sm_80'\n"
              "ptxas info    : Function properties for lsi_a\n"
              "    {} bytes stack frame, {} bytes spill stores, 4 bytes spill loads\n")
    case.check(len(list(complaints(parse(report.format(8, 4))[0]))) == 1, "a planted spill is found")
    clean = report.format(0, 0).replace("4 bytes", "0 bytes")
    case.check(parse(clean) == ([("lsi_a", "sm_80", 0, 0)], 1) and not list(complaints(parse(clean)[0])), "none is not")
    nvcc = shutil.which("nvcc") or next(iter(glob.glob("/usr/local/cuda/bin/nvcc")), None)
    if nvcc is None:
        return
    source, out = case.path("planted.cu"), case.path("planted.resources")
    with open(source, "w") as file:
        file.write('extern "C" __global__ void planted(float *x) { float v[64]; int unused;\n'
                   "for (int i = 0; i < 64; i++) v[i] = x[i];\nfor (int k = 0; k < (int)x[99]; k++)\n"
                   "v[(int)x[k] & 63] += x[k];\n"
                   "for (int i = 0; i < 64; i++) x[i] = v[i]; }\n")
    done = subprocess.run([os.path.join(ROOT, "scripts", "nvcc_report.sh"), out, nvcc, "-O3", "-Xptxas", "-v",
                           "-c", "-o", case.path("planted.o"), source], capture_output=True,
                          text=True, check=False)
    with open(out) as file:
        kernels, begun = parse(file.read())
    case.check(done.returncode == 0 and begun == 1 and len(list(complaints(kernels))) == 1, f"planted: {kernels}, {done}")
    case.check("unused" in done.stderr and "ptxas" not in done.stderr, f"warnings go through: {done.stderr}")


def main():
    case = trainer.Case()
    reports = glob.glob(os.path.join(case.build, "cuda", "*.resources"))
    if not reports:
        print("skipped: no kernels by nvcc in this build (scripts/nvcc.sh makes one)")
        return
    check_itself(case)
    kernels = []
    for path in reports:
        with open(path) as file:
            found, begun = parse(file.read())
        case.check(len(found) == begun, f"{os.path.basename(path)}: {len(found)} kernels read of {begun}")
        kernels += found
    architectures = sorted({arch for _, arch, _, _ in kernels})
    for arch in architectures:
        names = {name for name, of, _, _ in kernels if of == arch}
        case.check(len(names) >= LEAST_KERNELS, f"{arch}: {len(names)} kernels")
        for name in HOT:
            case.check(name in names, f"{arch}: nothing of {name}")
    for complaint in complaints(kernels):
        case.check(False, complaint)
    print(f"{len(kernels)} kernels on {', '.join(architectures)}")
    case.finish()


if __name__ == "__main__":
    main()
