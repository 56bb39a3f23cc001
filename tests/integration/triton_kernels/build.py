"""Compiles the kernels with Triton, which needs no GPU for it: `python build.py FOLDER CASE ARCH`.

It leaves FOLDER/CASE.ARCH.ptx, and FOLDER/CASE.ARCH.json with the kernel's name, bytes of shared memory and of scratch.
"""

# mypy: ignore-errors

import json
import sys
from pathlib import Path

import kernels
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

HALF = "*fp16"
SIZES = {"M": "i32", "N": "i32", "K": "i32"}
ATTENTION = {"q_ptr": HALF, "k_ptr": HALF, "v_ptr": HALF, "o_ptr": HALF}
FORWARD = {**ATTENTION, "l_ptr": "*fp32", "scale": "fp32", "T": "i32"}
BY_BOXES = {**ATTENTION, "scale": "fp32", "T": "i32", "H": "i32"}


def matmul(element, out, bm=64, bn=64, bk=64, acc=tl.float32, **options):
    types = {
        "a_ptr": "*" + element,
        "b_ptr": "*" + element,
        "c_ptr": "*" + out,
        **SIZES,
        "sam": "i32",
        "sbk": "i32",
        "scm": "i32",
    }
    return (
        "matmul",
        types,
        {"sak": 1, "sbn": 1, "scn": 1, "BM": bm, "BN": bn, "BK": bk, "G": 2, "OUT": acc},
        options,
    )


def by_boxes(warp_specialize, **options):
    types = {"a_ptr": HALF, "b_ptr": HALF, "c_ptr": HALF, **SIZES}
    return "matmul_desc", types, {"BM": 128, "BN": 64, "BK": 64, "WS": warp_specialize}, options


def scaled(element, scale, kind, pack, vector):
    types = {
        "a_ptr": element,
        "sa_ptr": scale,
        "b_ptr": element,
        "sb_ptr": scale,
        "c_ptr": "*fp32",
        "K": "i32",
    }
    return "scaled", types, {"BM": 128, "BN": 128, "BK": 128, "KIND": kind, "PACK": pack, "V": vector}, {}


CASES = {  # name: (function, types of parameters, constants, options)
    "matmul_f16": matmul("fp16", "fp16"),
    "matmul_f16_big": matmul("fp16", "fp16", 128, 128, 64, num_warps=8, num_stages=3),
    "matmul_bf16": matmul("bf16", "bf16", 128, 64, 32),
    "matmul_f32": matmul("fp32", "fp32", 64, 64, 32),
    "matmul_f64": matmul("fp64", "fp64", 32, 32, 16, tl.float64),
    "matmul_i8": matmul("i8", "i32", acc=tl.int32),
    "matmul_e4m3": matmul("fp8e4nv", "fp16"),
    "matmul_e5m2": matmul("fp8e5", "fp16"),
    "boxes": by_boxes(False),
    "boxes_ws": by_boxes(True, num_stages=3),
    "scaled_e4m3": scaled("*fp8e4nv", "*u8", "e4m3", 1, 32),
    "scaled_e2m1": scaled("*u8", "*u8", "e2m1", 2, 32),
    "scaled_nvfp4": scaled("*u8", "*fp8e4nv", "e2m1", 2, 16),
    "attention": ("attention", FORWARD, {"CAUSAL": False, "BM": 64, "BN": 64, "D": 64}, {}),
    "attention_causal": (
        "attention", FORWARD, {"CAUSAL": True, "BM": 128, "BN": 64, "D": 64}, {"num_warps": 8, "num_stages": 3},
    ),
    "attention_boxes": ("attention_desc", BY_BOXES, {"WS": False, "BM": 128, "BN": 64, "D": 64}, {"num_stages": 3}),
    "attention_ws": ("attention_desc", BY_BOXES, {"WS": True, "BM": 128, "BN": 64, "D": 64}, {"num_stages": 3}),
    "layer_norm": (
        "layer_norm",
        {"x_ptr": HALF, "y_ptr": HALF, "w_ptr": "*fp32", "b_ptr": "*fp32", "mean_ptr": "*fp32", "rstd_ptr": "*fp32",
         "stride": "i32", "N": "i32", "eps": "fp32"},
        {"B": 256}, {},
    ),
    "layer_norm_bwd": (
        "layer_norm_bwd",
        {"dy_ptr": HALF, "x_ptr": HALF, "w_ptr": "*fp32", "mean_ptr": "*fp32", "rstd_ptr": "*fp32", "dx_ptr": "*fp32",
         "dw_ptr": "*fp32", "lock_ptr": "*i32", "N": "i32"},
        {"G": 4, "B": 256}, {},
    ),
    "softmax": ("softmax", {"o_ptr": "*fp32", "i_ptr": "*fp32", "rows": "i32", "N": "i32"}, {"B": 256, "S": 4}, {}),
    "mix": ("mix", dict.fromkeys(("x_ptr", "h_ptr", "s_ptr", "c_ptr", "g_ptr", "a_ptr"), "*i32"), {"N": 512}, {}),
    "floats": ("floats", {"x_ptr": "*fp32", "y_ptr": "*fp32"}, {"N": 256}, {}),
}  # fmt: skip
WHOLE = {"sam", "sbk", "scm", "N", "K"}  # numbers that are multiples of 16 where products are concerned


def main(folder, case, arch):
    function, types, constants, options = CASES[case]
    names = getattr(kernels, function).arg_names
    signature = {name: types.get(name, "constexpr") for name in names}
    products = function.startswith(("matmul", "scaled"))
    attributes = {
        (i,): [["tt.divisibility", 16]]
        for i, (name, kind) in enumerate(signature.items())
        if kind[0] == "*" or products and kind == "i32" and name in WHOLE
    }
    source = ASTSource(getattr(kernels, function), signature, constants, attributes)
    made = triton.compile(source, target=GPUTarget("cuda", int(arch), 32), options=options)
    meta = made.metadata
    out = Path(folder) / f"{case}.{arch}"
    out.with_suffix(f".{arch}.json").write_text(
        json.dumps({"name": meta.name, "shared": meta.shared, "scratch": meta.global_scratch_size})
    )
    out.with_suffix(f".{arch}.ptx").write_text(made.asm["ptx"])


main(*sys.argv[1:])
