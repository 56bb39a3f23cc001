"""Texts of the nv_tileaa verifiers and of its named verifier pass. The documents give no wording; ours names the slot."""

from __future__ import annotations

from tileiras.diag import ERROR, WORD_ERROR, Diag

_SRC = "nv_tileaa verifiers"

LAYOUT_SHAPE = Diag(
    "AA-0101",
    ERROR,
    "layout of {bits} index bits does not fit the shape [{shape}] of {want} bits",
    _SRC,
    WORD_ERROR,
)
TENSOR_SHAPE = Diag(
    "AA-0102", ERROR, "tensor dimensions must be powers of two, got [{shape}]", _SRC, WORD_ERROR
)
TILE_ALIGNMENT = Diag(
    "AA-0103",
    ERROR,
    "tile attribute alignment must be a power of two of at least the element size {size}, got {got}",
    _SRC,
    WORD_ERROR,
)
TILE_RANK = Diag(
    "AA-0104", ERROR, "tile attribute has rank {got}, but the tensor has rank {want}", _SRC, WORD_ERROR
)
CONSTANT = Diag(
    "AA-0105", ERROR, "attribute 'value' of type '{got}' does not fill the result '{want}'", _SRC, WORD_ERROR
)
SPEC = Diag("AA-0106", ERROR, "kernel_spec entry '{name}' is invalid: {got}", _SRC, WORD_ERROR)

# TileAA agent verifier
AGENT_NESTED = Diag(
    "AA-0201", ERROR, "agent {id} lies inside another agent", "TileAA agent verifier", WORD_ERROR
)
AGENT_TWICE = Diag(
    "AA-0202",
    ERROR,
    "agent id {id} is used twice in function '{function}'",
    "TileAA agent verifier",
    WORD_ERROR,
)
AGENT_WARPS = Diag(
    "AA-0203",
    ERROR,
    "agents of function '{function}' have {got} warps together, but its kernel_spec has {want}",
    "TileAA agent verifier",
    WORD_ERROR,
)
AGENT_REGISTERS = Diag(
    "AA-0204",
    ERROR,
    "registers of agent {id} must be a multiple of 8 from 24 to 256, got {got}",
    "TileAA agent verifier",
    WORD_ERROR,
)
