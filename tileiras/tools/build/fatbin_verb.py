"""``tileiras-build fatbin``: images of several architectures in one container."""

from __future__ import annotations

import os

from tileiras.diag import Catalogue, CompileError
from tileiras.toolchain.fatbin import COMPRESS_MODES
from tileiras.tools.build.arguments import MANY, ONE, SWITCH, Arguments, Flag, UsageError
from tileiras.tools.build.command import Failed, read_input, say, show_all
from tileiras.tools.build.outputs import Outputs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from tileiras.toolchain.fatbin import Image
    from tileiras.toolchain.locate import Tool

diags = Catalogue("tileiras.tools.build.diags")

SYNOPSIS = "-o OUT.fatbin [--elf sm_90=FILE]... [--tileir compute_120=FILE]... [--ptx compute_90=FILE]..."

FLAGS = (
    Flag("-o", ONE, "the container", "FILE"),
    Flag("--elf", MANY, "a cubin", "ARCH=FILE"),
    Flag("--tileir", MANY, "Tile IR bytecode for this and later GPUs", "ARCH=FILE"),
    Flag("--ptx", MANY, "PTX for this and later GPUs", "ARCH=FILE"),
    Flag(
        "--compress",
        ONE,
        "compression; all but none are fatbinary's",
        choices=COMPRESS_MODES,
        default="default",
    ),
    Flag("--option", MANY, "handed to fatbinary as it is", "X"),
    Flag("--toolkit-root", ONE, "the CUDA toolkit to use", "DIR"),
    Flag("--verbose", SWITCH, "say what goes in"),
)
_PREFIX = {"elf": "sm_", "tileir": "compute_", "ptx": "compute_"}


def run(arguments: Arguments, outputs: Outputs) -> None:
    """The verb."""
    from tileiras.toolchain.fatbin import Image
    from tileiras.toolchain.locate import find_tool

    if not arguments.o:
        raise UsageError(diags.NO_CONTAINER)
    if arguments.inputs:
        raise UsageError(diags.IMAGE_FORM, word=arguments.inputs[0])
    images = []
    for kind in ("elf", "tileir", "ptx"):
        for entry in getattr(arguments, kind):
            label, path = _split(kind, entry)
            images.append(Image(kind, label, read_input(path)))
    if not images:
        raise UsageError(diags.NO_IMAGES)
    seen = set()
    for image in images:
        if (image.kind, image.arch) in seen:
            raise UsageError(diags.TWO_IMAGES, kind=image.kind, arch=f"{_PREFIX[image.kind]}{image.arch}")
        seen.add((image.kind, image.arch))
    root = arguments.toolkit_root
    if root and not os.path.isdir(root):
        raise Failed(diags.NO_TOOLKIT, root=root)
    outputs.declare(arguments.o)
    plain = arguments.compress == "none" and not arguments.option
    fatbinary = None if plain else find_tool("fatbinary", arguments.toolkit_root)
    if arguments.verbose:
        say(f"fatbinary: {fatbinary.path if fatbinary else 'not used'}; images: {images}")
    outputs.put(arguments.o, container(images, arguments.compress, fatbinary, arguments.option))
    outputs.commit()


def container(images: Sequence[Image], compress: str, tool: Tool | None, options: Sequence[str]) -> bytes:
    """The container. Errors: CompileError; Failed where it is fatbinary's options that it does not take."""
    from tileiras.toolchain.fatbin import make_fatbin

    try:
        return make_fatbin(images, compress, tool, options)
    except CompileError as error:
        if not options or tool is None:
            raise
        try:
            make_fatbin(images, compress, tool)
        except CompileError:
            raise error from None
        show_all(error)
        raise Failed(None, error.exit_code, of_line=True) from None


def _split(kind: str, entry: str) -> tuple[str, str]:
    from tileiras.archs import NUMBERS
    from tileiras.toolchain.arch import REAL, parse_archs

    name, equals, path = entry.partition("=")
    if not equals or not path:
        raise UsageError(diags.ARCH_IS_FILE, kind=kind, entry=entry)
    archs, _ = parse_archs(name, NUMBERS)
    wanted = [arch for arch in archs if (arch.kind == REAL) == (kind == "elf")]
    if len(wanted) != 1:
        raise UsageError(diags.ARCH_OF_IMAGE, kind=kind, name=name, prefix=_PREFIX[kind])
    return wanted[0].label, path
