"""nv_tileas and nvvm text for tests of passes and layers, and ways to run passes on it in this process."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tileiras.compiler import pipeline
from tileiras.compiler.ir.passes import Context, Pass, PassManager
from tileiras.compiler.ir.printer import print_op
from tileiras.compiler.ir.text import parse
from tileiras.compiler.target import sm
from tileiras.diag import Emitted, Sink

D08, D09, D10 = "TileASMaterializeAsync", "TileASMaterializeConvertLayout", "TileASMaterializeSchedule"
D11, D13 = "TileASUnspecializedPipeline", "TileASOptimizePipelineRegion"
ANALYSIS, TO_LLVM = "TileASScheduleAnalysis", "ConvertTileASToLLVM"
FAMILY = (D08, D09, D10, D11, D13, TO_LLVM)

LAYOUTS = """\
#s = #linear<0, lane = [0, 0, 0, 0, 0], warp = [0, 0]>
#b = #linear<7, lane = [1, 2, 4, 8, 16], warp = [32, 64]>
#r = #linear<7, lane = [4, 8, 16, 32, 64], warp = [1, 2]>
"""
S, P, V = "tensor<i32, #s>", "tensor<128xptr<f32>, #b>", "tensor<128xf32, #b>"
PIPE, TOKEN = "!nv_tileas.async.pipeline", "!cuda_tile.token"
WEAK = "{memory_ordering_semantics = weak, operandSegmentSizes = array<i32: 1, 0, 0, 0>}"
LOAD = f"%x, %t = nv_tileas.load_ptr_tko %p {WEAK} : {P} -> {V}, {TOKEN}"
COPY = f"%k = nv_tileas.make_token : () -> {TOKEN}\n%x, %t = nv_tileas.async.copy %p, %k : {P}, {TOKEN} -> {V}, {TOKEN}"
TMA = (
    f"%k = nv_tileas.make_token : () -> {TOKEN}\n%x, %t = nv_tileas.async.tiled_tma_load %desc, %k, %lo : "
    f"!nv_tileas.tma_descriptor<128xf32>, {TOKEN}, {S} -> {V}, {TOKEN}"
)
CREATE = f"nv_tileas.async.pipeline.create {{depth = 2}} : () -> {PIPE}"
YIELD = f"nv_tileas.async.pipeline.yield %x : {V}"


def function(
    body: str, name: str = "k", spec: str = "nv_tileaa.kernel_spec = {num_warps = 4}, ", attrs: str = ""
) -> str:
    """A function with scalars %lo, %hi, constants %one, %c7, pointers %p, a tensor %f and a descriptor %desc."""
    return f"""
  nv_tileas.func {{sym_name = "{name}", {spec}{attrs}function_type = () -> ()}} {{
  ^bb0(%lo: {S}, %hi: {S}, %p: {P}, %f: {V}, %desc: !nv_tileas.tma_descriptor<128xf32>):
    %one = nv_tileas.constant {{value = dense<1> : !cuda_tile.tile<i32>}} : () -> {S}
    %c7 = nv_tileas.constant {{value = dense<7> : !cuda_tile.tile<i32>}} : () -> {S}
{body}
    nv_tileas.return
  }}"""


def module(*functions: str, attrs: str = "nv_tileaa.compute_capability = 90 : i32") -> str:
    listed = f", {attrs}" if attrs else ""
    return LAYOUTS + f'nv_tileas.module {{sym_name = "m"{listed}}} {{{"".join(functions)}\n}}\n'


def loop(body: str, step: str = "%one") -> str:
    """A loop without carried values. `%hi` as the step makes one that cannot be pipelined."""
    return (
        f"nv_tileas.for %lo, %hi, {step} : {S}, {S}, {S} {{\n^bb0(%i: {S}):\n{body}\nnv_tileas.continue\n}}"
    )


GOOD_LOOP = loop(LOAD)
BAD_LOOP = loop(LOAD, step="%hi")


def transfer(name: str = "%q", producer: str = LOAD, result: str = "%v") -> str:
    return f"{result} = nv_tileas.async.pipeline.transfer {name} : {PIPE} -> {V} {{\n{producer}\n{YIELD}\n}}"


def produce(name: str = "%q", producer: str = LOAD) -> str:
    return f"nv_tileas.async.pipeline.produce_one {name} : {PIPE} {{\n{producer}\n{YIELD}\n}}"


def consume(name: str = "%q", type: str = V, result: str = "%v") -> str:
    return (
        f"{result} = nv_tileas.async.pipeline.consume_one {name} : {PIPE} -> {type} {{\n^bb0(%a: {type}):\n"
        f"nv_tileas.async.pipeline.yield %a : {type}\n}}"
    )


PIPELINED = module(function(f"%q = {CREATE}\n" + loop(transfer())))
REFUSED_PIPELINE = module(function(f"%q = {CREATE}\n" + loop(transfer(), step="%hi")))
CONFLICT = module(
    function(f"%q = {CREATE}\n" + loop(transfer(producer=TMA) + "\n" + transfer(producer=COPY, result="%w")))
)
# A way from one layout to the other that no plan has: eight elements more on the right.
NO_WAY = module(
    function(
        f"%w = nv_tileas.convert_layout %f : {V} -> "
        "tensor<128xf32, #linear<7, lane = [0, 2, 4, 8, 16], warp = [32, 64], inv = 1>>"
    )
)


class Run:
    """What a run of passes left."""

    def __init__(self, ok: bool, manager: PassManager, sink: Sink) -> None:
        self.ok = ok
        self.manager = manager
        self.context = manager.context
        self.sink = sink
        self.trace: list[tuple[Any, ...]] = manager.context.trace or []

    @property
    def texts(self) -> list[str]:
        return [emitted.text for emitted in self.sink.emitted]

    @property
    def emitted(self) -> list[Emitted]:
        return self.sink.emitted

    @property
    def ir(self) -> str:
        return print_op(self.context.module)

    def word(self, name: str, function: str = "k") -> int:
        found = self.manager.lookup(name, function)
        assert found is not None, f"{name} did not run on {function}"
        return found.word

    def started(self) -> list[str]:
        return [event[1] for event in self.trace if event[0] == "pass"]


def load(text: str, sink: Sink | None = None) -> Any:
    """The one module of a text, located in k.mlir."""
    (found,) = parse(text, sink or Sink(), file="k.mlir")
    return found.attrs["code"] if found.spec.dialect == "nvvm" else found


def passes(context: Context, *names: str | Pass) -> Iterator[Pass]:
    """Passes as they are, and rows of the pipeline that have something to work on when their turn comes."""
    for name in names:
        if isinstance(name, Pass):
            yield name
        elif pipeline.has_work(pipeline.BY_NAME[name], context):
            yield pipeline.BY_NAME[name].load()


def run(
    text: str | Any, *names: str | Pass, target: str | None = "sm_90", verify_each: bool = True, sink: Sink | None = None,
    required: frozenset[str] = frozenset(), opt_level: int = 3,
) -> Run:  # fmt: skip
    sink = sink or Sink()
    module_ = load(text) if isinstance(text, str) else text
    context = Context(module_, sm.find(target) if target else None, sink, opt_level)
    context.trace = []
    manager = PassManager(passes(context, *names), context, verify_each=verify_each, required=required)
    return Run(manager.run(), manager, sink)
