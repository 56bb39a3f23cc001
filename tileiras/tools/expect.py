"""Comments that say which diagnostics a text is to give: `// expected-error @+1 {{text}}`.

Severities: error, warning, remark, note; `-re` takes a regular expression inside `{{..}}` of the text. Places: the
comment's own line, `@+N`, `@-N`, `@above`, `@below`, `@unknown` (no location), `@N`. A number before the place repeats
the expectation. Everything emitted must be expected; a note belongs to its parent, and may be expected itself.
"""

from __future__ import annotations

import re

from tileiras.diag import ERROR, NOTE, REMARK, WARNING

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from tileiras.diag import Emitted

SEVERITIES = {"error": ERROR, "warning": WARNING, "remark": REMARK, "note": NOTE}
NAMES = {value: name for name, value in SEVERITIES.items()}
COMMENT = re.compile(
    r"//\s*expected-(?P<kind>error|warning|remark|note)(?P<re>-re)?\s*"
    r"(?:@(?P<place>[+-]\d+|\d+|above|below|unknown))?\s*(?:(?P<count>\d+)\s*)?\{\{(?P<text>.*?)\}\}\s*$"
)


MAX_COUNT = 1000  # of one comment: more diagnostics than anybody reads


class Expected:
    """One expectation: severity, line (0: no location), text, whether it was met."""

    __slots__ = ("at", "kind", "line", "met", "pattern", "text")

    def __init__(self, kind: int, line: int, text: str, regular: bool, at: int) -> None:
        self.kind = kind
        self.line = line
        self.text = text
        self.at = at  # line of the comment
        self.pattern = pattern_of(text) if regular else None
        self.met = False

    def fits(self, text: str) -> bool:
        return self.pattern.search(text) is not None if self.pattern is not None else self.text in text


def pattern_of(text: str) -> re.Pattern[str]:
    """Literal text with regular expressions in `{{..}}`; the outer braces are gone, so an inner one ends at `}}`."""
    out = ""
    for i, part in enumerate(re.split(r"\{\{|\}\}", text)):
        out += f"(?:{part})" if i % 2 else re.escape(part)
    try:
        return re.compile(out)
    except (re.error, OverflowError, RecursionError):
        return re.compile(re.escape(text))  # fits nothing, so it is reported as not met


def expectations(text: str, start: int) -> list[Expected]:
    """All comments of a piece that begins behind `start` lines."""
    found: list[Expected] = []
    lines = text.split("\n")
    designators = [not line.strip() or line.lstrip().startswith("//") for line in lines]
    for i, line in enumerate(lines):
        match = COMMENT.search(line)
        if match is None:
            continue
        at = start + i + 1
        place = match["place"]
        target = at
        if place in ("above", "below"):
            step = -1 if place == "above" else 1
            j = i + step
            while 0 <= j < len(lines) and designators[j]:
                j += step
            target = start + j + 1
        elif place == "unknown":
            target = 0
        elif place is not None:
            lines_away = int(place[:10])  # farther than any file is long
            target = at + lines_away if place[0] in "+-" else start + lines_away
        for _ in range(min(int((match["count"] or "1")[:10]), MAX_COUNT)):
            found.append(Expected(SEVERITIES[match["kind"]], target, match["text"], bool(match["re"]), at))
    return found


def line_of(emitted: Emitted) -> int:
    return emitted.loc.line if emitted.loc is not None else 0


def meet(wanted: Iterable[Expected], kind: int, line: int, text: str) -> bool:
    """Marks the first open expectation that the text meets."""
    for expected in wanted:
        if not expected.met and expected.kind == kind and expected.line == line and expected.fits(text):
            expected.met = True
            return True
    return False


def compare(text: str, start: int, emitted: Iterable[Emitted]) -> list[tuple[int, str]]:
    """(line, problem): what was emitted and not expected, then what was expected and not emitted."""
    wanted = expectations(text, start)
    problems = []
    for body in emitted:
        # MLIR's tools say in several errors what is one error with notes here: each text may meet an expectation.
        # A note may stand at the op where MLIR has the error.
        texts = [(body, body.message), *[(note, note.message) for note in body.notes]]
        if not sum(meet(wanted, body.severity, line_of(at), said) for at, said in texts):
            problems.append((line_of(body), f"unexpected {NAMES[body.severity]}: {body.message}"))
        for note in body.notes:
            meet(wanted, NOTE, line_of(note), note.message)
    for expected in wanted:
        if not expected.met:
            where = "" if expected.line else " without a location"
            problems.append(
                (expected.at, f'expected {NAMES[expected.kind]} "{expected.text}" was not produced{where}')
            )
    return problems
