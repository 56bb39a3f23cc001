"""``tileiras-opt``: text in, named passes or the pipeline up to a stage, text out.

    tileiras-opt k.mlir                                    parse, verify, print
    tileiras-opt k.mlir --pipeline-to tileas --gpu-name sm_90
    tileiras-opt k.mlir --pass TileASMaterializeAsync,TileASUnspecializedPipeline
    tileiras-opt bad.mlir --split-input-file --verify-diagnostics

Every dialect of the compiler parses: cuda_tile, nv_tileaa, nv_tileas, cute, cute_nvgpu, nvvm. The pipeline starts where
the input stands. ``--verify-diagnostics`` compares what is emitted with comments in the input, as MLIR's tools do:

    // expected-error @+1 {{exti requires the result width}}

An expected error matches the text of the error or of one of its notes.
"""

from __future__ import annotations

import sys

from tileiras.diag import (
    ERROR,
    EXIT_COMPILE,
    EXIT_CONFIGURATION,
    UNREADABLE,
    Catalogue,
    CompileError,
    Diag,
    Refusal,
    Sink,
    UsageError,
    suggestion,
)
from tileiras.options import TENSOR_MAPS
from tileiras.terminal import refuse, show_all, take_words, until_broken_pipe
from tileiras.tools.pieces import SEPARATOR, read_input, refused_output, run_pieces, separator, write_output

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from tileiras.compiler.ir.passes import Pass
    from tileiras.compiler.pipeline import Row

diags = Catalogue("tileiras.tools.diags")
driver = Catalogue("tileiras.diags")

NAME = "tileiras-opt"
WRONG_LEVEL = Diag("OPT-0001", ERROR, "pass '{name}' works on {want}, but there is {got}", src="own")
"""
cause: A pass was given a module of another stage than the one it works on.
remedy: Run the passes before it first; `tileiras-opt --help` lists them in order.

in: kernel
- $ tileiras-opt k.tileir --pass KernelAttrPass
+ $ tileiras-opt k.tileir --pass ConvertCudaTileToTileAA
"""

USAGE = """\
usage: tileiras-opt [INPUT] [-o OUTPUT] [options]

  INPUT                        text or bytecode; - or nothing: standard input
  -o FILE                      output; - or nothing: standard output
  --pass A,B                   run these passes; options as A{name=value name}
  --pass-pipeline TEXT         the same in MLIR's nested form, builtin.module(..(A,B))
  --pipeline-to STAGE          run the pipeline up to tileaa, tileas, nvvm or ptx
  --gpu-name sm_NN             target (default: what the module says)
  -O N, --opt-level N          optimisation level 0 to 3 of the pipeline (default: 3)
  --skip A,B                   leave out these passes of the pipeline (repeatable); one that is needed is an error
  --plugin A,B                 run these passes of other installed packages as well (repeatable)
  --disable A,B                leave out parts of the generator: wgmma, tcgen05, bulk, arrivals, roles, turns, clusters, pairs,
                               cp.async
  --tensor-maps none|launcher  who encodes descriptors for bulk tensor copies (launcher: hidden parameters)
  --print-ir-after-all         print the IR behind every pass
  --print-ir-after A,B         print the IR behind these passes
  --verify-each                verify behind every pass (default); --no-verify-each
  --no-verify                  do not verify what was parsed
  --split-input-file           treat pieces between lines of '// -----' on their own
  --verify-diagnostics         compare diagnostics with expected-error, -warning, -remark and -note comments
  --allow-unregistered-dialect take ops of unknown dialects in generic form
  --generic                    print in MLIR's generic form (--mlir-print-op-generic)
  --debug                      print locations (--mlir-print-debuginfo)
  --Wunsupported-hints         warn about optimization hints nobody reads; --Werr-hints makes them errors
  --time-passes                print where the time went
  --list-passes                print the passes
  --color[=WHEN]               colour in messages: auto, always, never
  --diagnostic-codes           name the code of an error in a last note; a terminal always has it
  --version                    print the version of this program
  --help                       print this text"""

VALUES = {
    "-o": "output", "--output": "output", "--pass": "passes", "--passes": "passes", "--pipeline-to": "until",
    "--gpu-name": "gpu_name", "--arch": "gpu_name", "--opt-level": "opt_level", "-O": "opt_level",
    "--print-ir-after": "print_after", "--pass-pipeline": "pass_pipeline",
    "--skip": "skip", "--plugin": "plugins", "--disable": "disable", "--tensor-maps": "tensor_maps",
}  # fmt: skip
FLAGS: dict[str, tuple[str, bool]] = {
    "--print-ir-after-all": ("print_all", True), "--verify-each": ("verify_each", True),
    "--no-verify-each": ("verify_each", False), "--no-verify": ("verify", False), "--split-input-file": ("split", SEPARATOR),
    "--verify-diagnostics": ("expect", True), "--allow-unregistered-dialect": ("unregistered", True),
    "--generic": ("generic", True), "--mlir-print-op-generic": ("generic", True), "--debug": ("debug", True),
    "--Wunsupported-hints": ("warn_hints", True), "--Werr-hints": ("bad_hints", True),
    "--mlir-print-debuginfo": ("debug", True), "--no-implicit-module": ("plain", True), "--time-passes": ("times", True),
}  # fmt: skip
REPEATED = frozenset(("skip", "disable", "plugins"))  # what is said again is added
STAGES = ("tileaa", "tileas", "nvvm", "ptx")


class Arguments:
    """What the command line says."""

    def __init__(self) -> None:
        self.input = "-"
        self.output = "-"
        self.passes = ""
        self.pass_pipeline = ""
        self.until = ""
        self.gpu_name = ""
        self.opt_level = "3"
        self.print_after = ""
        self.skip = ""
        self.plugins = ""
        self.disable = ""
        self.tensor_maps = "none"
        self.print_all = False
        self.verify_each = True
        self.verify = True
        self.split = ""
        self.expect = False
        self.unregistered = False
        self.generic = False
        self.debug = False
        self.plain = False
        self.times = False
        self.warn_hints = False
        self.bad_hints = False


def parse_arguments(argv: Sequence[str]) -> Arguments | None:
    """The arguments, or None when the command only prints something. One dash does as well as two."""
    found = Arguments()
    given = False
    items = iter(argv)
    for arg in items:
        if arg == "-" or not arg.startswith("-"):
            if given:
                raise UsageError(diags.MORE_INPUTS, first=found.input, second=arg)
            found.input, given = arg, True
            continue
        name, equals, value = arg.partition("=")
        if name.startswith("-O") and len(name) == 3 and not equals:
            name, equals, value = "-O", "=", name[2]
        if name not in VALUES and not name.startswith("--"):
            name = "-" + name
        if name in VALUES:
            if not equals:
                value = next(items, "")
            if not value:
                raise UsageError(diags.NEEDS_VALUE, option=name)
            field = VALUES[name]
            before = getattr(found, field)
            setattr(found, field, f"{before},{value}" if before and field in REPEATED else value)
        elif name == "--split-input-file":
            found.split = separator(value, bool(equals))
        elif name in FLAGS:
            field, on = FLAGS[name]
            setattr(found, field, on if not equals else (value not in ("false", "0")) == on)
        elif name == "--version":
            from tileiras.version import __version__

            sys.stdout.write(f"{NAME} {__version__}\n")
            return None
        elif name in ("--help", "--h"):
            sys.stdout.write(USAGE + "\n")
            return None
        elif name == "--list-passes":
            sys.stdout.write(list_passes())
            return None
        else:
            raise diags.unknown_option(arg, USAGE)
    if found.until and found.until not in STAGES:
        raise UsageError(diags.OPT_PIPELINE_TO, known=", ".join(STAGES), value=found.until)
    if found.opt_level not in ("0", "1", "2", "3"):
        raise misconfigured(driver.BAD_OPT_LEVEL, level=found.opt_level)
    if found.tensor_maps not in TENSOR_MAPS:
        raise Refusal(diags.OPT_TENSOR_MAPS, value=found.tensor_maps, known=" or ".join(TENSOR_MAPS))
    if found.pass_pipeline:
        found.passes = ",".join(filter(None, (found.passes, *leaves(found.pass_pipeline))))
    if found.until and found.passes:
        raise UsageError(diags.OPT_PASS_OR_PIPELINE)
    if found.plugins and not found.until:
        raise UsageError(diags.OPT_PLUGIN_PIPELINE)
    if found.skip and not found.until:
        raise UsageError(diags.OPT_SKIP_PIPELINE)
    return found


def leaves(text: str) -> list[str]:
    """Pass names of MLIR's nested form, `builtin.module(cuda_tile.module(A,B))`: what no parenthesis follows."""
    found, name = [], ""
    depth = 0
    for c in text + ",":
        depth += {"{": 1, "}": -1}.get(c, 0)
        if depth or c not in "(),":
            name += c
            continue
        if c != "(" and name.strip():
            found.append(name.strip())
        name = ""
    return found


def list_passes() -> str:
    from tileiras.compiler.pipeline import PIPELINE

    return "".join(f"{row.name:34} {row.load().SUMMARY}\n" for row in PIPELINE)


def row_of(name: str) -> Row:
    """The row of a pass of ours, else of one that an installed package offers.

    Errors: UsageError; CompileError, code 2, for one from outside that cannot be used."""
    from tileiras.compiler.pipeline import BY_NAME

    found = BY_NAME.get(name)
    if found is None:
        from tileiras.compiler import plugins

        if not plugins.offered(name):
            raise UsageError(diags.OPT_UNKNOWN_PASS, name=name, hint=suggestion(name, list(BY_NAME)))
        (found,) = plugins.rows([name], Sink())
    return found


def words_of(text: str) -> list[str]:
    """The words between commas."""
    return [word.strip() for word in text.split(",") if word.strip()]


def check_parts(words: Iterable[str]) -> None:
    """Errors: Refusal, code 2, for a part that the code generator does not have."""
    from tileiras.options import PARTS

    for word in words:
        if word not in PARTS:
            raise Refusal(
                diags.OPT_UNKNOWN_PART, part=word, known=", ".join(PARTS), hint=suggestion(word, PARTS)
            )


def find_passes(text: str) -> list[Pass]:
    """The passes of `A,B{option=value}`. Errors: as `row_of`."""
    found = []
    for part in filter(None, split_passes(text)):
        name, brace, rest = part.partition("{")
        row = row_of(name.strip())
        options: dict[str, Any] = {}
        for option in rest.rstrip("} ").split() if brace else ():
            key, equals, value = option.partition("=")
            options[key] = value not in ("false", "0") if not equals or value in ("true", "false") else value
        try:
            found.append(row.load(**options))
        except KeyError as error:
            raise UsageError(diags.OPT_PASS_OPTION, name=row.name, option=error) from None
    return found


def split_passes(text: str) -> list[str]:
    """Items between commas that stand outside of braces."""
    parts, depth = [""], 0
    for c in text:
        depth += {"{": 1, "}": -1}.get(c, 0)
        if c == "," and not depth:
            parts.append("")
        else:
            parts[-1] += c
    return [p.strip() for p in parts]


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code: 0, 1 (usage, input, an expectation that was not met), 2 (target, options, output), 3 (bytecode), 5 (text,
    verifier, pass)."""
    return until_broken_pipe(_main, argv)


def _main(argv: Sequence[str] | None = None) -> int:
    try:
        arguments = parse_arguments(take_words(sys.argv[1:] if argv is None else argv, NAME))
        if arguments is None:
            return 0
        find_passes(arguments.passes)
        for name in (
            *words_of(arguments.skip),
            *words_of(arguments.plugins),
            *words_of(arguments.print_after),
        ):
            row_of(name)
        from tileiras.options import disabled_parts

        check_parts(disabled_parts(arguments.disable))
        if arguments.gpu_name:
            find_target(arguments.gpu_name)
    except Refusal as error:
        return refuse(error, NAME)
    except CompileError as error:
        return show_all(error)
    return run(arguments)


def find_target(name: str) -> Any:
    """Errors: CompileError, code 2, for a name that is no target."""
    from tileiras.compiler.target import sm

    found = sm.find(name)
    if found is None:
        raise misconfigured(driver.UNSUPPORTED_TARGET, name=name)
    return found


def misconfigured(diag: Diag, **facts: Any) -> CompileError:
    """What `tileiras` stops with where an option has such a value."""
    sink = Sink()
    sink.emit(diag, **facts)
    return sink.fail(EXIT_CONFIGURATION)


def run(arguments: Arguments) -> int:
    try:
        data = read_input(arguments.input)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        return refuse(UsageError(UNREADABLE, path=arguments.input, why=why))
    file = "<stdin>" if arguments.input == "-" else arguments.input
    if status := refused_output(arguments.output, arguments.input):
        return status

    def one(text: Any, start: int, sink: Sink) -> str:
        return work(text, start, file, arguments, sink)

    status, made = run_pieces(data, arguments.split, arguments.expect, file, one)
    if status:
        return status
    out = f"{SEPARATOR}\n".join(part or "" for part in made)
    return write_output(arguments.output, out.encode("utf-8", "surrogateescape"))


def work(text: Any, start: int, file: str, arguments: Arguments, sink: Sink) -> str:
    """Parse, verify, run, print. Errors: CompileError; the sink has said why."""
    from tileiras.compiler.ir.verify import verify

    ops = read(text, start, file, arguments, sink)
    if arguments.verify:
        good = [verify(op, sink) for op in ops]
        if arguments.warn_hints or arguments.bad_hints:
            from tileiras.compiler.dialects.cuda_tile.hints import check_hints

            for op in ops:
                check_hints(op, sink, errors=arguments.bad_hints)
        if not all(good) or sink.errors:
            raise sink.fail(EXIT_COMPILE)
    if not arguments.passes and not arguments.until:
        return "".join(show(op, arguments) for op in ops)
    module = only_module(ops)
    return transform(module, arguments, sink)


def read(text: Any, start: int, file: str, arguments: Arguments, sink: Sink) -> list[Any]:
    if isinstance(text, bytes):
        from tileiras.compiler.source import load

        return [load(text, sink, file=file)]
    from tileiras.compiler.ir.text import parse

    return parse("\n" * start + text, sink, file=file, allow_unregistered=arguments.unregistered)


def only_module(ops: list[Any]) -> Any:
    """The module to work on; several ops without one are the body of a cuda_tile.module."""
    if len(ops) == 1 and ops[0].spec.name == "module":
        return ops[0]
    from tileiras.compiler.dialects.cuda_tile.ops import BY_NAME
    from tileiras.compiler.ir.core import Block, Op, Region

    block = Block()
    for op in ops:
        block.append(op)
    return Op(BY_NAME["module"], attrs={"sym_name": "kernels"}, regions=[Region([block])])


def module_target(module: Any, gpu_name: str) -> Any:
    """The target of the option or of the module; None when neither says one."""
    from tileiras.compiler.target import sm

    capability = getattr(module, "attrs", {}).get("nv_tileaa.compute_capability")
    spec = getattr(module, "attrs", {}).get("nv_tileaa.target_spec")
    if capability is not None:
        name = f"sm_{getattr(capability, 'value', capability)}"
        return sm.find(gpu_name if gpu_name[:-1] == name and sm.find(gpu_name) else name)
    return sm.find(gpu_name or str(spec))


def first_row(module: Any) -> int:
    """Where the pipeline goes on from a module: behind the pass that made its dialect, or that wrote what its functions carry.
    A schedule that stands in the text is not made again."""
    from tileiras.compiler.ir.passes import functions_of
    from tileiras.compiler.pipeline import PIPELINE

    last = {
        "nv_tileaa": "ConvertCudaTileToTileAA", "nv_tileas": "ConvertTileAAToTileAS", "nvvm": "ConvertTileASToLLVM",
    }.get(module.spec.dialect)  # fmt: skip
    functions = functions_of(module) if module.spec.dialect == "nv_tileas" else []
    for attribute, writer in (
        ("nv_tileas.shared_bytes", "TileASPlaceShared"), ("nvvm.reqntid", "ConvertTileFuncToLLVM")
    ):  # fmt: skip
        if functions and all(attribute in function.attrs for function in functions):
            last = writer
        else:
            break
    return next((i + 1 for i, row in enumerate(PIPELINE) if row.name == last), 0)


def transform(module: Any, arguments: Arguments, sink: Sink) -> str:
    """Runs what was asked for. Errors: CompileError, code 5."""
    from tileiras.compiler import pipeline
    from tileiras.compiler.ir.passes import Context, PassManager
    from tileiras.compiler.target.sm import restricted
    from tileiras.options import disabled_parts

    target, level = module_target(module, arguments.gpu_name), int(arguments.opt_level)
    capability = getattr(module, "attrs", {}).get("nv_tileaa.compute_capability")
    if target is None and capability is not None:
        sink.emit(driver.UNSUPPORTED_TARGET, name=f"sm_{getattr(capability, 'value', capability)}")
        raise sink.fail(EXIT_COMPILE)
    if target is not None:
        target = restricted(target, level, disabled_parts(arguments.disable), arguments.tensor_maps)
    context = Context(module, target, sink, level)
    passes: Iterable[Pass]
    if arguments.passes:
        named = find_passes(arguments.passes)
        check_order(named, module, sink)
        passes = (p for p in named if p.AFTER or pipeline.has_work(pipeline.BY_NAME[p.NAME], context))
    else:
        until = "nvvm" if arguments.until == "ptx" else arguments.until
        rows = pipeline.rows_of(context.opt_level, until)
        first = first_row(module)
        rest = [row for row in rows if pipeline.PIPELINE.index(row) >= first]
        if (
            module.spec.dialect == "nv_tileas"
        ):  # what was written by hand is judged, however far it was brought
            rest[:0] = [row for row in rows if row.name in pipeline.VERIFIERS and row not in rest]
        if arguments.plugins:
            from tileiras.compiler import plugins

            rest = plugins.placed(rest, plugins.rows(words_of(arguments.plugins), sink))
        passes = pipeline.loaded(rest, context, words_of(arguments.skip))
    if module.spec.dialect == "nvvm":
        context.module = module.attrs["code"]
        context.target = context.target or context.module.target
    chosen = frozenset(split_passes(arguments.print_after)) if arguments.print_after else frozenset()

    def after(name: str, ir: Any) -> None:
        if arguments.print_all or name in chosen:
            sys.stderr.write(f"// -----// IR dump after {name} //----- //\n{show(ir, arguments)}")

    manager = PassManager(passes, context, verify_each=arguments.verify_each, after=after)
    ok = manager.run()
    if arguments.times:
        for name, seconds in manager.times:
            sys.stderr.write(f"{seconds * 1e3:9.3f} ms  {name}\n")
    if not ok:
        raise sink.fail(EXIT_COMPILE)
    if arguments.until == "ptx":
        from tileiras.compiler.nvvm.verify import printable
        from tileiras.compiler.ptx.text import print_module

        if not printable(context.module, sink):
            raise sink.fail(EXIT_COMPILE)
        return print_module(context.module)
    return show(context.module, arguments)


def check_order(passes: Iterable[Pass], module: Any, sink: Sink) -> None:
    """Passes over per-thread code come behind the one that makes it, the others before. Errors: CompileError, code 5."""
    from tileiras.compiler.pipeline import BY_NAME

    code = module.spec.dialect == "nvvm"
    for one in passes:
        row = BY_NAME[one.AFTER or one.NAME]
        if (row.file.startswith("nvvm.") or one.AFTER == "ConvertTileASToLLVM") != code:
            kinds = (
                ("per-thread code", "a module of ops") if not code else ("a module of ops", "per-thread code")
            )
            sink.emit(
                WRONG_LEVEL, loc=module.loc, name=one.NAME, want=kinds[0], got=kinds[1],
            )  # fmt: skip
            raise sink.fail(EXIT_COMPILE)
        code = code or one.NAME == "ConvertTileASToLLVM"


def show(ir: Any, arguments: Arguments) -> str:
    """The text of an op or of per-thread code."""
    if isinstance(ir, str):
        return ir
    from tileiras.compiler.ir.printer import print_op

    if not hasattr(ir, "regions"):
        from tileiras.compiler.dialects.nvvm.assembly import wrap

        return print_op(wrap(ir))
    generic = arguments.generic and ir.spec.dialect != "nvvm"
    return print_op(ir, generic=generic, debug=arguments.debug)


if __name__ == "__main__":
    sys.exit(main())
