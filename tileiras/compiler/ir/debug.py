"""Debug scopes: what a `Loc` stands in. Interned records, as the bytecode and the text form spell them.

A chain ends in a `DISubprogram`; `DILexicalBlock` nests. `Loc.scope` holds one of the two, or None for a
position that no debug record describes (text input, notes of the compiler).
"""

from __future__ import annotations

from tileiras.diag import Loc

from .types import _interned

DIFile = _interned(
    "DIFile", ("name", "directory"), "Source file.", lambda a: f'di_file<"{a.name}" in "{a.directory}">'
)
DICompileUnit = _interned(
    "DICompileUnit", ("file",), "Translation unit.", lambda a: f"di_compile_unit<file = {a.file}>"
)
DILexicalBlock = _interned(
    "DILexicalBlock", ("scope", "file", "line", "column"), "Block inside a subprogram.",
    lambda a: f"di_lexical_block<scope = {a.scope}, file = {a.file}, line = {a.line}, column = {a.column}>",
)  # fmt: skip
DISubprogram = _interned(
    "DISubprogram",
    ("file", "line", "name", "linkage_name", "compile_unit", "scope_line", "flags"),
    "Function: source name and symbol name. `flags` exists since 13.5 (None in older files).",
    lambda a: f'di_subprogram<name = "{a.name}", linkageName = "{a.linkage_name}">',
)


class WrappedLoc(Loc):
    """A position of text that has a name, or is several: MLIR's NameLoc and FusedLoc. As a `Loc` it is the first of
    its parts that has a debug scope, else the first with a file."""

    __slots__ = ("kind", "metadata", "name", "parts")

    def __init__(self, kind: str, parts: tuple[Loc, ...], name: str = "", metadata: object = None) -> None:
        known = [(p, scope_of(p)) for p in parts]
        first = next((p for p in known if p[1] is not None), None) or next(
            (p for p in known if p[0].file), None
        )
        place, scope = first or (Loc(), None)
        super().__init__(place.file, place.line, place.col, (), scope)
        self.kind = kind
        self.parts = parts
        self.name = name
        self.metadata = metadata  # an attribute, of a FusedLoc

    def called_from(self, callers: tuple[Loc, ...]) -> WrappedLoc:
        found = WrappedLoc(self.kind, self.parts, self.name, self.metadata)
        found.callers = callers
        return found


def scope_of(loc: Loc) -> object | None:
    """The debug scope that a location stands for: that of the outermost caller."""
    return loc.callers[-1].scope if loc.callers else loc.scope


def subprogram_of(scope: object) -> object | None:
    """The DISubprogram that a scope chain ends in, or None."""
    while type(scope) is DILexicalBlock:
        scope = scope.scope
    return scope if type(scope) is DISubprogram else None
