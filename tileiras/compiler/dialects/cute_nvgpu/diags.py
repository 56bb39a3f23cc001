"""Texts of the cute_nvgpu verifiers; the contract gives none, ours name the attribute and its value."""

from __future__ import annotations

from tileiras.diag import ERROR, WORD_ERROR, Diag

_SRC = "cute_nvgpu verifiers"
KIND = Diag("CN-0001", ERROR, "attribute 'atom': unknown copy kind '{got}'", _SRC, WORD_ERROR)
"""
see: CU-0001

  $ tileiras-opt k.tileir
- "cute_nvgpu.copy"() <{atom = #cute_nvgpu.copy_atom<teleport, global -> shared, 128>, arch = 80 : i32}> : () -> ()
+ "cute_nvgpu.copy"() <{atom = #cute_nvgpu.copy_atom<cp_async, global -> shared, 128>, arch = 80 : i32}> : () -> ()
"""

MODES = Diag("CN-0002", ERROR, "attribute 'atom': {kind} copies {want}, but got {got}", _SRC, WORD_ERROR)
"""
see: CU-0001

  $ tileiras-opt k.tileir
- "cute_nvgpu.copy"() <{atom = #cute_nvgpu.copy_atom<cp_async, shared -> global, 128>, arch = 80 : i32}> : () -> ()
+ "cute_nvgpu.copy"() <{atom = #cute_nvgpu.copy_atom<cp_async, global -> shared, 128>, arch = 80 : i32}> : () -> ()
"""

BITS = Diag(
    "CN-0003", ERROR, "attribute 'atom': {kind} moves one of [{want}] bits, but got {got}", _SRC, WORD_ERROR
)
"""
see: CU-0001

  $ tileiras-opt k.tileir
- "cute_nvgpu.copy"() <{atom = #cute_nvgpu.copy_atom<cp_async, global -> shared, 256>, arch = 80 : i32}> : () -> ()
+ "cute_nvgpu.copy"() <{atom = #cute_nvgpu.copy_atom<cp_async, global -> shared, 128>, arch = 80 : i32}> : () -> ()
"""

ARCH = Diag(
    "CN-0004", ERROR, "attribute 'atom': {atom} needs sm_{need}, but 'arch' is sm_{have}", _SRC, WORD_ERROR
)
"""
see: CU-0001

  $ tileiras-opt k.tileir
- "cute_nvgpu.mma"() <{atom = #cute_nvgpu.mma_atom<16, 8, 16, f16, f32>, arch = 75 : i32}> : () -> ()
+ "cute_nvgpu.mma"() <{atom = #cute_nvgpu.mma_atom<16, 8, 16, f16, f32>, arch = 80 : i32}> : () -> ()
"""

MMA = Diag(
    "CN-0005",
    ERROR,
    "attribute 'atom': there is no MMA instruction m{m}n{n}k{k} of {elem} into {acc}",
    _SRC,
    WORD_ERROR,
)
"""
see: CU-0001

  $ tileiras-opt k.tileir
- "cute_nvgpu.mma"() <{atom = #cute_nvgpu.mma_atom<16, 8, 17, f16, f32>, arch = 80 : i32}> : () -> ()
+ "cute_nvgpu.mma"() <{atom = #cute_nvgpu.mma_atom<16, 8, 16, f16, f32>, arch = 80 : i32}> : () -> ()
"""

BOX = Diag(
    "CN-0006",
    ERROR,
    "attribute 'atom': box [{box}] must have 1 to 5 extents of 1 to 256 elements",
    _SRC,
    WORD_ERROR,
)
"""
see: CU-0001

  $ tileiras-opt k.tileir
- "cute_nvgpu.tma_load"() <{atom = #cute_nvgpu.tma_atom<64x512xf16, shared, 128>, arch = 90 : i32}> : () -> ()
+ "cute_nvgpu.tma_load"() <{atom = #cute_nvgpu.tma_atom<64x64xf16, shared, 128>, arch = 90 : i32}> : () -> ()
"""

INNER = Diag(
    "CN-0007",
    ERROR,
    "attribute 'atom': innermost box extent has {got} bytes, which is no multiple of 16",
    _SRC,
    WORD_ERROR,
)
"""
see: CU-0001

  $ tileiras-opt k.tileir
- "cute_nvgpu.tma_load"() <{atom = #cute_nvgpu.tma_atom<64x7xf16, shared, 128>, arch = 90 : i32}> : () -> ()
+ "cute_nvgpu.tma_load"() <{atom = #cute_nvgpu.tma_atom<64x64xf16, shared, 128>, arch = 90 : i32}> : () -> ()
"""

SPACE = Diag(
    "CN-0008", ERROR, "attribute 'atom': destination space is '{got}', expected 'shared'", _SRC, WORD_ERROR
)
"""
see: CU-0001

  $ tileiras-opt k.tileir
- "cute_nvgpu.tma_load"() <{atom = #cute_nvgpu.tma_atom<64x64xf16, global, 128>, arch = 90 : i32}> : () -> ()
+ "cute_nvgpu.tma_load"() <{atom = #cute_nvgpu.tma_atom<64x64xf16, shared, 128>, arch = 90 : i32}> : () -> ()
"""

SWIZZLE = Diag(
    "CN-0009",
    ERROR,
    "attribute 'atom': innermost box extent of {got} bytes is wider than the swizzle of {want} bytes",
    _SRC,
    WORD_ERROR,
)
"""
see: CU-0001

  $ tileiras-opt k.tileir
- "cute_nvgpu.tma_load"() <{atom = #cute_nvgpu.tma_atom<64x64xf16, shared, 32>, arch = 90 : i32}> : () -> ()
+ "cute_nvgpu.tma_load"() <{atom = #cute_nvgpu.tma_atom<64x64xf16, shared, 128>, arch = 90 : i32}> : () -> ()
"""

WRONG = Diag("CN-0010", ERROR, "attribute 'atom' must be a {want}", _SRC, WORD_ERROR)
"""
see: CU-0001

  $ tileiras-opt k.tileir
- "cute_nvgpu.copy"() <{atom = 5 : i32, arch = 80 : i32}> : () -> ()
+ "cute_nvgpu.copy"() <{atom = #cute_nvgpu.copy_atom<cp_async, global -> shared, 128>, arch = 80 : i32}> : () -> ()
"""
