"""Bundles images of several targets into one fatbin, and reads one back.

The container was established by comparing with fatbinary 13.4.92 and 13.5.37: 16 bytes of header (magic,
version, header size, size of what follows), then entries.  An entry is a header of 64 bytes, for all but old
ELF images an extension (offset and text of the command line, then a copy of the image's `.nv.compat`), and
the payload padded to 8 bytes.  So an uncompressed fatbin needs no tool of NVIDIA's, is the same bytes as
theirs, and can carry Tile IR where the toolkit's fatbinary is too old to (13.0 refuses `kind=tileir`).
Compression (zstd) is fatbinary's.
"""

from __future__ import annotations

import os
import struct

from tileiras.toolchain.catalog import ptxas_needed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from tileiras.toolchain.locate import Tool

_MAGIC = 0xBA55ED50
_HEADER = struct.Struct("<IHHQ")
_ENTRY = struct.Struct("<HHIQIIHHIIIQQQ")
_KINDS = {"ptx": 1, "elf": 2, "tileir": 0x80}
_KIND_NAMES = {number: name for name, number in _KINDS.items()}

_FLAG_64BIT = 0x1
_FLAG_LINUX = 0x10
_FLAG_ARCH_SPECIFIC = 0x100000  # 90a
_FLAG_FAMILY = 0x200000  # 100f
_FLAG_COMPAT = 0x1000000  # the extension holds .nv.compat
_COMPAT_SINCE = 100
_TILEIR = b"\x7fTileIR\0"
_TILEIR_HEADER = 10  # bytes: the last two are the version, which an entry repeats

COMPRESS_MODES = ("default", "size", "speed", "balance", "none")
TILEIR_SINCE = (13, 3)  # first release of fatbinary that takes kind=tileir: the first nvcc with a tile flow


class Image:
    """One entry: kind "elf", "ptx" or "tileir", the target's label ("90a"), and its bytes."""

    __slots__ = ("arch", "compressed", "data", "kind")

    def __init__(self, kind: str, arch: str, data: bytes, compressed: bool = False) -> None:
        if kind not in _KINDS:
            raise ValueError(f"unknown kind of image: {kind}")
        self.kind = kind
        self.arch = arch
        self.data = data
        self.compressed = compressed  # `data` is still in fatbinary's compression

    def __repr__(self) -> str:
        return f"Image({self.kind!r}, {self.arch!r}, {len(self.data)} bytes)"


def split_label(label: str) -> tuple[int, str]:
    """(90, "a") for "90a"."""
    suffix = label[-1] if label[-1:] in ("a", "f") else ""
    return int(label[: len(label) - len(suffix)]), suffix


def make_fatbin(
    images: Sequence[Image],
    compress: str = "default",
    fatbinary: Tool | None = None,
    options: Sequence[str] = (),
) -> bytes:
    """The container of `images`, in their order.

    `default` compresses as fatbinary does where one is given that knows all the entries, and else not at all:
    the images are the same either way. A mode that was asked for, and `options`, which are fatbinary's own,
    need fatbinary: CompileError(2) without it.
    """
    _check(images)
    if (compress == "none" and not options) or not images:
        return write_fatbin(images)
    if fatbinary is None or _too_old(fatbinary, images):
        if compress == "default" and not options:
            return write_fatbin(images)
        from tileiras.toolchain import diags

        if fatbinary is None:
            raise diags.fail(
                2, diags.one(diags.FATBIN_NO_COMPRESSION, mode=options[0] if options else compress)
            )
        needed = max([TILEIR_SINCE, *(ptxas_needed("sm_" + image.arch) for image in images)])
        raise diags.fail(
            2,
            diags.one(
                diags.TOOL_TOO_OLD,
                tool="fatbinary",
                version=fatbinary.version,
                path=fatbinary.path,
                need="bundle these images",
                needed=f"{needed[0]}.{needed[1]}",
            ),
        )
    return _run_fatbinary(fatbinary, images, compress, options)


def _check(images: Sequence[Image]) -> None:
    """An ELF image under another target's label would load on the wrong GPU or not at all."""
    from tileiras.toolchain import diags
    from tileiras.toolchain.cubin import is_cubin, read_cubin

    for image in images:
        number, _ = split_label(image.arch)
        if image.kind == "elf":
            if not is_cubin(image.data):
                raise diags.fail(
                    1, diags.one(diags.CUBIN_MALFORMED, name=f"elf image sm_{image.arch}", why="no cubin")
                )
            found = read_cubin(image.data).sm
            if found != number:
                raise diags.fail(
                    1, diags.one(diags.FATBIN_WRONG_ARCH, label=f"sm_{image.arch}", found=f"sm_{found}")
                )
        elif image.kind == "tileir" and not (
            image.data.startswith(_TILEIR) and len(image.data) >= _TILEIR_HEADER
        ):
            raise diags.fail(1, diags.one(diags.FATBIN_NOT_TILEIR, label=f"compute_{image.arch}"))
        elif image.kind == "ptx" and (b".version" not in image.data or max(_version(image.data)) > 0xFFFF):
            raise diags.fail(1, diags.one(diags.FATBIN_NOT_PTX, label=f"compute_{image.arch}"))


def _too_old(fatbinary: Tool, images: Sequence[Image]) -> bool:
    release = fatbinary.release
    if release is None:
        return False
    if any(image.kind == "tileir" for image in images) and release < TILEIR_SINCE:
        return True
    return any(release < ptxas_needed("sm_" + image.arch) for image in images)


def write_fatbin(images: Sequence[Image]) -> bytes:
    """The uncompressed container, byte for byte what `fatbinary --compress-mode=none` writes."""
    entries = b"".join(_entry(image) for image in images)
    return _HEADER.pack(_MAGIC, 1, _HEADER.size, len(entries)) + entries


def _entry(image: Image) -> bytes:
    number, suffix = split_label(image.arch)
    flags = _FLAG_64BIT | _FLAG_LINUX
    flags |= {"": 0, "a": _FLAG_ARCH_SPECIFIC, "f": _FLAG_FAMILY}[suffix]
    compat = b""
    extension = b""
    data = image.data
    major, minor = 1, 8
    if image.kind == "elf":
        if number >= _COMPAT_SINCE:
            from tileiras.toolchain.cubin import read_cubin

            compat = read_cubin(data).sections.get(".nv.compat", b"")
            flags |= _FLAG_COMPAT
    elif image.kind == "ptx":
        major, minor = _version(data)
        data = data.rstrip(b"\0") + b"\0"
    else:
        # bytecode version as one number, 0x0d04 for 13.4, from the two bytes after the magic
        major, minor = data[8] << 8 | data[9], 0
    if image.kind != "elf" or compat:
        # offset of the (empty) command line, size of the compatibility records, the two
        extension = struct.pack("<II", _ENTRY.size + 8, len(compat)) + b"\0" + compat
        extension += b"\0" * (-len(extension) % 8)
    data += b"\0" * (-len(data) % 8)
    header = _ENTRY.pack(
        _KINDS[image.kind],
        0x0101,
        _ENTRY.size + len(extension),
        len(data),
        0,
        _ENTRY.size if extension else 0,
        minor,
        major,
        number,
        0,
        0,
        flags,
        0,
        0,
    )
    return header + extension + data


def _version(ptx: bytes) -> tuple[int, int]:
    from tileiras.toolchain.ptxas import ptx_version

    return ptx_version(ptx[:4096].decode("utf-8", "replace")) or (0, 0)


def read_fatbin(data: bytes, name: str = "input") -> list[Image]:
    """The entries of a fatbin, in order. Errors: FATBIN_MALFORMED with exit code 1."""
    try:
        magic, version, header_size, size = _HEADER.unpack_from(data)
        if magic != _MAGIC or version != 1:
            raise ValueError("it does not start with a fatbin header")
        images = []
        at, end = header_size, header_size + size
        if end > len(data):
            raise ValueError("it is cut short")
        while at < end:
            row = _ENTRY.unpack_from(data, at)
            kind, entry_header, padded, compressed, number, flags = (
                row[0],
                row[2],
                row[3],
                row[4],
                row[8],
                row[11],
            )
            if entry_header < _ENTRY.size or at + entry_header + padded > end:
                raise ValueError("an entry reaches past the end")
            payload = data[at + entry_header : at + entry_header + padded]
            suffix = "a" if flags & _FLAG_ARCH_SPECIFIC else "f" if flags & _FLAG_FAMILY else ""
            is_compressed = compressed != 0
            if kind in _KIND_NAMES:
                payload = payload[:compressed] if is_compressed else payload
                images.append(Image(_KIND_NAMES[kind], f"{number}{suffix}", payload, is_compressed))
            at += entry_header + padded
        return images
    except (struct.error, ValueError) as error:
        from tileiras.toolchain import diags

        raise diags.fail(1, diags.one(diags.FATBIN_MALFORMED, name=name, why=str(error))) from error


def _run_fatbinary(fatbinary: Tool, images: Sequence[Image], compress: str, options: Sequence[str]) -> bytes:
    import tempfile

    from tileiras.toolchain import diags
    from tileiras.toolchain.run import run

    # Copies under names of our own: a comma in a path would split fatbinary's option.
    with tempfile.TemporaryDirectory(prefix="tileiras-") as folder:
        out = os.path.join(folder, "out.fatbin")
        argv = [fatbinary.path, f"--create={out}", "-64", f"--compress-mode={compress}"]
        for index, image in enumerate(images):
            path = os.path.join(folder, str(index))
            with open(path, "wb") as file:
                file.write(image.data)
            argv.append(f"--image3=kind={image.kind},sm={image.arch},file={path}")
        argv += options
        done = run(argv)
        if done.status != 0 or not os.path.exists(out):
            said = (done.stderr + done.stdout).decode("utf-8", "replace").splitlines()
            how = done.how() if done.status else "it wrote no file"
            raise diags.fail(
                5,
                *(diags.one(diags.TOOL_SAID, text=line) for line in said if line.strip()),
                diags.one(diags.FATBINARY_FAILED, path=fatbinary.path, how=how),
            )
        with open(out, "rb") as file:
            return file.read()
