"""The table museum.toml as data."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
TABLE = HERE / "museum.toml"
DEFAULT_GPU = "sm_90"


@dataclasses.dataclass(frozen=True)
class Exhibit:
    """A kernel and the reports that it stands for: `case` of the corpus that works, or `text` that must fail well."""

    about: str
    threads: tuple[tuple[str, str], ...]  # (address, symptom)
    case: str = ""
    text: str = ""
    gpu: str = DEFAULT_GPU
    spills: int | None = None  # bytes a thread, where the report is about spills
    code: str = ""
    op: str = ""
    line: int = 0
    remedy: tuple[tuple[str, str], ...] = ()  # (what stands in the text, what replaces it)

    @property
    def name(self) -> str:
        return (self.case.removeprefix("museum_") or self.text) + (
            "" if self.gpu == DEFAULT_GPU else f"-{self.gpu}"
        )

    def source(self) -> str:
        """The text of an exhibit that fails."""
        return (HERE / "texts" / f"{self.text}.tileir").read_text(encoding="utf-8")

    def remedied(self) -> str:
        """The text after its remedy, applied letter by letter."""
        text = self.source()
        for old, new in self.remedy:
            if old not in text:
                raise ValueError(f"{self.text}: the remedy's {old!r} is not in the text")
            text = text.replace(old, new)
        return text


def exhibits() -> list[Exhibit]:
    """All rows, in the order of the file."""
    try:
        import tomllib
    except ImportError:  # Python 3.10
        import tomli as tomllib
    found = []
    for row in tomllib.loads(TABLE.read_text(encoding="utf-8"))["exhibit"]:
        fields: dict[str, Any] = dict(row)
        for key in ("threads", "remedy"):
            fields[key] = tuple(tuple(pair) for pair in fields.get(key, ()))
        found.append(Exhibit(**fields))
    return found
