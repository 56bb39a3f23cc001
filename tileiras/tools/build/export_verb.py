"""``tileiras-build export``: cuTile Python source to bytecode, through the cuda-tile that is installed.

Runs in the interpreter that has cuda-tile (this one, or --python), loads the file by path, and calls
cuda.tile.compilation.export_kernel.  The depfile names the file and every module of the user's that it
imported, so an edit of a helper rebuilds the kernel.  A JSON matrix exports one kernel for many signatures in
one run.

A signature is a comma list of short forms: ``f32[2]`` an array of rank 2, ``f32[2]:16`` one whose address and
strides are divisible by 16, ``f32[2]@x`` one that may overlap others marked ``@x`` (unmarked arrays overlap
nothing), ``i32`` a scalar, ``=128`` a constant.  One that begins with a bracket is a
Python list, evaluated with ``ct`` and the names of cuda.tile.compilation.
"""

from __future__ import annotations

import os

from tileiras.diag import Catalogue
from tileiras.tools.build.arguments import MANY, ONE, SWITCH, Arguments, Flag, UsageError
from tileiras.tools.build.command import Failed, read_input, say
from tileiras.tools.build.depfile import READERS, text_of
from tileiras.tools.build.outputs import Outputs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

common = Catalogue("tileiras.tools.diags")
diags = Catalogue("tileiras.tools.build.diags")

SYNOPSIS = "KERNEL.py --entry F --signature S -o OUT.tilebc"
FLAGS = (
    Flag("-o", ONE, "the bytecode", "FILE"),
    Flag("--entry", ONE, "the kernel function in the file", "NAME"),
    Flag("--signature", MANY, "its parameters: 'f32[1],f32[1],=128'; several give several kernels", "S"),
    Flag("--symbol", MANY, "the symbol of each signature's kernel; default cuTile's own", "NAME"),
    Flag("--matrix", ONE, "JSON: values by name, and signature and symbol that use them as {name}", "FILE"),
    Flag("--arch", ONE, "GPU the kernel is for; needed below bytecode 13.3", "ARCH"),
    Flag("--bytecode-version", ONE, "version to write", "V"),
    Flag("--index-type", ONE, "type of extents and strides", choices=("i32", "i64"), default="i32"),
    Flag("--calling-convention", ONE, "cuTile's calling convention", "NAME", default="cutile_python_v1"),
    Flag("--file-prefix-map", MANY, "name files under OLD as NEW in source locations", "OLD=NEW"),
    Flag("--path", MANY, "a folder to import from, before the file's own", "DIR"),
    Flag("--python", ONE, "the interpreter that has cuda-tile; default this one", "EXE"),
    Flag("--depfile", ONE, "what the output was made from, in Make's form", "FILE"),
    Flag("--depfile-target", ONE, "the target in the depfile", "NAME"),
    Flag("--depfile-for", ONE, "who reads it: an error where that one cannot read a name", choices=READERS),
    Flag("--verbose", SWITCH, "say which kernels are exported"),
)

_DTYPES = {
    "bf16": "bfloat16",
    "e4m3": "float8_e4m3fn",
    "e5m2": "float8_e5m2",
    "i1": "bool_",
    "tf32": "tfloat32",
}


def run(arguments: Arguments, outputs: Outputs) -> None:
    """The verb."""
    if len(arguments.inputs) != 1 or not arguments.o or not arguments.entry:
        raise UsageError(diags.EXPORT_WORDS)
    if not arguments.signature and not arguments.matrix:
        raise UsageError(diags.EXPORT_SIGNATURE)
    if arguments.matrix and len(arguments.signature) > 1:
        raise UsageError(diags.EXPORT_MATRIX)
    if arguments.symbol and len(arguments.symbol) != len(arguments.signature):
        raise UsageError(diags.EXPORT_SYMBOLS)
    read_input(arguments.inputs[0])
    requests = _matrix(arguments) if arguments.matrix else _given(arguments)
    if arguments.arch:
        from tileiras.toolchain.arch import parse_arch

        parse_arch(arguments.arch)
    if arguments.bytecode_version:
        from tileiras.tools.build.bytecode_verb import check_version

        check_version(arguments.bytecode_version)
    _prefix_map(arguments, os.path.abspath(arguments.inputs[0]))
    text_of(arguments, arguments.o, [arguments.inputs[0]])  # what it imports is not known yet
    outputs.declare(arguments.o)
    outputs.declare(arguments.depfile)
    if arguments.python:
        _run_elsewhere(arguments)
        return
    source = os.path.abspath(arguments.inputs[0])
    from tileiras.tools.build import record

    history = record.open_record(arguments)
    try:
        data, modules = _export(arguments, source, requests)
    except Failed as error:
        if not error.of_line:
            history.failed()
        raise
    outputs.put(arguments.o, data)
    prerequisites = [source, *modules, *([arguments.matrix] if arguments.matrix else [])]
    if arguments.depfile:
        outputs.put(arguments.depfile, text_of(arguments, arguments.o, prerequisites))
    outputs.commit()
    history.wrote(prerequisites, [arguments.o], record.options_of(arguments, FLAGS), _tools())


def _run_elsewhere(arguments: Arguments) -> None:
    """The same in another interpreter, which gets this package by path and keeps its own cuda-tile."""
    import sys

    from tileiras.toolchain.run import run

    words: list[str] = []
    skip = False
    for word in arguments.words:
        if skip or word.startswith("--python="):
            skip = False
            continue
        if word == "--python":
            skip = True
            continue
        words.append(word)
    package_root = os.path.dirname(
        os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    )
    code = (
        "import sys; sys.path.append(sys.argv.pop(1)); from tileiras.tools.build import main; "
        "sys.exit(main(['export', *sys.argv[1:]]))"
    )
    env = dict(os.environ)
    done = run([os.path.abspath(arguments.python), "-c", code, package_root, *words], env=env)
    sys.stdout.write(done.stdout.decode("utf-8", "replace"))
    sys.stderr.write(done.stderr.decode("utf-8", "replace"))
    if done.error or done.signal:
        raise Failed(diags.PYTHON_DIED, done.status, python=arguments.python, how=done.how())
    if done.status != 0:
        raise Failed(None, done.status)
    if not os.path.exists(arguments.o):
        raise Failed(diags.PYTHON_SILENT, python=arguments.python, path=arguments.o)


class _Request:
    """One kernel to export."""

    def __init__(self, signature: str, symbol: str | None) -> None:
        self.signature = signature
        self.symbol = symbol


def _given(arguments: Arguments) -> list[_Request]:
    symbols = arguments.symbol or [None] * len(arguments.signature)
    return [_Request(signature, symbol) for signature, symbol in zip(arguments.signature, symbols)]


def _matrix(arguments: Arguments) -> list[_Request]:
    """One request for each row of the matrix; `--signature` stands for the signature of a matrix without one."""
    from tileiras.tools import kernel_matrix

    path = arguments.matrix
    try:
        matrix = kernel_matrix.read(path, read_input(path), kernel_matrix.PYTHON)
        template = matrix.signatures(matrix.signature or (arguments.signature or [""])[0], "--signature")
        return [
            _Request(matrix.filled(template, row), symbol)
            for symbol, row in matrix.units(arguments.entry).items()
        ]
    except kernel_matrix.NoMatrix as error:
        raise Failed(error.emitted.diag, **dict(error.emitted.facts)) from error


def _export(arguments: Arguments, source: str, requests: list[_Request]) -> tuple[bytes, list[str]]:
    """(bytecode, files of the user's modules that were imported)."""
    import importlib.util
    import io
    import sys

    try:
        import cuda.tile as ct
        from cuda.tile import compilation
    except ImportError as error:
        raise Failed(diags.NEEDS_CUTILE, python=sys.executable, why=error) from error
    sys.path[:0] = [*map(os.path.abspath, arguments.path), os.path.dirname(source)]
    before = set(sys.modules)
    name = os.path.splitext(os.path.basename(source))[0]
    if (
        name in sys.modules
    ):  # types.py, io.py: whoever imports that name means the module that is there already
        name += ".kernel"
    spec = importlib.util.spec_from_file_location(name, source)
    if spec is None or spec.loader is None:
        raise Failed(diags.NO_PYTHON_FILE, path=source)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    from tileiras.tools.build.codenames import CodeNames

    try:
        with CodeNames(_prefix_map(arguments, source)):
            spec.loader.exec_module(module)
    except (
        Exception,
        SystemExit,
    ) as error:  # a script that ends itself would end this build step with its code
        raise Failed(common.PYTHON_FAILED, path=source, why=f"{_in_short(error)}{_line_of(error)}") from error
    kernel = getattr(module, arguments.entry, None)
    if kernel is None:
        raise Failed(diags.NO_ENTRY, path=source, entry=arguments.entry)
    convention = getattr(compilation.CallingConvention, arguments.calling_convention, None)
    if convention is None:
        raise Failed(diags.CALLING_CONVENTION, name=arguments.calling_convention)
    signatures = []
    for request in requests:
        parameters = _parameters(request.signature, ct, compilation, arguments.index_type)
        _check_count(kernel, parameters, request.signature, arguments.entry)
        signatures.append(compilation.KernelSignature(parameters, convention(), symbol=request.symbol))
        if arguments.verbose:
            say(f"{arguments.entry}({request.signature}) -> {request.symbol or 'symbol of cuTile'}")
    out = io.BytesIO()
    gpu = None
    if arguments.arch:
        from tileiras.toolchain.arch import parse_arch

        gpu = parse_arch(arguments.arch).plain_name  # cuTile reads a number behind sm_
    try:
        compilation.export_kernel(
            kernel,
            signatures,
            out,
            gpu_code=gpu,
            output_format="tileir_bytecode",
            bytecode_version=arguments.bytecode_version,
        )
    except Exception as error:
        raise Failed(diags.EXPORT_REFUSED, entry=arguments.entry, why=_in_short(error)) from error
    return out.getvalue(), [*_imported(set(sys.modules) - before), *_frontend(ct)]


def _check_count(kernel: Any, parameters: list[Any], signature: str, entry: str) -> None:
    """cuda-tile says of a wrong number that zip() has a longer argument. Errors: Failed."""
    import inspect

    function = getattr(kernel, "_pyfunc", None)
    if not inspect.isfunction(function):
        return
    declared = list(inspect.signature(function).parameters)
    if len(declared) != len(parameters):
        raise Failed(
            diags.SIGNATURE_COUNT,
            entry=entry,
            signature=signature,
            count=len(parameters),
            wanted=len(declared),
            names=", ".join(declared),
        )


def _prefix_map(arguments: Arguments, source: str) -> list[tuple[str, str]]:
    pairs = []
    for word in arguments.file_prefix_map:
        old, equals, new = word.rpartition("=")
        if not equals or not old:
            raise UsageError(diags.PREFIX_MAP, option="--file-prefix-map", word=word)
        pairs.append((os.path.abspath(old), new))
    folders = [os.path.dirname(source), *map(os.path.abspath, arguments.path)]
    return [*pairs, *((folder, "") for folder in folders)]


def _in_short(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def _line_of(error: BaseException) -> str:
    """ " (k.py, line 3)": the last line of the user's that ran; "" where the error's own words say it."""
    frame = error.__traceback__
    found = ""
    while frame is not None:
        name = frame.tb_frame.f_code.co_filename
        if not name.startswith("<") and not os.path.abspath(name).startswith(os.path.dirname(__file__)):
            found = f" ({name}, line {frame.tb_lineno})"
        frame = frame.tb_next
    return "" if isinstance(error, SyntaxError) else found


def _imported(names: set[str]) -> list[str]:
    """Files of these modules that are the user's: not of the interpreter, not of an installed package."""
    import sys
    import sysconfig

    installed = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    # This package's folder alone: its checkout may hold kernels of the user's, such as the examples.
    package = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    roots = tuple(os.path.realpath(path) + os.sep for path in [*filter(None, installed), package])
    found = []
    for name in sorted(names):
        path = getattr(sys.modules.get(name), "__file__", None)
        if path and os.path.isfile(path) and not os.path.realpath(path).startswith(roots):
            found.append(os.path.abspath(path))
    return found


def _tools() -> dict[str, str]:
    import importlib.metadata
    import sys

    try:
        return {"cuda-tile": importlib.metadata.version("cuda-tile"), "python": sys.version.split()[0]}
    except importlib.metadata.PackageNotFoundError:
        return {}


def _frontend(ct: Any) -> list[str]:
    """The files that an installer writes anew with another cuda-tile, which exports other bytecode."""
    import importlib.metadata

    found = [ct.__file__] if getattr(ct, "__file__", None) else []
    try:
        found += [
            os.fspath(file.locate())
            for file in importlib.metadata.files("cuda-tile") or ()
            if file.name == "RECORD"
        ]
    except importlib.metadata.PackageNotFoundError:  # imported from a checkout
        pass
    return [path for path in found if os.path.isfile(path)]


def _parameters(signature: str, ct: Any, compilation: Any, index_type: str) -> list[Any]:
    """The constraints that a signature spells; see the top of this file."""
    text = signature.strip()
    if text.startswith("["):
        names = {name: getattr(compilation, name) for name in dir(compilation) if not name.startswith("_")}
        names |= {"ct": ct}
        try:
            return list(eval(text, {"__builtins__": {}}, names))
        except Exception as error:
            raise Failed(diags.SIGNATURE, signature=signature, why=_in_short(error), of_line=True) from error
    return [
        _parameter(word.strip(), signature, ct, compilation, index_type) for word in text.split(",") if word
    ]


def _parameter(word: str, signature: str, ct: Any, compilation: Any, index_type: str) -> Any:
    if word.startswith("="):
        import ast

        try:
            return ast.literal_eval(word[1:])
        except (ValueError, SyntaxError) as error:
            raise Failed(diags.SIGNATURE_CONSTANT, signature=signature, word=word, of_line=True) from error
    rest, _, group = word.partition("@")
    body, colon, divisor = rest.partition(":")
    kind, bracket, rank = body.partition("[")
    if not bracket:
        return compilation.ScalarConstraint(_dtype(kind, signature, ct))
    digits = rank.rstrip("]")
    if not rank.endswith("]") or not digits.isdecimal() or (colon and not divisor.isdecimal()):
        raise Failed(diags.SIGNATURE_ARRAY, signature=signature, word=word, of_line=True)
    if len(digits) > 2 or len(divisor) > 9:
        raise Failed(diags.SIGNATURE_RANK, signature=signature, word=word, of_line=True)
    ndim = int(digits)
    facts: dict[str, Any] = {}
    if colon:
        by = int(divisor)
        facts = {
            "base_addr_divisible_by": by,
            "shape_divisible_by": by,
            "stride_divisible_by": [by] * (ndim - 1) + [1],
            "stride_constant": [None] * (ndim - 1) + [1],
        }
    return compilation.ArrayConstraint(
        _dtype(kind, signature, ct),
        ndim,
        index_dtype=_dtype(index_type, signature, ct),
        stride_lower_bound_incl=0,
        alias_groups=(group,) if group else (),
        may_alias_internally=False,
        **facts,
    )


def _dtype(short: str, signature: str, ct: Any) -> Any:
    long = _DTYPES.get(short)
    if long is None and short[:1] in ("i", "u", "f") and short[1:].isdecimal():
        long = {"i": "int", "u": "uint", "f": "float"}[short[0]] + short[1:]
    found = getattr(ct, long or short, None)
    if found is None:
        raise Failed(diags.SIGNATURE_TYPE, signature=signature, name=short, of_line=True)
    return found
