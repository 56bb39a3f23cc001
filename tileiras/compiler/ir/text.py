"""Text form of the IR: what parses, what prints. Dialects register through `asm.REGISTRY`."""

from __future__ import annotations

from tileiras.diag import EXIT_COMPILE, Emitted

from . import diags
from .asm import REGISTRY, Dialect
from .lexer import ParseError
from .parser import Parser
from .printer import print_body, print_op

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tileiras.diag import Sink

    from .core import Op

PUBLIC = frozenset(("cuda_tile", "builtin"))  # what a frontend may write


def parse(
    text: str,
    sink: Sink,
    *,
    file: str = "",
    dialects: frozenset[str] | None = None,
    allow_unregistered: bool = False,
) -> list[Op]:
    """Top-level ops of a text. `dialects`: None for all that are registered; `allow_unregistered`: ops of unknown
    dialects in generic form stand for themselves. Errors: CompileError, exit code 5."""
    parser: Parser | None = None
    try:
        parser = Parser.__new__(Parser)
        parser.__init__(text, sink, file, dialects)  # type: ignore[misc]
        parser.allow_unregistered = allow_unregistered
        return parser.top()
    except ParseError as error:
        assert parser is not None
        parser.lines = None
        loc = parser.loc(error.pos)
        custom = f"custom op '{error.op}' " if error.op else ""
        notes = [Emitted(diags.NOTE_TEXT, loc, facts=(("text", custom + text),)) for text in error.notes]
        if error.prior is not None:
            notes.append(Emitted(diags.PRIOR_USE, parser.loc(error.prior)))
        diag = error.diag or diags.SYNTAX
        if diag.text == "{text}" and not error.facts:
            error.facts = {"text": custom + error.text}
        sink.emit(diag, loc=loc, notes=notes, **error.facts)
    raise sink.fail(EXIT_COMPILE)


__all__ = ["PUBLIC", "REGISTRY", "Dialect", "parse", "print_body", "print_op"]
