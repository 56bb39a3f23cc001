"""Modules of one op each. A case names a function here; its signature gives what the function is called with.

Every function returns (parameter types, body). Elementwise ops take their operands from pointers to N
consecutive elements and store the result behind one more pointer.
"""

import struct

from cuda.tile import _bytecode as bc
from cuda.tile._bytecode import attribute

from tests.corpus.writer.builder import SameElements

N = 32
FORMATS = {"i8": "b", "i16": "h", "i32": "i", "i64": "q", "f16": "e", "f32": "f", "f64": "d"}


def elementwise(op, ins, out, attrs=(), shape=(N,)):
    def body(k):
        values = [k.load(p, name, shape) for p, name in zip(k.p, ins)]
        k.store(k.p[-1], out, shape, k.op(op, k.tile(out, *shape), *values, **dict(attrs)))

    return [f"ptr {n}" for n in (*ins, out)], body


def constant(name, values, shape):
    """A dense constant written out, or a splat when there is one value."""

    def body(k):
        if name == "i1":
            bits = bytearray((len(values) + 7) // 8)
            for i, v in enumerate(values):
                bits[i // 8] |= v << i % 8
            data = bytes(bits)
        else:
            data = struct.pack(f"<{len(values)}{FORMATS[name]}", *values)
        k.store(k.p[0], name, shape, k.const(name, data, *shape))

    return [f"ptr {name}"], body


def iota(name, n):
    def body(k):
        k.store(k.p[0], name, (n,), k.op("Iota", k.tile(name, n)))

    return [f"ptr {name}"], body


def permute(name, shape, perm):
    def body(k):
        out = tuple(shape[p] for p in perm)
        value = k.op("Permute", k.tile(name, *out), k.load(k.p[0], name, shape), perm)
        k.store(k.p[1], name, out, value)

    return [f"ptr {name}"] * 2, body


def broadcast(name, shape, out):
    def body(k):
        k.store(k.p[1], name, out, k.op("Broadcast", k.tile(name, *out), k.load(k.p[0], name, shape)))

    return [f"ptr {name}"] * 2, body


def cat(name, shape, dim):
    def body(k):
        out = tuple(2 * n if i == dim else n for i, n in enumerate(shape))
        a, b = k.load(k.p[0], name, shape), k.load(k.p[1], name, shape)
        k.store(k.p[2], name, out, k.op("Cat", k.tile(name, *out), a, b, dim=dim))

    return [f"ptr {name}"] * 3, body


def extract(name, shape, part, at):
    def body(k):
        value = k.op("Extract", k.tile(name, *part), k.load(k.p[0], name, shape), [k.int(i) for i in at])
        k.store(k.p[1], name, part, value)

    return [f"ptr {name}"] * 2, body


def insert(name, shape, part, at):
    def body(k):
        whole, piece = k.load(k.p[0], name, shape), k.load(k.p[1], name, part)
        value = k.op("Insert", k.tile(name, *shape), piece, whole, [k.int(i) for i in at])
        k.store(k.p[2], name, shape, value)

    return [f"ptr {name}"] * 3, body


def convert_packed(op, name, shape, out, count):
    """pack and unpack between a tile and bytes."""

    def body(k):
        k.store(k.p[1], out, (count,), k.op(op, k.tile(out, count), k.load(k.p[0], name, shape)))

    return [f"ptr {name}", f"ptr {out}"], body


def nibbles(signedness):
    """Bytes -> 4-bit integers -> i32, and back to bytes by trunci and pack."""

    def body(k):
        raw = k.load(k.p[0], "i8", (16,))
        small = k.op("Unpack", k.tile("i4", 32), raw)
        wide = k.op("ExtI", k.tile("i32", 32), small, signedness=signedness)
        k.store(k.p[1], "i32", (32,), wide)
        again = k.op(
            "TruncI",
            k.tile("i4", 32),
            k.op("AddI", k.tile("i32", 32), wide, k.spread(k.int(1), "i32", (32,))),
        )
        k.store(k.p[2], "i8", (16,), k.op("Pack", k.tile("i8", 16), again))

    return ["ptr i8", "ptr i32", "ptr i8"], body


def reduce(name, shape, dim, combine, identity, attrs=(), scan=False, reverse=False):
    """One operand with a body of one op."""

    def body(k):
        out = shape if scan else tuple(n for i, n in enumerate(shape) if i != dim)
        more = {"reverse": reverse} if scan else {}
        nested = k.op(
            "Scan" if scan else "Reduce",
            [k.tile(name, *out)],
            [k.load(k.p[0], name, shape)],
            dim=dim,
            identities=[k.identity(identity, name)],
            **more,
        )
        with k.region(nested, k.tile(name), k.tile(name)) as (a, b):
            k.op("Yield", [k.op(combine, k.tile(name), a, b, **dict(attrs))])
        k.store(k.p[1], name, out, nested.done()[0])

    return [f"ptr {name}"] * 2, body


def reduce_pairs(n):
    """Greatest value with its first position: two operands, a body of compares and selects."""

    def body(k):
        values, places = k.load(k.p[0], "f32", (n,)), k.op("Iota", k.tile("i32", n))
        nested = k.op(
            "Reduce",
            [k.tile("f32"), k.tile("i32")],
            [values, places],
            dim=0,
            identities=[k.identity(float("-inf"), "f32"), k.identity(2147483647, "i32")],
        )
        f, i, m = k.tile("f32"), k.tile("i32"), k.tile("i1")
        with k.region(nested, f, f, i, i) as (a, b, x, y):
            more = k.op("CmpF", m, a, b, comparison_predicate="greater_than", comparison_ordering="ordered")
            same = k.op("CmpF", m, a, b, comparison_predicate="equal", comparison_ordering="ordered")
            first = k.op("CmpI", m, x, y, comparison_predicate="less_than", signedness="signed")
            take = k.op("OrI", m, more, k.op("AndI", m, same, first))
            k.op("Yield", [k.op("Select", f, take, a, b), k.op("Select", i, take, x, y)])
        best, place = nested.done()
        k.store(k.p[1], "f32", (), best)
        k.store(k.p[2], "i32", (), place)

    return ["ptr f32", "ptr f32", "ptr i32"], body


def rmw(name, mode, order="relaxed", scope="device", masked=False):
    """Every element updates its own place; the old values are stored."""

    def body(k):
        value = k.load(k.p[1], name, (N,))
        more = {"mask": k.load(k.p[3], "i1", (N,))} if masked else {}
        old, token = k.op(
            "AtomicRMWTko",
            k.tile(name, N),
            k.at(k.p[0], name, (N,)),
            value,
            mode=mode,
            memory_ordering_semantics=order,
            memory_scope=scope,
            **more,
        )
        k.store(k.p[2], name, (N,), old, **({"mask": more["mask"]} if masked else {}), token=token)

    return [f"ptr {name}"] * 3 + (["ptr i1"] if masked else []), body


def cas(name, order, scope):
    def body(k):
        cmp, val = k.load(k.p[1], name, (N,)), k.load(k.p[2], name, (N,))
        old, token = k.op(
            "AtomicCASTko",
            k.tile(name, N),
            k.at(k.p[0], name, (N,)),
            cmp,
            val,
            memory_ordering_semantics=order,
            memory_scope=scope,
        )
        k.store(k.p[3], name, (N,), old, token=token)

    return [f"ptr {name}"] * 4, body


def view_of(k, name, pointer, shape, strides):
    tensor = k.types.tensor_view(k.elem(name), shape, strides, bc.PtrAttr.Missing)
    return tensor, k.op("MakeTensorView", tensor, pointer, [], [])


def partition(name, shape, strides, tile, dim_map, padding, at):
    """Loads one tile of a static view and stores it densely."""

    def body(k):
        tensor, base = view_of(k, name, k.p[0], shape, strides)
        kind = k.types.partition_view(tile, tensor, dim_map, bc.PaddingValue[padding])
        view = k.op("MakePartitionView", kind, base)
        value, _ = k.op(
            "LoadViewTko", k.tile(name, *tile), view, [k.int(i) for i in at], inbounds=[False] * len(at)
        )
        k.store(k.p[1], name, tile, value)

    return [f"ptr {name}"] * 2, body


def strided(name, shape, strides, tile, steps, padding, at):
    def body(k):
        tensor, base = view_of(k, name, k.p[0], shape, strides)
        kind = k.types.strided_view(tile, steps, tensor, list(range(len(tile))), bc.PaddingValue[padding])
        view = k.op("MakeStridedView", kind, base)
        value, _ = k.op(
            "LoadViewTko", k.tile(name, *tile), view, [k.int(i) for i in at], inbounds=[False] * len(at)
        )
        k.store(k.p[1], name, tile, value)
        sizes = k.op("GetIndexSpaceShape", [k.tile("i32")] * len(tile), view)
        for i, size in enumerate(sizes):
            where = k.op("Offset", k.tile("ptr i32"), k.p[2], k.int(i))
            k.op("StorePtrTko", where, size)

    return [f"ptr {name}"] * 2 + ["ptr i32"], body


def red_view(name, mode, scope="device"):
    def body(k):
        tensor, base = view_of(k, name, k.p[0], [24], [1])
        kind = k.types.partition_view([N], tensor, [0], bc.PaddingValue.Missing)
        view = k.op("MakePartitionView", kind, base)
        k.op(
            "AtomicRedViewTko",
            view,
            [k.int(0)],
            k.load(k.p[1], name, (N,)),
            mode=mode,
            inbounds=[],
            memory_ordering_semantics="relaxed",
            memory_scope=scope,
        )

    return [f"ptr {name}"] * 2, body


def tensor_shape():
    """get_tensor_shape in i64 with a dynamic extent; get_index_space_shape in i16 of the partition."""

    def body(k):
        tensor = k.types.tensor_view(k.elem("f32"), [bc.DYNAMIC_SHAPE, 40], [40, 1], bc.PtrAttr.Missing)
        base = k.op("MakeTensorView", tensor, k.p[0], [k.p[2]], [])
        parts = k.types.partition_view([4, 16], tensor, [0, 1], bc.PaddingValue.Missing)
        view = k.op("MakePartitionView", parts, base)
        for i, size in enumerate(k.op("GetTensorShape", [k.tile("i64")] * 2, base)):
            k.op("StorePtrTko", k.op("Offset", k.tile("ptr i64"), k.p[1], k.int(i)), size)
        for i, size in enumerate(k.op("GetIndexSpaceShape", [k.tile("i16")] * 2, view)):
            wide = k.op("ExtI", k.tile("i64"), size, signedness="unsigned")
            k.op("StorePtrTko", k.op("Offset", k.tile("ptr i64"), k.p[1], k.int(2 + i)), wide)

    return ["ptr f32", "ptr i64", "i32"], body


def pointer_casts():
    """ptr_to_int, arithmetic on addresses, int_to_ptr, ptr_to_ptr to bytes and a negative offset."""

    def body(k):
        address = k.op("PtrToInt", k.tile("i64"), k.p[0])
        third = k.op("IntToPtr", k.tile("ptr i32"), k.op("AddI", k.tile("i64"), address, k.int(8, "i64")))
        k.op("StorePtrTko", k.p[1], k.op("LoadPtrTko", k.tile("i32"), third)[0])
        second = k.op("Offset", k.tile("ptr i32"), third, k.int(-1, "i64"))
        k.op(
            "StorePtrTko",
            k.op("Offset", k.tile("ptr i32"), k.p[1], k.int(1)),
            k.op("LoadPtrTko", k.tile("i32"), second)[0],
        )
        raw = k.op("PtrToPtr", k.tile("ptr i8"), second)
        high = k.op("LoadPtrTko", k.tile("i8"), k.op("Offset", k.tile("ptr i8"), raw, k.int(3, "i8")))[0]
        k.op(
            "StorePtrTko",
            k.op("Offset", k.tile("ptr i32"), k.p[1], k.int(2, "i16")),
            k.op("ExtI", k.tile("i32"), high, signedness="signed"),
        )

    return ["ptr i32", "ptr i32"], body


def masked_access(name, padding):
    """load_ptr_tko with mask and padding, store_ptr_tko with mask, scopes on both, a token between them."""

    def body(k):
        mask = k.load(k.p[1], "i1", (N,))
        fill = k.spread(k.load(k.p[3], name, ()), name, (N,)) if padding else None
        more = {"paddingValue": fill} if padding else {}
        value, token = k.op(
            "LoadPtrTko",
            k.tile(name, N),
            k.at(k.p[0], name, (N,)),
            mask=mask,
            memory_ordering_semantics="acquire",
            memory_scope="device",
            **more,
        )
        both = k.op("JoinTokens", k.token_type, [token, k.op("MakeToken", k.token_type)])
        keep = {} if padding else {"mask": mask}
        k.op(
            "StorePtrTko",
            k.at(k.p[2], name, (N,)),
            value,
            memory_ordering_semantics="release",
            memory_scope="sys",
            token=both,
            **keep,
        )

    return [f"ptr {name}", "ptr i1", f"ptr {name}"] + ([f"ptr {name}"] if padding else []), body


def unsigned_for():
    """A loop over unsigned bounds that are negative when read as signed."""

    def body(k):
        i = k.tile("i32")
        nested = k.op("For", [i], k.p[1], k.p[2], k.int(1 << 28), [k.int(0)], unsignedCmp=True)
        with k.region(nested, i, i) as (iv, acc):
            one = k.op("AddI", i, acc, k.int(1))
            k.op("Continue", [k.op("XOrI", i, one, k.op("ShRI", i, iv, k.int(24), signedness="unsigned"))])
        k.op("StorePtrTko", k.p[0], nested.done()[0])

    return ["ptr i32", "i32", "i32"], body


def loop_types():
    """A loop whose results differ in number and type from what it carries, left by break under two ifs."""

    def body(k):
        i, f, m = k.tile("i32"), k.tile("f32"), k.tile("i1")
        nested = k.op("Loop", [f], [k.int(0), k.p[1]])
        with k.region(nested, i, i) as (count, left):
            done = k.op(
                "CmpI", m, left, k.int(0), comparison_predicate="less_than_or_equal", signedness="signed"
            )
            outer = k.op("If", [], done)
            with k.region(outer):
                even = k.op(
                    "CmpI",
                    m,
                    k.op("AndI", i, count, k.int(1)),
                    k.int(0),
                    comparison_predicate="equal",
                    signedness="signed",
                )
                inner = k.op("If", [], even)
                with k.region(inner):
                    k.op("Break", [k.op("IToF", f, count, signedness="signed")])
                with k.region(inner):
                    k.op("Break", [k.op("NegF", f, k.op("IToF", f, count, signedness="signed"))])
                inner.done()
                k.op("Yield", [])
            with k.region(outer):
                k.op("Yield", [])
            outer.done()
            k.op("Continue", [k.op("AddI", i, count, k.int(1)), k.op("SubI", i, left, k.int(3))])
        k.op("StorePtrTko", k.p[0], nested.done()[0])

    return ["ptr f32", "i32"], body


def return_in_loop():
    """return under an if inside a loop: what follows the loop is skipped."""

    def body(k):
        i, m = k.tile("i32"), k.tile("i1")
        nested = k.op("Loop", [i], [k.int(0)])
        with k.region(nested, i) as (count,):
            stop = k.op("CmpI", m, count, k.p[1], comparison_predicate="equal", signedness="signed")
            outer = k.op("If", [], stop)
            with k.region(outer):
                k.op("StorePtrTko", k.p[0], k.int(-1))
                k.op("Return", ())
            with k.region(outer):
                k.op("Yield", [])
            outer.done()
            far = k.op("CmpI", m, count, k.int(5), comparison_predicate="greater_than", signedness="signed")
            leave = k.op("If", [], far)
            with k.region(leave):
                k.op("Break", [count])
            with k.region(leave):
                k.op("Yield", [])
            leave.done()
            k.op("Continue", [k.op("AddI", i, count, k.int(1))])
        k.op("StorePtrTko", k.p[0], nested.done()[0])

    return ["ptr i32", "i32"], body


def token_chain(fence):
    """Store, load, store on one place, ordered only by tokens; the second access goes through an alias."""

    def body(k):
        first = k.store(k.p[0], "i32", (N,), k.op("Iota", k.tile("i32", N)))
        if fence:
            first = k.op("MemoryFenceAliasTko", first)
        value, second = k.op("LoadPtrTko", k.tile("i32", N), k.at(k.p[1], "i32", (N,)), token=first)
        k.store(k.p[0], "i32", (N,), k.op("AddI", k.tile("i32", N), value, value), token=second)

    return ["ptr i32", "ptr i32"], body


def table(private, constant_flag):
    """A global of f32, read through get_global."""

    def body(k):
        data = struct.pack("<8f", *[0.5 * i - 1 for i in range(8)])
        visibility = bc.SymbolVisibility.Private if private else bc.SymbolVisibility.Public
        k.writer.global_section.define_global("lookup", k.tile("f32", 8), data, 16, constant_flag, visibility)
        base = k.op("GetGlobal", k.tile("ptr f32"), "lookup")
        k.store(k.p[0], "f32", (8,), k.load(base, "f32", (8,)))

    return ["ptr f32"], body


def scratch(in_global):
    """alloca: a reversed copy through local memory."""

    def body(k):
        base = k.op("Alloca", k.tile("ptr i32"), 16, 16, global_=in_global)
        where = k.at(base, "i32", (16,))
        stored = k.op("StorePtrTko", where, k.load(k.p[0], "i32", (16,)))
        last = k.spread(k.int(15), "i32", (16,))
        back = k.op("SubI", k.tile("i32", 16), last, k.op("Iota", k.tile("i32", 16)))
        many = k.spread(base, "ptr i32", (16,))
        value, _ = k.op(
            "LoadPtrTko", k.tile("i32", 16), k.op("Offset", k.tile("ptr i32", 16), many, back), token=stored
        )
        k.store(k.p[1], "i32", (16,), value)

    return ["ptr i32", "ptr i32"], body


def assumptions():
    """Every predicate: they change nothing."""

    def body(k):
        base = k.op("Assume", k.tile("ptr i32"), k.p[0], attribute.DivBy(16))
        n = k.op("Assume", k.tile("i32"), k.p[2], attribute.Bounded(0, 1000))
        n = k.op("Assume", k.tile("i32"), n, attribute.Bounded(None, 4096))
        line = k.op("Assume", k.tile("i32", N), k.op("Iota", k.tile("i32", N)), attribute.DivBy(4, 4, 0))
        line = k.op("AddI", k.tile("i32", N), line, k.spread(n, "i32", (N,)))
        value = k.load(base, "i32", (N,))
        value = k.op("Assume", k.tile("i32", N), value, SameElements([4]))
        k.store(k.p[1], "i32", (N,), k.op("AddI", k.tile("i32", N), value, line))

    return ["ptr i32", "ptr i32", "i32"], body


def block_numbers():
    """Six numbers per block, stored at the block's place."""

    def body(k):
        i = k.tile("i32")
        bid = k.op("GetTileBlockId", i, i, i)
        size = k.op("GetNumTileBlocks", i, i, i)
        place = k.op(
            "AddI",
            i,
            bid[0],
            k.op("MulI", i, size[0], k.op("AddI", i, bid[1], k.op("MulI", i, size[1], bid[2]))),
        )
        place = k.op("MulI", i, place, k.int(6))
        for n, value in enumerate((*bid, *size)):
            at = k.op("AddI", i, place, k.int(n))
            k.op("StorePtrTko", k.op("Offset", k.tile("ptr i32"), k.p[0], at), value)

    return ["ptr i32"], body


def mma(op, lhs, rhs, acc, shape, attrs=()):
    m, n, kk = shape[-3:]
    batch = shape[:-3]

    def body(k):
        a, b = k.load(k.p[0], lhs, (*batch, m, kk)), k.load(k.p[1], rhs, (*batch, kk, n))
        c = k.load(k.p[2], acc, (*batch, m, n))
        k.store(k.p[3], acc, (*batch, m, n), k.op(op, k.tile(acc, *batch, m, n), a, b, c, **dict(attrs)))

    return [f"ptr {lhs}", f"ptr {rhs}", f"ptr {acc}", f"ptr {acc}"], body


def mma_tf32(shape):
    m, n, kk = shape

    def body(k):
        a = k.op("FToF", k.tile("tf32", m, kk), k.load(k.p[0], "f32", (m, kk)))
        b = k.op("FToF", k.tile("tf32", kk, n), k.load(k.p[1], "f32", (kk, n)))
        c = k.load(k.p[2], "f32", (m, n))
        k.store(k.p[3], "f32", (m, n), k.op("MmaF", k.tile("f32", m, n), a, b, c))

    return ["ptr f32"] * 4, body


def mma_f4(scale, block):
    """f4 operands from packed bytes, with their scales."""
    m, n, kk = 16, 16, 64

    def body(k):
        a = k.op(
            "Reshape",
            k.tile("e2m1", m, kk),
            k.op("Unpack", k.tile("e2m1", m * kk), k.load(k.p[0], "i8", (m * kk // 2,))),
        )
        b = k.op(
            "Reshape",
            k.tile("e2m1", kk, n),
            k.op("Unpack", k.tile("e2m1", n * kk), k.load(k.p[1], "i8", (n * kk // 2,))),
        )
        sa, sb = k.load(k.p[2], scale, (m, kk // block)), k.load(k.p[3], scale, (kk // block, n))
        c = k.spread(k.const("f32", struct.pack("<f", 0.5)), "f32", (m, n))
        k.store(k.p[4], "f32", (m, n), k.op("MmaFScaled", k.tile("f32", m, n), a, b, c, sa, sb))

    return ["ptr i8", "ptr i8", f"ptr {scale}", f"ptr {scale}", "ptr f32"], body


def via(step, name, out, attrs=(), back=None):
    """A conversion to a type without arithmetic and back: f32 -> tf32 -> f32."""

    def body(k):
        value = k.op("FToF", k.tile(step, N), k.load(k.p[0], name, (N,)), **dict(attrs))
        k.store(k.p[1], out, (N,), k.op("FToF", k.tile(out, N), value, **dict(back or ())))

    return [f"ptr {name}", f"ptr {out}"], body


def printed():
    def body(k):
        value = k.load(k.p[0], "i32", (4,))
        token = k.op("PrintTko", [value, k.const("f32", struct.pack("<f", 1.5))], str="x=%d f=%f\n")
        k.store(k.p[1], "i32", (4,), value, token=token)

    return ["ptr i32", "ptr i32"], body


def checked():
    def body(k):
        value = k.load(k.p[0], "i32", (4,))
        ok = k.op(
            "CmpI",
            k.tile("i1", 4),
            value,
            k.int(0, "i32", 4),
            comparison_predicate="greater_than_or_equal",
            signedness="signed",
        )
        k.op("Assert", ok, "values must not be negative")
        k.store(k.p[1], "i32", (4,), value)

    return ["ptr i32", "ptr i32"], body
