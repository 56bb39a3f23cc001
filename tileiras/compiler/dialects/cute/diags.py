"""Texts of the cute verifiers; the documents give none, ours name the attribute and its value."""

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
EXTENT = Diag("CU-0002", ERROR, "attribute '{attr}': extents must be positive, got {got}", _SRC, WORD_ERROR)
RANK = Diag(
    "CU-0003",
    ERROR,
    "attribute '{attr}' has rank {got}, but the result is a layout of rank {want}",
    _SRC,
    WORD_ERROR,
)
COMPOSED = Diag(
    "CU-0004",
    ERROR,
    "attribute 'rhs_layout' reaches offset {got}, but 'lhs_layout' has {have} elements",
    _SRC,
    WORD_ERROR,
)
SWIZZLE = Diag(
    "CU-0005",
    ERROR,
    "attribute 'swizzle': shift {shift} must be at least the number of bits {bits}",
    _SRC,
    WORD_ERROR,
)
KIND = Diag("CU-0006", ERROR, "attribute '{attr}' must be a {want}", _SRC, WORD_ERROR)
