"""What an opcode means: its row of rows.py, found once per spelling.

`resolve("add.rn.f32")` matches the modifiers against the rows of `add` and returns class and purity of the result, the
feature it needs, and the operands it takes; `fits` says whether a record has those.
"""

from __future__ import annotations

from .code import Addr, Float, Label, Reg, Sym, TensorAddr
from .rows import ROWS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

CLASS_OF_TYPE = {
    "pred": "p",
    "b8": "h", "u8": "h", "s8": "h",
    "b16": "h", "u16": "h", "s16": "h", "f16": "h", "bf16": "h",
    "e4m3x2": "h", "e5m2x2": "h", "e2m3x2": "h", "e3m2x2": "h", "ue8m0x2": "h",
    "b32": "r", "u32": "r", "s32": "r", "f32": "r", "f16x2": "r", "bf16x2": "r", "tf32": "r", "u16x2": "r", "s16x2": "r",
    "b64": "d", "u64": "d", "s64": "d", "f64": "d", "f32x2": "d",
}  # fmt: skip
BITS = {"p": 1, "h": 16, "r": 32, "d": 64}
_WIDER = {"h": "r", "r": "d"}
_TMEM_WORDS = {"32x32b": 1, "16x64b": 1, "16x128b": 2, "16x256b": 4, "16x32bx2": 1}
PSEUDO = frozenset(("call.uni", "loc", "pragma", "launch"))


class Resolved:
    """An opcode after its modifiers were read: class of the result (None: none, or several), purity, needed feature
    (None: every target), and the operands it takes."""

    __slots__ = ("_places", "cls", "form", "need", "parts", "pure")

    def __init__(self, form: str, pure: bool, need: str | None, parts: list[str]) -> None:
        self.form = form
        self.need = need
        self.parts = parts
        self.pure = pure and "volatile" not in parts
        self._places: tuple[list[tuple[str, ...]], list[tuple[str, ...]]] | None = None
        self.cls: str | None = None
        if "=" in form:
            first = (
                _place(form.split(None, 1)[0].partition("/")[0].rstrip("?"), parts).rstrip("w").lstrip("M")
            )
            self.cls = first if first in BITS else None

    @property
    def places(self) -> tuple[list[tuple[str, ...]], list[tuple[str, ...]]]:
        """Results and sources, each a tuple of alternatives with the types of this opcode filled in."""
        if self._places is None:
            left, _, right = self.form.rpartition("=")
            hint = "L2::cache_hint" in self.parts
            self._places = (
                [_places(word, self.parts) for word in left.split()],
                [_places(word, self.parts) for word in right.split() if word != "H" or hint],
            )
        return self._places


RESOLVED: dict[str, Resolved] = {}


class NoInstruction(ValueError):
    """No row covers an opcode: wrong text, or a bug of whoever lowers to it."""

    def __init__(self, opcode: str) -> None:
        super().__init__(f"no instruction row for {opcode!r}")
        self.opcode = opcode


def resolve(opcode: str) -> Resolved:
    """The row of an opcode. Errors: NoInstruction."""
    found = RESOLVED.get(opcode)
    if found is None:
        found = RESOLVED.setdefault(opcode, _resolve(opcode))
    return found


def _resolve(opcode: str) -> Resolved:
    name, _, rest = opcode.partition(".")
    parts = rest.split(".") if rest else []
    for modifiers, form, pure, feature in ROWS.get(name, ()):
        if parts and parts[-1] not in modifiers and "*" not in modifiers:
            continue  # most rows are of other types
        if matches(_split(modifiers), parts):
            return Resolved(form, pure, feature, parts)
    raise NoInstruction(opcode)


def _split(modifiers: str) -> list[tuple[tuple[str, ...], bool]]:
    """The slots of a row: (choices, whether one must be there)."""
    return [
        (tuple(slot.rstrip("?").split("|")), not slot.endswith("?")) for slot in modifiers.split(".") if slot
    ]


def matches(slots: list[tuple[tuple[str, ...], bool]], parts: list[str]) -> bool:
    at = 0
    for choices, needed in slots:
        if at < len(parts) and (
            parts[at] in choices or "*" in choices[0] and _numbered(choices[0], parts[at])
        ):
            at += 1
        elif needed:
            return False
    return at == len(parts)


def _numbered(choice: str, word: str) -> bool:
    head, _, tail = choice.partition("*")
    digits = word[len(head) : len(word) - len(tail)]
    return (
        word.startswith(head) and word.endswith(tail) and digits.isdecimal() and len(digits) <= 3
        and 0 < int(digits) <= 256 and int(digits) % 8 == 0
    )  # fmt: skip


def _places(word: str, parts: list[str]) -> tuple[str, ...]:
    """The alternatives of an operand, with the types of this opcode filled in; a last `?`: may be left out."""
    optional = "?" if word.endswith("?") else ""
    return tuple(_place(one, parts) + optional for one in word.rstrip("?").split("/"))


def _place(word: str, parts: list[str]) -> str:
    if word == "T":
        return CLASS_OF_TYPE[parts[-1]]
    if word == "U":
        return CLASS_OF_TYPE[parts[-2]]
    if word in ("Tw", "Uw"):
        return CLASS_OF_TYPE[parts[-1 if word == "Tw" else -2]] + "w"
    if word == "W":
        return _WIDER[CLASS_OF_TYPE[parts[-1]]]
    if word == "V":
        cls = CLASS_OF_TYPE[parts[-1]]
        vector = next((part for part in parts if part in ("v2", "v4", "v8")), "")
        return f"{cls}{vector[1:]}" if vector else cls + "w"
    if word == "X":
        return f"r{int(_count(parts)) * (2 if 'm16n16' in parts else 1)}"
    if word == "Y":
        return f"r{int(_count(parts)) * _TMEM_WORDS[next(p for p in parts if p in _TMEM_WORDS)]}"
    if word == "D":
        columns = int(next(p for p in parts if p.startswith("m64n"))[4:].partition("k")[0])
        return f"r{columns // (4 if 'f16' == parts[4] else 2)}"
    if word == "H":
        return "d"
    if word == "M":
        return "M" + CLASS_OF_TYPE[parts[-1]]
    return word


def _count(parts: list[str]) -> str:
    return next(part[1:] for part in parts if part[0] == "x" and part[1:].isdecimal())


def fits(info: Resolved, record: Any) -> bool:
    """Whether results and sources of a record are what its row says."""
    _, dst, srcs, _ = record
    results, sources = info.places
    if dst is None:
        if results and not results[0][0].endswith("?"):
            return False
    elif not results or not any(_is(dst, place, True) for place in results[0]):
        return False
    given = 0
    for places in sources:
        if places[0] == "*":
            return True
        if given < len(srcs) and any(_is(srcs[given], place, False) for place in places):
            given += 1
        elif not places[0].endswith("?"):
            return False
    return given == len(srcs)


def _is(x: Any, place: str, result: bool) -> bool:
    kind = x.__class__
    place = place.rstrip("?")
    if place == "A":
        return kind is Addr
    if kind is Reg and place in BITS:
        return bool(x.cls == place)
    if place == "r|p":
        return (
            kind is tuple and len(x) == 2 and (_sink(x[0]) or _is(x[0], "r", True)) and _is(x[1], "p", True)
        )
    if kind is tuple:
        if place[1:].isdecimal():
            return len(x) == int(place[1:]) and all(_is(item, place[0], result) for item in x)
        if place[0] == "M":
            bits = BITS[place[1]]
            return all(item.__class__ is Reg for item in x) and sum(BITS[item.cls] for item in x) == bits
        return place == "t"
    if place == "m":
        return kind is TensorAddr
    if place == "L":
        return kind is Label
    if place == "N":
        return kind is Sym
    if place == "s":
        return kind is str
    if result:
        return (
            _sink(x)
            or kind is Reg
            and (place[1:] == "w" and BITS[x.cls] >= BITS[place[0]] or place == "M" + x.cls)
        )
    if place[1:] == "w":
        return kind is Reg and BITS[x.cls] >= BITS[place[0]] or kind in (int, Float)
    if place[0] == "M":
        return kind in (int, Float, Sym) or kind is Reg and bool(x.cls == place[1])
    if kind is int or kind is bool:
        return place in ("i", "p", "h", "r", "d")
    if kind is Float:
        return bool(place == x.cls)
    return False


def _sink(x: Any) -> bool:
    return x.__class__ is Sym and x.name == "_"
