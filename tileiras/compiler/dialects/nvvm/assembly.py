"""Text form of nvvm: the records of `compiler/nvvm/text.py` behind the op's name."""

from __future__ import annotations

from tileiras.compiler.ir.asm import Dialect
from tileiras.compiler.ir.core import Op
from tileiras.compiler.nvvm.text import TextError, parse_module, print_module
from tileiras.compiler.target.sm import find

from .ops import BY_NAME, MODULE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def print_code(printer: Any, op: Op) -> None:
    """Everything behind `nvvm.module`."""
    lines = print_module(op.attrs["code"]).rstrip("\n").split("\n")
    printer.put(lines[0].removeprefix("nvvm.module"))
    for line in lines[1:]:
        printer.newline()
        printer.put(line)


def parse_code(parser: Any, state: Any) -> None:
    try:
        state.attrs["code"], end = parse_module(parser.text, parser.start, find)
    except TextError as error:
        raise parser.error(error.text, error.pos) from None
    for fn in state.attrs["code"].functions:
        fn.loc = parser.loc(fn.loc)
    state.committed = True
    parser.seek(end)


def wrap(code: Any) -> Op:
    """Per-thread code as an op, for printing."""
    return Op(MODULE, attrs={"code": code})


DIALECT = Dialect("nvvm", BY_NAME)
DIALECT.custom = {"code": (print_code, parse_code)}
