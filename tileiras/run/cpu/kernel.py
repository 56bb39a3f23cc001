"""One entry compiled for the CPU: its code, the memory of a tile block, and what its sites are."""

from __future__ import annotations

from tileiras.compiler.lower.cuda_tile_to_tileaa import lower_module
from tileiras.diag import ERROR, EXIT_COMPILE, Diag, Emitted
from tileiras.run.errors import LaunchError

from .code import Module
from .lower import Lower
from .native import Loaded, host, to_object
from .registry import Unsupported
from .runtime import runtime

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tileiras.compiler.ir.core import Op

UNSUPPORTED = Diag("RUN-0504", ERROR, "cannot run on the CPU target: {why}", "cpu")
"""
see: RUN-0107

in: script
      %z = constant <i32: 0> : tile<i32>
      %u = constant <i64: 0> : tile<i64>
      %v = int_to_ptr %u : tile<i64> -> tile<ptr<i32, <multicast>>>
      %w = make_tensor_view %v, shape = [64, 64], strides = [64, 1] : tile<ptr<i32, <multicast>>> -> tensor_view<64x64xi32, strides=[64,1], #cuda_tile.ptr_attr<multicast>>
      %y = make_partition_view %w : partition_view<tile=(4x8), tensor_view<64x64xi32, strides=[64,1], #cuda_tile.ptr_attr<multicast>>>
      %o = constant <i32: 1> : tile<4x8xi32>
-     %r, %s = multimem_load_reduce_view_tko weak %y[%z, %z] : partition_view<tile=(4x8), tensor_view<64x64xi32, strides=[64,1], #cuda_tile.ptr_attr<multicast>>>, tile<i32> -> tile<4x8xi32>, token
  tileiras.launch(kernel, "k", 1, [], target="cpu")
"""  # noqa: E501


class Kernel:
    """A compiled entry. `cpu_bytes`: memory of a tile block, `largest` of them for one op; `waits`: for other blocks."""

    __slots__ = (
        "code",
        "cpu_bytes",
        "function",
        "globals",
        "largest",
        "name",
        "prints",
        "sites",
        "text",
        "waits",
    )

    def __init__(self, module: Op, name: str, check: bool = False) -> None:
        """Compiles `name` of a verified cuda_tile module; check: with tests of every access and divisor."""
        self.name = name
        lowered = lower_module(module)
        functions = {op.attr("sym_name"): op for op in lowered.regions[0].block.ops if op.spec.name == "func"}
        self.globals = [op for op in module.regions[0].block.ops if op.spec.name == "global"]
        numbers = {op.attr("sym_name"): i for i, op in enumerate(self.globals)}
        _, machine = host()
        out = Module()
        lower = Lower(out, functions[name], machine.flags, machine.vector_bytes, numbers, check)
        try:
            body = lower.run("kernel")
        except Unsupported as problem:
            op, why = problem.args
            found = Emitted(UNSUPPORTED, op.loc, op.spec.source_name, [("why", why)])
            raise LaunchError([found], EXIT_COMPILE) from None
        out.functions["kernel"] = body
        self.function = functions[name]
        self.sites, self.prints, self.waits = lower.sites, lower.prints, lower.waits or lower.will_wait
        self.cpu_bytes, self.largest = lower.arena.size, lower.arena.largest
        self.text = out.text() + runtime(machine.triple)
        self.code = Loaded(to_object(self.text))
