"""-arch, -code and -gencode to the entries of a fatbin: nvcc's grammar, defaults and messages.

An entry is an image for one real architecture ("elf") or a forward-compatible one for a virtual architecture
("virtual": PTX or Tile IR, plan.py knows which). The suffix a or f is dropped for NVIDIA's Tile compiler, which has no such
targets, and kept in the fatbin's label, as nvcc does. Messages were read off nvcc 13.4.92; nvcc orders entries by
architecture, not as given, and so do we.
"""

from __future__ import annotations

from tileiras.archs import FIRST_WITH_SUFFIX, MAJOR_NUMBERS, NUMBERS
from tileiras.diag import Catalogue

from .argv import Usage, split_list

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .argv import Line

diags = Catalogue(f"{__package__}.diags")

DEFAULT_ARCH = 75  # nvcc's own default when no option names one


class Entry:
    """One image of the fatbin. number 100, suffix "" | "a" | "f", kind "elf" | "virtual"."""

    __slots__ = ("kind", "number", "suffix")

    def __init__(self, kind: str, number: int, suffix: str) -> None:
        self.kind, self.number, self.suffix = kind, number, suffix

    def target(self, compiler: str) -> str:
        """What the Tile compiler is asked for: NVIDIA's takes no suffix."""
        suffix = "" if compiler == "nvidia" else self.suffix
        return f"{'sm' if self.kind == 'elf' else 'compute'}_{self.number}{suffix}"

    @property
    def label(self) -> str:
        """What the fatbin says."""
        return f"{'sm' if self.kind == 'elf' else 'compute'}_{self.number}{self.suffix}"

    def key(self) -> tuple[int, str, str]:
        return (self.number, self.suffix, self.kind)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Entry) and self.key() == other.key()

    def __hash__(self) -> int:
        return hash(self.key())

    def __repr__(self) -> str:
        return f"Entry({self.label})"


def parse_name(name: str) -> tuple[str, int, str]:
    """Returns ("sm" | "compute" | "lto", number, suffix). Errors: Usage, Unsupported gpu architecture."""
    space, _, rest = name.partition("_")
    suffix = rest[-1:] if rest[-1:] in ("a", "f") else ""
    digits = rest[: len(rest) - len(suffix)]
    if (
        space in ("sm", "compute", "lto")
        and len(digits) <= 4
        and digits.isascii()
        and digits.isdecimal()
        and int(digits) in NUMBERS
        and int(digits) >= FIRST_WITH_SUFFIX.get(suffix, 0)
    ):
        return space, int(digits), suffix
    raise Usage(diags.GPU, name=name)


def _check_pair(virtual: str, code: str) -> tuple[str, int, str]:
    """Returns the parsed code. Errors: Usage when an image for `code` cannot be made from `virtual`."""
    _, number, suffix = parse_name(virtual)
    kind, real, real_suffix = parse_name(code)
    if kind == "sm":
        fits = real >= number
        if suffix == "a":
            fits = fits and real_suffix == "a"
        elif suffix == "f":
            # A family stays within one major number; a plain code takes on the family's suffix.
            fits = fits and real // 10 == number // 10
            real_suffix = real_suffix or "f"
    else:
        fits = (real, real_suffix) == (number, suffix)
    if not fits:
        raise Usage(diags.INCOMPATIBLE, arch=virtual, code=code)
    return kind, real, real_suffix


def _entries_of(virtual: str, codes: Sequence[str]) -> list[Entry]:
    if parse_name(virtual)[0] == "sm":
        raise Usage(diags.VIRTUAL, arch=virtual)
    entries = []
    for code in codes:
        kind, number, suffix = _check_pair(virtual, code)
        entries.append(Entry("elf" if kind == "sm" else "virtual", number, suffix))
    return entries


def _parse_gencode(text: str) -> list[Entry]:
    """Returns the entries of one -gencode value: `arch=compute_90,code=[sm_90,compute_90]` in its spellings."""
    found: dict[str, str] = {}
    if text.count("[") != text.count("]"):
        raise Usage(diags.STRAY, char="[" if text.count("[") > text.count("]") else "]")
    for part in split_list(text):
        key, equals, value = part.partition("=")
        if not equals:
            raise Usage(diags.KEYWORD_VALUE, part=part)
        if key not in ("arch", "code"):
            raise Usage(diags.KEYWORD, key=key)
        if key in found:
            raise Usage(diags.KEYWORD_TWICE, key=key)
        found[key] = value
    for key, word in (("arch", "architecture"), ("code", "code")):
        if key not in found:
            raise Usage(diags.KEYWORD_MISSING, text=text, word=word)
    codes = found["code"]
    if codes.startswith("[") and codes.endswith("]"):
        codes = codes[1:-1]
    return _entries_of(found["arch"], split_list(codes))


def list_entries(line: Line, tile_archs: Sequence[int], native: Callable[[], list[int]], warnings: list[str]
                 ) -> list[Entry]:  # fmt: skip
    """Returns every entry that the line asks for, sorted, each once; `native` answers for the GPUs of this machine."""
    entries: list[Entry] = []
    arch, codes = line.one("--gpu-architecture"), line.all("--gpu-code")
    gencodes = line.all("--generate-code")
    if codes and arch is None:
        raise Usage(diags.NO_ARCH)
    if arch in ("all", "all-major", "native") and codes:
        raise Usage(diags.ARCH_AND_CODE, arch=arch)
    if arch == "native":
        numbers = native()
        if not numbers:
            warnings.append("Cannot find valid GPU for '-arch=native', default arch is used")
            numbers = [DEFAULT_ARCH]
        entries += [Entry("elf", number, "") for number in numbers]
    elif arch in ("all", "all-major"):
        wanted = [n for n in (NUMBERS if arch == "all" else MAJOR_NUMBERS) if n in tile_archs]
        entries += [Entry("elf", number, "") for number in wanted]
        # One forward-compatible entry, for the highest major number, as nvcc does.
        majors = [n for n in MAJOR_NUMBERS if n in tile_archs]
        if majors:
            entries.append(Entry("virtual", majors[-1], ""))
    elif arch is not None and codes:
        entries += _entries_of(arch, codes)
    elif arch is not None:
        space, number, suffix = parse_name(arch)
        if space == "sm":
            entries.append(Entry("elf", number, suffix))
        entries.append(Entry("virtual", number, suffix))
    for gencode in gencodes:
        entries += _parse_gencode(gencode)
    if arch is None and not gencodes:
        entries += [Entry("elf", DEFAULT_ARCH, ""), Entry("virtual", DEFAULT_ARCH, "")]
    return sorted(set(entries), key=Entry.key)


def select_entries(line: Line, tile_archs: Sequence[int], native: Callable[[], list[int]], warnings: list[str]
                   ) -> list[Entry]:  # fmt: skip
    """Returns the entries that the Tile compiler can make. The others are dropped with one warning, where nvcc is
    silent; when none is left it is an error, where nvcc may succeed with an empty image."""
    every = list_entries(line, tile_archs, native, warnings)
    kept = [entry for entry in every if entry.number in tile_archs]
    dropped = sorted({entry.number for entry in every if entry.number not in tile_archs})
    if not kept:
        named = line.one("--gpu-architecture") is not None or line.all("--generate-code")
        asked = ", ".join(f"sm_{number}" for number in dropped)
        reason = asked if named else f"none is named and the default is {asked}"
        supported = " ".join(f"sm_{number}" for number in tile_archs)
        raise Usage(diags.NO_TILE_ARCH, reason=reason, supported=supported)  # fmt: skip
    if dropped:
        names = ", ".join(f"sm_{number}" for number in dropped)
        warnings.append(f"architectures without Tile support are left out for Tile IR inputs: {names}")
    return kept
