"""The spellings of a list of GPU architectures, as four build systems write them, read into one form.

A bare number is CMake's ("100": an image and the portable form), "100-real" and "100-virtual" one of the two;
"sm_100" and "compute_100" are nvcc's; "10.0" and "10.0+PTX" torch's; "compute_80:sm_80,sm_86;..."
rules_cuda's, where what stands before the colon only steers nvcc's front end and names no output.  "native",
"all" and "all-major" are understood everywhere.  "Virtual" means the entry that a newer GPU can still use:
Tile IR (or PTX) in the fatbin.

Architectures without Tile IR support are dropped with one warning, as a list written for CUDA C++ often holds
some (75 is CMake's own default); a list with nothing left is an error, never a success without output.
"cpu" beside them asks for code for the processor of the host; who can make it takes the word out first (split_cpu).
"""

from __future__ import annotations

from tileiras.archs import FIRST_WITH_SUFFIX, NUMBERS, WITHOUT_TILE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tileiras.diag import Emitted

REAL, VIRTUAL = "real", "virtual"
CPU = "cpu"

_SEPARATORS = str.maketrans(";,\t\n", "    ")


class Arch:
    """One output: an image for a GPU (real) or the portable entry for it and later ones (virtual)."""

    __slots__ = ("kind", "number", "suffix")

    def __init__(self, kind: str, number: int, suffix: str = "") -> None:
        self.kind = kind
        self.number = number
        self.suffix = suffix

    @property
    def label(self) -> str:
        """ "90a": what a fatbin entry is labelled with."""
        return f"{self.number}{self.suffix}"

    @property
    def gpu_name(self) -> str:
        """ "sm_90a": what our assembler is asked for."""
        return f"sm_{self.label}"

    @property
    def plain_name(self) -> str:
        """ "sm_90": what NVIDIA's assembler is asked for; it takes no suffix (c9)."""
        return f"sm_{self.number}"

    def __str__(self) -> str:
        return f"{'sm' if self.kind == REAL else 'compute'}_{self.label}"

    def __repr__(self) -> str:
        return f"Arch({self})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Arch) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))


def parse_archs(
    text: str | Iterable[str], supported: Sequence[int] = NUMBERS
) -> tuple[list[Arch], list[Emitted]]:
    """(architectures in their order without repeats, warnings).

    Errors: ARCH_EMPTY, ARCH_UNKNOWN, ARCH_NONE_LEFT, ARCH_NO_GPU, all with exit code 2.
    """
    from tileiras.toolchain import diags

    whole = text if isinstance(text, str) else ";".join(text)
    if (
        "No CUDA devices found" in whole
    ):  # what CMake stores as native architecture on a machine without a GPU
        raise diags.fail(2, diags.one(diags.ARCH_NO_GPU))
    found: dict[Arch, None] = {}
    for spec in whole.split(";"):
        _, colon, reals = spec.rpartition(":")
        words = (reals if colon else spec).translate(_SEPARATORS).split()
        if colon:
            before = spec[: len(spec) - len(reals) - 1].strip()
            if not before.startswith("compute_") or _one(before) is None or not words:
                raise diags.fail(2, diags.one(diags.ARCH_UNKNOWN, text=spec.strip()))
        for word in words:
            found.update(dict.fromkeys(_expand(word, supported)))
    if not found:
        raise diags.fail(2, diags.one(diags.ARCH_EMPTY))
    kept = [arch for arch in found if arch.number in supported]
    dropped = sorted({arch.number for arch in found if arch.number not in supported})
    if not kept:
        names = " ".join(f"sm_{number}" for number in supported)
        raise diags.fail(2, diags.one(diags.ARCH_NONE_LEFT, text=whole, supported=names))
    warnings = []
    if dropped:
        warnings.append(
            diags.one(diags.ARCH_UNSUPPORTED, archs=" ".join(f"sm_{number}" for number in dropped))
        )
    return kept, warnings


def split_cpu(text: str | Iterable[str]) -> tuple[str, bool]:
    """(the list without the word "cpu", whether it was there)."""
    groups = (text if isinstance(text, str) else ";".join(text)).split(";")
    words = [group.translate(_SEPARATORS).split() for group in groups]
    kept = [group for group, own in zip(groups, words) if CPU not in own]
    kept += [" ".join(word for word in own if word != CPU) for own in words if CPU in own]
    return ";".join(filter(str.strip, kept)), any(CPU in own for own in words)


def parse_arch(text: str, supported: Sequence[int] = NUMBERS) -> Arch:
    """The one GPU that `text` names: "sm_90a", "90", "9.0". Errors: exit code 2."""
    archs, _ = parse_archs(text, supported)
    reals = [arch for arch in archs if arch.kind == REAL]
    if len(reals) != 1:
        from tileiras.toolchain import diags

        raise diags.fail(2, diags.one(diags.ARCH_NOT_ONE, text=text))
    return reals[0]


def _expand(word: str, supported: Sequence[int]) -> list[Arch]:
    from tileiras.toolchain import diags

    lowered = word.lower()
    if lowered in ("off", "false"):
        raise diags.fail(2, diags.one(diags.ARCH_EMPTY))
    if lowered == "native":
        numbers = native_archs()
        if not numbers:
            raise diags.fail(2, diags.one(diags.ARCH_NO_GPU))
        return [Arch(REAL, number) for number in numbers]
    if lowered in ("all", "all-major"):
        # nvcc: one portable entry, for the first architecture of the highest major (120, not 121)
        numbers = sorted(supported)
        latest = min(number for number in numbers if number // 10 == numbers[-1] // 10)
        if lowered == "all-major":
            majors = sorted({number // 10 for number in numbers if number not in WITHOUT_TILE})
            numbers = [min(n for n in numbers if n // 10 == major) for major in majors]
        return [Arch(REAL, number) for number in numbers] + [Arch(VIRTUAL, latest)]
    archs = _one(word)
    if archs is None:
        raise diags.fail(2, diags.one(diags.ARCH_UNKNOWN, text=word))
    for arch in archs:
        if arch.number not in supported and arch.number not in WITHOUT_TILE:
            raise diags.fail(2, diags.one(diags.ARCH_UNKNOWN, text=word))
    return archs


def _one(word: str) -> list[Arch] | None:
    """The outputs one word names, or None when it is no architecture at all."""
    kinds: tuple[str, ...] = (REAL, VIRTUAL)
    body = word
    if body.startswith("sm_"):
        body, kinds = body[3:], (REAL,)
    elif body.startswith("compute_"):
        body, kinds = body[8:], (VIRTUAL,)
    elif body.endswith("-real"):
        body, kinds = body[:-5], (REAL,)
    elif body.endswith("-virtual"):
        body, kinds = body[:-8], (VIRTUAL,)
    elif "." in body:
        kinds = (REAL,)
        if body.upper().endswith("+PTX"):
            body, kinds = body[:-4], (REAL, VIRTUAL)
        major, _, minor = body.partition(".")
        # one digit for the minor: "10.0" is 100 and "1.00" nothing
        if not (major.isdecimal() and major.isascii() and minor[:1].isdecimal() and minor[:1].isascii()):
            return None
        if len(minor) > 1 and minor[1:] not in ("a", "f"):
            return None
        body = major + minor
    suffix = body[-1] if body[-1:] in ("a", "f") else ""
    digits = body[: len(body) - len(suffix)]
    if not (digits.isdecimal() and digits.isascii() and 2 <= len(digits) <= 3) or digits[0] == "0":
        return None
    number = int(digits)
    if suffix and number < FIRST_WITH_SUFFIX[suffix]:
        return None
    return [Arch(kind, number, suffix) for kind in kinds]


def native_archs() -> list[int]:
    """The compute capabilities of this machine's GPUs (100 for 10.0), ascending, without repeats; [] without
    a GPU."""
    import ctypes
    import sys

    try:
        driver = ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
        count = ctypes.c_int()
        if driver.cuInit(0) != 0 or driver.cuDeviceGetCount(ctypes.byref(count)) != 0:
            return []
        found = set()
        for ordinal in range(count.value):
            device, major, minor = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
            driver.cuDeviceGet(ctypes.byref(device), ordinal)
            # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR and _MINOR
            driver.cuDeviceGetAttribute(ctypes.byref(major), 75, device)
            driver.cuDeviceGetAttribute(ctypes.byref(minor), 76, device)
            found.add(major.value * 10 + minor.value)
        return sorted(found)
    except (OSError, AttributeError):
        return []
