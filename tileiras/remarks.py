"""Remarks for people and for tools: which ones were asked for, and the YAML file of LLVM's remark tools.

A remark has a kind (passed, missed, failed, analysis) and may have a category (memory, tensorcore). `--remarks=C`
asks for every kind of a category, `--remarks-KIND=C` for one kind; `all` stands for every category, `none` for no one.
"""

from __future__ import annotations

from tileiras.options import renamed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from tileiras.diag import Emitted

TAGS = {"passed": "!Passed", "missed": "!Missed", "failed": "!Failure", "analysis": "!Analysis"}
PASSES = {"memory": "Memory", "tensorcore": "Tensor-core", "": "Tile"}


def wanted(emitted: Emitted, asked: dict[str, str]) -> bool:
    """Whether a remark was asked for. `asked`: kind -> category."""
    return emitted.diag.wanted(asked)


def to_yaml(remarks: Iterable[Emitted], prefix_map: tuple[tuple[str, str], ...] = ()) -> str:
    """One YAML document a remark, in the order of emission; empty when there is none."""
    return "".join(_document(emitted, prefix_map) for emitted in remarks)


def _document(emitted: Emitted, prefix_map: tuple[tuple[str, str], ...]) -> str:
    loc = emitted.loc
    facts = dict(emitted.facts)
    lines = [f"--- {TAGS[emitted.diag.kind]}", f"Pass:            {PASSES[emitted.diag.category]}",
             f"Name:            {quote(emitted.diag.code)}"]  # fmt: skip
    if loc is not None and loc.file:
        lines.append(
            f"DebugLoc:        {{ File: {quote(renamed(loc.file, prefix_map))}, Line: {loc.line}, Column: {loc.col} }}"
        )
    function = facts.pop("function", None)
    if function is not None:
        lines.append(f"Function:        {quote(function)}")
    lines.append("Args:")
    lines.append(f"  - Remark:      {quote(emitted.message)}")
    lines += [f"  - {name}: {quote(value)}" for name, value in facts.items()]
    lines += [f"  - Note:        {quote(note.message)}" for note in emitted.notes]
    return "\n".join([*lines, "...", ""])


def quote(value: object) -> str:
    """A YAML scalar: numbers and plain words as they are, everything else in quotes."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return str(value)
    text = str(value)
    if text.isascii() and text.isprintable():
        return "'" + text.replace("'", "''") + "'"
    import json

    return json.dumps(text, ensure_ascii=True)
