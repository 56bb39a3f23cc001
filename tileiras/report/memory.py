"""Accesses to global memory for a report: width, how a warp's lanes fall into sectors, and what would widen them."""

from __future__ import annotations

from tileiras.compiler.ir.dense import num_elements
from tileiras.compiler.ir.views import unit_dim
from tileiras.compiler.layout.gf2 import apply
from tileiras.compiler.layout.linear import dim_bits
from tileiras.compiler.lower.tileas_to_nvvm.state import elem_bytes

from .shared import copied_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.core import Op

    from .levels import Printed
    from .watch import Watch

SECTOR = 32


def sectors(shape: Any, layout: Any, size: int, unit: int, width: int) -> tuple[int, int]:
    """(sectors of 32 bytes that one request of a warp touches, the least that its bytes need), rows starting at sectors."""
    low, count = dim_bits(shape)[unit]
    mask = ((1 << count) - 1) << low
    held: set[tuple[int, int]] = set()
    touched: set[tuple[int, int]] = set()
    for lane in range(32):
        index = apply(layout.lane, lane)
        row, at = index & ~mask, ((index & mask) >> low) * size
        for byte in range(at, at + width, size):
            held.add((row, byte))
            touched.add((row, byte // SECTOR))
    return len(touched), max(1, -(-len(held) * size // SECTOR))


def partial(row: dict[str, Any], what: str) -> None:
    """Says why a request touches more sectors than its bytes need, where nothing else does."""
    if not row["sectors"] or row["sectors"] <= row["least"] or row["narrow"] or row["scattered"]:
        return
    part = row["least"] * SECTOR // row["sectors"]
    row["partial"] = (
        f"a request takes {part} of the {SECTOR} bytes of each sector: their neighbours lie in other registers or warps, as the "
        f"op that {'made' if what == 'store' else 'uses'} the value spreads it over the threads"
    )  # fmt: skip
    row["gather"] = PARTS[what == "store"]


PARTS = (
    "other instructions of the same warp take the rest of these sectors, from the cache: that costs requests, not traffic of "
    "memory. Outside of loops it is not worth a change; inside, a tile with longer rows",
    "other instructions of the same warp fill the rest of these sectors in the cache: stored once, that costs little. An op that "
    "wants whole rows in between, such as a reduction along them, or a wider element type makes whole sectors",
)


def accesses(watch: Watch, printed: Printed) -> list[dict[str, Any]]:
    """One row an op that reads or writes global memory, in the order of the code."""
    said: dict[int, dict[str, Any]] = {}
    for remark in watch.remarks:
        said.setdefault(id(remark.op), {})[remark.diag.code] = remark.facts
    out = []
    for op, line in sorted(printed.line_of.items(), key=lambda item: item[1]):
        if op.spec.name == "async.copy_view":
            out.append(_copy(op, line))
        elif op.spec.name == "async.copy_pointers":
            width, threads = op.attr("width"), 32 * op.attrs["layout"].num_warps
            count = max(1, copied_bytes(op) // (width * threads))
            out.append(_row(op, line, "copy", width, count, f"cp.async, {width} bytes"))
        elif op.spec.name == "bulk.load":
            out += _bulk(op, line)
        elif "GlobalAccess" in said.get(id(op), {}):
            out.append(_access(op, line, said[id(op)]))
    return out


def _row(op: Op, line: int, what: str, width: int, count: int, instruction: str) -> dict[str, Any]:
    return {
        "line": line, "op": op.spec.name, "what": what, "width": width, "count": count, "instruction": instruction,
        "possible": width, "narrow": "", "widen": "", "sectors": None, "least": None, "scattered": "", "gather": "",
        "partial": "",
    }  # fmt: skip


def _copy(op: Op, line: int) -> dict[str, Any]:
    view: Any = op.operand("view").type  # type: ignore[union-attr]
    size, width, layout = elem_bytes(view.view.elem), op.attr("width"), op.attrs["layout"]
    threads = 32 * layout.num_warps
    count = max(1, num_elements(view.tile) * size // (width * threads))
    row = _row(op, line, "copy", width, count, f"cp.async, {width} bytes")
    unit = unit_dim(view)
    if unit >= 0:
        row["sectors"], row["least"] = sectors(view.tile, layout, size, unit, width)
        if view.tile[unit] * size < SECTOR:
            row["scattered"] = (
                f"the tile has {view.tile[unit]} neighbouring elements of {size} bytes in a row"
            )
            row["gather"] = remedy(row["scattered"])
    if width < min(16, size * layout.num_regs) and width < 16:
        row["possible"] = min(16, size * layout.num_regs)
        row["narrow"] = f"rows are only known to start at multiples of {width} bytes"
        row["widen"] = remedy("base address is only known")
    partial(row, "copy")
    return row


def _bulk(op: Op, line: int) -> list[dict[str, Any]]:
    """Rows of the tiles that a stage's bulk copies bring, box after box, each of whole lines of the tensor's rows."""
    func = op.parent
    while func is not None and func.spec.name != "func":
        func = func.parent
    maps = func.attrs["nv_tileas.tensor_maps"] if func is not None else ()
    out = []
    at = 0
    for number, size in zip(op.attr("maps"), op.attr("bytes")):
        box = tuple(getattr(side, "value", side) for side in maps[number]["box"])
        elements = num_elements(op.attr("tile")[at : at + len(box)])
        at += len(box)
        width = box[-1] * size // elements
        what = f"cp.async.bulk.tensor, boxes of {'x'.join(map(str, box))}"
        row = _row(op, line, "copy", width, elements // num_elements(box), what)
        row["sectors"] = row["least"] = max(1, width // SECTOR)
        out.append(row)
    return out


def _access(op: Op, line: int, facts: dict[str, Any]) -> dict[str, Any]:
    made = facts["GlobalAccess"]
    row = _row(op, line, made["what"], made["bytes"], made["count"], made["instruction"])
    value: Any = op.results[0].type
    layout = getattr(value, "layout", None)
    if made["what"] != "load":
        value = op.operand("tile" if "view" in op.spec.name else "value").type  # type: ignore[union-attr]
        layout = op.attrs["layout"]
    if "view" in op.spec.name and layout is not None:
        unit = unit_dim(op.operand("view").type)  # type: ignore[union-attr]
        if unit >= 0:
            row["sectors"], row["least"] = sectors(
                value.shape, layout, elem_bytes(value.elem), unit, made["bytes"]
            )
        else:
            size = elem_bytes(value.elem)
            lanes = len({apply(layout.lane, n) for n in range(32)})
            row["sectors"], row["least"] = lanes, max(1, lanes * size // SECTOR)
    if narrow := facts.get("GlobalAccessNotVectorized"):
        row["possible"], row["narrow"] = narrow["possible"], narrow["reason"]
        row["widen"] = remedy(narrow["reason"])
        if narrow["reason"].startswith("a thread holds") and layout is not None:
            if elem_bytes(value.elem) * layout.num_regs >= WIDEST:  # enough elements, but not side by side
                row["widen"] = IN_FRAGMENTS
    if scattered := facts.get("GlobalAccessNotCoalesced"):
        row["scattered"] = scattered["reason"]
        row["gather"] = remedy(scattered["reason"])
    partial(row, made["what"])
    return row


WIDEST = 16
IN_FRAGMENTS = (
    "the value is stored as the op that made it holds it, such as a product its fragments; stored once, that costs little: "
    "a wider element type, or an op that wants rows in between, makes wider pieces"
)
_REMEDIES = (
    ("the base address is only known", "promise the alignment of the pointer: assume div_by<16> on it (cuTile: pass an "
     "array whose data starts at a multiple of 16 bytes; slices keep that only at multiples)"),
    ("rows are only known", "promise the alignment of pointer and strides: assume div_by<16> on the pointer, and div_by<16 / "
     "element size> on each stride"),
    ("base address is only known", "promise the alignment of pointer and strides: assume div_by<16> on the pointer, and "
     "div_by<16 / element size> on each stride"),
    ("the stride of dimension", "promise divisibility of the stride (assume div_by<16 / element size>), or pad rows to "
     "multiples of 16 bytes"),
    ("the extent of dimension", "promise divisibility of the extent (assume div_by), or mark the access inbounds where it is: "
     "then no mask splits the vector"),
    ("no dimension of the tile is known to have stride 1", "make one stride of the view the constant 1: strides = [.., 1]; a "
     "stride that is an argument is not known to be 1"),
    ("the tile has one element in dimension", "take more elements of that dimension into the tile (32 bytes of it are one "
     "sector) and fewer of another, or keep the data transposed in memory"),
    ("the lanes of a warp do not walk", "let the last dimension of the tile be the contiguous one in memory, and permute after "
     "loading"),
    ("the tile has", "make the tile wider in the contiguous dimension: 32 bytes of a row are one sector, 128 a line"),
    ("neighbouring elements have different masks", "give the extent a known divisor (assume div_by), or mark the access "
     "inbounds"),
    ("the address is only known", "promise the alignment of the pointer: assume div_by<16>"),
    ("the elements of a thread are not neighbours", "use a view (make_tensor_view with stride 1), or pointers that grow by one "
     "along the last dimension"),
    ("a thread holds", "use a larger tile: every thread then holds enough neighbours for a vector"),
)  # fmt: skip


def remedy(reason: str) -> str:
    """What would widen an access, or gather it, by the reason that it is not."""
    for start, text in _REMEDIES:
        if reason.startswith(start):
            return text
    if "accesses are made element by element" in reason:
        return "use a weak access where no other thread block looks at the data at the same time"
    return ""
