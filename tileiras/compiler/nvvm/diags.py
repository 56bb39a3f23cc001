"""Texts of the NVVM IR verifier and of the module verifier in front of it."""

from __future__ import annotations

from tileiras.diag import ERROR, NOTE, WORD_ERROR, Diag

_SRC = "NVVM IR verifier"
OVERFLOW = Diag(
    "NV-0101",
    ERROR,
    "Formal parameter space overflowed ({need} bytes required, max {limit} bytes allowed) in function {function}",
    _SRC,
    WORD_ERROR,
)
NOT_A_KERNEL = Diag(
    "NV-0102", ERROR, "a function that is not __global__ cannot be launched", _SRC, WORD_ERROR
)
NO_SUCH_FUNCTION = Diag(
    "NV-0103",
    ERROR,
    "function {function} launches '{callee}', which is not defined in the module",
    _SRC,
    WORD_ERROR,
)
LAUNCH_SPACE = Diag(
    "NV-0104",
    ERROR,
    "argument {index} of the launch of {callee} in function {function} points to {space} memory: the kernel cannot read it",
    _SRC,
    WORD_ERROR,
)
TOO_NEW = Diag(
    "NV-0105",
    ERROR,
    "instruction {opcode} in function {function} needs {feature}, which {target} does not have",
    _SRC,
    WORD_ERROR,
)
UNKNOWN_OPCODE = Diag(
    "NV-0106", ERROR, "instruction {opcode} in function {function} is not known", _SRC, WORD_ERROR
)
OPERANDS = Diag(
    "NV-0109",
    ERROR,
    "record {index} of function {function} does not have the operands of {opcode}: {form}",
    _SRC,
    WORD_ERROR,
)
NO_PTX = Diag(
    "NV-0108",
    ERROR,
    "the launch of {callee} in function {function} has no PTX: kernels are launched by the host",
    _SRC,
    WORD_ERROR,
)
WHERE = Diag("NV-0107", NOTE, "{text}", _SRC)

NO_METADATA = Diag(
    "NV-0201", ERROR, "kernel {function} has no nvvm.kernel metadata", "module verifier", WORD_ERROR
)
LAUNCH_BOUNDS = Diag(
    "NV-0202",
    ERROR,
    "launch bounds of kernel {function} are inconsistent: {what}",
    "module verifier",
    WORD_ERROR,
)
