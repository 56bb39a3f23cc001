"""Memory for the random programs of fuzz_wide.py: loads, gathers, ragged views, atomics, stores read back by token."""

from __future__ import annotations

import math

from tests.corpus.fuzz import tile
from tests.corpus.fuzz_flow import Wide

SH = ((1,), (2,), (4,), (8,), (32,), (128,), (1024,), (4096,), (4, 8), (16, 16), (64, 2), (2, 64), (1, 32), (32, 1),
      (8, 4, 2), (2, 2, 64), (1, 16, 4), (4, 1, 32), (128, 16), (2, 4, 2, 8), (64, 64), (128, 64), (1, 1), (1, 1, 1),
      (1, 1, 1, 1), (2, 1), (1, 2), (256, 1), (1, 256), (16, 8, 16), (4, 4, 4, 4), (8, 1, 2, 16), (512, 2), (2, 512),
      (32, 128), (1, 2048), (2048, 1))  # fmt: skip


def load(p: Wide) -> None:
    """A fresh tile from one of the inputs."""
    dtype, shape = p.choose(("i32", "f32")), p.choose(SH)
    at = p.pointers("%a" if dtype == "i32" else "%b", dtype, shape)
    p.count += 1
    p.lines.append(
        f"{p.indent}%v{p.count}, %t{p.count} = load_ptr_tko weak {at} : {tile(f'ptr<{dtype}>', shape)} -> "
        f"{tile(dtype, shape)}, token"
    )
    p.push(f"%v{p.count}", dtype, shape)


def gather(p: Wide) -> None:
    """A load through computed pointers that were permuted on the way."""
    one = p.pick(("i32", "i64", "i16"))
    if not one:
        return
    a, d, s = one
    t = tile(d, s)
    src = p.choose(("i32", "f32"))
    base = "%a" if src == "i32" else "%b"
    k = p.constant(16383, d, s)
    i = p.emit(f"andi {a}, {k} : {t}")
    P = f"ptr<{src}>"
    ones = [1] * len(s)
    b = base
    if s:
        b = p.emit(f"reshape {base} : tile<{P}> -> {tile(P, ones)}")
        b = p.emit(f"broadcast {b} : {tile(P, ones)} -> {tile(P, s)}")
    at = p.emit(f"offset {b}, {i} : {tile(P, s)}, {t} -> {tile(P, s)}")
    mask = p.pick(("i1",), s) if p.choose((0, 1)) else None
    for _ in range(p.choose((0, 0, 1, 2))):  # reshuffle pointers
        if len(s) == 2:
            at = p.emit(f"permute {at} [1, 0] : {tile(P, s)} -> {tile(P, s[::-1])}")
            s = s[::-1]
            mask = p.pick(("i1",), s) if mask else None
    p.count += 1
    n = p.count
    if mask:
        pad = p.pick((src,), s)
        pad = pad[0] if pad else p.constant(3 if src == "i32" else "3.0", src, s)
        p.count += 1
        n = p.count
        p.lines.append(
            f"{p.indent}%v{n}, %t{n} = load_ptr_tko weak {at}, {mask[0]}, {pad} : "
            f"{tile(P, s)}, {tile('i1', s)}, {tile(src, s)} -> {tile(src, s)}, token"
        )
    else:
        p.lines.append(
            f"{p.indent}%v{n}, %t{n} = load_ptr_tko weak {at} : {tile(P, s)} -> {tile(src, s)}, token"
        )
    p.push(f"%v{n}", src, s)


def view(p: Wide) -> None:
    """A load of a partition view: ragged, padded, dimensions mapped, extents and strides known or not."""
    d = p.choose(("i32", "f32"))
    r = p.choose((1, 2, 3))
    base = "%a" if d == "i32" else "%b"
    tl = [p.choose((1, 2, 4, 8, 16, 32)) for _ in range(r)]
    ext = [p.choose((1, 3, 5, 7, 16, 20)) for _ in range(r)]
    st = []
    acc = 1
    for e in ext[::-1]:
        st.append(acc)
        acc *= e
    st = st[::-1]
    q = p.choose((0, 1, 2))
    if q == 1 and r > 1:  # transpose strides
        ext = ext[::-1]
        st = st[::-1]
    if q == 2:
        st = [2 * x for x in st]
    if sum((e - 1) * x for e, x in zip(ext, st)) >= 16384:
        return
    dyn = [p.choose((0, 1)) for _ in range(2 * r)]

    def val(v, dy, w="i32"):
        return p.constant(v, "i32") if dy else str(v)

    shp = [val(v, dy) for v, dy in zip(ext, dyn)]
    sts = [val(v, dy) for v, dy in zip(st, dyn[r:])]
    ty = "x".join("?" if dy else str(v) for v, dy in zip(ext, dyn))
    sy = ",".join("?" if dy else str(v) for v, dy in zip(st, dyn[r:]))
    TV = f"tensor_view<{ty}x{d}, strides=[{sy}]>"
    sig = f" tile<i32> -> {TV}" if any(dyn) else f" {TV}"
    tv = p.emit(f"make_tensor_view {base}, shape = [{', '.join(shp)}], strides = [{', '.join(sts)}] :{sig}")
    dm = list(range(r))
    if r > 1 and p.choose((0, 0, 1)):
        dm = dm[1:] + dm[:1]
    pad = p.choose(
        ("", "padding_value = zero, ")
        if d == "i32"
        else (
            "padding_value = zero, ",
            "padding_value = nan, ",
            "padding_value = neg_inf, ",
            "padding_value = neg_zero, ",
        )
    )
    if not pad:
        pad = "padding_value = zero, "
    dms = f", dim_map={dm}" if dm != list(range(r)) else ""
    PV = f"partition_view<tile=({'x'.join(map(str, tl))}), {pad}{TV}{dms}>"
    pv = p.emit(f"make_partition_view {tv} : {PV}")
    idx = []
    for k in range(r):
        n = -(-ext[dm[k]] // tl[k])
        v = p.choose(range(min(n, 4)))
        idx.append(p.choose((p.constant(v, "i32"), f"%k{v}")))
    p.count += 1
    p.lines.append(
        f"{p.indent}%v{p.count}, %t{p.count} = load_view_tko weak {pv}[{', '.join(idx)}] : {PV}, tile<i32> -> "
        f"{tile(d, tl)}, token"
    )
    p.push(f"%v{p.count}", d, tl)


def atomics(p: Wide) -> None:
    """Updates of the scratch array, at places of their own or colliding, and what is there afterwards."""
    if p.indent != "  ":
        return
    one = p.pick(("i32",))
    if not one:
        return
    a, _, s = one
    t = tile("i32", s)

    P = "ptr<i32>"
    how = p.choose(("distinct", "collide"))
    if how == "distinct":
        at = p.pointers("%sc", "i32", s)
    else:
        k = p.constant(63, "i32", s)
        i = p.pick(("i32",), s)[0]
        i = p.emit(f"andi {i}, {k} : {t}")
        ones = [1] * len(s)
        b = "%sc"
        if s:
            b = p.emit(f"reshape %sc : tile<{P}> -> {tile(P, ones)}")
            b = p.emit(f"broadcast {b} : {tile(P, ones)} -> {tile(P, s)}")
        at = p.emit(f"offset {b}, {i} : {tile(P, s)}, {t} -> {tile(P, s)}")
    mode = p.choose(("add", "xor", "max", "umin", "and", "or"))
    order, scope = (
        p.choose(("relaxed", "acq_rel", "release", "acquire")),
        p.choose(("device", "sys", "tl_blk")),
    )
    tok = p.tok or "%tok"
    if not p.tok:
        p.lines.append(f"{p.indent}%tok = make_token : token")
    mask = p.pick(("i1",), s)
    m1, m2 = (f", {mask[0]}", f", {tile('i1', s)}") if mask else ("", "")
    p.count += 1
    c = p.count
    p.lines.append(
        f"{p.indent}%v{c}, %t{c} = atomic_rmw_tko {order} {scope} {at}, {mode}, {a}{m1} token={tok} : "
        f"{tile(P, s)}, {t}{m2} -> {t}, token"
    )
    if how == "distinct" and not mask:
        p.push(f"%v{c}", "i32", s)
    p.count += 1
    e = p.count
    sh = p.choose([x for x in SH if math.prod(x) <= 4096])
    q = p.pointers("%sc", "i32", sh)
    p.count += 1
    e = p.count
    p.lines.append(
        f"{p.indent}%v{e}, %t{e} = load_ptr_tko weak {q} token=%t{c} : {tile(P, sh)} -> {tile('i32', sh)}, token"
    )
    p.push(f"%v{e}", "i32", sh)
    p.tok = f"%t{e}"


def scratch_store(p: Wide) -> None:
    """A store to the scratch array, read back in another layout."""
    if p.indent != "  ":
        return
    one = p.pick(("i32",))
    if not one or math.prod(one[2]) > 16384:
        return
    a, _, s = one
    P = "ptr<i32>"
    if not p.tok:
        p.lines.append(f"{p.indent}%tok = make_token : token")
        p.tok = "%tok"
    q = p.pointers("%sc", "i32", s)
    p.count += 1
    c = p.count
    p.lines.append(
        f"{p.indent}%t{c} = store_ptr_tko weak {q}, {a} token={p.tok} : {tile(P, s)}, {tile('i32', s)} -> token"
    )
    sh = p.choose([x for x in SH if math.prod(x) <= 4096])
    q = p.pointers("%sc", "i32", sh)
    p.count += 1
    e = p.count
    p.lines.append(
        f"{p.indent}%v{e}, %t{e} = load_ptr_tko weak {q} token=%t{c} : {tile(P, sh)} -> {tile('i32', sh)}, token"
    )
    p.push(f"%v{e}", "i32", sh)
    p.tok = f"%t{e}"
