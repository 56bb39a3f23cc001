"""The PTX emulator on CUTLASS's own example programs, unchanged: host code, device kernels and their check of the result.

nvcc makes of an example its PTX and a shared library, once, beside the peers' sources. The library is loaded into a process
(cutlass_examples/play.py) whose CUDA runtime is runtime.cpp there: memory of the device is the host's own, and kernels run on the
emulator. The program compares its results with its own reference, so its exit code is the verdict.
"""

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

import peers
import pytest

HERE = Path(__file__).parent
RUNTIME = HERE / "cutlass_examples" / "runtime.cpp"

CASES = {
    # name: (architecture, a colon and multiprocessors if not four; source below examples/; words of the command line; seeds)
    "47 stream-K": ("sm_80", "47_ampere_gemm_universal_streamk/ampere_gemm_universal_streamk.cu",
                    "--m=256 --n=128 --k=96 --iterations=0", (None, 1)),
    "16 convolution": ("sm_80", "16_ampere_tensorop_conv2dfprop/ampere_tensorop_conv2dfprop.cu",
                       "--n=1 --h=7 --w=9 --c=32 --k=40 --r=3 --s=3 --ref-check --iterations=1", (None, 1)),
    "48 tf32, clusters of eight": (
        "sm_90a:8", "48_hopper_warp_specialized_gemm/48_hopper_warp_specialized_gemm.cu",
        "--m=200 --n=136 --k=200 --iterations=0", (None, 1)),
    "62 sparse f16": ("sm_90a", "62_hopper_sparse_gemm/62_hopper_sparse_gemm.cu", "--m=128 --n=128 --k=256 --iterations=0",
                      (None,)),
    "55 four bits by bf16": ("sm_90a", "55_hopper_mixed_dtype_gemm/55_hopper_int4_bf16_gemm.cu",
                             "--m=128 --n=128 --k=256 --l=1 --g=128 --mode=1 --iterations=0 --warmup=0", (None,)),
    "57 grouped": ("sm_90a", "57_hopper_grouped_gemm/57_hopper_grouped_gemm.cu",
                   "--m=144 --n=80 --k=112 --groups=2 --iterations=0", (None,)),
    "67 eight bits with scales of blocks": (
        "sm_90a", "67_hopper_fp8_warp_specialized_gemm_with_blockwise_scaling/"
        "67_hopper_fp8_warp_specialized_gemm_with_blockwise_scaling.cu",
        "--m=200 --n=128 --k=256 --iterations=0", (None, 1)),
    "15 sparse s4": ("sm_80", "15_ampere_sparse_tensorop_gemm/ampere_sparse_tensorop_gemm.cu", "", (None,)),
    "54 eight bits": ("sm_90a", "54_hopper_fp8_warp_specialized_gemm/54_hopper_fp8_warp_specialized_gemm.cu",
                      "--m=128 --n=128 --k=128 --iterations=0", (None,)),
    "58 eight bits": ("sm_89", "58_ada_fp8_gemm/ada_fp8_gemm.cu", "--m=128 --n=128 --k=128 --iterations=0", (None,)),
    "70 eight bits by two SMs": ("sm_100a", "70_blackwell_gemm/70_blackwell_fp8_gemm.cu",
                                 "--m=256 --n=256 --k=128 --iterations=0", (None, 1)),
    "63 with operands prefetched": (
        "sm_90a", "63_hopper_gemm_with_weight_prefetch/63_hopper_gemm_with_weight_prefetch.cu",
        "--m=128 --n=128 --k=256 --iterations=0", (None,)),
    "81 eight bits with scales of blocks": ("sm_100a", "81_blackwell_gemm_blockwise/81_blackwell_gemm_blockwise.cu",
                                            "--m=256 --n=256 --k=256 --iterations=0", (None, 1)),
    "87a eight bits with scales of blocks": (
        "sm_120a", "87_blackwell_geforce_gemm_blockwise/87a_blackwell_geforce_fp8_bf16_gemm_blockwise.cu",
        "--m=128 --n=128 --k=256 --iterations=0", (None,)),
    "74 stream-K": ("sm_100a", "74_blackwell_gemm_streamk/blackwell_gemm_streamk.cu",
                    "--m=256 --n=256 --k=256 --iterations=0", (None,)),
    "77 attention": ("sm_100a", "77_blackwell_fmha/77_blackwell_fmha.cu",
                     "--b=1 --h=1 --q=256 --k=128 --d=64 --iterations=1 --warmup_iterations=0 --verify", (None,)),
    "76 convolution by im2col": (
        "sm_100a", "76_blackwell_conv/76_blackwell_conv_fprop.cu",
        "--n=2 --d=3 --h=7 --w=9 --c=64 --k=72 --t=2 --r=3 --s=2 --pad_d=1 --pad_h=1 --pad_w=0 --stride_h=2 --dilation_w=2 "
        "--iterations=0", (None, 1)),
    "72 four bits into four bits": (
        "sm_100a", "72_blackwell_narrow_precision_gemm/72b_blackwell_nvfp4_nvfp4_gemm.cu",
        "--m=256 --n=256 --k=256 --iterations=0", (None, 1)),
}  # fmt: skip


def built(arch: str, name: str) -> tuple[str, Path]:
    """(PTX, folder with program.so) of an example."""
    nvcc, tree = peers.require("nvcc"), peers.cutlass()
    source = tree / "cutlass_library" / "source"
    example, include = source / "examples" / name, tree / "nvidia" / "cu13" / "include"
    number = arch.removeprefix("sm_").partition(":")[0]
    folders = (
        source / "include", source / "tools" / "util" / "include", source / "examples" / "common", example.parent,
        include / "cccl", include,
    )  # fmt: skip
    words = [
        "-std=c++17", "-w", "--expt-relaxed-constexpr", f"-gencode=arch=compute_{number},code=compute_{number}",
        "-DCUTLASS_ENABLE_DIRECT_CUDA_DRIVER_CALL=1", "-DCUTLASS_ARCH_MMA_SM100_SUPPORTED", "-Dmain=example_main",
        "-Xcompiler=-fPIC,-O1", "-static-global-template-stub=false", "-shared",
        "-cudart=none", *(f"-I{folder}" for folder in folders),
    ]  # fmt: skip
    digest = hashlib.sha256("\0".join([*words, name]).encode()).hexdigest()[:12]
    folder = tree / f"example.{digest}"
    if not folder.exists():
        partial = tree / f"example.{digest}.partial"
        shutil.rmtree(partial, ignore_errors=True)
        (partial / "kept").mkdir(parents=True)
        kept = ["-keep", f"-keep-dir={partial / 'kept'}"]
        subprocess.run(
            [nvcc, *words, *kept, example, "-o", partial / "program.so"], check=True, capture_output=True
        )
        (ptx,) = (partial / "kept").glob("*.ptx")
        ptx.rename(partial / "program.ptx")
        shutil.rmtree(partial / "kept")
        partial.rename(folder)
    return (folder / "program.ptx").read_text(), folder


def runtime() -> Path:
    """The CUDA runtime of examples, as a shared library."""
    home, tree = Path(peers.require("nvcc")).parents[1], peers.cutlass()
    made = [RUNTIME, HERE / "collectives" / "driver.hpp"]
    digest = hashlib.sha256("\0".join(p.read_text() for p in made).encode()).hexdigest()[:12]
    out = tree / f"runtime.{digest}.so"
    if not out.exists():
        partial = out.with_suffix(".partial")
        words = ["-std=c++17", "-O1", "-shared", "-fPIC", f"-I{home / 'include'}", f"-I{made[1].parent}"]
        subprocess.run(["g++", *words, RUNTIME, "-o", partial], check=True, capture_output=True)
        partial.rename(out)
    return out


@pytest.mark.full
@pytest.mark.parametrize("name, seed", [(name, seed) for name, row in CASES.items() for seed in row[3]])
def test_examples_check_themselves(name, seed):
    arch, source, words, _ = CASES[name]
    _, folder = built(arch, source)
    line = [
        sys.executable,
        HERE / "cutlass_examples" / "play.py",
        folder,
        runtime(),
        arch,
        "none" if seed is None else str(seed),
        *words.split(),
    ]
    done = subprocess.run(line, capture_output=True, text=True)
    good = done.returncode == 0 and "emulator: ran" in done.stderr and "FAIL" not in done.stdout.upper()
    assert good, done.stdout + done.stderr
