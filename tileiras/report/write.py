"""Reports as files: checked before the compile, written when it has ended, well or not."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from tileiras.diag import Emitted

    from .watch import Watch

ENDINGS = (".html", ".json")


def wrong_name(path: str) -> str:
    """Why a file cannot be a report by its name; empty when it can."""
    if path.endswith(ENDINGS):
        return ""
    return f"'{path}' does not end in {' or '.join(ENDINGS)}, which say what the report is written as"


def check(path: str) -> None:
    """Tries whether the file can be written. Errors: OutputError."""
    import os

    from tileiras.files import PLANTED, is_planted, remove_quietly, temporary_sibling, write_new
    from tileiras.outputs import UNWRITABLE, OutputError, is_stream

    if os.path.isdir(path):
        raise OutputError(UNWRITABLE, path=path, why="Is a directory")
    if is_planted(path):
        raise OutputError(UNWRITABLE, path=path, why=PLANTED)
    if is_stream(path):
        return
    probe = temporary_sibling(os.path.realpath(path))
    try:
        write_new(probe, b"")
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise OutputError(UNWRITABLE, path=path, why=why) from None
    finally:
        remove_quietly(probe)


def render(path: str, modules: Sequence[dict[str, Any]]) -> bytes:
    """The report as the file's name says."""
    from . import html
    from .collect import MOST_BYTES, document

    document_ = document(modules)
    found = _as(path, document_, html)
    for name in ("sass", "ptx", "nv_tileas"):  # what is read least, first
        if len(found) <= MOST_BYTES:
            break
        for module in document_["modules"]:
            _drop(module, name, MOST_BYTES)
        found = _as(path, document_, html)
    return found


def _as(path: str, document: dict[str, Any], html: Any) -> bytes:
    made: bytes = html.to_json(document) if path.endswith(".json") else html.to_html(document)
    return made


def _drop(module: dict[str, Any], name: str, most: int) -> None:
    """Leaves a level's text out, and what points into it."""
    level = module["levels"].get(name)
    if level is None:
        return
    level["cut"] = len(level["lines"])
    level["lines"], level["up"] = [], []
    for other in module["levels"].values():
        other["up"] = [-1 if line >= 0 and other is not level and _above(module, other) == name else line
                       for line in other["up"]]  # fmt: skip
    if name == "sass":
        for row in module["pressure"]:
            row["sass"] = None
    module["cut"].append(f"the text of {name} is left out: the report would pass {most // 1_000_000} MB")


def _above(module: dict[str, Any], level: dict[str, Any]) -> str:
    names = [
        name
        for name in ("source", "cuda_tile", "nv_tileaa", "nv_tileas", "ptx", "sass")
        if name in module["levels"]
    ]
    at = next(i for i, name in enumerate(names) if module["levels"][name] is level)
    return names[at - 1] if at else ""


def module_of(
    watch: Watch, diagnostics: Sequence[Emitted], exit_code: int = 0, profile: Any = None
) -> dict[str, Any]:
    """The data of one compile."""
    from .collect import module

    return module(watch, diagnostics, exit_code, profile)


def write(path: str, modules: Sequence[dict[str, Any]]) -> None:
    """Writes a report on its own. Errors: OutputError."""
    put(path, render(path, modules))


def put(path: str, data: bytes) -> None:
    """Writes one file, whole or not at all. Errors: OutputError."""
    from tileiras.outputs import Outputs

    outputs = Outputs([path])
    try:
        outputs.unlink_old()
        outputs.write(path, data)
        outputs.commit()
    except BaseException:
        outputs.discard()
        raise
