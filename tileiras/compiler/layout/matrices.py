"""Fragments of 16-bit elements that registers exchange through 8x8 matrices: read by ldmatrix, or written by stmatrix.

Both move rows of 16 bytes of shared memory: a matrix's run and its rows are index bits (`shared.matrix_tile` composed with the
fragment's layout), and the arrangement puts the run into the low bits and spreads the rows over the banks, so that neither side
conflicts. Of ldmatrix's two forms it is the one whose run lies in the source's registers, which is stored with wide vectors.
"""

from __future__ import annotations

from tileiras.memo import remembered

from .algebra import compose
from .gf2 import Basis
from .shared import BANK_GROUPS, MATRIX_ROW, RUN, matrix_tile, spread

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .linear import LinearLayout

ELEM_BYTES = 2
RUN_BITS = 3  # eight elements a row
PHASE_LANES = 3  # log2 of the lanes whose accesses of 16 bytes are served at once
LINE_BYTES = 128  # of all banks


class Exchange:
    """Where each index bit lies (`columns`, bytes of one round trip), the index bits that number the rows of a matrix, whether
    ldmatrix transposes, log2 of the elements that an access on the side without matrices moves, and the index bits that are
    fixed in each of several rounds."""

    __slots__ = ("bytes", "columns", "rounds", "rows", "transposed", "vector")

    def __init__(
        self,
        columns: Sequence[int],
        rows: Sequence[int],
        transposed: bool,
        vector: int,
        rounds: Sequence[int] = (),
    ) -> None:
        self.columns = tuple(columns)
        self.bytes = ELEM_BYTES << len(columns) - len(rounds)
        self.rounds = tuple(rounds)
        self.rows = tuple(rows)
        self.transposed = transposed
        self.vector = vector


def _fragment(layout: LinearLayout, transposed: bool) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """The index bits of a matrix's run and of its rows; None where they are not six bits of their own."""
    if layout.inv or not layout.reg:
        return None
    elements = compose(matrix_tile(ELEM_BYTES, transposed), layout.map)
    run, rows = elements.ins[RUN], elements.ins[MATRIX_ROW]
    bits = {*run, *rows}
    return None if len(bits) != 6 or any(c == 0 or c & (c - 1) for c in bits) else (run, rows)


def _arranged(bits: int, order: Iterable[int], rows: Sequence[int], fixed: Sequence[int] = ()) -> list[int]:
    """Columns of elements that follow each other as the index bits in `order`, then the others but the fixed ones; rows reach
    all banks."""
    columns = [0] * bits
    free = [bit for bit in dict.fromkeys((*order, *(1 << k for k in range(bits)))) if bit not in fixed]
    for place, bit in enumerate(free):
        columns[bit.bit_length() - 1] = ELEM_BYTES << place
    return spread(columns, [r.bit_length() - 1 for r in rows])


@remembered(256)
def by_ldmatrix(source: LinearLayout, target: LinearLayout, room: int) -> Exchange | None:
    """How to move elements into a fragment, with `room` bytes at once; None when `target` is none, or a matrix is more."""
    straight, turned = _fragment(target, False), _fragment(target, True)
    if source.inv or straight is None or turned is None:
        return None

    def stored(run: Sequence[int]) -> int:
        count = 0
        while count < RUN_BITS and run[count] in source.reg:
            count += 1
        return count

    transposed = stored(turned[0]) > stored(straight[0])
    run, rows = turned if transposed else straight
    fixed = _rounds(source, target, run, rows, room)
    if ELEM_BYTES << target.bits - len(fixed) > room:
        return None
    columns = _arranged(target.bits, run, rows, fixed)
    if stored(run) == RUN_BITS:
        columns = _apart(columns, source.lane[:PHASE_LANES], rows)
    return Exchange(columns, rows, transposed, stored(run), fixed)


def _rounds(
    source: LinearLayout, target: LinearLayout, run: Sequence[int], rows: Sequence[int], room: int
) -> list[int]:
    """Index bits to fix in rounds, of those that number matrices in a thread's registers: first what leaves an operand's words in
    one ldmatrix, then those that the source has in registers, too, so that all threads store in every round."""
    bits = [c for c in target.reg if c not in run and c not in rows and c & (c - 1) == 0]
    left = max(rows) << 1 in target.reg[1:2]  # four words, of two rows of matrices; a right operand has two
    together = target.reg[1 : 3 if left else 2]
    bits.sort(key=lambda c: (c in together, c not in source.reg, -c))
    size, count = ELEM_BYTES << target.bits, 0
    while size >> count > room and count < len(bits):
        count += 1
    return bits[:count]


def _apart(columns: list[int], lanes: Sequence[int], rows: Sequence[int]) -> list[int]:
    """Columns in which the eight lanes that store at once reach all groups of banks, as far as bits may lie elsewhere: those of
    a matrix's rows, and of what lies within 128 bytes, may not."""
    out = list(columns)
    places = [c.bit_length() - 1 for c in lanes if c and not c & (c - 1)]
    fixed = [k for k in places if out[k] < LINE_BYTES or 1 << k in rows]
    groups = Basis(out[k] & (LINE_BYTES - 1) for k in fixed)
    for k in places:
        if k in fixed:
            continue
        chunk = next((c for c in BANK_GROUPS if groups.reduce((out[k] ^ c) & (LINE_BYTES - 1))[0]), 0)
        if not groups.reduce(out[k] & (LINE_BYTES - 1))[0]:
            out[k] ^= chunk
        groups.insert(out[k] & (LINE_BYTES - 1))
    return out


def whole_rows(source: LinearLayout, target: LinearLayout) -> bool:
    """Whether the eight elements of a matrix row in `source` are neighbours in each thread's registers in `target`."""
    if source.inv or target.inv or len(target.reg) < RUN_BITS or not source.reg:
        return False
    elements = compose(matrix_tile(ELEM_BYTES), source.map)
    run = elements.ins[RUN]
    return 0 not in (*run, *elements.ins[MATRIX_ROW]) and target.reg[:RUN_BITS] == run


def by_stmatrix(source: LinearLayout, target: LinearLayout) -> Exchange | None:
    """How to move a fragment of whole rows (`whole_rows`) into `target`, without bank conflicts on either side where the rows
    that one instruction stores and the chunks that neighbouring lanes load are told apart by different bits; None when a column
    of either layout is more than one bit."""
    if any(c & (c - 1) for layout in (source, target) for c in (*layout.reg, *layout.lane, *layout.warp)):
        return None
    elements = compose(matrix_tile(ELEM_BYTES), source.map)
    run, rows = elements.ins[RUN], elements.ins[MATRIX_ROW]
    order = (*run, *(c for c in target.lane if c))
    return Exchange(_arranged(source.bits, order, rows), rows, False, RUN_BITS)
