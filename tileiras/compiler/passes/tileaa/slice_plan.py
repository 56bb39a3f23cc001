"""How one op works on slices: which slices of its operands a slice of its result needs.

`plan_of(op, cut)` describes an op cut along `cut` of its index space (the shape of its result, or of its operands for
reductions and reshapes): for every tile operand the cut it is wanted in and which bits of the slice number choose its
slice; for every huge result its cut. None: the op has no sliced form under that cut.
"""

from __future__ import annotations

from tileiras.compiler.ir.core import Op
from tileiras.compiler.ir.types import GatherScatterView, TensorType

from .slices import HUGE, cut_fits, positions_of, reshaped_cut

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .slices import Cut, Limits

    Want = tuple[Cut, tuple[int, ...]]

POINTER_OPS = frozenset({"load_ptr_tko", "store_ptr_tko", "atomic_rmw_tko", "atomic_cas_tko"})
VIEW_OPS = frozenset({"load_view_tko", "store_view_tko", "atomic_red_view_tko"})
MEMORY = POINTER_OPS | VIEW_OPS
PRODUCTS = frozenset({"mmaf", "mmai"})


class Plan:
    """An op in a loop over slices."""

    __slots__ = ("accumulates", "cut", "op", "results", "wants")

    def __init__(self, op: Op, cut: Cut, wants: dict[int, Want], results: list[Cut | None]) -> None:
        self.op = op
        self.cut = cut  # of the op's index space; its length is log2 of the loop's iterations
        self.wants = wants  # operand number -> (its cut, places of the slice number that choose its slice)
        self.results = results  # cuts of huge results
        self.accumulates = False  # a product cut along K: slices add up

    @property
    def along(self) -> bool:
        """Whether a reduce or scan runs along a dimension that is cut."""
        return self.op.attr("dim") in self.cut


def index_space(op: Op, limits: Limits = HUGE) -> tuple[int, ...] | None:
    """The shape that an op is cut in; None for an op without a sliced form."""
    name = op.spec.name
    if op.spec.elementwise or name in POINTER_OPS:
        shapes = {v.type.shape for v in (*op.operands, *op.results) if isinstance(v.type, TensorType)}  # type: ignore[attr-defined]
        return shapes.pop() if len(shapes) == 1 else None
    if name in VIEW_OPS:
        view = op.operand("view")
        assert view is not None
        type: Any = view.type
        return type.tile if view.op is not None else None
    if name in ("iota", "broadcast", "cat"):
        return op.result.type.shape  # type: ignore[attr-defined]
    if name in PRODUCTS:
        return op.result.type.shape if limits.is_vast(op.result) else None  # type: ignore[attr-defined]
    if name in ("permute", "reshape", "pack", "unpack"):
        return op.operands[0].type.shape  # type: ignore[attr-defined]
    if name in ("reduce", "scan"):
        if any(inner.regions for inner in op.regions[0].block.ops):
            return None
        return op.operands[0].type.shape  # type: ignore[attr-defined]
    return None


def plan_of(op: Op, cut: Cut, limits: Limits = HUGE) -> Plan | None:
    """The op under a cut of its index space."""
    name = op.spec.name
    everywhere = tuple(range(len(cut)))
    tiles = [i for i, v in enumerate(op.operands) if isinstance(v.type, TensorType)]
    if name == "broadcast":
        shape = op.operands[0].type.shape  # type: ignore[attr-defined]
        kept = positions_of(cut, [d for d, extent in enumerate(shape) if extent > 1])
        return Plan(op, cut, {0: (tuple(cut[p] for p in kept), kept)}, [cut])
    if name == "permute":
        order = list(op.attr("permutation"))
        return Plan(op, cut, {0: (cut, everywhere)}, [tuple(order.index(d) for d in cut)])
    if name == "reshape":
        moved = reshaped_cut(op.operands[0].type.shape, cut, op.result.type.shape)  # type: ignore[attr-defined]
        return Plan(op, cut, {0: (cut, everywhere)}, [moved]) if moved is not None else None
    if name in ("pack", "unpack"):
        return Plan(op, cut, {0: (cut, everywhere)}, [cut])
    if name == "cat":
        return _plan_cat(op, cut)
    if name in PRODUCTS:
        return _plan_product(op, cut)
    if name in VIEW_OPS:
        return _plan_view(op, cut)
    wants = dict.fromkeys(tiles, (cut, everywhere))
    if name == "reduce":
        dim = op.attr("dim")
        kept_cut = tuple(d - (d > dim) for d in cut if d != dim)
        return Plan(op, cut, wants, [kept_cut if limits.is_big(r) else None for r in op.results])
    return Plan(op, cut, wants, [cut if limits.is_big(r) else None for r in op.results])


def number_of(op: Op, name: str) -> int:
    """The number of the first operand in a group."""
    return sum(op.segments[: op.spec.operand_index[name]])  # type: ignore[index]


def _plan_view(op: Op, cut: Cut) -> Plan:
    """The tile that is stored, and the numbers of rows where they are a tile."""
    everywhere = tuple(range(len(cut)))
    wants: dict[int, Want] = {}
    if op.spec.name != "load_view_tko":
        wants[number_of(op, "tile" if op.spec.name == "store_view_tko" else "value")] = cut, everywhere
    type: Any = op.operand("view").type  # type: ignore[union-attr]
    if isinstance(type, GatherScatterView):
        places = positions_of(cut, (type.sparse_dim,))
        wants[number_of(op, "index") + type.sparse_dim] = (0,) * len(places), places
    return Plan(op, cut, wants, [cut if isinstance(r.type, TensorType) else None for r in op.results])


def _plan_cat(op: Op, cut: Cut) -> Plan | None:
    """The top bit of the joined dimension, where it is cut, says which operand a slice comes from."""
    dim = op.attr("dim")
    half = op.operands[0].type.shape  # type: ignore[attr-defined]
    if half != op.operands[1].type.shape:  # type: ignore[attr-defined]
        return None
    chooser = cut.index(dim) if dim in cut else -1
    places = tuple(p for p in range(len(cut)) if p != chooser)
    want = tuple(cut[p] for p in places)
    return Plan(op, cut, {0: (want, places), 1: (want, places)}, [cut]) if cut_fits(half, want) else None


def _plan_product(op: Op, cut: Cut) -> Plan:
    """Rows of the left operand, columns of the right one; batches of both."""
    rank = len(op.result.type.shape)  # type: ignore[attr-defined]
    wants: dict[int, Want] = {2: (cut, tuple(range(len(cut))))}
    for i, other in ((0, rank - 1), (1, rank - 2)):
        places = positions_of(cut, [d for d in range(rank) if d != other])
        wants[i] = (tuple(cut[p] for p in places), places)
    return Plan(op, cut, wants, [cut])


def is_whole(want: Want, s: int) -> bool:
    """Whether an operand's slice has the number of the loop's own."""
    return len(want[1]) == s
