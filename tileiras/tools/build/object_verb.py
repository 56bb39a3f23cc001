"""``tileiras-build object``: an image as an object file, written without any compiler.

The object defines P_image (aligned to 64 bytes), P_image_size and P_image_hash: what a source generated with
``--embed none`` leaves to the linker.  ELF for x86-64 and AArch64; other systems embed by ``header --embed
array``.
"""

from __future__ import annotations

import struct

from tileiras.diag import Catalogue
from tileiras.tools.build.arguments import ONE, Arguments, Flag, UsageError
from tileiras.tools.build.command import Failed, read_input
from tileiras.tools.build.outputs import Outputs

diags = Catalogue("tileiras.tools.build.diags")

SYNOPSIS = "--prefix P --image FATBIN -o OUT.o"
FLAGS = (
    Flag("-o", ONE, "the object file", "FILE"),
    Flag("--prefix", ONE, "first part of every symbol", "P"),
    Flag("--image", ONE, "the container or cubin", "FILE"),
    Flag("--host-arch", ONE, "processor of the machine that links; default this one", "ARCH"),
)
_MACHINES = {"x86_64": 62, "aarch64": 183}
_ALIGNMENT = 64


def run(arguments: Arguments, outputs: Outputs) -> None:
    """The verb."""
    from tileiras.toolchain.locate import host, normalize_host_arch

    if not (arguments.o and arguments.prefix and arguments.image) or arguments.inputs:
        raise UsageError(diags.OBJECT_WORDS)
    if not (arguments.prefix.isascii() and arguments.prefix.isidentifier()):
        raise UsageError(diags.PREFIX, prefix=arguments.prefix)
    arch = normalize_host_arch(arguments.host_arch or host()[0])
    if arch not in _MACHINES:
        raise Failed(diags.OBJECT_ARCH, arch=arch)
    image = read_input(arguments.image)
    outputs.declare(arguments.o, keep_if_same=True)
    outputs.put(arguments.o, write_object(arguments.prefix, image, _MACHINES[arch]))
    outputs.commit()


def write_object(prefix: str, image: bytes, machine: int) -> bytes:
    """A relocatable ELF file with one read-only section that holds the image, its size and its digest."""
    from tileiras.toolchain.digest import digest_bytes

    content = bytearray(image)
    content += b"\0" * (-len(content) % 8)
    size_at = len(content)
    content += len(image).to_bytes(8, "little")
    hash_at = len(content)
    content += digest_bytes(image).encode("ascii") + b"\0"

    names = bytearray(b"\0")
    symbols = bytearray(24)
    symbols += struct.pack("<IBBHQQ", 0, 3, 0, 1, 0, 0)  # the section itself, which some linkers expect
    for name, at, size in (
        (f"{prefix}_image", 0, len(image)),
        (f"{prefix}_image_size", size_at, 8),
        (f"{prefix}_image_hash", hash_at, len(content) - hash_at),
    ):
        symbols += struct.pack("<IBBHQQ", len(names), 1 << 4 | 1, 0, 1, at, size)
        names += name.encode("ascii") + b"\0"

    section_names = b"\0.rodata\0.symtab\0.strtab\0.shstrtab\0.note.GNU-stack\0"

    def name_at(name: bytes) -> int:
        return section_names.index(b"\0" + name + b"\0") + 1

    out = bytearray(64)  # the header, filled in below

    def place(data: bytes, alignment: int) -> int:
        out.extend(b"\0" * (-len(out) % alignment))
        at = len(out)
        out.extend(data)
        return at

    rodata = place(bytes(content), _ALIGNMENT)
    symtab = place(bytes(symbols), 8)
    strtab = place(bytes(names), 1)
    shstrtab = place(section_names, 1)
    rows = [
        (0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
        (name_at(b".rodata"), 1, 2, 0, rodata, len(content), 0, 0, _ALIGNMENT, 0),
        (name_at(b".symtab"), 2, 0, 0, symtab, len(symbols), 3, 2, 8, 24),
        (name_at(b".strtab"), 3, 0, 0, strtab, len(names), 0, 0, 1, 0),
        (name_at(b".shstrtab"), 3, 0, 0, shstrtab, len(section_names), 0, 0, 1, 0),
        # Without this the linker would give the whole program an executable stack.
        (name_at(b".note.GNU-stack"), 1, 0, 0, len(out), 0, 0, 0, 1, 0),
    ]
    headers = place(b"".join(struct.pack("<IIQQQQIIQQ", *row) for row in rows), 8)
    ident = b"\x7fELF\2\1\1" + bytes(9)
    out[:64] = ident + struct.pack(
        "<HHIQQQIHHHHHH", 1, machine, 1, 0, 0, headers, 0, 64, 0, 0, 64, len(rows), 4
    )
    return bytes(out)
