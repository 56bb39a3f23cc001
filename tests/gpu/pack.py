"""Packs everything that needs a GPU into one file for a bare machine: `python tests/gpu/pack.py OUT.pyz --gpu-name sm_90`.

The file is a Python zip application (tests/gpu/bare) with the images of the launch-ABI probe, every corpus kernel with its
inputs and expected memory, and production-size kernels, ours and NVIDIA's from the same bytecode. It needs Python 3.10
and the driver, nothing else, and has at most 64 MiB: the largest corpus cases are left out where they would not fit.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]
sys.path[:0] = [
    p
    for p in (str(REPOSITORY), str(REPOSITORY / "tests"), str(REPOSITORY / "benchmarks"), str(HERE))
    if p not in sys.path
]

import numpy as np  # noqa: E402
import probe  # noqa: E402

from tests.corpus.case import DTYPES, Case, ListOf  # noqa: E402

LIMIT_BYTES = 64 << 20
KINDS = {np.dtype(dtype): kind for kind, dtype in reversed(DTYPES.items()) if kind != "tf32"}
# Matrix instructions alone: name, threads, blocks an SM, flops of a block's round, body of the loop.
PEAK_ROUNDS = 4096


class Packer:
    """Writes files into the archive, each once, and knows the size so far."""

    def __init__(self, file: io.BytesIO) -> None:
        self.file = file
        self.zip = zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=9)
        self.names: set[str] = set()

    def add(self, name: str, data: bytes | str) -> None:
        if name not in self.names:
            self.names.add(name)
            self.zip.writestr(zipfile.ZipInfo(name, (2000, 1, 1, 0, 0, 0)), data, zipfile.ZIP_DEFLATED, 9)

    def json(self, name: str, value: Any) -> None:
        self.add(name, json.dumps(value, separators=(",", ":")))


# ---- corpus
def spans(arrays: list[np.ndarray]) -> list[tuple[int, int]]:
    """Address ranges of the arrays' memory, those that overlap joined."""
    ranges = sorted(np.lib.array_utils.byte_bounds(a) for a in arrays if a.size)
    out: list[tuple[int, int]] = []
    for low, high in ranges:
        if out and low < out[-1][1]:
            out[-1] = out[-1][0], max(out[-1][1], high)
        else:
            out.append((low, high))
    return out


def memory(low: int, high: int) -> bytes:
    import ctypes

    return ctypes.string_at(low, high - low)


def corpus_case(case: Case, image: str, kernel: Any) -> tuple[dict[str, Any], bytes]:
    """The description of a case and its data: memory before and after. Errors: ValueError where addresses are stored."""
    if any(isinstance(p, ListOf) for p in case.signature):
        raise ValueError("lists of arrays hold addresses")
    values = case.make_values()
    flat, _ = case.flat(values)
    arrays = [v for v in values if isinstance(v, np.ndarray)]
    ranges = spans(arrays)
    before = [memory(*r) for r in ranges]
    with np.errstate(all="ignore"):
        expected = case.expect(*[v.copy() if isinstance(v, np.ndarray) else v for v in values])
    kinds, exact = {}, dict.fromkeys(range(len(ranges)), True)
    for number, value in enumerate(values):
        if isinstance(value, np.ndarray) and value.size:
            start = np.lib.array_utils.byte_bounds(value)[0]
            segment = next(n for n, (low, high) in enumerate(ranges) if low <= start < high)
            if kinds.setdefault(segment, value.dtype) != value.dtype:
                raise ValueError("arrays of two types share memory")
            if number in expected:
                exact[segment] = False
    for number, want in expected.items():
        values[number][...] = np.asarray(want).astype(values[number].dtype, copy=False)
    after = [memory(*r) for r in ranges]
    parameters: list[dict[str, Any]] = []
    for value in flat:
        if isinstance(value, np.ndarray):
            start = np.lib.array_utils.byte_bounds(value)[0] if value.size else 0
            place = [(n, start - low) for n, (low, high) in enumerate(ranges) if low <= start < high]
            parameters.append(
                {"segment": place[0][0], "offset": place[0][1]} if place else {"bytes": "00" * 8}
            )
        else:
            parameters.append({"bytes": np.asarray(value).tobytes().hex()})
    data, segments, at = b"", [], 0
    for n, (old, new) in enumerate(zip(before, after)):
        same = old == new
        segments.append({
            "size": len(old), "at": at, "want": at if same else at + len(old), "kind": KINDS[kinds[n]],
            "rtol": 0 if exact[n] else case.rtol, "atol": 0 if exact[n] else case.atol,
        })  # fmt: skip
        data += old if same else old + new
        at = len(data)
    return {
        "image": image, "symbol": kernel.symbol, "shared": kernel.dynamic_shared, "grid": case.grid,
        "block": kernel.block, "segments": segments, "parameters": parameters, "maps": tensor_maps(kernel, parameters),
    }, data  # fmt: skip


def tensor_maps(kernel: Any, parameters: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What cuTensorMapEncodeTiled is to be asked, but for addresses. Errors: ValueError for an array without elements."""
    from tileiras.compiler.target.tensor_maps import ELEMENTS, FILLS, SWIZZLES
    from tileiras.run.tensor_maps import numbers

    def nothing() -> int:
        raise ValueError("a tensor map of an array without elements")

    data = [bytes.fromhex(parameter.get("bytes", "00" * 8)) for parameter in parameters]
    return [
        {
            "parameter": made.map.base, "type": ELEMENTS[made.map.element][2], "extents": made.extents[::-1],
            "strides": made.strides[::-1], "box": made.map.box[::-1], "swizzle": SWIZZLES[made.map.swizzle],
            "fill": FILLS[made.map.fill],
        }
        for made in numbers(kernel, data, nothing)
    ]  # fmt: skip


def pack_corpus(pack: Packer, gpu_name: str, words: list[str], room: int) -> list[str]:
    """Adds every case that compiles and fits, those that take tensor maps twice; returns those left out, with the reason."""
    import tileiras
    from tests.corpus.check import arch_number
    from tests.corpus.export import bytecode_path
    from tests.corpus.registry import CASES

    left, found = [], []
    programs: dict[tuple[str, str], Any] = {}
    for case in CASES.values():
        if words and not any(w in case.name for w in words):
            continue
        if arch_number(gpu_name) < case.min_arch:
            continue
        for maps, mark in (("none", ""), ("launcher", ".maps")):
            name = case.name + mark
            try:
                if (case.module, maps) not in programs:
                    programs[case.module, maps] = tileiras.compile(
                        bytecode_path(case), gpu_name=gpu_name, launch_abi="simt", tensor_maps=maps
                    )
                program = programs[case.module, maps]
                kernel = program.kernels[case.entry]
                if maps == "launcher" and not kernel.tensor_maps:
                    continue
                spec, data = corpus_case(case, f"corpus_{case.module}{mark}", kernel)
            except (ValueError, tileiras.CompileError) as error:
                left.append(f"{name}: {str(error).splitlines()[0]}")
                continue
            found.append((len(data), name, program.cubin, spec, data))
    for size, name, cubin, spec, data in sorted(found, key=lambda row: row[0]):
        if pack.file.tell() + size > room:
            left.append(f"{name}: {size} bytes do not fit")
            continue
        pack.add(f"images/{spec['image']}.cubin", cubin)
        pack.json(f"corpus/{name}.json", spec)
        pack.add(f"corpus/{name}.bin", data)
    return left


# ---- production-size kernels
def pack_timing(pack: Packer, gpu_name: str, words: list[str]) -> list[str]:
    """Adds the kernels that can be launched with arrays and numbers; returns those left out."""
    import exports
    import production
    from code_quality import nvidia_image
    from launches import launch_of

    import tileiras
    from tests.corpus.check import arch_number
    from tileiras.toolchain.cubin import read_cubin

    number = arch_number(gpu_name)
    left = []
    for kernel in production.kernels():
        if (words and not any(w in kernel.name for w in words)) or kernel.min_arch > number:
            continue
        spec = launch_of(kernel)
        if spec is None:
            left.append(f"{kernel.name}: no launch is described for it (benchmarks/launches.py)")
            continue
        data = exports.bytecode(kernel)
        images: dict[str, list[list[int]]] = {}
        try:
            program = tileiras.compile(data, gpu_name=gpu_name, launch_abi="simt")
        except tileiras.CompileError as error:
            left.append(f"{kernel.name}: {str(error).splitlines()[0]}")
            continue
        ours = program.kernels[kernel.entry]
        sizes = [8 if "array" in p else len(p["bytes"]) // 2 for p in spec["parameters"]]
        taken = [p.size for p in read_cubin(program.cubin).kernels[ours.symbol].params]
        if sizes != taken:
            raise RuntimeError(f"{kernel.name} takes parameters of {taken} bytes, its launch gives {sizes}")
        images["ours"] = [list(ours.block)]
        pack.add(f"images/{kernel.name}.ours.cubin", program.cubin)
        theirs = nvidia_image(data, number)
        if isinstance(theirs, bytes):
            block = read_cubin(theirs).kernels[kernel.entry].block or (1, 1, 1)
            images["nvidia"] = [[1, 1, 1], list(block)]
            pack.add(f"images/{kernel.name}.nvidia.cubin", theirs)
        else:
            left.append(f"{kernel.name}: NVIDIA's: {theirs}")
        spec |= {"symbol": kernel.entry, "shared": ours.dynamic_shared, "images": images}
        pack.json(f"timing/{kernel.name}.json", spec)
    return left


# ---- the peak of matrix instructions
def peak_kernel(gpu_name: str) -> tuple[str, dict[str, Any]]:
    """PTX that does nothing but multiply, and what a round of a block is worth."""
    wide = gpu_name == "sm_90"
    accumulators, copies = (128, 1) if wide else (4, 16)
    total = accumulators * copies
    declare = f".reg .f32 %c<{total}>; .reg .b32 %f<8>, %n, %i, %t, %s; .reg .b64 %p, %d; .reg .pred %q;"
    start = "".join(f"mov.f32 %c{n}, 0f00000000;\n" for n in range(total))
    if wide:
        # No swizzle: core matrices of 8 rows by 16 bytes lie one behind the other, 128 bytes each.
        names = ", ".join(f"%c{n}" for n in range(128))
        one = f"wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {{{names}}}, %d, %d, 1, 1, 1, 0, 0;\n"
        setup = (
            "mov.u32 %s, tile; mov.u32 %i, %t;\nF: mad.lo.u32 %f0, %i, 1664525, 1013904223; and.b32 %f0, %f0, 0x807f807f; "
            "or.b32 %f0, %f0, 0x3f003f00;\nshl.b32 %f1, %i, 2; add.u32 %f1, %f1, %s; st.shared.b32 [%f1], %f0; "
            "add.u32 %i, %i, 256; setp.lt.u32 %q, %i, 4096; @%q bra F;\nbar.sync 0; fence.proxy.async;\n"
            "shr.u32 %s, %s, 4; and.b32 %s, %s, 0x3fff; cvt.u64.u32 %d, %s; or.b64 %d, %d, 0x1000080000;\n"
        )
        body = (
            "wgmma.fence.sync.aligned;\n"
            + one * 8
            + "wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n"
        )
        spec = {
            "instruction": "wgmma m64n256k16",
            "threads": 256,
            "blocks": 1,
            "flops": 2 * 8 * 2 * 64 * 256 * 16,
        }
        target, shared = "sm_90a", ".shared .align 1024 .b8 tile[16384];"
    else:
        setup = "".join(f"mad.lo.u32 %f{n}, %t, {n + 3}, 0x3f803f80;\n" for n in range(6))
        body = ""
        for n in range(copies):
            c = ", ".join(f"%c{4 * n + k}" for k in range(4))
            body += f"mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {{{c}}}, {{%f0,%f1,%f2,%f3}}, {{%f4,%f5}}, {{{c}}};\n"
        spec = {
            "instruction": "mma.sync m16n8k16",
            "threads": 256,
            "blocks": 2,
            "flops": 8 * copies * 2 * 16 * 8 * 16,
        }
        target, shared = gpu_name, ""
    total_sum = "".join(f"add.f32 %c0, %c0, %c{n};\n" for n in range(1, total))
    ptx = f""".version 8.7
.target {target}
.address_size 64
.visible .entry peak(.param .u64 out, .param .u32 rounds) .reqntid 256
{{
{declare} {shared}
ld.param.u64 %p, [out]; ld.param.u32 %n, [rounds]; mov.u32 %t, %tid.x;
{start}{setup}mov.u32 %i, 0;
L: .pragma "nounroll";
{body}add.u32 %i, %i, 1; setp.lt.u32 %q, %i, %n; @%q bra L;
{total_sum}cvt.u64.u32 %d, %t; shl.b64 %d, %d, 2; add.s64 %p, %p, %d; st.global.f32 [%p], %c0;
ret;
}}
"""
    return ptx, {**spec, "rounds": PEAK_ROUNDS}


def pack_peak(pack: Packer, gpu_name: str) -> None:
    import peers

    ptx, spec = peak_kernel(gpu_name)
    target = ptx.split(".target ")[1].split()[0]
    words = [str(peers.tool("ptxas")), f"--gpu-name={target}", "-o", "/dev/stdout", "-"]
    done = subprocess.run(words, input=ptx.encode(), capture_output=True)
    if done.returncode:
        raise RuntimeError(done.stderr.decode())
    pack.json("peaks/instruction.json", spec)
    pack.add("images/peak.cubin", done.stdout)


def build(output: Path, gpu_name: str, words: list[str]) -> dict[str, Any]:
    """Writes the archive; returns its bytes and what was left out. Errors: RuntimeError above the limit."""
    file = io.BytesIO()
    file.write(b"#!/usr/bin/env python3\n")
    pack = Packer(file)
    for path in sorted((HERE / "bare").glob("*.py")):
        pack.add(f"bare/{path.name}", path.read_text())
    pack.add("__main__.py", "import sys\nfrom bare.__main__ import main\nsys.exit(main(sys.argv[1:]))\n")
    pack.add("probe.py", (HERE / "probe.py").read_text())
    pack.json("archive.json", {"gpu_name": gpu_name})
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        table = probe.build(folder, gpu_name)
        pack.add("probe/images.json", (folder / "images.json").read_text())
        for row in table.values():
            if "file" in row:
                pack.add(f"probe/{row['file']}", (folder / str(row["file"])).read_bytes())
    pack_peak(pack, gpu_name)
    left = pack_timing(pack, gpu_name, words)
    left += pack_corpus(pack, gpu_name, words, LIMIT_BYTES - (1 << 20))
    pack.zip.close()
    data = file.getvalue()
    if len(data) > LIMIT_BYTES:
        raise RuntimeError(f"the archive has {len(data)} bytes, more than {LIMIT_BYTES}")
    partial = output.with_name(f"{output.name}.{os.getpid()}.tmp")
    partial.write_bytes(data)
    os.replace(partial, output)
    return {"bytes": len(data), "left_out": left}


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("output", type=Path)
    parser.add_argument("--gpu-name", default="sm_90", help="the GPU's architecture; one archive has one")
    parser.add_argument(
        "-k", nargs="+", default=[], metavar="SUBSTR", help="only kernels with one of these in the name"
    )
    options = parser.parse_args(argv)
    found = build(options.output, options.gpu_name, options.k)
    for reason in found["left_out"]:
        print(f"left out: {reason}")
    print(f"{options.output}: {found['bytes'] / (1 << 20):.1f} MiB")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
