"""Texts of the nv_tileas verifiers and passes. Those with a source in the documents are kept letter for letter."""

from __future__ import annotations

from tileiras.diag import ERROR, NOTE, REMARK, WORD_ERROR, WORD_REMARK, Diag

_SRC = "nv_tileas verifiers"
_ASYNC = "async and pipeline family"


def _rule(number: int, text: str) -> Diag:
    return Diag(f"AS-{number:04d}", ERROR, text, _SRC, WORD_ERROR)


# Verifiers
COORD_COUNT = _rule(104, "expects {want} coordinates, but got {got}")
CONSUMER_TYPES = _rule(
    105, "expects region arguement types to match with producer types [{want}], but got: [{got}]"
)
PRODUCER_ARGS = _rule(106, "expects a region without arguments, but got {got}")
YIELD_TYPES = _rule(107, "expects the region to yield [{want}], but got: [{got}]")
DEPTH = _rule(108, "attribute 'depth' must be from 1 to 16, but got {got}")
NO_CONSUMER = _rule(109, "has no consume_one on its pipeline")
LEFT_OVER = _rule(110, "is left over: its pipeline was materialized by {other}")
CONVERT_TYPES = _rule(111, "converts {got} to {want}: only the layout may change")
BOX = _rule(112, "operand #0: box of the descriptor has {what}")
SPACE = _rule(113, "operand #0: the descriptor's destination lies in '{got}', expected 'shared'")
SCHEDULE_STAGE = _rule(
    114, "op '{name}' at position {index} of the schedule region has stage {got}, expected 0 to {last}"
)
SCHEDULE_ORDER = _rule(
    115,
    "op '{name}' at position {index} of the schedule region has stage {got}, but uses a value of stage {need}",
)
PLAN = _rule(116, "plan '{plan}' cannot move the tile: {why}")
NO_MAP = _rule(117, "copies by tensor map {map}, but the function has {count}")
BOXES = _rule(118, "a tile of [{tile}] is no whole number of boxes of [{box}]")
STAGES = _rule(119, "has {what}")
MAPS = _rule(120, "attribute 'nv_tileas.tensor_maps': {why}")

# Passes
TWO_INSTRUCTIONS = Diag(
    "AS-0301", ERROR,
    "there are two `produce-one-like` operations using different instructions to generate data into the same pipeline. "
    "It's a bug of MaterializeAsync Pass.", _ASYNC, WORD_ERROR,
)  # fmt: skip
NOT_DECOMPOSED = Diag("AS-0302", ERROR, "failed to decompose the convert_layout", _ASYNC, WORD_ERROR)
ALIAS = Diag("AS-0303", ERROR, "Alias is not expected here.", _ASYNC, WORD_ERROR)
NOT_PIPELINED = Diag("AS-0304", REMARK, "Failed to pipeline loop", _ASYNC, WORD_REMARK, category="memory")
KERNEL_SPEC = Diag(
    "AS-0305", ERROR, "LowerTMALoadStoreToAsync: missing or invalid KernelSpecAttr on function",
    "TMA and memory-op family", WORD_ERROR,
)  # fmt: skip
RING = Diag(
    "AS-0307", REMARK,
    "loads of the loop run ahead through shared memory: {stages} stages of {bytes} bytes, {ahead} on their way{cut}",
    _ASYNC, WORD_REMARK, kind="passed", category="memory",
)  # fmt: skip
QUEUE = Diag(
    "AS-0312", REMARK,
    "loads of the loop queue in shared memory for its {products} products{parts}: {slots} slots of {bytes} bytes, {ahead} on "
    "their way",
    _ASYNC, WORD_REMARK, kind="passed", category="memory",
)  # fmt: skip
WARPGROUPS = Diag(
    "AS-0308", REMARK, "the product is issued by warpgroups (wgmma): {left}, {right}", _ASYNC, WORD_REMARK,
    kind="passed", category="tensorcore",
)  # fmt: skip
NO_WARPGROUPS = Diag(
    "AS-0309", REMARK, "the product is not issued by warpgroups (wgmma): {reason}", _ASYNC, WORD_REMARK,
    kind="missed", category="tensorcore",
)  # fmt: skip
BULK = Diag(
    "AS-0310", REMARK, "bulk tensor copies bring the tile of the load: {boxes} of {box} elements, swizzle {swizzle}",
    _ASYNC, WORD_REMARK, kind="passed", category="memory",
)  # fmt: skip
NO_TENSOR_MAP = Diag(
    "AS-0311", REMARK, "the load is no bulk tensor copy: {reason}", _ASYNC, WORD_REMARK, kind="missed",
    category="memory",
)  # fmt: skip
NO_TENSOR_MEMORY = Diag(
    "AS-0313", REMARK, "the product with block scales is not issued by one thread (tcgen05): {reason}", _ASYNC, WORD_REMARK,
    kind="missed", category="tensorcore",
)  # fmt: skip
WHY = Diag("AS-0306", NOTE, "{why}", _ASYNC)

# TileIR operation analysis (layer 3)
_ANALYSIS = "TileIR operation analysis"
UNRESOLVED = Diag(
    "AS-0401",
    ERROR,
    "symbol '@{callee}' called in function '{function}' is not defined in the module",
    _ANALYSIS,
    WORD_ERROR,
)
CALL_TYPES = Diag(
    "AS-0402",
    ERROR,
    "call of '@{callee}' in function '{function}' has types {got}, but the function has {want}",
    _ANALYSIS,
    WORD_ERROR,
)
FOREIGN_TYPE = Diag(
    "AS-0403",
    ERROR,
    "attribute '{attr}' of '{name}' in function '{function}' carries the type '{type}', which the type table does not have",
    _ANALYSIS,
    WORD_ERROR,
)
NO_SPEC = Diag("AS-0404", ERROR, "kernel '{function}' has no nv_tileaa.kernel_spec", _ANALYSIS, WORD_ERROR)
