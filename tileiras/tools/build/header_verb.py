"""``tileiras-build header``: C and C++ for one image: the bytes, a table of its kernels, a loader.

The generated pair needs no CUDA header and no CUDA library to compile and link; the driver is opened at run
time, or linked with -DTILEIRAS_LINK_CUDA.  Its text is a function of the image and the tables alone.  A file
whose content would not change keeps its time stamp, so what includes the header is not rebuilt when only code
changed.
"""

from __future__ import annotations

from tileiras.diag import Catalogue
from tileiras.tools.build.arguments import MANY, ONE, Arguments, Flag, UsageError
from tileiras.tools.build.command import Failed, read_input
from tileiras.tools.build.outputs import Outputs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.target.tensor_maps import TensorMap

diags = Catalogue("tileiras.tools.build.diags")

SYNOPSIS = "--prefix P --image FATBIN --json FILE... --header-out H --source-out C"
FLAGS = (
    Flag("--prefix", ONE, "first part of every C name", "P"),
    Flag("--namespace", ONE, "C++ namespace of the typed launchers; default the prefix (int: int_)", "N"),
    Flag("--language", ONE, "language of the source", choices=("C", "CXX"), default="C"),
    Flag("--embed", ONE, "how the image gets in", choices=("array", "incbin", "none"), default="array"),
    Flag("--image", ONE, "the container or cubin", "FILE"),
    Flag("--json", MANY, "the kernel table of each architecture in it", "FILE"),
    Flag("--header-out", ONE, "the header", "FILE"),
    Flag("--source-out", ONE, "the source", "FILE"),
    Flag("--include-as", ONE, "how the source includes the header; default its file name", "NAME"),
)

# Words that are C identifiers and no names in C++; the last line: what GCC defines as 1 unless told to be strict.
_NO_CXX_NAMES = frozenset(
    """
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t char32_t class compl
    concept const const_cast consteval constexpr constinit continue co_await co_return co_yield decltype default delete
    do double dynamic_cast else enum explicit export extern false float for friend goto if inline int long mutable
    namespace new noexcept not not_eq nullptr operator or or_eq private protected public register reinterpret_cast
    requires return short signed sizeof static static_assert static_cast struct switch template this thread_local throw
    true try typedef typeid typename union unsigned using virtual void volatile wchar_t while xor xor_eq
    std linux unix i386
    """.split()
)


class Variant:
    """One kernel on one architecture."""

    def __init__(self, arch: str, image_arch: str, row: dict[str, Any]) -> None:
        self.virtual = arch.startswith("compute_")
        self.exact = not self.virtual and image_arch.endswith("a")  # such an image runs on no other GPU
        self.label = arch.partition("_")[2]
        self.number = int(self.label.rstrip("af"))
        self.block = tuple(row["block"])
        self.cluster = tuple(row["cluster"])
        self.dynamic_shared = int(row["dynamic_shared"])
        hidden = row.get("hidden", ())
        self.maps: tuple[TensorMap, ...] = ()
        if hidden:
            from tileiras.compiler.target.tensor_maps import from_dict

            self.maps = tuple(map(from_dict, hidden))

    def launch(self) -> tuple[object, ...]:
        """What a launch must name."""
        return (self.block, self.dynamic_shared, self.maps)


class Entry:
    """One kernel over all architectures of the image."""

    def __init__(self, row: dict[str, Any]) -> None:
        self.symbol: str = row["symbol"]
        self.name: str = row["name"]
        self.params: list[dict[str, Any]] = row["params"]
        self.variants: list[Variant] = []

    @property
    def archs(self) -> str:
        """ "sm_80 sm_90 compute_90"."""
        return " ".join(f"{'compute' if v.virtual else 'sm'}_{v.label}" for v in self.variants)


class Unit:
    """All that the generated pair is made from."""

    def __init__(
        self,
        prefix: str,
        namespace: str,
        entries: list[Entry],
        host_arch: str,
        launch_abi: str,
        cpu: dict[str, Any] | None = None,
    ) -> None:
        self.prefix = prefix
        self.namespace = namespace
        self.entries = entries
        self.host_arch = host_arch
        self.launch_abi = launch_abi
        self.cpu = cpu  # the table that holds code for the CPU


def run(arguments: Arguments, outputs: Outputs) -> None:
    """The verb."""
    import os

    for name in ("prefix", "header_out", "source_out"):
        if not getattr(arguments, name):
            raise UsageError(diags.IS_NEEDED, option=f"--{name.replace('_', '-')}")
    if arguments.inputs:
        raise UsageError(diags.UNEXPECTED, word=arguments.inputs[0])
    prefix = arguments.prefix
    namespace = the_namespace(arguments.namespace, prefix)
    image = read_input(arguments.image) if arguments.image else b""
    read = [read_input(path) for path in arguments.json]
    outputs.declare(arguments.header_out, keep_if_same=True)
    outputs.declare(arguments.source_out, keep_if_same=True)
    try:
        unit = gather(prefix, namespace, list(zip(arguments.json, read)))
    except (AttributeError, KeyError, TypeError) as error:  # JSON of another kind
        raise Failed(
            diags.NO_TABLE, path="', '".join(arguments.json), why=f"{type(error).__name__}: {error}"
        ) from error
    if not arguments.image and (unit.cpu is None or any(entry.variants for entry in unit.entries)):
        raise UsageError(diags.IS_NEEDED, option="--image")
    if not arguments.image and arguments.embed == "incbin":
        raise UsageError(diags.NOTHING_EMBEDDED, rest=" (--image)")
    include = arguments.include_as or os.path.basename(arguments.header_out)
    header, source = texts(unit, image, arguments.image or "", include, arguments.embed)
    outputs.put(arguments.header_out, header)
    outputs.put(arguments.source_out, source)
    outputs.commit()


def the_namespace(given: str | None, prefix: str) -> str:
    """The namespace of the typed launchers. Errors: UsageError where it, or the prefix, is no name."""
    namespace = given or (prefix + "_" if prefix in _NO_CXX_NAMES else prefix)
    if not _is_identifier(prefix):
        raise UsageError(diags.PREFIX, prefix=prefix)
    if not all(_is_identifier(part) and part not in _NO_CXX_NAMES for part in namespace.split("::")):
        raise UsageError(diags.NAMESPACE, namespace=namespace)
    return namespace


def texts(unit: Unit, image: bytes, image_path: str, include: str, embed: str) -> tuple[bytes, bytes]:
    """(header, source)."""
    from tileiras.tools.build import ctext

    return ctext.header(unit).encode(), ctext.source(unit, image, include, embed, image_path).encode()


def _is_identifier(text: str) -> bool:
    return text.isascii() and text.isidentifier()


def gather(prefix: str, namespace: str, files: list[tuple[str, bytes]]) -> Unit:
    """The tables as one. Errors: Failed(1) where two architectures disagree about a kernel."""
    import json

    by_symbol: dict[str, Entry] = {}
    hosts: dict[str, None] = {}
    abis: dict[str, None] = {}
    tables: list[dict[str, Any]] = []
    for path, content in files:
        try:
            table = json.loads(content)
        except ValueError as error:
            raise Failed(diags.NO_TABLE, path=path, why=error) from error
        if not isinstance(table, dict):
            raise Failed(diags.NO_TABLE, path=path, why="an object is expected")
        tables += table.get("images", [table])
    if not tables:
        raise UsageError(diags.NO_TABLES)
    processors = [table for table in tables if table.get("arch") == "cpu"]
    if len(processors) > 1:
        raise Failed(diags.TWO_CPU_TABLES)
    for table in tables:
        if table.get("version") != 1 or "kernels" not in table:
            raise Failed(diags.TABLE_VERSION)
        hosts[table.get("host_arch") or ""] = None
        abis[table["launch_abi"]] = None
        for row in table["kernels"]:
            entry = by_symbol.setdefault(row["symbol"], Entry(row))
            if _layout(entry.params) != _layout(row["params"]):
                raise Failed(diags.OTHER_PARAMETERS, symbol=row["symbol"], arch=table["arch"])
            if any(_types(entry.params)[i] != kind for i, kind in enumerate(_types(row["params"]))):
                # One compiler knew the types, the other the sizes: keep the better knowledge.
                entry.params = max(entry.params, row["params"], key=_knowledge)
            if table in processors:
                continue
            variant = Variant(table["arch"], table.get("image_arch") or table["arch"], row)
            if any((v.virtual, v.label) == (variant.virtual, variant.label) for v in entry.variants):
                raise Failed(diags.TABLE_TWICE, symbol=row["symbol"], arch=table["arch"])
            entry.variants.append(variant)
    if len(abis) > 1:
        raise Failed(diags.TWO_ABIS)
    entries = [by_symbol[symbol] for symbol in sorted(by_symbol)]
    names = [entry.name for entry in entries]
    for entry in entries:
        entry.variants.sort(key=lambda variant: (variant.virtual, variant.number, variant.label))
        if names.count(entry.name) > 1:
            entry.name = entry.symbol
    return Unit(
        prefix,
        namespace,
        entries,
        " ".join(filter(None, hosts)),
        next(iter(abis)),
        next(iter(processors), None),
    )


def _layout(params: list[dict[str, Any]]) -> list[tuple[int, int]]:
    return [(param["offset"], param["size"]) for param in params]


def _types(params: list[dict[str, Any]]) -> list[str]:
    return [param["type"] for param in params]


def _knowledge(params: list[dict[str, Any]]) -> int:
    return sum(not kind.startswith("b") and kind != "ptr" for kind in _types(params))
