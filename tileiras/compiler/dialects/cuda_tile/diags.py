"""Texts of the cuda_tile verifier: the public contract, letter for letter.

Every message is rendered with the op in front of it (word 0x103) unless it is about a type alone. What the
real verifier says about the same fault follows as a note.
"""

from __future__ import annotations

from tileiras.diag import ERROR, Diag

_WORD = 0x103
_SRC = "cuda_tile verifiers"


def _rule(number: int, text: str) -> Diag:
    return Diag(f"CT-{number:04d}", ERROR, text, src=_SRC, word=_WORD)


# Regions
EMPTY_BLOCK = _rule(1, "expect non-empty block")
BLOCK_ARG_TYPES = _rule(2, "expected TileType for block arguments but got types: {types}")
BLOCK_ARG_RANK = _rule(3, "expect 0-rank tile type at index: {index}")
TERMINATOR_COUNT = _rule(4, "expect number of terminators operands ({got}) to match expected ({want})")
TERMINATOR_TYPE = _rule(5, "expected TileType for operand and terminator types but got: {got} vs {want}")
NOT_PURE = _rule(6, "only pure operations allowed")
INVALID_OP = _rule(7, "invalid op: {name}")
# Float arithmetic
FLOAT_TYPES = _rule(10, "expected matching operand and result element types")
FTZ = _rule(11, "flush-to-zero is only legal for f32 element type")
DIVF_ROUNDING = _rule(12, "invalid rounding mode for divf")
DIVF_APPROX = _rule(13, "approx and full rounding modes require f32")
ROUNDING_OUTSIDE_DIVF = _rule(14, "rounding mode not allowed outside divf")
# Conversions
EXTI = _rule(20, "exti requires the result width to be strictly greater than the input width")
TRUNCI = _rule(21, "trunci requires the result width to be strictly less than the input width")
FTOF_IDENTITY = _rule(22, "ftof rejects identity conversions")
FTOF_ROUNDING = _rule(23, "ftof requires nearest-even rounding")
ITOF_ROUNDING = _rule(24, "itof requires nearest-even rounding")
FTOI_ROUNDING = _rule(25, "ftoi requires truncation toward zero")
BITCAST = _rule(26, "bitcast requires equal-width source and destination element types")
# Token memory
POINTEE = _rule(30, "pointer pointee element type must match value element type")
POINTER_SHAPE = _rule(31, "pointer tile shape must match value shape")
MASK_SHAPE = _rule(32, "mask shape must match value shape")
LOAD_ORDERING = _rule(33, "load ordering must be weak, relaxed, or acquire")
STORE_ORDERING = _rule(34, "store ordering must be weak, relaxed, or release")
WEAK_SCOPE = _rule(35, "weak memory ordering must not carry a scope")
NEEDS_SCOPE = _rule(36, "non-weak memory ordering requires an explicit scope")
RMW_INT = _rule(37, "integer rmw mode requires i32 or i64 element type")
RMW_ADDF = _rule(38, "floating-add rmw requires a target-supported floating width")
RMW_XCHG = _rule(39, "xchg rmw requires a target-supported atomic width")
TOKEN_OPERAND = _rule(40, "expected token operand")
# Shapes and types
RESHAPE_ELEM = _rule(50, "reshape requires matching element types")
RESHAPE_COUNT = _rule(51, "reshape element-count mismatch: source has {source} elements, result has {result}")
POWER_OF_TWO = _rule(52, "tile dimensions must be powers of two")
TOO_MANY_ELEMENTS = _rule(53, "tile would exceed the maximum element count")
# Control flow
IF_THEN = _rule(60, "if requires a then-region")
IF_ELSE = _rule(61, "if with results requires an else-region")
IF_VIEW = _rule(62, "view-typed if results are not permitted")
FOR_TYPES = _rule(63, "for induction, lower, upper, and step must share an integer type")
FOR_INIT = _rule(64, "for init values must match region iter-arg types")
FOR_RESULTS = _rule(65, "for result types must match region iter-arg types")
FOR_VIEW = _rule(66, "view-typed for results are not permitted")
EARLY_EXIT = _rule(67, "early-exit must be enclosed by a compatible loop or for")
EARLY_EXIT_TYPES = _rule(68, "early-exit operand types must match the enclosing region contract")
# Reductions
AGG_INPUTS = _rule(70, "reduce/scan requires at least one input")
AGG_RESULTS = _rule(71, "reduce/scan must produce one result per input")
AGG_DIM = _rule(72, "reduction dimension is out of range")
AGG_IDENTITY = _rule(73, "identity element type must match input element type")
AGG_ARGS = _rule(74, "reduce/scan body must take two rank-zero arguments per input")
# Matrix products
MMA_RANK = _rule(80, "mma operand A must be rank-2 or rank-3")
MMA_SHARE_RANK = _rule(81, "mma operands must share rank")
MMA_K = _rule(82, "mma contracting dimension mismatch")
MMA_MN = _rule(83, "mma accumulator must agree with A and B on M and N")
MMA_ACC_SHAPE = _rule(84, "mma accumulator and result shapes must match")
MMAI_SIGNEDNESS = _rule(85, "expect signedness attribute for operand A")
MMAI_ACC = _rule(86, "integer mma accumulator and result must be i32")
MMAI_INPUTS = _rule(87, "integer mma inputs must share a legal integer element type")
MMAF_PAIR = _rule(88, "floating mma input/accumulator pair is not supported on the target")
MMAF_ACC_TYPE = _rule(89, "floating mma accumulator and result must share type")
