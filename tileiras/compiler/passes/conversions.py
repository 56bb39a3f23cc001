"""The conversions between dialects as passes: each replaces `context.module`."""

from __future__ import annotations

from tileiras.compiler.ir.analyses import Analyses
from tileiras.compiler.ir.passes import Context, Pass, mark_soft_failure
from tileiras.compiler.ir.types import TensorType
from tileiras.diag import ERROR, NO_CAPABILITY, NO_CAPABILITY_O2, WORD_ERROR, Diag

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

ILLEGAL = Diag(
    "AA-0302",
    ERROR,
    "'{name}' is not legal input of ConvertCudaTileToTileAA",
    "ConvertCudaTileToTileAA",
    WORD_ERROR,
)
"""
see: PM-0004

  $ tileiras-opt k.tileir --pass ConvertCudaTileToTileAA
- nv_tileas.module {sym_name = "m"} {
-   nv_tileas.func {sym_name = "k", function_type = () -> ()} {
-     nv_tileas.return
+ cuda_tile.module @m {
+   entry @k() {
+     return
      }
    }
"""

UNEXPECTED_TYPE = Diag(
    "AA-0303",
    ERROR,
    "unexpected type '{type}' of '{name}': a tile is a !cuda_tile.tile",
    "ConvertCudaTileToTileAA",
    WORD_ERROR,
)
"""
see: AA-0106

! A type of another dialect on an operation of cuda_tile: the reader and the parser give none, so only a pass of
one's own leads there.
"""


class ConvertCudaTileToTileAA(Pass):
    """Before: `cuda_tile.addf %a, %b : tile<8xf32>`. After: `nv_tileaa.addf %a, %b : tensor<8xf32>`."""

    NAME = "ConvertCudaTileToTileAA"
    SUMMARY = "Lift tiles to tensors and entries to functions"
    """
    does: lifts tiles to tensors, entries to functions; `tt.*` attributes stay as they are
    needed: cuda_tile.module
    """
    ANCHOR = "module"
    __slots__ = ()

    def run(self, module: Any, context: Context) -> bool:
        names: set[str] = set()
        for op in module.walk():
            spec = op.spec
            if spec.dialect != "cuda_tile":
                context.sink.emit(ILLEGAL, loc=op.loc, name=spec.full_name)
                return False
            names.add(spec.name)
            for result in op.results:
                if isinstance(result.type, TensorType):
                    context.sink.emit(UNEXPECTED_TYPE, loc=op.loc, name=spec.full_name, type=result.type)
                    return False
        from tileiras.compiler.lower import cuda_tile_to_tileaa

        target = context.target
        native = None
        if "mmaf_scaled" in names and target is not None:
            from tileiras.compiler.target.mma import find_scaled

            native = lambda *form: find_scaled(target, *form) is not None  # noqa: E731
        context.module = cuda_tile_to_tileaa.lower_module(module, native)
        if context.target is not None:
            context.module.attrs.setdefault("nv_tileaa.compute_capability", context.target.number)
        return True


class AttachKernelSpecAttributes(Pass):
    """Before: `module {tt.num_warps = 8}`. After: every function has `nv_tileaa.kernel_spec = {num_warps = 8, ...}`."""

    NAME = "attachKernelSpecAttributes"
    SUMMARY = "Fold launch attributes and hints into the kernel spec of every function"
    """
    does: folds `tt.*` attributes and hints into `nv_tileaa.kernel_spec` on every function
    needed: nv_tileaa.module
    """
    KEEPS_ANALYSES = True
    __slots__ = ()

    def run(self, func: Any, context: Context) -> bool:
        from tileiras.compiler.dialects.nv_tileaa.kernel_spec import KEY
        from tileiras.compiler.schedule.kernel_spec import kernel_spec

        errors = context.sink.errors
        func.attrs[KEY] = kernel_spec(func, context.analyses, context.module.attrs, context.sink)
        if context.remarks:
            from tileiras.compiler.schedule import hints

            hints.report(func, context)
        return context.sink.errors == errors


class ConvertTileAAToTileAS(Pass):
    """Before: `tensor<8xf32>`. After: `tensor<8xf32, #linear<...>>`, with convert_layout between what does not fit."""

    NAME = "ConvertTileAAToTileAS"
    SUMMARY = "Give every tensor a layout"
    """
    does: gives every tensor a layout, inserts `convert_layout`
    needed: nv_tileaa.module
    """
    ANCHOR = "module"
    __slots__ = ()

    def run(self, module: Any, context: Context) -> bool:
        from tileiras.compiler.lower import tileaa_to_tileas
        from tileiras.compiler.target import sm

        errors = context.sink.errors
        # without a capability the function boundary reports that
        analyses = context.analyses if context.target is not None else Analyses(sm.ROWS[80])
        if context.names is None or "mma_block_scaled" in context.names:
            say_why_not_tensor_memory(module, analyses, context)
        context.module = tileaa_to_tileas.lower_module(module, analyses, context.sink, module.attrs)
        if context.names is not None:
            context.names.add("convert_layout")  # this one makes them
        return context.sink.errors == errors


def say_why_not_tensor_memory(module: Any, analyses: Analyses, context: Context) -> None:
    """A remark on each product with block scales that tcgen05 could have issued."""
    from tileiras.compiler.dialects.nv_tileaa.kernel_spec import KEY
    from tileiras.compiler.dialects.nv_tileas.diags import NO_TENSOR_MEMORY
    from tileiras.compiler.layout.linear import log2
    from tileiras.compiler.schedule import tensor_memory
    from tileiras.compiler.schedule.loops import staged_products
    from tileiras.compiler.target import sm

    if not NO_TENSOR_MEMORY.wanted(context.remarks) or not analyses.target.has(sm.TCGEN05):
        return
    for func in [op for op in module.regions[0].block.ops if op.spec.name == "func" and KEY in op.attrs]:
        warps = log2(func.attrs[KEY].num_warps)
        chosen = tensor_memory.chosen(func, analyses, warps)
        for op in func.walk():
            if op.spec.name == "mma_block_scaled" and op not in chosen:
                plans = analyses.get(staged_products, func).get(op)
                reason = tensor_memory.unscaled_reason(op, plans, warps)
                reason = reason or "what its loop needs does not fit shared or tensor memory"
                context.remark(NO_TENSOR_MEMORY, op, reason=reason, function=func.attr("sym_name"))


class ConvertTileFuncToLLVM(Pass):
    """Before: `nv_tileaa.kernel_spec = {num_warps = 4}`. After: `nvvm.reqntid = [128, 1, 1]`, and the marker cute.kernel.

    An attribute that the function carries already stays as it is.
    """

    NAME = "ConvertTileFuncToLLVM"
    SUMMARY = "Project the kernel spec onto nvvm attributes of the function"
    """
    does: the kernel spec becomes `nvvm.*` attributes; needs a compute capability
    needed: nv_tileas.module
    """
    __slots__ = ()

    def run(self, func: Any, context: Context) -> bool:
        from tileiras.compiler.dialects.nv_tileaa.kernel_spec import KEY
        from tileiras.compiler.passes.tileas.place_shared import SHARED_BYTES
        from tileiras.compiler.schedule.kernel_spec import kernel_spec, max_registers
        from tileiras.compiler.target.cost import CostModel

        attrs = context.module.attrs
        if attrs.get("nv_tileaa.compute_capability") is None and attrs.get("nv_tileaa.target_spec") is None:
            context.sink.emit(NO_CAPABILITY if context.opt_level == 3 else NO_CAPABILITY_O2, loc=func.loc)
            return False
        spec = func.attrs.get(KEY) or kernel_spec(func, context.analyses, attrs)
        blocks = None
        if context.target is not None:
            blocks = CostModel(context.target).shared_blocks(func.attrs.get(SHARED_BYTES, 0))
        registers = max_registers(spec, blocks)
        if registers is not None and spec.occupancy is not None:  # a wish: spills cost more than blocks gain
            from tileiras.compiler.schedule.registers import least_registers

            registers = max(registers, least_registers(func))
        derived = {
            "nvvm.reqntid": spec.block,
            "nvvm.cluster_dim": tuple(spec.cluster_dim or (1, 1, 1)),
            "nvvm.maxnreg": registers,
            "nvvm.tile_ctas": spec.tile_ctas,
            "cute.kernel": True,
        }
        for name, value in derived.items():
            if value is not None:
                func.attrs.setdefault(name, value)
        return True


class ConvertTileASToLLVM(Pass):
    """Before: laid-out tensors. After: instruction records of one thread.

    An op that cannot be lowered is a soft failure and the walk goes on; the conversion as a whole fails when the
    result is no complete function.
    """

    NAME = "ConvertTileASToLLVM"
    SUMMARY = "Lower tensors to the code of one thread"
    """
    does: the code of one thread
    needed: nv_tileas.module
    """
    ANCHOR = "module"
    __slots__ = ("incomplete",)

    def run(self, module: Any, context: Context) -> bool:
        from tileiras.compiler.lower import tileas_to_nvvm

        errors = context.sink.errors
        if context.target is None:
            context.sink.emit(NO_CAPABILITY if context.opt_level == 3 else NO_CAPABILITY_O2)
            return False
        out, ok = tileas_to_nvvm.lower_module(
            module, context.target, context.sink, context.debug, context.remarks, context.watch
        )
        self.incomplete = not ok
        if not ok and context.sink.errors > errors:
            mark_soft_failure(self.record)  # every op has said why by now
        context.module = out
        return True

    def lift(self, module: Any, context: Context) -> bool:
        """The verifier behind the walk: a function that is not complete is no IR."""
        return self.incomplete
