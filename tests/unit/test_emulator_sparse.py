"""Sparse A of mma.sync and wgmma on the emulator: which columns the stored elements take, by each type, shape and selector."""

import ml_dtypes
import numpy as np
import pytest
from emulator_kit import entry

from tests.unit.test_emulator_wgmma import descriptor, kernel, place, unpack
from tileiras.run.emulator import launch

DTYPES = {
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "tf32": np.float32, "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2, "s8": np.int8, "u8": np.uint8,
}  # fmt: skip
BITS = {"f16": 16, "bf16": 16, "tf32": 32, "s4": 4, "u4": 4, "e2m1": 4}
E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])
RNG = np.random.default_rng(0)


def elements(rows, columns, type_):
    """(values, codes or elements as the instruction takes them)."""
    if type_ == "e2m1":
        codes = RNG.integers(0, 16, (rows, columns))
        return E2M1[codes], codes
    low = 0 if type_[0] == "u" else -4
    x = RNG.integers(low, 5, (rows, columns))
    return x.astype(np.float64), x if type_ in ("s4", "u4") else x.astype(DTYPES[type_])


def words(x, type_):
    """Elements in rows as 32-bit words."""
    bits = BITS.get(type_, 8)
    if bits == 4:
        return ((x.reshape(len(x), -1, 8) & 15) << (np.arange(8) * 4)).sum(-1).astype(np.uint32)
    return np.ascontiguousarray(x).view(np.uint32)


def sparse(rows, k, type_):
    """(A with its zeros, what is stored of it, the codes of each row)."""
    values, stored = elements(rows, k // 2, type_)
    dense, codes = np.zeros((rows, k)), []
    for r in range(rows):
        row = []
        for chunk in range(k // (2 if type_ == "tf32" else 8 if BITS.get(type_) == 4 else 4)):
            if type_ == "tf32":
                at = int(RNG.integers(2))
                dense[r, 2 * chunk + at] = values[r, chunk]
                row += [2 * at, 2 * at + 1]
                continue
            one, two = np.sort(RNG.permutation(4)[:2]).tolist()
            row += [one, two]
            if BITS.get(type_) == 4:
                for i, at in enumerate((one, two)):
                    dense[r, 8 * chunk + 2 * at : 8 * chunk + 2 * at + 2] = values[
                        r, 4 * chunk + 2 * i : 4 * chunk + 2 * i + 2
                    ]
            else:
                dense[r, [4 * chunk + one, 4 * chunk + two]] = values[r, 2 * chunk : 2 * chunk + 2]
        codes.append(row)
    return dense, stored, codes


def spread(codes, type_, selector):
    """The register of codes of each of 32 lanes; other lanes have anything."""
    out = RNG.integers(0, 1 << 32, 32, dtype=np.uint64)

    def packed(some):
        return sum(c << 2 * i for i, c in enumerate(some))

    for g in range(8):
        one, two = codes[g], codes[g + 8]
        quad = out[4 * g : 4 * g + 4]
        if type_ in ("f16", "bf16", "tf32"):
            for i in range(len(one) // 8):
                part = slice(8 * i, 8 * i + 8)
                at = selector if len(one) == 8 else 2 * selector + i
                quad[at] = packed(one[part]) | packed(two[part]) << 16
        else:
            for i in range(len(one) // 16):
                part = slice(16 * i, 16 * i + 16)
                quad[2 * selector + 2 * i : 2 * selector + 2 * i + 2] = packed(one[part]), packed(two[part])
    return out.astype(np.uint32)


CASES = [
    *(("m16n8k16", acc, "f16", s) for acc in ("f32", "f16") for s in range(4)), ("m16n8k16", "f32", "bf16", 2),
    *(("m16n8k32", "f32", t, s) for t in ("f16", "bf16") for s in range(2)), *(("m16n8k8", "f32", "tf32", s) for s in range(4)),
    *(("m16n8k16", "f32", "tf32", s) for s in range(2)), *(("m16n8k32", "s32", t, s) for t in ("s8", "u8") for s in range(2)),
    ("m16n8k64", "s32", "s8", 0), *(("m16n8k64", "s32", t, s) for t in ("s4", "u4") for s in range(2)),
    ("m16n8k128", "s32", "s4", 0), ("m16n8k64", "f32", "e4m3", 0), ("m16n8k64", "f32", "e5m2", 0),
]  # fmt: skip


def registers(x):
    """Words of an operand as each lane's registers, [32, count]."""
    lane = np.arange(32)[:, None]
    if len(x) == 8:
        return x[lane >> 2, np.arange(x.shape[1] // 4) * 4 + (lane & 3)]
    i = np.arange(x.shape[1] // 2)
    return x[(lane >> 2) + i % 2 * 8, i // 2 * 4 + (lane & 3)]


def multiply(op, a, b, meta, selector, count, more=(), tail=""):
    """What each lane's accumulators are, [32, count], from 1; more: further registers, which tail names %s0, %s1, ..."""
    out = np.zeros((32, count), np.uint32)
    groups = {"a": a, "b": b, "e": meta[:, None], **{f"s{i}": v[:, None] for i, v in enumerate(more)}}
    one = {"f32": "0x3F800000", "s32": "1", "f16": "0x3C003C00"}[
        next(t for t in op.split(".") if t in ("s32", "f16", "f32"))
    ]
    text = (
        ".reg .b32 %t, %c<4>, "
        + ", ".join(f"%{r}_<{v.shape[1]}>" for r, v in groups.items())
        + "; .reg .b64 %o;\n"
    )
    text += "mov.u32 %t, %tid.x;\n" + "".join(f"mov.b32 %c{i}, {one}; " for i in range(count))
    for p, (r, v) in enumerate(groups.items()):
        text += f"\nld.param.u64 %o, [p{p}]; mad.wide.u32 %o, %t, {4 * v.shape[1]}, %o; "
        text += "".join(f"ld.global.b32 %{r}_{i}, [%o+{4 * i}]; " for i in range(v.shape[1]))
    named = {r: ", ".join(f"%{r}_{i}" for i in range(v.shape[1])) for r, v in groups.items()}
    d = ", ".join(f"%c{i}" for i in range(count))
    text += f"\nmma.sp::ordered_metadata.sync.aligned.{op} {{{d}}}, {{{named['a']}}}, {{{named['b']}}}, {{{d}}}, %e_0, "
    text += f"{selector}{tail};\nld.param.u64 %o, [p{len(groups)}]; mad.wide.u32 %o, %t, {4 * count}, %o;\n"
    text += "".join(f"st.global.b32 [%o+{4 * i}], %c{i}; " for i in range(count)) + "ret;"
    params = ", ".join(f".param .u64 p{i}" for i in range(len(groups) + 1))
    launch(entry(text, params), "k", 1, 32, [*(np.ascontiguousarray(v) for v in groups.values()), out])
    return out


@pytest.mark.parametrize("shape, acc, type_, selector", CASES)
def test_mma_of_a_sparse_matrix(shape, acc, type_, selector):
    k = int(shape.partition("k")[2])
    dense, stored, codes = sparse(16, k, type_)
    values, b = elements(8, k, type_)
    count = 2 if acc == "f16" else 4
    fragments = registers(words(stored, type_)), registers(words(b, type_))
    got = multiply(
        f"{shape}.row.col.{acc}.{type_}.{type_}.{acc}",
        *fragments,
        spread(codes, type_, selector),
        selector,
        count,
    )
    got = got.view({"f32": np.float32, "s32": np.int32, "f16": np.float16}[acc])
    lane, i = np.arange(32)[:, None], np.arange(4)
    assert (got == (dense @ values.T + 1)[(lane >> 2) + i // 2 * 8, (lane & 3) * 2 + i % 2]).all()


def test_mma_of_a_sparse_matrix_with_block_scales():
    """Pairs of e2m1, a scale for each 32 columns of A with its zeros, of each row and of each column of B."""
    dense, stored, codes = sparse(16, 128, "e2m1")
    values, b = elements(8, 128, "e2m1")
    scales = RNG.integers(0x30, 0x48, (2, 32, 4)).astype(np.uint8)  # e4m3, of each lane
    op = "m16n8k128.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue4m3"
    got = multiply(op, registers(words(stored, "e2m1")), registers(words(b, "e2m1")), spread(codes, "e2m1", 0), 0, 4,
                   [s.view(np.uint32)[:, 0] for s in scales], ", %s0_0, {0, 1}, %s1_0, {0, 2}").view(np.float32)  # fmt: skip
    exact = scales.view(ml_dtypes.float8_e4m3fn).astype(np.float64)
    row, column = np.arange(16), np.arange(8)
    of_a, of_b = exact[0, row % 8 * 4 + row // 8 + 2], exact[1, column * 4 + 2]
    want = (dense * np.repeat(of_a, 32, 1)) @ (values * np.repeat(of_b, 32, 1)).T + 1
    lane, i = np.arange(32)[:, None], np.arange(4)
    assert (got == want[(lane >> 2) + i // 2 * 8, (lane & 3) * 2 + i % 2].astype(np.float32)).all()


@pytest.mark.parametrize(
    "type_, selector", [("f16", 0), ("f16", 1), ("bf16", 0), ("tf32", 1), ("e4m3", 0), ("s8", 0), ("u8", 0)]
)
@pytest.mark.parametrize("in_registers", [False, True])
@pytest.mark.parametrize("seed", [None, 1])
def test_wgmma_of_a_sparse_matrix(type_, selector, in_registers, seed):
    n, k, acc = 24, 512 // BITS.get(type_, 8), "s32" if type_[1:] == "8" else "f32"
    dense, stored, codes = sparse(64, k, type_)
    values, b = elements(n, k, type_)
    meta = np.concatenate([spread(codes[16 * w : 16 * w + 16], type_, selector) for w in range(4)])
    fragments = np.concatenate([registers(words(stored, type_)[16 * w : 16 * w + 16]) for w in range(4)])
    given = np.zeros((128, 8), np.uint32)
    given[:, :4], given[:, 4] = fragments, meta
    (ai, alo, aso), (bi, blo, bso) = place(stored, 32, 0), place(b, 64, 0)
    image = np.concatenate([ai, bi])
    immediates = "" if acc == "s32" else ", 1, 1"
    if type_ in ("f16", "bf16"):
        immediates += ", 0" if in_registers else ", 0, 0"
    loaded = "ld.global.b32 %meta, [%pa+16]; fence.proxy.async; bar.sync 0;"
    text = kernel(f"m64n{n}k{k}.{acc}.{type_}.{type_}", n // 2, immediates, a_registers=4 if in_registers else 0, d_type=acc,
                  before=".reg .b32 %meta; " + loaded)  # fmt: skip
    text = (
        text.replace("%pa, %t, 16, %pa;", "%pa, %t, 32, %pa;")
        .replace("mma_async.sync", "mma_async.sp.sync")
        .replace("%bd, %scale,", f"%bd, %meta, {selector}, %scale,")
    )
    text = text.replace("%bd, %scale;", f"%bd, %meta, {selector}, %scale;")
    out = np.zeros((128, n // 2), np.uint32)
    descriptors = descriptor(0, alo, aso, 32), descriptor(len(ai), blo, bso, 64)
    report = launch(
        text, "k", 1, 128, [image, image.size, given, out, *descriptors, 0], check=seed is not None, seed=seed
    )
    assert (unpack(out, n, acc) == dense @ values.T).all() and report.findings == []
