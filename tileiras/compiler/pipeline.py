"""The order of every pass and lowering: the table of contents of the compiler.

cuda_tile -> nv_tileaa -> nv_tileas -> nvvm -> PTX text.

A pass is loaded when its turn comes and something it works on is there, so that a kernel pays for what it uses.
"""

from __future__ import annotations

import sys

from tileiras.diag import ERROR, EXIT_COMPILE, WORD_ERROR, Diag

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    from tileiras.compiler.ir.core import Op
    from tileiras.compiler.ir.passes import Context, Pass
    from tileiras.diag import Sink

SKIPPED = Diag(
    "PM-0005", ERROR, "the pass {name} cannot be skipped: '{user}' needs it", "pipeline", WORD_ERROR
)
"""
cause: `tileiras-opt --skip` names a pass that turns the operation in the message into something that later passes
understand.
remedy: Leave the pass in. docs/passes.md says which passes are optional: those that only make code better.

in: kernel
  $ tileiras-opt k.tileir --gpu-name=sm_90 --pipeline-to=tileas --skip=TileASSelectAtoms
      %a = constant <f16: 1.0> : tile<16x16xf16>
      %c = constant <f32: 0.0> : tile<16x16xf32>
-     %d = mmaf %a, %a, %c : tile<16x16xf16>, tile<16x16xf16>, tile<16x16xf32>
+     %d = addf %c, %c : tile<16x16xf32>
"""

STATIC_SHARED_BYTES = 48 * 1024  # what a block may have without opting in
PASSES = "tileiras.compiler.passes."
_SCALARS = frozenset(("cmpi", "exti", "select"))  # what chains of known scalars begin with
_FUNCTIONS = frozenset(("exp", "exp2", "tanh", "divf"))
_LOOPS = frozenset(("for", "loop"))
_PIPELINES = frozenset(("async.pipeline.create", "async.pipeline.produce_one", "async.pipeline.consume_one"))
_PRODUCTS = frozenset(("mmaf", "mmai", "mma_block_scaled"))
_UNSCALED = frozenset(("mmaf", "mmai"))  # scales would have to be turned and cut with the operands
_STAGED = frozenset(("load_shared",))
OPTIONAL: frozenset[str] = frozenset()  # nothing needs the pass
_RELEASES = frozenset(("bulk.release", "bulk.commit"))
_TMA = frozenset(("tiled_tma_load", "async.tiled_tma_load"))


class Row:
    """A pass in the pipeline: stage its result belongs to, name, file and class, op names it works on, least level.

    `needed`: names of ops that cannot do without it, None: the whole module. Not given: those that it works on.
    """

    __slots__ = ("cls", "file", "min_level", "name", "needed", "stage", "subject", "wish")

    def __init__(
        self,
        stage: str,
        name: str,
        file: str,
        cls: str,
        subject: frozenset[str] | None = None,
        min_level: int = 0,
        needed: frozenset[str] | None = None,
        wish: str = "",
    ) -> None:
        self.stage = stage
        self.name = name
        self.file = file
        self.cls = cls
        self.subject = subject
        self.wish = wish  # an entry of kernel specs that is a reason as well, above 1
        self.min_level = min_level
        self.needed = subject if needed is None else needed

    @property
    def optional(self) -> bool:
        """Whether code without the pass is right as well. Of a verifier: what it would refuse goes on."""
        return self.needed is not None and not self.needed

    def load(self, **options: Any) -> Pass:
        module = PASSES + self.file
        __import__(module)
        made: Pass = getattr(sys.modules[module], self.cls)(**options)
        return made


PIPELINE: tuple[Row, ...] = (
    # cuda_tile -> nv_tileaa: tensors and kernel specs
    Row("tileaa", "ConvertCudaTileToTileAA", "conversions", "ConvertCudaTileToTileAA"),
    Row("tileaa", "TileAAFoldScalars", "tileaa.fold_scalars", "FoldScalars", _SCALARS, 1, OPTIONAL),
    Row("tileaa", "TileAANarrowConditions", "tileaa.narrow_conditions", "NarrowConditions", frozenset(("exti",)), 1,
        OPTIONAL),
    Row("tileaa", "TileAALoopsToFor", "loops.loops_to_for", "LoopsToFor", frozenset(("loop",)), 1, OPTIONAL),
    Row("tileaa", "TileAAInlineOneStep", "loops.inline_one_step", "InlineOneStep", _PRODUCTS, 1, OPTIONAL),
    Row("tileaa", "TileAABreaksToBounds", "loops.breaks_to_bounds", "BreaksToBounds", frozenset(("if",)), 1, OPTIONAL),
    Row("tileaa", "TileAAUnswitchLoops", "loops.unswitch_loops", "UnswitchLoops", frozenset(("if",)), 1, OPTIONAL),
    Row("tileaa", "TileAANestTiles", "loops.nest_tiles", "NestTiles", frozenset(("if",)), 1, OPTIONAL),
    Row("tileaa", "TileAALoadWhereUsed", "loops.load_where_used", "LoadWhereUsed", _PRODUCTS, 1, OPTIONAL),
    Row("tileaa", "TileAALoadOnce", "loops.load_once", "LoadOnce", _PRODUCTS, 1, OPTIONAL),
    Row("tileaa", "TileAAJoinProducts", "loops.join_products", "JoinProducts", frozenset(("if",)), 1, OPTIONAL),
    Row("tileaa", "TileAALeaveOutSteps", "loops.leave_out_steps", "LeaveOutSteps", frozenset(("if",)), 1, OPTIONAL),
    Row("tileaa", "TileAARestAsLoop", "loops.rest_as_loop", "RestAsLoop", frozenset(("if",)), 1, OPTIONAL),
    Row("tileaa", "TileAABatchByBatch", "loops.batch_by_batch", "BatchByBatch", frozenset(("mmaf",)), 1, OPTIONAL),
    Row("tileaa", "TileAADropUnitBatch", "loops.drop_unit_batch", "DropUnitBatch", _PRODUCTS, 1, OPTIONAL),
    Row("tileaa", "TileAAWidenSums", "loops.widen_sums", "WidenSums", frozenset(("mmaf",)), 1, OPTIONAL),
    Row("tileaa", "TileAAStepOnce", "loops.step_once", "StepOnce", _PRODUCTS, 1, OPTIONAL),
    Row("tileaa", "TileAATransposeScores", "tileaa.transpose_scores", "TransposeScores", _PRODUCTS, 1, OPTIONAL),
    Row("tileaa", "TileAAChoosePadding", "loops.choose_padding", "ChoosePadding", _PRODUCTS, 1, OPTIONAL),
    Row("tileaa", "TileAARuntimeVersions", "loops.runtime_versions", "RuntimeVersions", _PRODUCTS, 1, OPTIONAL),
    Row("tileaa", "attachKernelSpecAttributes", "conversions", "AttachKernelSpecAttributes"),
    Row("tileaa", "TileAASplitBlocks", "loops.split_blocks", "SplitBlocks", frozenset(), 1, OPTIONAL,
        wish="num_cta_in_cga"),
    Row("tileaa", "TileAARunParts", "loops.run_parts", "RunParts", _PRODUCTS, 1, OPTIONAL),
    Row("tileaa", "TileAAMarkShortResults", "tileaa.short_results", "MarkShortResults", _FUNCTIONS, 1, OPTIONAL),
    Row("tileaa", "TileAAMarkExactIntegers", "tileaa.exact_integers", "MarkExactIntegers", frozenset(("itof",)), 1, OPTIONAL),
    Row("tileaa", "TileAAAgentVerifier", "tileaa.agent_verifier", "AgentVerifier", frozenset(("agent",)), 0, OPTIONAL),
    Row("tileaa", "TileAATurnFewRows", "loops.turn_few_rows", "TurnFewRows", _UNSCALED, 1, OPTIONAL),
    Row("tileaa", "TileAAShortenSteps", "loops.shorten_steps", "ShortenSteps", _PRODUCTS, 1, OPTIONAL),
    Row("tileaa", "TileAASplitDepth", "loops.split_depth", "SplitDepth", _UNSCALED, 1, OPTIONAL),
    Row("tileaa", "TileAAHalveRows", "loops.halve_rows", "HalveRows", _UNSCALED, 1, OPTIONAL),
    Row("tileaa", "TileAASumsBehind", "loops.sums_behind", "SumsBehind", _UNSCALED, 1, OPTIONAL),
    Row("tileaa", "TileAACutHugeTiles", "loops.cut_huge_tiles", "CutHugeTiles", None, 0, OPTIONAL),
    Row("tileaa", "TileAACutLongChains", "loops.cut_long_chains", "CutLongChains", None, 0, OPTIONAL),
    Row("tileaa", "TileAAStreamProducts", "loops.stream_products", "StreamProducts", _PRODUCTS, 0, OPTIONAL),
    # -> nv_tileas: layouts, asynchronous copies, pipelined loops
    Row("tileas", "ConvertTileAAToTileAS", "conversions", "ConvertTileAAToTileAS"),
    Row("tileas", "TileASHoistConversions", "tileas.hoist_conversions", "HoistConversions",
        _PRODUCTS, 1, OPTIONAL),
    Row("tileas", "TileASModuloSchedule", "tileas.modulo_schedule", "ModuloSchedule", _PRODUCTS, 1, OPTIONAL,
        wish="num_stages"),
    Row("tileas", "TileASStoreOperands", "tileas.store_operands", "StoreOperands", _PRODUCTS, 1, OPTIONAL),
    Row("tileas", "LowerTMALoadStoreToAsync", "tileas.lower_tma", "LowerTMALoadStoreToAsync", _TMA),
    Row("tileas", "TileASMaterializeAsync", "tileas.materialize_async", "MaterializeAsync", _PIPELINES),  # D08
    Row("tileas", "TileASMaterializeConvertLayout", "tileas.materialize_convert_layout", "MaterializeConvertLayout",
        frozenset(("convert_layout",))),  # D09
    Row("tileas", "TileASScheduleAnalysis", "tileas.schedule_analysis", "ScheduleAnalysis", _PIPELINES, 1),
    Row("tileas", "TileASMaterializeSchedule", "tileas.materialize_schedule", "MaterializeSchedule", _PIPELINES, 1),  # D10
    Row("tileas", "TileASUnspecializedPipeline", "tileas.unspecialized_pipeline", "UnspecializedPipeline", _LOOPS, 1,
        _PIPELINES),  # D11
    Row("tileas", "TileASOptimizePipelineRegion", "tileas.optimize_pipeline_region", "OptimizePipelineRegion",
        _PIPELINES, 1, OPTIONAL),  # D13
    Row("tileas", "TileASLowerPipelines", "tileas.lower_pipelines", "LowerPipelines", _PIPELINES),
    Row("tileas", "TileASWarpgroupProducts", "tileas.warpgroup_products", "WarpgroupProducts",
        _STAGED, 1, OPTIONAL),
    Row("tileas", "TileASTensorMemoryProducts", "tileas.tensor_memory_products", "TensorMemoryProducts",
        _STAGED, 1, OPTIONAL),
    Row("tileas", "TileASSelectAtoms", "tileas.select_atoms", "SelectAtoms", _PRODUCTS),
    Row("tileas", "TileASSliceProducts", "tileas.slice_products", "SliceProducts", _STAGED, 1, OPTIONAL),
    Row("tileas", "TileASJoinExchanges", "tileas.join_exchanges", "JoinExchanges", frozenset(("convert_layout",)), 1,
        OPTIONAL),
    Row("tileas", "TileASPlaceShared", "tileas.place_shared", "PlaceShared"),
    Row("tileas", "TileASAssignRoles", "tileas.assign_roles", "AssignRoles", _RELEASES, 1, OPTIONAL),
    Row("tileas", "TileASMulticast", "tileas.multicast", "Multicast", frozenset(("agent",)), 1, OPTIONAL),
    Row("tileas", "TileASTakeTurns", "tileas.take_turns", "TakeTurns", frozenset(("agent",)), 1, OPTIONAL),
    Row("tileas", "TileASUnmaskedSteps", "tileas.unmasked_steps", "UnmaskedSteps", frozenset(("select",)), 2, OPTIONAL),
    Row("tileas", "TileASAgentVerifier", "tileaa.agent_verifier", "RolesVerifier", frozenset(("agent",)), 0, OPTIONAL),
    Row("tileas", "TileIROperationAnalysis", "tileas.operation_analysis", "OperationAnalysis", None, 0, OPTIONAL),
    # -> nvvm: the code of one thread
    Row("tileas", "ConvertTileFuncToLLVM", "conversions", "ConvertTileFuncToLLVM"),
    Row("nvvm", "ConvertTileASToLLVM", "conversions", "ConvertTileASToLLVM"),
    Row("nvvm", "LimitRegisters", "nvvm.limit_registers", "LimitRegisters", None, 2, OPTIONAL),
    Row("nvvm", "KernelAttrPass", "nvvm.kernel_attr", "KernelAttrPass"),
    Row("nvvm", "ModuleVerifier", "nvvm.module_verifier", "ModuleVerifier", None, 0, OPTIONAL),
    Row("nvvm", "NVVMIRVerifier", "nvvm.ir_verifier", "NVVMIRVerifier", None, 0, OPTIONAL),
)  # fmt: skip
BY_NAME = {row.name: row for row in PIPELINE}
VERIFIERS = frozenset(("TileASAgentVerifier", "TileIROperationAnalysis"))  # of nv_tileas that becomes code
STAGES = ("tileaa", "tileas", "nvvm")


class Stages:
    """What each stage made, by name; `ptx` is the last."""

    __slots__ = ("nvvm", "ptx", "tileaa", "tileas")

    def __init__(self) -> None:
        self.tileaa: Any = None
        self.tileas: Any = None
        self.nvvm: Any = None
        self.ptx = ""


def rows_of(opt_level: int = 3, until: str = "nvvm") -> list[Row]:
    """The rows of a level, up to the end of a stage."""
    last = STAGES.index(until)
    return [r for r in PIPELINE if opt_level >= r.min_level and STAGES.index(r.stage) <= last]


def has_work(row: Row, context: Context) -> bool:
    """Whether something that a row works on may be in the module, or a kernel spec wishes for it."""
    if row.subject is None:
        return True
    from tileiras.compiler.ir.passes import functions_of, op_names

    if context.names is None:
        context.names = op_names(context.module)
    if not row.subject.isdisjoint(context.names):
        return True
    if not row.wish:
        return False
    from tileiras.compiler.dialects.nv_tileaa.kernel_spec import KEY

    return any((getattr(f.attrs.get(KEY), row.wish, None) or 1) > 1 for f in functions_of(context.module))


def loaded(rows: Iterable[Row], context: Context, skip: Iterable[str] = ()) -> Iterator[Pass]:
    """The passes of the rows, each loaded when its turn comes; a row without a subject in the module is left out, and so
    is an optional one that is to be skipped. Errors: CompileError, code 5, for a skipped one that something needs."""
    left_out = frozenset(skip)
    for row in rows:
        if has_work(row, context):
            if row.name not in left_out:
                yield row.load()
            elif (found := _needs(row, context)) is not None:
                name, loc = found
                context.sink.emit(SKIPPED, loc=loc, name=row.name, user=name)
                raise context.sink.fail(EXIT_COMPILE)


def _needs(row: Row, context: Context) -> tuple[str, Any] | None:
    """Name and place of what needs a pass: the first such op, or the whole module. None: nothing does."""
    module = context.module
    if row.optional:
        return None
    if not hasattr(module, "walk"):
        return "nvvm.module", None
    if row.needed is None:
        return module.spec.full_name, module.loc
    found = next((op for op in module.walk() if op.spec.name in row.needed), None)
    return None if found is None else (found.spec.full_name, found.loc)


def compile_module(
    module: Op,
    target: Any,
    sink: Sink,
    *,
    opt_level: int = 3,
    lineinfo: bool = False,
    device_debug: bool = False,
    rename: Callable[[str], str] = str,
    launch_abi: str = "tile",
    launch_metadata: bool = False,
    remarks: dict[str, str] | None = None,
    after: Callable[[str, Any], None] | None = None,
    verify_each: bool = False,
    skip: Iterable[str] = (),
    disable: Iterable[str] = (),
    tensor_maps: str = "none",
    trace: list[tuple[Any, ...]] | None = None,
    watch: Any = None,
    plugins: Iterable[str] = (),
) -> Stages:
    """PTX for a verified cuda_tile module. `after(pass name, IR)` is called behind every pass, last with "ptx".

    `launch_metadata`: the PTX is for a ptxas that takes the marks of tile kernels (see ptx/text.py).
    `remarks`: which optimisation remarks were asked for, kind -> category. `skip`: passes to leave out.
    `disable`: parts of the code generator to do without (`options.PARTS`). `tensor_maps`: who encodes the descriptors
    of bulk tensor copies (`options.TENSOR_MAPS`); passes read it from the target.
    `plugins`: names of passes of other packages, which run as well (plugins.py).
    `rename`: a source file's path as the debug information is to say it. `watch`: who is told which code each op became.
    Errors: CompileError, exit code 5; nothing behind the pass that failed has run.
    """
    from tileiras.compiler.ir.passes import Context, PassManager
    from tileiras.compiler.ptx.text import print_module
    from tileiras.compiler.target.sm import restricted

    stages = Stages()
    context = Context(module, restricted(target, opt_level, disable, tensor_maps), sink, opt_level)
    context.remarks = remarks
    context.trace = trace
    context.watch = watch
    if lineinfo or device_debug:
        from tileiras.compiler.nvvm.code import DebugTable

        context.debug = DebugTable(device_debug, rename)

    def done(name: str, ir: Any) -> None:
        row = BY_NAME.get(name)
        if row is not None:
            setattr(stages, row.stage, ir)
        if after is not None:
            after(name, ir)

    rows = rows_of(opt_level)
    if plugins:
        from tileiras.compiler import plugins as outside

        rows = outside.placed(rows, outside.rows(plugins, sink))
    manager = PassManager(loaded(rows, context, skip), context, verify_each=verify_each, after=done)
    if not manager.run() or sink.errors:
        raise sink.fail(EXIT_COMPILE)
    for fn in stages.nvvm.functions:
        if launch_abi == "simt" and fn.shared_bytes > STATIC_SHARED_BYTES:
            fn.dynamic_shared_bytes = fn.shared_bytes
    context.event("codegen", "ptx")
    stages.ptx = print_module(stages.nvvm, launch_metadata)
    done("ptx", stages.ptx)
    return stages
