"""Texts of the cute_nvgpu verifiers; the documents give none, ours name the attribute and its value."""

from __future__ import annotations

from tileiras.diag import ERROR, WORD_ERROR, Diag

_SRC = "cute_nvgpu verifiers"
KIND = Diag("CN-0001", ERROR, "attribute 'atom': unknown copy kind '{got}'", _SRC, WORD_ERROR)
MODES = Diag("CN-0002", ERROR, "attribute 'atom': {kind} copies {want}, but got {got}", _SRC, WORD_ERROR)
BITS = Diag(
    "CN-0003", ERROR, "attribute 'atom': {kind} moves one of [{want}] bits, but got {got}", _SRC, WORD_ERROR
)
ARCH = Diag(
    "CN-0004", ERROR, "attribute 'atom': {atom} needs sm_{need}, but 'arch' is sm_{have}", _SRC, WORD_ERROR
)
MMA = Diag(
    "CN-0005",
    ERROR,
    "attribute 'atom': there is no MMA instruction m{m}n{n}k{k} of {elem} into {acc}",
    _SRC,
    WORD_ERROR,
)
BOX = Diag(
    "CN-0006",
    ERROR,
    "attribute 'atom': box [{box}] must have 1 to 5 extents of 1 to 256 elements",
    _SRC,
    WORD_ERROR,
)
INNER = Diag(
    "CN-0007",
    ERROR,
    "attribute 'atom': innermost box extent has {got} bytes, which is no multiple of 16",
    _SRC,
    WORD_ERROR,
)
SPACE = Diag(
    "CN-0008", ERROR, "attribute 'atom': destination space is '{got}', expected 'shared'", _SRC, WORD_ERROR
)
SWIZZLE = Diag(
    "CN-0009",
    ERROR,
    "attribute 'atom': innermost box extent of {got} bytes is wider than the swizzle of {want} bytes",
    _SRC,
    WORD_ERROR,
)
WRONG = Diag("CN-0010", ERROR, "attribute 'atom' must be a {want}", _SRC, WORD_ERROR)
