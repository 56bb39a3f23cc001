"""Debug scopes: what a `Loc` stands in. Interned records, as the bytecode and the text form spell them.

A chain ends in a `DISubprogram`; `DILexicalBlock` nests. `Loc.scope` holds one of the two, or None for a
position that no debug record describes (text input, notes of the compiler).
"""

from __future__ import annotations

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


def subprogram_of(scope: object) -> object | None:
    """The DISubprogram that a scope chain ends in, or None."""
    while type(scope) is DILexicalBlock:
        scope = scope.scope
    return scope if type(scope) is DISubprogram else None
