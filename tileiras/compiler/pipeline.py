"""The order of every pass and lowering: the table of contents of the compiler.

cuda_tile -> nv_tileaa -> nv_tileas -> nvvm -> PTX text.

A pass is loaded when its turn comes and something it works on is there, so that a kernel pays for what it uses.
"""

from __future__ import annotations

import sys

from tileiras.diag import EXIT_COMPILE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    from tileiras.compiler.ir.core import Op
    from tileiras.compiler.ir.passes import Context, Pass
    from tileiras.diag import Sink

STATIC_SHARED_BYTES = 48 * 1024  # what a block may have without opting in
PASSES = "tileiras.compiler.passes."
_FUNCTIONS = frozenset(("exp", "exp2", "tanh", "divf"))
_LOOPS = frozenset(("for", "loop"))
_PIPELINES = frozenset(("async.pipeline.create", "async.pipeline.produce_one", "async.pipeline.consume_one"))
_STAGES = frozenset(("tt.num_stages", "mmaf", "mmai"))  # the first is noted by attachKernelSpecAttributes
_TMA = frozenset(("tiled_tma_load", "async.tiled_tma_load"))


class Row:
    """A pass in the pipeline: stage its result belongs to, name, file and class, op names it works on, level."""

    __slots__ = ("cls", "file", "min_level", "name", "stage", "subject")

    def __init__(
        self,
        stage: str,
        name: str,
        file: str,
        cls: str,
        subject: frozenset[str] | None = None,
        min_level: int = 0,
    ) -> None:
        self.stage = stage
        self.name = name
        self.file = file
        self.cls = cls
        self.subject = subject
        self.min_level = min_level

    def load(self, **options: Any) -> Pass:
        module = PASSES + self.file
        __import__(module)
        made: Pass = getattr(sys.modules[module], self.cls)(**options)
        return made


PIPELINE: tuple[Row, ...] = (
    # cuda_tile -> nv_tileaa: tensors and kernel specs
    Row("tileaa", "ConvertCudaTileToTileAA", "conversions", "ConvertCudaTileToTileAA"),
    Row("tileaa", "TileAALoopsToFor", "loops.loops_to_for", "LoopsToFor", frozenset(("loop",)), 1),
    Row("tileaa", "TileAARuntimeVersions", "loops.runtime_versions", "RuntimeVersions", frozenset(("mmaf", "mmai")), 1),
    Row("tileaa", "attachKernelSpecAttributes", "conversions", "AttachKernelSpecAttributes"),
    Row("tileaa", "TileAAMarkShortResults", "tileaa.short_results", "MarkShortResults", _FUNCTIONS, 1),
    Row("tileaa", "TileAAAgentVerifier", "tileaa.agent_verifier", "AgentVerifier", frozenset(("agent",))),
    Row("tileaa", "TileAAShortenSteps", "loops.shorten_steps", "ShortenSteps", frozenset(("mmaf", "mmai")), 1),
    # -> nv_tileas: layouts, asynchronous copies, pipelined loops
    Row("tileas", "ConvertTileAAToTileAS", "conversions", "ConvertTileAAToTileAS"),
    Row("tileas", "TileASHoistConversions", "tileas.hoist_conversions", "HoistConversions",
        frozenset(("mmaf", "mmai")), 1),
    Row("tileas", "TileASModuloSchedule", "tileas.modulo_schedule", "ModuloSchedule", _STAGES, 1),
    Row("tileas", "LowerTMALoadStoreToAsync", "tileas.lower_tma", "LowerTMALoadStoreToAsync", _TMA),
    Row("tileas", "TileASMaterializeAsync", "tileas.materialize_async", "MaterializeAsync", _PIPELINES),  # D08
    Row("tileas", "TileASMaterializeConvertLayout", "tileas.materialize_convert_layout", "MaterializeConvertLayout",
        frozenset(("convert_layout",))),  # D09
    Row("tileas", "TileASScheduleAnalysis", "tileas.schedule_analysis", "ScheduleAnalysis", _PIPELINES, 1),
    Row("tileas", "TileASMaterializeSchedule", "tileas.materialize_schedule", "MaterializeSchedule", _PIPELINES, 1),  # D10
    Row("tileas", "TileASUnspecializedPipeline", "tileas.unspecialized_pipeline", "UnspecializedPipeline", _LOOPS, 1),  # D11
    Row("tileas", "TileASOptimizePipelineRegion", "tileas.optimize_pipeline_region", "OptimizePipelineRegion",
        _PIPELINES, 1),  # D13
    Row("tileas", "TileASLowerPipelines", "tileas.lower_pipelines", "LowerPipelines", _PIPELINES),
    Row("tileas", "TileASWarpgroupProducts", "tileas.warpgroup_products", "WarpgroupProducts",
        frozenset(("load_shared",)), 1),
    Row("tileas", "TileASTensorMemoryProducts", "tileas.tensor_memory_products", "TensorMemoryProducts",
        frozenset(("load_shared",)), 1),
    Row("tileas", "TileASSliceProducts", "tileas.slice_products", "SliceProducts", frozenset(("load_shared",)), 1),
    Row("tileas", "TileIROperationAnalysis", "tileas.operation_analysis", "OperationAnalysis"),
    # -> nvvm: the code of one thread
    Row("tileas", "ConvertTileFuncToLLVM", "conversions", "ConvertTileFuncToLLVM"),
    Row("nvvm", "ConvertTileASToLLVM", "conversions", "ConvertTileASToLLVM"),
    Row("nvvm", "KernelAttrPass", "nvvm.kernel_attr", "KernelAttrPass"),
    Row("nvvm", "ModuleVerifier", "nvvm.module_verifier", "ModuleVerifier"),
    Row("nvvm", "NVVMIRVerifier", "nvvm.ir_verifier", "NVVMIRVerifier"),
)  # fmt: skip
BY_NAME = {row.name: row for row in PIPELINE}
STAGES = ("tileaa", "tileas", "nvvm")


class Stages:
    """What each stage made, by name; `ptx` is the last."""

    __slots__ = ("nvvm", "ptx", "tileaa", "tileas")

    def __init__(self) -> None:
        self.tileaa: Any = None
        self.tileas: Any = None
        self.nvvm: Any = None
        self.ptx = ""


def rows_of(opt_level: int = 3, until: str = "nvvm", skip: Iterable[str] = ()) -> list[Row]:
    """The rows of a level, up to the end of a stage."""
    last = STAGES.index(until)
    left_out = frozenset(skip)
    return [
        r
        for r in PIPELINE
        if opt_level >= r.min_level and STAGES.index(r.stage) <= last and r.name not in left_out
    ]


def loaded(rows: Iterable[Row], context: Context) -> Iterator[Pass]:
    """The passes of the rows, each loaded when its turn comes; a row without a subject in the module is left out."""
    for row in rows:
        if row.subject is None or context.names is None or not row.subject.isdisjoint(context.names):
            yield row.load()


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
    trace: list[tuple[Any, ...]] | None = None,
) -> Stages:
    """PTX for a verified cuda_tile module. `after(pass name, IR)` is called behind every pass, last with "ptx".

    `launch_metadata`: the PTX is for a ptxas that takes the marks of tile kernels (see ptx/text.py).
    `remarks`: which optimisation remarks were asked for, kind -> category. `skip`: passes to leave out.
    `rename`: a source file's path as the debug information is to say it.
    Errors: CompileError, exit code 5; nothing behind the pass that failed has run.
    """
    from tileiras.compiler.ir.passes import Context, PassManager
    from tileiras.compiler.ptx.text import print_module

    stages = Stages()
    context = Context(module, target, sink, opt_level)
    context.remarks = remarks
    context.trace = trace
    if lineinfo or device_debug:
        from tileiras.compiler.nvvm.code import DebugTable

        context.debug = DebugTable(device_debug, rename)

    def done(name: str, ir: Any) -> None:
        row = BY_NAME.get(name)
        if row is not None:
            setattr(stages, row.stage, ir)
        if after is not None:
            after(name, ir)

    manager = PassManager(
        loaded(rows_of(opt_level, skip=skip), context), context, verify_each=verify_each, after=done
    )
    if not manager.run() or sink.errors:
        raise sink.fail(EXIT_COMPILE)
    for fn in stages.nvvm.functions:
        if launch_abi == "simt" and fn.shared_bytes > STATIC_SHARED_BYTES:
            fn.dynamic_shared_bytes = fn.shared_bytes
    context.event("codegen", "ptx")
    stages.ptx = print_module(stages.nvvm, launch_metadata)
    done("ptx", stages.ptx)
    return stages
