"""ConvertTileASToLLVM: per-thread code from laid-out tensors, one file per op family.

Every op is looked up by name; what fails to lower is reported with its location and the walk goes on, so that
one run shows every problem.
"""

from __future__ import annotations

import sys

from tileiras.compiler.dialects.nv_tileaa.kernel_spec import KEY, KernelSpec
from tileiras.compiler.ir.dense import dense_bits, num_elements
from tileiras.compiler.ir.passes import report_fatal_error
from tileiras.compiler.ir.types import Ptr
from tileiras.compiler.nvvm.build import _sym
from tileiras.compiler.nvvm.code import Addr, Function, Module, Var
from tileiras.compiler.nvvm.inst import NoInstruction
from tileiras.compiler.target.registers import reg_class
from tileiras.diag import ERROR, Diag, FatalError

from . import arith, control, memory, shape, views
from . import convert as convert_layout
from .coming import is_patient
from .state import Lowering, LoweringError, Tile, elem_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from tileiras.compiler.ir.core import Op
    from tileiras.compiler.nvvm.code import DebugTable

UNSUPPORTED = Diag("NVVM-0001", ERROR, "has no lowering for {target}: {reason}", src="ConvertTileASToLLVM")
"""
cause: An operation or parameter has no form on this GPU, or a rule of the code for one thread is broken.
remedy: Read the reason in the message: another target may have the feature, or another type of operand. If neither
applies, report the kernel, made small with `tileiras-reduce`.

in: kernel(%p: tile<ptr<f32>>, %n: tile<i32>)
      %z = constant <i32: 0> : tile<i32>
      %tv = make_tensor_view %p, shape = [%n, 64], strides = [64, 1] : tile<i32> -> tensor_view<?x64xf32, strides=[64,1]>
      %pv = make_partition_view %tv : partition_view<tile=(4x8), tensor_view<?x64xf32, strides=[64,1]>>
-     %u = constant <i64: 0> : tile<i64>
-     %v = int_to_ptr %u : tile<i64> -> tile<ptr<i32, <multicast>>>
-     %w = make_tensor_view %v, shape = [64, 64], strides = [64, 1] : tile<ptr<i32, <multicast>>> -> tensor_view<64x64xi32, strides=[64,1], #cuda_tile.ptr_attr<multicast>>
-     %y = make_partition_view %w : partition_view<tile=(4x8), tensor_view<64x64xi32, strides=[64,1], #cuda_tile.ptr_attr<multicast>>>
-     %r, %s = multimem_load_reduce_view_tko weak %y[%n, %z] : partition_view<tile=(4x8), tensor_view<64x64xi32, strides=[64,1], #cuda_tile.ptr_attr<multicast>>>, tile<i32> -> tile<4x8xi32>, token
+     %r, %s = load_view_tko weak %pv[%n, %z] : partition_view<tile=(4x8), tensor_view<?x64xf32, strides=[64,1]>>, tile<i32> -> tile<4x8xf32>, token
"""  # noqa: E501

PARAM_TYPE = Diag("NVVM-0002", ERROR, "entry argument {index} of type '{type}' cannot be a kernel parameter")
"""
see: NVVM-0001

  cuda_tile.module {
-   entry @k(%p: !cuda_tile.tensor_view<?xf32, strides=[1]>) {
+   entry @k() attributes {cute_nvgpu.note = 1 : i32} {

      return
    }
  }
"""


LOWER: dict[str, Callable[[Lowering, Op], None]] = {
    **arith.LOWER,
    **shape.LOWER,
    **views.LOWER,
    **memory.LOWER,
    **control.LOWER,
    "convert_layout": convert_layout.lower_convert_layout,
    "convert_layouts": convert_layout.lower_convert_layouts,
}

# Families whose files are only loaded when a kernel uses them. An op that is not named here is looked for in all of them.
LAZY = {}
for _family, _names in {
    "mma": ("mmaf", "mmai", "mma_block_scaled"),
    "reduce": ("reduce",),
    "math.basic": ("divf", "sqrt", "rsqrt", "ceil", "floor"),
    "math.exponential": ("exp", "exp2", "log", "log2", "sinh", "cosh", "tanh"),
    "math.trigonometric": ("sin", "cos", "tan", "atan2"),
    "math.power": ("fpowf", "fpowi"),
    "math.remainder": ("remf",),
    "casts": ("ftof", "ftoi", "itof", "exti", "trunci", "bitcast", "pack", "unpack"),
    "atomics": ("atomic_rmw_tko", "atomic_cas_tko", "atomic_red_view_tko", "memory_fence_alias_tko"),
    "scan": ("scan",),
    "blocks": ("extract", "insert", "cat"),
    "staging": ("alloc_shared", "free_shared", "clear_shared", "load_shared", "store_shared", "async.copy_view",
                "async.copy_pointers",
                "async.commit_group", "async.wait_group"),
    "bulk": ("bulk.begin", "bulk.load", "bulk.wait", "bulk.acquire", "bulk.release", "bulk.commit",
             "bulk.end", "async.arrive"),
    "roles": ("agent",),
    "tensor_memory": ("tensor_memory.alloc", "tensor_memory.free", "tensor_memory.begin", "tensor_memory.end",
                      "tensor_memory.wait", "tensor_memory.turn", "tensor_memory.acquire", "tensor_memory.commit",
                      "tensor_memory.release", "tensor_memory.stored", "tensor_memory.wait_stored"),
    "tensor_memory_moves": ("tensor_memory.store", "tensor_memory.load", "tensor_memory.scale", "tensor_memory.store_rows"),
    "tensor_memory_products": ("tensor_memory.product", "tensor_memory.product_rows"),
    "tensor_memory_scaled": ("tensor_memory.product_scaled",),
    "wgmma": ("wgmma", "wgmma.registers", "wgmma.commit_group", "wgmma.wait_group", "turns.begin", "turns.take", "turns.give",
              "turns.end"),
    "local": ("local_alloc", "local_write", "local_read", "local_read_all"),
    "system": ("print_tko", "assert", "get_global", "alloca", "gdc_launch_dependents_tko", "gdc_wait_tko"),
}.items():  # fmt: skip
    LAZY.update(dict.fromkeys(_names, _family))


def lower_op(lowering: Lowering, op: Op) -> None:
    """Append the code of one op. One that fails is reported; what depends on it is left out without a word."""
    if lowering.failed and not lowering.lost.isdisjoint(op.operands):
        lowering.lost.update(op.results)
        return
    rule = LOWER.get(op.spec.name) or _loaded(op.spec.name)
    if rule is None:
        return lose(lowering, op, f"unknown op '{op.spec.full_name}'")
    if lowering.coming and not is_patient(op):
        lowering.bring()
    if lowering.positions is not None:
        lowering.positions.mark(op.loc, lowering.b.code)
    try:
        if lowering.observer is None:
            rule(lowering, op)
        else:
            lowering.observer.watch(op, rule)
    except LoweringError as error:
        lose(lowering, op, error.reason)
    except NoInstruction as error:  # not the input's fault, and nothing behind it can be trusted
        raise report_fatal_error(f"Cannot select: {error.opcode}") from error


def _loaded(name: str) -> Callable[[Lowering, Op], None] | None:
    """The lowering of an op whose family is not loaded yet; None where no family has it."""
    for family in (LAZY[name],) if name in LAZY else dict.fromkeys(LAZY.values()):
        module = f"{__name__}.{family}"
        __import__(module)
        LOWER.update(sys.modules[module].LOWER)
        if name in LOWER:
            return LOWER[name]
    return None


def lose(lowering: Lowering, op: Op, reason: str) -> None:
    """Reports an op without code; the walk goes on, so that one run shows every problem."""
    lowering.sink.emit(UNSUPPORTED, op, target=lowering.target.name, reason=reason)
    lowering.failed = True
    lowering.lost.update(op.results)


_PARAM = {"i1": ("u8", 1), "i8": ("u8", 1), "i16": ("u16", 2), "i32": ("u32", 4), "i64": ("u64", 8), "f16": ("b16", 2),
          "bf16": ("b16", 2), "f32": ("f32", 4), "tf32": ("b32", 4), "f64": ("f64", 8)}  # fmt: skip


def lower_module(
    module: Op, target: Any, sink: Any, debug: DebugTable | None = None, remarks: dict[str, str] | None = None,
    watch: Any = None,
) -> tuple[Module, bool]:  # fmt: skip
    """(per-thread module, whether every function was lowered).

    `debug` is filled with source positions; `remarks` says which ones were asked for (kind -> category); `watch` gives
    an observer of its own, for a report.
    """
    out = Module(target)
    out.debug = debug
    globals_: dict[str, Any] = {}
    ok = True
    body = module.regions[0].block
    for op in body.ops:
        if op.spec.name == "global":
            var = _global(op)
            globals_[op.attr("sym_name")] = var
            out.variables.append(var)
    for op in body.ops:
        if op.spec.name == "func":
            function = lower_function(op, target, sink, globals_, debug, remarks, watch)
            if function is None:
                ok = False
            else:
                out.functions.append(function)
    return out, ok


def _global(op: Op) -> Var:

    dense = op.attr("value")
    elem = dense.type.elem
    values = dense_bits(dense)
    count = num_elements(dense.type.shape)
    if len(values) == 1:
        values = values * count
    size = elem_bytes(elem)
    shift = 13 if elem.name == "tf32" else 0
    data = b"".join((v << shift).to_bytes(size, "little") for v in values)
    if elem.bits == 4:
        data = bytes(values[i] | (values[i + 1] if i + 1 < count else 0) << 4 for i in range(0, count, 2))
    align = max(op.attr("alignment") or 0, 16)
    while align & (align - 1):
        align += align & -align
    return Var(
        op.attr("sym_name"),
        "global",
        len(data),
        align,
        data,
        visible=op.attr("symbol_visibility") == "public",
    )


def lower_function(
    op: Op, target: Any, sink: Any, globals_: dict[str, Any], debug: DebugTable | None = None,
    remarks: dict[str, str] | None = None, watch: Any = None,
) -> Function | None:  # fmt: skip
    """One kernel; None when it failed (the sink says why)."""
    spec = op.attrs.get(KEY)
    if not isinstance(spec, KernelSpec):
        sink.emit(
            UNSUPPORTED, op, target=target.name, reason="attribute 'nv_tileaa.kernel_spec' names no num_warps"
        )
        return None
    fn = Function(op.attr("sym_name"))
    fn.loc = op.loc
    fn.attrs = {name: value for name, value in op.attrs.items() if name.startswith(("nvvm.", "cute."))}
    fn.block = spec.block
    fn.shared_bytes = op.attrs.get("nv_tileas.shared_bytes", 0)
    if "nv_tileas.tensor_maps" in op.attrs:
        from tileiras.compiler.dialects.nv_tileas.tensor_maps import maps_of

        fn.tensor_maps = maps_of(op)
    lowering = Lowering(fn, target, sink, spec.num_warps, globals_, lower_op)
    if debug is not None:
        from .debug import Positions

        lowering.positions = Positions(debug)
        lowering.positions.begin(fn, op, lowering.b)
    if watch is not None:
        lowering.observer = watch.observer(lowering, remarks)
    elif remarks:
        from .remarks import Observer

        lowering.observer = Observer(lowering, remarks)
    if any(inner.spec.name == "alloca" for inner in op.walk()):
        lowering.space = ""
    block = op.regions[0].block
    b = lowering.b
    for i, arg in enumerate(block.args):
        type: Any = arg.type
        if not hasattr(type, "layout") or type.shape:
            sink.emit(PARAM_TYPE, op, index=i, type=str(type))
            return None
        ptx_type, size = _PARAM.get(str(type.elem), ("u64", 8) if elem_bytes(type.elem) == 8 else ("u8", 1))
        fn.params.append((ptx_type, size))
        fn.param_types.append(str(type.elem))
        lowering.env[arg] = Tile(type.elem, (), type.layout, [_parameter(lowering, i, ptx_type, type.elem)])
    try:
        control.lower_block(lowering, block)
    except FatalError:
        raise
    except Exception:
        if not lowering.failed:
            raise
    if lowering.failed:
        return None
    fn.code = b.prologue + b.code
    return fn


def _parameter(lowering: Lowering, index: int, ptx_type: str, elem: Any) -> Any:

    b = lowering.b
    cls = reg_class(elem)
    word_cls = "r" if cls == "p" else cls
    reg = b.reg(word_cls)
    address = Addr(_sym(f"{lowering.fn.name}_param_{index}"))
    b.prologue.append((f"ld.param.{ptx_type}", reg, (address,), None))
    if cls == "p":
        return b.entry("setp.ne.b32", b.entry("and.b32", reg, 0xFF), 0)
    if isinstance(elem, Ptr):
        return b.entry("cvta.to.global.u64", reg) if lowering.space else reg
    return reg
