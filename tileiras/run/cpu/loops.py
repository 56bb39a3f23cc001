"""Loops over the elements of a tile, vector by vector: what turns expressions into code."""

from __future__ import annotations

import itertools

from .code import REGISTER, bytes_of
from .space import Chunk, Map, exchange, identity, turned_at
from .tiles import Iota, Node, Remapped, Stored, Survey, Uniform

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

UNROLLED = 4  # vectors up to which a tile is straight-line code
LIGHT = 12  # cost below which two vectors are computed in each round
SQUARE = 4  # log2 of the rows of a square that is transposed at once, at most
SQUARE_COST = 40  # of a body that is repeated for each row of a square


class Loops:
    """The part of a lowering that walks index spaces. `arena`, `c`, `vector_bytes` belong to the lowering."""

    arena: Any
    c: Any
    vector_bytes: int
    place: Any  # the block of ops that is being lowered
    scopes: list[list[Node]]  # per block under way: nodes from outside that were stored in it

    def survey(self, wanted: Sequence[tuple[Node, Map]]) -> Survey:
        found = Survey()
        for node, map in wanted:
            node.survey(map, found)
        return found

    def lanes_for(self, bits: int, survey: Survey) -> int:
        """log2 of the lanes that fill the CPU's vectors with the widest element."""
        return min(bits, max(0, (self.vector_bytes // survey.widest).bit_length() - 1))

    def walk(
        self,
        bits: int,
        w: int,
        breaks: set[int],
        body: Callable[[Chunk], None],
        fast: bool,
        covers: Sequence[Map] | None = None,
        unroll: int = 0,
        squares: tuple[int, list[tuple[Any, Map]]] = (0, []),
    ) -> dict[Node, None]:
        """Runs `body` for every vector of 2**w of 2**bits elements; the nodes that it kept on the way.

        squares: (q, tiles), as of `squares_of`: they are loaded by rows and transposed 2**w vectors at a time.
        """
        kept: dict[Node, None] = {}
        seen = (identity(bits),) if covers is None else covers

        def run(parts: list[tuple[int, int, str]], known: dict[Any, str] | None = None) -> None:
            chunk = Chunk(self.c, w, bits, parts, fast, seen)
            chunk.memo.update(known or {})
            body(chunk)
            kept.update(chunk.written)

        if squares[1]:
            self.walk_squares(bits, w, breaks, run, fast, squares)
            return kept
        if bits - w <= UNROLLED.bit_length() - 1:
            for i in range(1 << (bits - w)):
                run([(w, bits, str(i))] if bits > w else [])
            return kept
        cuts = [w, *sorted(b for b in breaks if w < b < bits), bits]
        if unroll and cuts[1] - w > unroll:
            cuts.insert(1, w + unroll)
        elif unroll:
            unroll = 0

        def nest(level: int, parts: list[tuple[int, int, str]]) -> None:
            if level < 0:
                run(parts)
                return
            low, high = cuts[level], cuts[level + 1]
            if level == 0 and unroll:
                for i in range(1 << (high - low)):
                    run([(low, high, str(i)), *parts])
                return
            with self.c.loop(str(1 << (high - low))) as counter:
                nest(level - 1, [(low, high, counter), *parts])

        nest(len(cuts) - 2, [])
        return kept

    def walk_squares(
        self,
        bits: int,
        w: int,
        breaks: set[int],
        run: Callable[..., None],
        fast: bool,
        squares: tuple[int, list[tuple[Any, Map]]],
    ) -> None:
        """`walk` with 2**w vectors in each round, those of the loop's bits [q, q + w)."""
        q, tiles = squares
        cuts = sorted({w, q, q + w, bits, *(b for b in breaks if w < b < bits and not q < b < q + w)})
        ranges = [(low, high) for low, high in itertools.pairwise(cuts) if low != q]

        def nest(level: int, parts: list[tuple[int, int, str]]) -> None:
            if level >= 0:
                low, high = ranges[level]
                with self.c.loop(str(1 << (high - low))) as counter:
                    nest(level - 1, [(low, high, counter), *parts])
                return
            places = [[(q, q + w, str(i)), *parts] for i in range(1 << w)]
            known: list[dict[Any, str]] = [{} for _ in places]
            for node, map in tiles:
                rows = [
                    node.get(self, Chunk(self.c, w, bits, place, fast, ()), exchange(map, q, w))
                    for place in places
                ]
                for memo, column in zip(known, transposed(self.c, REGISTER[node.name], rows)):
                    memo[node, map] = column
            for place, memo in zip(places, known):
                run(place, memo)

        nest(len(ranges) - 1, [])

    def squares_of(self, found: Survey, w: int) -> tuple[int, tuple[int, list[tuple[Any, Map]]]]:
        """(log2 of the lanes, (q, tiles whose elements the lanes would gather from rows)); no tiles: as before."""
        if found.cost <= SQUARE_COST:
            for lanes in range(min(w, SQUARE), 1, -1):
                tiles = [(n, m, turned_at(m, lanes)) for n, m in found.reads if n.name != "i1"]
                for q in dict.fromkeys(at for _, _, at in tiles if at is not None):
                    return lanes, (q, [(n, m) for n, m, at in tiles if at == q])
        return w, (0, [])

    def each(
        self,
        bits: int,
        wanted: Sequence[tuple[Node, Map]],
        body: Callable[[Chunk], None],
        *,
        more: Sequence[tuple[Any, Map]] = (),
        condition: str = "",
        slow: Callable[[Any, int], None] | None = None,
        limit: int = 99,
        covers: Sequence[Map] | None = None,
        ordered: bool = False,
    ) -> None:
        """Runs `body` over a tile whose expressions are `wanted`; a second copy with masks where views are ragged.

        more: other windows that the body touches. condition: what else the fast copy needs. slow: emits the slow
        copy, given the survey and w. ordered: vectors follow one another in the order of their elements.
        """
        found = self.survey(wanted)
        for _, map in more:
            from .space import breaks_of

            found.breaks |= breaks_of(map)
        w = min(self.lanes_for(bits, found), limit)
        w, squares = (w, (0, [])) if ordered else self.squares_of(found, w)
        unroll = 1 if found.cost <= LIGHT else 0
        conditions = [condition] if condition else []
        for load, map in (*found.loads, *more):
            conditions += load.dense_conditions(self, w, map)
        conditions = list(dict.fromkeys(conditions))

        def emit(fast: bool) -> dict[Node, None]:
            return self.walk(bits, w, found.breaks, body, fast, covers, unroll if fast else 0, squares)

        if not conditions:
            kept = emit(True)
        else:
            c = self.c
            ok = conditions[0]
            for other in conditions[1:]:
                ok = c.op(f"and i1 {ok}, {other}")
            dense, ragged, done = c.new_label("dense"), c.new_label("ragged"), c.new_label("done")
            c.branch(ok, dense, ragged)
            c.begin(dense)
            kept = emit(True)
            c.jump(done)
            c.begin(ragged)
            if slow is not None:
                slow(found, w)
            else:
                kept.update(emit(False))
            c.jump(done)
            c.begin(done)
        for node in kept:
            self.has_buffer(node)

    # ---- keeping values

    def has_buffer(self, node: Node) -> None:
        """The node was stored. Code outside of the present block of ops may not have run: it makes it again."""
        node.buffer = node.wanted
        if node.home is not self.place:
            self.scopes[-1].append(node)

    def is_light(self, node: Node) -> bool:
        """Whether a value may be computed again wherever it is used: scalars, indices, a few ops on them."""
        if node.buffer is not None or isinstance(node, (Uniform, Iota, Stored)):
            return True
        return node.cost <= 4 and not node_loads(node)

    def force(self, node: Node) -> None:
        """From here on the tile lies in a buffer."""
        if node.buffer is not None or isinstance(node, (Uniform, Stored)):
            return
        if (
            isinstance(node, Remapped)
            and node.inner == identity(node.source.bits)
            and node.bits == node.source.bits
        ):
            self.force(node.source)
            return
        node.keep = True
        home = self.place if node.home is None else node.home
        node.home = self.place
        if node.wanted is None:
            node.wanted = self.arena.new(bytes_of(node.name) << node.bits)
        self.each(
            node.bits,
            [(node, identity(node.bits))],
            lambda chunk: void(node.get(self, chunk, identity(node.bits))),
        )
        node.buffer, node.home = None, home
        self.has_buffer(node)

    def pointer_of(self, node: Node) -> str:
        """The address of a tile that lies packed in memory; it is made to."""
        self.force(node)
        if isinstance(node, Remapped) and node.buffer is None:
            return self.pointer_of(node.source)
        if isinstance(node, Uniform):
            buffer = self.arena.new(bytes_of(node.name) << node.bits)
            stored = Stored(node.name, node.shape, buffer)
            self.write(node, stored)
            return self.arena.touch(buffer)
        if node.buffer is None:
            assert isinstance(node, Stored)
            return node.pointer
        return self.arena.touch(node.buffer)

    def write(self, node: Node, target: Stored) -> None:
        """Computes a tile into the buffer of another."""
        from .tiles import store_mapped

        map = identity(node.bits)

        def body(chunk: Chunk) -> None:
            value = node.get(self, chunk, map)
            store_mapped(chunk, self.arena.touch(target.buffer), node.name, map, value)

        self.each(node.bits, [(node, map)], body)


def node_loads(node: Node) -> bool:
    """Whether an unstored value reads memory that the kernel may write."""
    if node.buffer is not None:
        return False
    return getattr(node, "reads", False) or any(node_loads(s) for s in node.sources())


def transposed(c: Any, type: str, rows: list[str]) -> list[str]:
    """The columns of a square of vectors: for each bit, halves of vectors change places with those of a partner."""
    n = len(rows)
    for by in (1 << b for b in range(n.bit_length() - 1)):
        low = [lane + n - by if lane & by else lane for lane in range(n)]
        high = [lane + n if lane & by else lane + by for lane in range(n)]
        rows = [c.shuffle(type, n, rows[i & ~by], rows[i | by], high if i & by else low) for i in range(n)]
    return rows


def void(_: object) -> None:
    return None
