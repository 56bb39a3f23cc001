"""Size and alignment of a kernel parameter: 21 type tags, aggregates summed with padding.

A type is written as in LLVM: `i32`, `ptr<f32>`, `<4 x f32>`, `[10000 x i32]`, `{f64, i8, [10000 x i32]}`, `view<2>` (a
pointer and one i64 for each of two dynamic extents or strides). Worked value: `{f64, i8, [10000 x i32]}` is 40016 bytes
at alignment 8.
"""

from __future__ import annotations

import re
from enum import IntEnum

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


class Tag(IntEnum):
    """What the sizer tells apart."""

    I1 = 0
    I4 = 1
    I8 = 2
    I16 = 3
    I32 = 4
    I64 = 5
    I128 = 6
    F16 = 7
    BF16 = 8
    TF32 = 9
    F32 = 10
    F64 = 11
    F8E4M3FN = 12
    F8E5M2 = 13
    F8E8M0FNU = 14
    F4E2M1FN = 15
    POINTER = 16
    VECTOR = 17
    ARRAY = 18
    STRUCT = 19
    VIEW = 20


BYTES = {
    Tag.I1: 1, Tag.I4: 1, Tag.I8: 1, Tag.I16: 2, Tag.I32: 4, Tag.I64: 8, Tag.I128: 16, Tag.F16: 2, Tag.BF16: 2, Tag.TF32: 4,
    Tag.F32: 4, Tag.F64: 8, Tag.F8E4M3FN: 1, Tag.F8E5M2: 1, Tag.F8E8M0FNU: 1, Tag.F4E2M1FN: 1, Tag.POINTER: 8,
}  # fmt: skip
SCALARS = {tag.name.lower(): tag for tag in BYTES if tag is not Tag.POINTER}


class Param:
    """A described type: tag, element or member types, count."""

    __slots__ = ("count", "members", "tag")

    def __init__(self, tag: Tag, members: tuple[Param, ...] = (), count: int = 1) -> None:
        self.tag = tag
        self.members = members
        self.count = count


MAX_DEPTH = 64  # of aggregates
MAX_DIGITS = 20  # of a count
_WORD = re.compile(r"\w*")


def describe(text: str) -> Param:
    """The description of a written type. Errors: ValueError."""
    found, rest = _type(text.strip(), 0)
    if rest.strip():
        raise ValueError(f"unexpected '{shown(rest.strip())}' behind the type")
    return found


def shown(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:64]}..."


def _count(text: str, whole: str) -> int:
    digits = text.strip()
    if not (digits.isascii() and digits.isdecimal() and len(digits) <= MAX_DIGITS):
        raise ValueError(f"malformed type '{shown(whole)}'")
    return int(digits)


def _type(text: str, depth: int) -> tuple[Param, str]:
    text = text.lstrip()
    if depth > MAX_DEPTH:
        raise ValueError(f"nesting is deeper than {MAX_DEPTH} levels")
    if text[:1] in ("[", "<"):
        close = {"[": "]", "<": ">"}[text[0]]
        count, _, rest = text[1:].partition("x")
        number = _count(count, text)
        inner, rest = _type(rest, depth + 1)
        rest = rest.lstrip()
        if not rest.startswith(close):
            raise ValueError(f"malformed aggregate '{shown(text)}'")
        return Param(Tag.ARRAY if close == "]" else Tag.VECTOR, (inner,), number), rest[1:]
    if text.startswith("{"):
        members = []
        rest = text[1:].lstrip()
        while not rest.startswith("}"):
            inner, rest = _type(rest, depth + 1)
            members.append(inner)
            rest = rest.lstrip()
            if rest.startswith(","):
                rest = rest[1:].lstrip()
            elif not rest.startswith("}"):
                raise ValueError(f"malformed struct '{shown(text)}'")
        return Param(Tag.STRUCT, tuple(members)), rest[1:]
    word = _WORD.match(text).group()  # type: ignore[union-attr]
    rest = text[len(word) :]
    if word in ("ptr", "view"):
        argument = ""
        if rest.startswith("<"):
            depth, at = 1, 1
            while depth:
                if at >= len(rest):
                    raise ValueError(f"malformed type '{shown(text)}'")
                depth += {"<": 1, ">": -1}.get(rest[at], 0)
                at += 1
            argument, rest = rest[1 : at - 1], rest[at:]
        if word == "ptr":
            return Param(Tag.POINTER), rest
        return Param(Tag.VIEW, count=_count(argument or "0", text)), rest
    tag = SCALARS.get(word.lower())
    if tag is None:
        raise ValueError(f"unknown parameter type '{shown(text)}'")
    return Param(tag), rest


def align_to(offset: int, alignment: int) -> int:
    return -(-offset // alignment) * alignment


def align_of(param: Param) -> int:
    if param.tag in (Tag.ARRAY, Tag.STRUCT):
        return max((align_of(m) for m in param.members), default=1)
    if param.tag is Tag.VECTOR:
        return size_of(param)
    return 8 if param.tag is Tag.VIEW else BYTES[param.tag]


def size_of(param: Param) -> int:
    tag = param.tag
    if tag is Tag.VIEW:  # base pointer, then the dynamic extents and strides
        return 8 + 8 * param.count
    if tag is Tag.VECTOR:
        size = size_of(param.members[0]) * param.count
        return 1 << (size - 1).bit_length()  # padded to a power of two
    if tag is Tag.ARRAY:
        return size_of(param.members[0]) * param.count  # whose size is a multiple of its alignment
    if tag is Tag.STRUCT:
        total = 0
        for member in param.members:
            total = align_to(total, align_of(member)) + size_of(member)
        return align_to(total, align_of(param))
    return BYTES[tag]


def total_bytes(types: Iterable[str]) -> int:
    """Bytes of a parameter list: in order, each at its own alignment."""
    total = 0
    known: dict[str, tuple[int, int]] = {}
    for text in types:
        found = known.get(text)
        if found is None:
            param = describe(text)
            found = known[text] = (size_of(param), align_of(param))
        total = align_to(total, found[1]) + found[0]
    return total
