"""``tileiras-build bytecode``: text or bytecode in, verified bytecode out; no GPU, no ptxas."""

from __future__ import annotations

from tileiras.diag import Catalogue
from tileiras.tools.build.arguments import ONE, Arguments, Flag, UsageError
from tileiras.tools.build.command import read_input
from tileiras.tools.build.depfile import READERS, text_of
from tileiras.tools.build.outputs import Outputs

diags = Catalogue("tileiras.tools.build.diags")

SYNOPSIS = "[--bytecode-version V] IN -o OUT.tilebc"
FLAGS = (
    Flag("-o", ONE, "the bytecode", "FILE"),
    Flag("--bytecode-version", ONE, "version to write; default that of the input", "V"),
    Flag("--depfile", ONE, "what the output was made from, in Make's form", "FILE"),
    Flag("--depfile-target", ONE, "the target in the depfile", "NAME"),
    Flag("--depfile-for", ONE, "who reads it: an error where that one cannot read a name", choices=READERS),
)
MAGIC = b"\x7fTileIR\0"


def run(arguments: Arguments, outputs: Outputs) -> None:
    """The verb."""
    if len(arguments.inputs) != 1 or not arguments.o:
        raise UsageError(diags.ONE_INPUT_AND_O)
    from tileiras.diag import CompileError
    from tileiras.tools.build import record

    source = arguments.inputs[0]
    history = record.open_record(arguments)
    data = read_input(source)
    if arguments.bytecode_version:
        check_version(arguments.bytecode_version)
    depfile = text_of(arguments, arguments.o, [source])
    outputs.declare(arguments.o)
    outputs.declare(arguments.depfile)
    try:
        outputs.put(arguments.o, to_bytecode(data, arguments.bytecode_version, source))
    except CompileError:
        history.failed()
        raise
    if arguments.depfile:
        outputs.put(arguments.depfile, depfile)
    outputs.commit()
    if history.path:
        from tileiras.toolchain.cache import source_digest

        history.wrote(
            [source], [arguments.o], record.options_of(arguments, FLAGS), {"tileiras": source_digest()}
        )


def check_version(version: str) -> None:
    """Errors: CompileError(3) for a version that nobody writes."""
    from tileiras.compiler.source import version_of
    from tileiras.diag import Sink

    version_of(version, Sink())


def is_bytecode(data: bytes) -> bool:
    """Whether `data` starts with the magic of Tile IR bytecode."""
    return data.startswith(MAGIC)


def to_bytecode(data: bytes, version: str | None, name: str) -> bytes:
    """`data` as verified bytecode; unchanged when it is bytecode already and no version is asked for."""
    from tileiras import Module
    from tileiras.compiler.source import load
    from tileiras.diag import Sink

    module = Module(load(data, Sink(), file=name), name)
    module.verify()
    if version is None and is_bytecode(data):
        return data
    return module.to_bytecode(version=version) if version else module.to_bytecode()


class EntryFacts:
    """What the source says of one entry: parameter types ("ptr<f32>", "i32") and where it was written."""

    def __init__(self, types: list[str], source: str) -> None:
        self.types = types
        self.source = source


def entry_facts(data: bytes, name: str = "") -> dict[str, EntryFacts]:
    """The entries of text or bytecode by symbol; positions in text are in `name`. Errors: CompileError."""
    from tileiras.compiler.source import load
    from tileiras.diag import Sink

    module = load(data, Sink(), file=name)
    found: dict[str, EntryFacts] = {}
    for op in module.regions[0].blocks[0].ops:
        if op.spec.full_name == "cuda_tile.entry":
            types = [_scalar(str(value.type)) for value in op.regions[0].blocks[0].args]
            source = f"{op.loc.file}:{op.loc.line}" if op.loc is not None and op.loc.file else ""
            found[str(op.attrs["sym_name"]).strip('"')] = EntryFacts(types, source)
    return found


def _scalar(text: str) -> str:
    """ "ptr<f32>" for "tile<ptr<f32>>": every parameter of an entry is a tile of rank 0."""
    return text[len("tile<") : -1] if text.startswith("tile<") and text.endswith(">") else text
