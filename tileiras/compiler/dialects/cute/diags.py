"""Texts of the cute verifiers; the contract gives none, ours name the attribute and its value."""

from __future__ import annotations

from tileiras.diag import ERROR, WORD_ERROR, Diag

_SRC = "cute verifiers"
CONGRUENT = Diag(
    "CU-0001",
    ERROR,
    "attribute '{attr}': shape {shape} and stride {stride} differ in their nesting",
    _SRC,
    WORD_ERROR,
)
"""
cause: A layout or copy atom of the cute forms does not fit itself: nesting, extents, swizzles, bit widths, or the
GPU it needs.
remedy: In a text written by hand, correct the attribute that the message names. In a normal compile this is a
defect: report the kernel, made small with `tileiras-reduce`.

  $ tileiras-opt k.tileir
- %a = cute.make_layout {layout = #cute.layout<(4, 8) : (8, (1, 2))>} : () -> !cute.layout<2>
+ %a = cute.make_layout {layout = #cute.layout<(4, 8) : (8, 1)>} : () -> !cute.layout<2>
"""

EXTENT = Diag("CU-0002", ERROR, "attribute '{attr}': extents must be positive, got {got}", _SRC, WORD_ERROR)
"""
see: CU-0001

  $ tileiras-opt k.tileir
- %a = cute.make_layout {layout = #cute.layout<(4, 0) : (8, 1)>} : () -> !cute.layout<2>
+ %a = cute.make_layout {layout = #cute.layout<(4, 8) : (8, 1)>} : () -> !cute.layout<2>
"""

RANK = Diag(
    "CU-0003",
    ERROR,
    "attribute '{attr}' has rank {got}, but the result is a layout of rank {want}",
    _SRC,
    WORD_ERROR,
)
"""
see: CU-0001

  $ tileiras-opt k.tileir
- %a = cute.make_layout {layout = #cute.layout<(4, 8, 2) : (8, 1, 1)>} : () -> !cute.layout<2>
+ %a = cute.make_layout {layout = #cute.layout<(4, 8) : (8, 1)>} : () -> !cute.layout<2>
"""

COMPOSED = Diag(
    "CU-0004",
    ERROR,
    "attribute 'rhs_layout' reaches offset {got}, but 'lhs_layout' has {have} elements",
    _SRC,
    WORD_ERROR,
)
"""
see: CU-0001

  $ tileiras-opt k.tileir
  %a = cute.make_layout {layout = #cute.layout<4 : 1>} : () -> !cute.layout<1>
- %b = cute.composition %a, %a {lhs_layout = #cute.layout<16 : 1>, rhs_layout = #cute.layout<(4, 8) : (8, 1)>} : !cute.layout<1>, !cute.layout<1> -> !cute.layout<1>
+ %b = cute.composition %a, %a {lhs_layout = #cute.layout<32 : 1>, rhs_layout = #cute.layout<(4, 8) : (8, 1)>} : !cute.layout<1>, !cute.layout<1> -> !cute.layout<1>
"""  # noqa: E501

SWIZZLE = Diag(
    "CU-0005",
    ERROR,
    "attribute 'swizzle': shift {shift} must be at least the number of bits {bits}",
    _SRC,
    WORD_ERROR,
)
"""
see: CU-0001

  $ tileiras-opt k.tileir
  %a = cute.make_layout {layout = #cute.layout<(4, 8) : (8, 1)>} : () -> !cute.layout<2>
- %b = cute.swizzled %a {swizzle = #cute.swizzle<3, 4, 2>} : !cute.layout<2> -> !cute.layout<2>
+ %b = cute.swizzled %a {swizzle = #cute.swizzle<3, 4, 3>} : !cute.layout<2> -> !cute.layout<2>
"""

KIND = Diag("CU-0006", ERROR, "attribute '{attr}' must be a {want}", _SRC, WORD_ERROR)
"""
see: CU-0001

  $ tileiras-opt k.tileir
- %a = cute.make_layout {layout = 5 : i32} : () -> !cute.layout<2>
+ %a = cute.make_layout {layout = #cute.layout<(4, 8) : (8, 1)>} : () -> !cute.layout<2>
"""
