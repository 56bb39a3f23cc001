"""Reads a cubin: target, kernels with their launch facts, globals, and the embedded host object.

A cubin is a 64-bit little-endian ELF file of machine 190.  What a launcher needs lies in `.nv.info` sections:
one for the module, whose records name a symbol each, and one per kernel.  A record is a format byte, an
attribute byte and a value (none, a byte, a halfword, or a length and bytes).  Numbers below were established
by comparing with cuobjdump -elf of 13.4.92 on images of ptxas 13.0 to 13.5 and of NVIDIA's tileiras 13.1 to
13.5.
"""

from __future__ import annotations

import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_EM_CUDA = 190
_SHT_SYMTAB, _SHT_NOBITS = 2, 8
_STT_OBJECT, _STT_FUNC = 1, 2
_STO_ENTRY = 0x10  # st_other of a kernel's symbol

# .nv.info attributes
_REQNTID = 0x10
_MAX_THREADS = 0x05
_FRAME_SIZE = 0x11
_KPARAM_INFO = 0x17
_CBANK_PARAM_SIZE = 0x19
_MAX_STACK_SIZE = 0x23
_MIN_STACK_SIZE = 0x12
_REGCOUNT = 0x2F
_CTA_PER_CLUSTER = 0x3D
_LANGUAGE = 0x66
_KPARAM_INFO_V2 = 0x45
_NUM_BARRIERS = 0x4C

_COMPAT_ACCELERATOR = (
    0x09  # .nv.compat: how far the image travels: 1 in an architecture-specific one (sm_90a)
)

# From sm_90 on, 1024 bytes at the start of each block's shared memory belong to the system; ptxas adds them
# to the section but not to what it reports, and a launch does not ask for them.
_RESERVED_SHARED_BYTES = 1024
_RESERVED_SHARED_SINCE = 90

HOST_MACHINES = {62: "x86_64", 183: "aarch64"}
LANGUAGES = {7: "tileir"}


class Param:
    """One kernel parameter as the driver sees it: bytes only. `is_pointer` says that it is known to be
    one."""

    __slots__ = ("is_pointer", "offset", "ordinal", "size")

    def __init__(self, ordinal: int, offset: int, size: int, is_pointer: bool) -> None:
        self.ordinal = ordinal
        self.offset = offset
        self.size = size
        self.is_pointer = is_pointer

    def __repr__(self) -> str:
        return f"Param({self.ordinal}, offset={self.offset}, size={self.size})"


class Kernel:
    """One entry. Sizes in bytes; `block` and `cluster` are None where the image leaves them open."""

    __slots__ = (
        "barriers",
        "block",
        "cluster",
        "code_bytes",
        "language",
        "max_threads",
        "params",
        "registers",
        "stack_bytes",
        "static_shared",
        "symbol",
    )

    def __init__(self, symbol: str) -> None:
        self.symbol = symbol
        self.params: list[Param] = []
        self.block: tuple[int, int, int] | None = None
        self.max_threads: tuple[int, int, int] | None = None
        self.cluster: tuple[int, int, int] | None = None
        self.registers = 0
        self.stack_bytes = 0
        self.static_shared = 0
        self.barriers = 0
        self.code_bytes = 0
        self.language = 0

    @property
    def launch_abi(self) -> str:
        """ "tile" where the image says that a block of one thread means a tile block, else "simt"."""
        return "tile" if self.language == 7 else "simt"

    def __repr__(self) -> str:
        return f"Kernel({self.symbol!r}, params={self.params}, block={self.block})"


class Global:
    """A variable of the module, in global or constant memory."""

    __slots__ = ("section", "size", "symbol")

    def __init__(self, symbol: str, size: int, section: str) -> None:
        self.symbol = symbol
        self.size = size
        self.section = section


class Cubin:
    """A cubin that was read. `host` is the architecture of the embedded host object, or None without one."""

    __slots__ = ("arch", "globals", "has_tile_metadata", "host", "kernels", "sections", "sm", "toolkit")

    def __init__(self, sm: int, arch: str) -> None:
        self.sm = sm
        # "sm_90a", as cuobjdump says it; ptxas writes nothing that tells an image for sm_100f from one for sm_100
        self.arch = arch
        self.kernels: dict[str, Kernel] = {}
        self.globals: dict[str, Global] = {}
        self.host: str | None = None
        self.has_tile_metadata = False
        self.toolkit = ""
        self.sections: dict[str, bytes] = {}


class _Section:
    __slots__ = ("data", "flags", "info", "link", "name", "size", "type")

    def __init__(
        self, name: str, type: int, flags: int, link: int, info: int, size: int, data: bytes
    ) -> None:
        self.name = name
        self.type = type
        self.flags = flags
        self.link = link
        self.info = info
        self.size = size
        self.data = data


def is_cubin(data: bytes) -> bool:
    """Whether `data` starts like a cubin."""
    return (
        len(data) >= 64 and data[:6] == b"\x7fELF\x02\x01" and data[18:20] == _EM_CUDA.to_bytes(2, "little")
    )


def read_cubin(data: bytes, name: str = "input") -> Cubin:
    """What `data` holds. Errors: CUBIN_MALFORMED with exit code 1, for anything that cannot be read."""
    if not is_cubin(data):
        raise _malformed(name, "it does not start with a 64-bit CUDA ELF header")
    try:
        return _read(data)
    except (struct.error, IndexError, OverflowError, ValueError) as error:
        raise _malformed(name, f"damaged: {error}") from error


def _malformed(name: str, why: str) -> Exception:
    from tileiras.toolchain import diags

    return diags.fail(1, diags.one(diags.CUBIN_MALFORMED, name=name, why=why))


def _read(data: bytes) -> Cubin:
    sections = _sections(data)
    sm = _sm_number(data)
    cubin = Cubin(sm, f"sm_{sm}")
    by_name = {section.name: section for section in sections}
    if ".nv.compat" in by_name and _is_arch_specific(by_name[".nv.compat"].data):
        cubin.arch += "a"
    symbols = _symbols(sections)
    names = [symbol[0] for symbol in symbols]
    for symbol, kind, other, shndx, size in symbols:
        section = sections[shndx] if 0 < shndx < len(sections) else None
        if kind == _STT_FUNC and other & _STO_ENTRY and section is not None:
            cubin.kernels[symbol] = _kernel(symbol, size, sm, by_name)
        elif kind == _STT_OBJECT and section is not None and not symbol.startswith("$"):
            cubin.globals[symbol] = Global(symbol, size, section.name)
    if ".nv.info" in by_name:
        for attribute, value in _records(by_name[".nv.info"].data):
            if attribute in (_REGCOUNT, _MIN_STACK_SIZE, _MAX_STACK_SIZE) and len(value) >= 8:
                index, number = struct.unpack_from("<II", value)
                kernel = cubin.kernels.get(names[index]) if index < len(names) else None
                if kernel is None:
                    continue
                if attribute == _REGCOUNT:
                    kernel.registers = number
                else:
                    kernel.stack_bytes = max(kernel.stack_bytes, number if number < 1 << 31 else 0)
    host = by_name.get(".nv.host")
    if host is not None and len(host.data) >= 20:
        machine = int.from_bytes(host.data[18:20], "little")
        cubin.host = HOST_MACHINES.get(machine, f"machine {machine}")
    cubin.has_tile_metadata = "___NV_TILE_LAUNCH_META_DATA___" in cubin.globals
    cubin.toolkit = _toolkit(by_name)
    cubin.sections = {section.name: section.data for section in sections if section.name}
    return cubin


def _sm_number(data: bytes) -> int:
    """The target's number. ABI 7 keeps it in the low byte of the flags, ABI 8 in the second (with sm_NN >=
    100)."""
    abi = data[8]
    flags = int.from_bytes(data[48:52], "little")
    return flags >> 8 & 0xFF if abi >= 8 else flags & 0xFF


def _sections(data: bytes) -> list[_Section]:
    offset = struct.unpack_from("<Q", data, 40)[0]
    entry_size, count, strings = struct.unpack_from("<HHH", data, 58)
    if entry_size != 64:
        raise ValueError("section headers of an unknown size")
    rows = [struct.unpack_from("<IIQQQQIIQQ", data, offset + i * entry_size) for i in range(count)]
    if not rows:
        return []
    table = data[rows[strings][4] : rows[strings][4] + rows[strings][5]]
    found = []
    for row in rows:
        name, type, flags, _, at, size, link, info = row[:8]
        if type != _SHT_NOBITS and at + size > len(data):
            raise ValueError("a section reaches past the end of the file")
        content = b"" if type == _SHT_NOBITS else data[at : at + size]
        found.append(_Section(_string(table, name), type, flags, link, info, size, content))
    return found


def _string(table: bytes, at: int) -> str:
    return table[at : table.index(b"\0", at)].decode("utf-8")


def _symbols(sections: list[_Section]) -> list[tuple[str, int, int, int, int]]:
    """(name, type, other, section index, size) of every symbol, in order."""
    for section in sections:
        if section.type == _SHT_SYMTAB:
            table = sections[section.link].data
            found = []
            for at in range(0, len(section.data) - 23, 24):
                name, info, other, shndx, _, size = struct.unpack_from("<IBBHQQ", section.data, at)
                found.append((_string(table, name), info & 0xF, other, shndx, size))
            return found
    return []


def _records(data: bytes) -> Iterator[tuple[int, bytes]]:
    """(attribute, value) of each record of a `.nv.info` section."""
    at = 0
    while at + 4 <= len(data):
        form, attribute = data[at], data[at + 1]
        if form == 4:
            size = int.from_bytes(data[at + 2 : at + 4], "little")
            yield attribute, data[at + 4 : at + 4 + size]
            at += 4 + size
        elif form in (1, 2, 3):
            yield attribute, data[at + 2 : at + 4] if form != 1 else b""
            at += 4
        else:
            raise ValueError(f"record of unknown format {form}")


def _kernel(symbol: str, code_bytes: int, sm: int, by_name: dict[str, _Section]) -> Kernel:
    kernel = Kernel(symbol)
    kernel.code_bytes = code_bytes
    shared = by_name.get(f".nv.shared.{symbol}")
    if shared is not None:
        reserved = _RESERVED_SHARED_BYTES if sm >= _RESERVED_SHARED_SINCE else 0
        kernel.static_shared = max(0, shared.size - reserved)
    info = by_name.get(f".nv.info.{symbol}")
    if info is None:
        return kernel
    for attribute, value in _records(info.data):
        if attribute == _KPARAM_INFO and len(value) >= 12:
            _, ordinal, offset, packed = struct.unpack_from("<IHHI", value)
            # pointee alignment (8 bits), pointee space (4), constant bank (5), in registers (1), size (14)
            kernel.params.append(Param(ordinal, offset, packed >> 18, packed >> 8 & 0xF == 4))
        elif attribute == _KPARAM_INFO_V2 and len(value) >= 12:
            # what ptxas writes for every parameter of a kernel whose sizes do not fit the older record
            _, ordinal, offset, size = struct.unpack_from("<IHHH", value)
            kernel.params.append(Param(ordinal, offset, size, False))
        elif attribute in (_REQNTID, _MAX_THREADS, _CTA_PER_CLUSTER) and len(value) >= 12:
            shape = struct.unpack_from("<III", value)
            if attribute == _REQNTID:
                kernel.block = shape
            elif attribute == _MAX_THREADS:
                kernel.max_threads = shape
            elif all(shape):
                kernel.cluster = shape
        elif attribute == _NUM_BARRIERS and value:
            kernel.barriers = value[0]
        elif attribute == _LANGUAGE and len(value) >= 4:
            kernel.language = int.from_bytes(value[:4], "little")
    kernel.params.sort(key=lambda param: param.ordinal)
    return kernel


def _is_arch_specific(compat: bytes) -> bool:
    return any(
        attribute == _COMPAT_ACCELERATOR and value[:1] == b"\1" for attribute, value in _records(compat)
    )


def _toolkit(by_name: dict[str, _Section]) -> str:
    """The release in `.note.nv.tkinfo` ("13.4.92"), or ""."""
    note = by_name.get(".note.nv.tkinfo")
    if note is None:
        return ""
    at = note.data.find(b"release ")
    if at < 0:
        return ""
    from tileiras.toolchain.locate import parse_version

    return parse_version(note.data[at:].split(b"\0", 1)[0].decode("ascii", "replace"))
