"""Loads, stores, atomics, copies and matrix instructions of the PTX emulator on hand-written PTX."""

import ml_dtypes
import numpy as np
import pytest
from emulator_kit import HEAD, apply, entry

from tileiras.run.emulator import EmulatorError, Memory, launch
from tileiras.run.emulator.unit import Unit

TID = ".reg .b32 %t; .reg .b64 %a, %b, %o; mov.u32 %t, %tid.x;"


def run(body, params, *, threads=32, grid=1, before="", directives="", **options):
    """Launches a kernel of pointer parameters p0, p1..; %a, %b are free, %t is the thread."""
    spelled = ", ".join(f".param .u64 p{i}" for i in range(len(params)))
    return launch(
        entry(TID + body, spelled, before=before, directives=directives),
        "k",
        grid,
        threads,
        params,
        **options,
    )


def test_widths_and_extension():
    src = np.arange(0, 256, dtype=np.uint8)
    out = np.zeros((32, 6), np.uint64)
    run(
        """ld.param.u64 %a, [p0]; mad.wide.u32 %a, %t, 8, %a; ld.param.u64 %o, [p1]; mad.wide.u32 %o, %t, 48, %o;
        .reg .b32 %x; .reg .b64 %y; .reg .b16 %h;
        ld.global.u8 %x, [%a+7]; cvt.u64.u32 %y, %x; st.global.u64 [%o], %y;
        ld.global.s8 %y, [%a+7]; st.global.u64 [%o+8], %y;
        ld.global.s16 %x, [%a+6]; cvt.u64.u32 %y, %x; st.global.u64 [%o+16], %y;
        ld.global.nc.L1::no_allocate.L2::128B.b64 %y, [%a]; st.global.wt.u64 [%o+24], %y;
        ld.global.u8 %h, [%a+1]; cvt.u64.u16 %y, %h; st.global.u64 [%o+32], %y;
        ld.volatile.global.s32 %y, [%a+4]; st.relaxed.gpu.global.u64 [%o+40], %y; ret;""",
        [src, out],
    )
    b = src.reshape(32, 8)
    assert (out[:, 0] == b[:, 7]).all()
    assert (out[:, 1].view(np.int64) == b[:, 7].view(np.int8)).all()
    assert (out[:, 2] == b[:, 6:].copy().view(np.int16)[:, 0].astype(np.int32).view(np.uint32)).all()
    assert (out[:, 3] == src.view(np.uint64)).all() and (out[:, 4] == b[:, 1]).all()
    assert (out[:, 5].view(np.int64) == b[:, 4:].copy().view(np.int32)[:, 0]).all()


def test_vectors():
    src = np.arange(256, dtype=np.uint32)
    out = np.zeros(256, np.uint32)
    run(
        """ld.param.u64 %a, [p0]; mad.wide.u32 %a, %t, 32, %a; ld.param.u64 %o, [p1]; mad.wide.u32 %o, %t, 32, %o;
        .reg .b32 %x<8>; .reg .b64 %y<4>;
        ld.global.v4.b32 {%x0, %x1, _, %x3}, [%a]; mov.b32 %x2, 99; st.global.v4.b32 [%o], {%x3, %x2, %x1, %x0};
        ld.global.v2.b64 {%y0, %y1}, [%a+16]; st.global.v2.u64 [%o+16], {%y1, %y0}; ret;""",
        [src, out],
    )
    s = src.reshape(32, 8)
    want = np.stack([s[:, 3], np.full(32, 99), s[:, 1], s[:, 0], s[:, 6], s[:, 7], s[:, 4], s[:, 5]], 1)
    assert (out.reshape(32, 8) == want).all()
    run(
        """ld.param.u64 %a, [p0]; mad.wide.u32 %a, %t, 32, %a; ld.param.u64 %o, [p1]; mad.wide.u32 %o, %t, 32, %o;
        .reg .b32 %x<8>; ld.global.v8.b32 {%x0, %x1, %x2, %x3, %x4, %x5, %x6, %x7}, [%a];
        st.global.v8.b32 [%o], {%x7, %x6, %x5, %x4, %x3, %x2, %x1, %x0}; ret;""",
        [align32(src), out := align32(out)],
    )
    assert (out.reshape(32, 8) == s[:, ::-1]).all()


def align32(a):
    """A copy at an address that is a multiple of 32."""
    raw = np.zeros(a.nbytes + 32, np.uint8)
    at = -raw.ctypes.data % 32
    out = raw[at : at + a.nbytes].view(a.dtype)
    out[:] = a
    return out


def test_predicated_accesses_touch_only_their_lanes():
    src, out = np.arange(10, dtype=np.uint32), np.full(32, 7, np.uint32)
    run(
        """ld.param.u64 %a, [p0]; mad.wide.u32 %a, %t, 4, %a; ld.param.u64 %o, [p1]; mad.wide.u32 %o, %t, 4, %o;
        .reg .pred %p; .reg .b32 %x; setp.lt.u32 %p, %t, 10; mov.b32 %x, 50; @%p ld.global.b32 %x, [%a];
        st.global.b32 [%o], %x; @!%p st.global.b32 [%o], %t; ret;""",
        [src, out],
    )
    assert out.tolist() == list(range(32))


def test_state_spaces_and_generic_addresses():
    out = np.zeros((64, 6), np.uint32)
    before = """.global .align 4 .u32 table[4] = {10, 20, 0x1e, 050};
        .const .align 4 .b8 bytes[6] = {1, 2, 3, 4, 5, 6};
        .global .u64 pointers[2] = {table+4, generic(bytes)+1};
        .shared .align 4 .u32 s[64]; .extern .shared .align 16 .b8 dyn[];\n"""
    run(
        """ld.param.u64 %o, [p0]; mad.wide.u32 %o, %t, 24, %o; .reg .b32 %x, %y, %z; .reg .pred %p, %q, %r;
        .local .align 4 .b8 frame[16]; .reg .b64 %sp, %g;
        and.b32 %x, %t, 3; mov.u64 %a, table; mad.wide.u32 %a, %x, 4, %a; ld.global.u32 %y, [%a]; st.global.u32 [%o], %y;
        ld.global.u64 %b, [pointers]; ld.u32 %y, [%b]; ld.global.u64 %b, [pointers+8]; ld.u8 %z, [%b]; add.u32 %y, %y, %z;
        st.global.u32 [%o+4], %y;
        mov.u32 %x, s; mad.lo.u32 %x, %t, 4, %x; st.shared.u32 [%x], %t; bar.sync 0; xor.b32 %y, %t, 63;
        mov.u64 %a, s; cvta.shared.u64 %a, %a; mad.wide.u32 %a, %y, 4, %a; ld.u32 %z, [%a]; st.u32 [%o+8], %z;
        mov.u64 %sp, frame; cvta.local.u64 %g, %sp; st.local.u32 [%sp+4], %t; ld.u32 %z, [%g+4]; st.global.u32 [%o+12], %z;
        setp.gt.u32 %p, %t, 40; selp.b64 %b, %a, %g, %p; @!%p add.u64 %b, %b, 4; ld.u32 %z, [%b]; st.global.u32 [%o+16], %z;
        isspacep.shared %p, %a; isspacep.local %q, %g; isspacep.global %r, %o; and.pred %p, %p, %q; and.pred %p, %p, %r;
        isspacep.shared %q, %o; not.pred %q, %q; and.pred %p, %p, %q; selp.u32 %z, 1, 0, %p; st.global.u32 [%o+20], %z;
        mov.u32 %x, dyn; st.shared.u32 [%x+252], %t; cvta.to.global.u64 %a, %o; ret;""",
        [out],
        threads=64,
        before=before,
        dynamic_shared_bytes=256,
    )
    t = np.arange(64)
    assert (out[:, 0] == np.array([10, 20, 30, 40])[t & 3]).all()
    assert (out[:, 1] == 22).all()
    assert (out[:, 2] == 63 - t).all() and (out[:, 3] == t).all()
    assert (out[:, 4] == np.where(t > 40, 63 - t, t)).all() and (out[:, 5] == 1).all()


def test_generic_addresses_of_shared_memory_are_truncated_to_shared_ones():
    """ISA, "Addresses as operands": an address is truncated if its register is wider than the state space's addresses."""
    out = np.zeros(64, np.uint32)
    text = """ld.param.u64 %o, [p0]; mad.wide.u32 %o, %t, 4, %o; .reg .b32 %x, %y;
        mov.u64 %a, s; cvta.shared.u64 %a, %a; mad.wide.u32 %a, %t, 4, %a; st.shared.u32 [%a+4], %t; bar.sync 0;
        ld.shared::cta.u32 %x, [%a+4]; mov.u32 %y, s; mad.lo.u32 %y, %t, 4, %y; ld.shared.u32 %y, [%y+4];
        mad.lo.u32 %x, %y, 100, %x; st.global.u32 [%o], %x; ret;"""
    before = ".shared .align 4 .u32 s[65];\n"
    run(text, [out], threads=64, before=before)
    assert (out == 101 * np.arange(64)).all()
    with pytest.raises(EmulatorError, match="out of bounds"):
        run(text.replace("cvta.shared.u64 %a, %a;", "mov.u64 %a, %o;"), [out], threads=64, before=before)


def test_strided_and_overlapping_arrays():
    base = np.arange(64, dtype=np.float32)
    view, out = base[::-2], np.zeros(32, np.float32)
    run(
        """ld.param.u64 %a, [p0]; .reg .s64 %i; mul.wide.s32 %i, %t, -8; add.s64 %a, %a, %i; .reg .f32 %f;
        ld.global.f32 %f, [%a]; ld.param.u64 %o, [p1]; mad.wide.u32 %o, %t, 4, %o; st.global.f32 [%o], %f; ret;""",
        [view, out],
    )
    assert (out == view).all()
    run(
        """ld.param.u64 %a, [p0]; mad.wide.u32 %a, %t, 4, %a; ld.param.u64 %o, [p1]; mad.wide.u32 %o, %t, 4, %o; .reg .f32 %f;
        ld.global.f32 %f, [%a]; add.f32 %f, %f, 0f3F800000; st.global.f32 [%o], %f; ret;""",
        [base[:32], base[32:]],
    )
    assert (base[32:] == base[:32] + 1).all()


def test_memory_reached_through_stored_pointers():
    target = np.arange(32, dtype=np.uint32)
    table = np.array([target.ctypes.data], np.uint64)
    code = """ld.param.u64 %a, [p0]; ld.global.u64 %b, [%a]; mad.wide.u32 %b, %t, 4, %b; .reg .b32 %x; ld.global.u32 %x, [%b];
        add.u32 %x, %x, 5; st.global.u32 [%b], %x; ret;"""
    with pytest.raises(EmulatorError, match="out of bounds"):
        run(code, [table])
    run(code, [table], memory=[target])
    assert (target == np.arange(5, 37)).all()
    memory = Memory()
    memory.add(target, "target")
    run(code, [table], memory=memory)
    assert (target == np.arange(10, 42)).all()


@pytest.mark.parametrize("offset, kind", [(4, "past"), (-2000000, "before")])
def test_out_of_bounds(offset, kind):
    a = np.zeros(8, np.float32)
    with pytest.raises(EmulatorError) as error:
        run(
            f"""ld.param.u64 %a, [p0]; mad.wide.u32 %a, %t, 4, %a; .reg .f32 %f;
            ld.global.f32 %f, [%a+{offset}]; ret;""",
            [a],
            grid=3,
            threads=(8, 4),
        )
    text = str(error.value)
    assert (
        text.startswith("out of bounds: 4-byte load")
        and "PTX line" in text
        and "ld.global.f32 %f, [%a" in text
    )
    assert "CTA (0, 0, 0)" in text and (
        "thread (7, 0, 0)" in text if kind == "past" else "thread (0, 0, 0)" in text
    )
    assert "p0" in text or kind == "before"


def test_bounds_of_other_spaces_and_read_only_arrays():
    with pytest.raises(EmulatorError, match=r"misaligned: 4-byte access at .*PTX line"):
        run("ld.param.u64 %a, [p0]; ld.global.b32 %t, [%a+2]; ret;", [np.zeros(4, np.float32)])
    with pytest.raises(EmulatorError, match="8 bytes of shared memory"):
        run(".shared .b8 s[8]; mov.u32 %t, s; st.shared.b32 [%t+8], %t; ret;", [])
    with pytest.raises(EmulatorError, match="out of bounds"):
        run(".local .b8 s[8]; mov.u64 %a, s; st.local.b32 [%a+4096], %t; ret;", [])
    a = np.zeros(4, np.float32)
    a.flags.writeable = False
    with pytest.raises(EmulatorError, match="read-only"):
        run("ld.param.u64 %a, [p0]; st.global.b32 [%a], %t; ret;", [a])


def test_parameters_follow_their_types():
    out = np.zeros(8, np.uint64)
    text = entry(
        """ld.param.u64 %a, [o]; ld.param.u8 %x, [c]; cvt.u64.u32 %y, %x; st.global.u64 [%a], %y;
        ld.param.s16 %x, [s]; cvt.s64.s32 %y, %x; st.global.u64 [%a+8], %y; ld.param.f32 %f, [f]; mov.b32 %x, %f;
        cvt.u64.u32 %y, %x; st.global.u64 [%a+16], %y; ld.param.f64 %d, [d]; st.global.f64 [%a+24], %d;
        ld.param.b16 %h, [h]; cvt.u64.u16 %y, %h; st.global.u64 [%a+32], %y; ld.param.u64 %y, [l]; st.global.u64 [%a+40], %y;
        ld.param.v2.u32 {%x, %z}, [blob+8]; cvt.u64.u32 %y, %z; st.global.u64 [%a+48], %y;
        mov.u64 %b, blob; ld.param.u32 %x, [%b+4]; cvt.u64.u32 %y, %x; st.global.u64 [%a+56], %y; ret;""",
        ".param .u64 o, .param .u8 c, .param .s16 s, .param .f32 f, .param .f64 d, .param .b16 h, .param .s64 l, "
        ".param .align 8 .b8 blob[16]",
        directives=".maxntid 64, 1, 1 .minnctapersm 2",
    ).replace(
        "{ ld.param",
        "{ .reg .b64 %a, %b, %y; .reg .b32 %x, %z; .reg .b16 %h; .reg .f32 %f; .reg .f64 %d; ld.param",
        1,
    )
    blob = np.arange(1, 5, dtype=np.uint32).tobytes()
    launch(text, "k", 1, 1, [out, 200, -3, 1.5, 2, ml_dtypes.bfloat16(3), -1, blob])
    assert out.tolist() == [
        200,
        2**64 - 3,
        0x3FC00000,
        np.array([2.0]).view(np.uint64)[0],
        0x4040,
        2**64 - 1,
        4,
        2,
    ]
    with pytest.raises(EmulatorError, match="takes 8 parameters, got 1"):
        launch(text, "k", 1, 1, [out])
    with pytest.raises(EmulatorError, match="maxntid"):
        launch(text, "k", 1, 65, [out] * 8)
    with pytest.raises(EmulatorError, match="no entry named other"):
        launch(text, "other", 1, 1, [])


def test_the_alignment_behind_ptr_is_that_of_the_pointee():
    """As nvcc writes it for sm_100a: the pointers keep their own alignment, and so do the parameters behind them."""
    out = np.zeros(2, np.uint64)
    text = entry(
        ".reg .b64 %a, %b; ld.param.u64 %a, [o]; ld.param.u64 %b, [q]; st.global.u64 [%a], %b; "
        "ld.param.u8 %b, [c]; st.global.u64 [%a+8], %b; ret;",
        ".param .u8 c, .param .u64 .ptr .align 1 o, .param .u16 d, .param .u64 .ptr .global .align 16 q",
    )
    launch(text, "k", 1, 1, [7, out, 3, 1 << 40])
    assert out.tolist() == [1 << 40, 7]
    unit = Unit(text, "k", (1, 1, 1), Memory(), 0)
    assert [p.offset - unit.param_base for p in unit.entry.params] == [0, 8, 16, 24]


@pytest.mark.parametrize(
    "more,text",
    [
        ({"grid": (1, 65536)}, "grid"),
        ({"grid": (1 << 31,)}, "grid"),
        ({"seed": -1}, "seed"),
        ({"memory": None}, "memory"),
        ({"memory": np.zeros(1)}, "memory"),
    ],
)
def test_bad_launches_are_refused_by_name(more, text):
    with pytest.raises(EmulatorError, match=text):
        launch(entry("ret;"), "k", **{"grid": 1, "block": 1, "params": [], **more})


def test_required_block():
    out = np.zeros(4, np.uint32)
    text = entry(
        ".reg .b64 %a; .reg .b32 %x<4>; mov.u32 %x0, %ntid.x; mov.u32 %x1, %ntid.y; mov.u32 %x2, %nctaid.z;"
        "mov.u32 %x3, %nctaid.x; ld.param.u64 %a, [o]; st.global.v4.u32 [%a], {%x0, %x1, %x2, %x3}; ret;",
        ".param .u64 o",
        directives=".reqntid 32, 2",
    )
    launch(text, "k", (3, 1, 5), None, [out])
    assert out.tolist() == [32, 2, 5, 3]
    with pytest.raises(EmulatorError, match="requires block"):
        launch(text, "k", 1, 64, [out])


# atomics
def sequential(op, start, values, extra):
    """Old values of one location under sequential read-modify-writes."""

    def step(cur, v, w):
        return {
            "add": lambda: cur + v,
            "min": lambda: min(cur, v),
            "max": lambda: max(cur, v),
            "exch": lambda: v,
            "and": lambda: cur & v,
            "or": lambda: cur | v,
            "xor": lambda: cur ^ v,
            "inc": lambda: 0 if cur >= v else cur + 1,
            "dec": lambda: v if cur == 0 or cur > v else cur - 1,
            "cas": lambda: w if cur == v else cur,
        }[op]()

    old, cur = [], start
    for v, w in zip(values, extra):
        old.append(cur)
        cur = step(cur, v, w)
    return old, cur


@pytest.mark.parametrize("space", ["global", "shared", ""])
@pytest.mark.parametrize(
    "type_, op",
    [
        ("u32", "add"),
        ("s32", "min"),
        ("u32", "max"),
        ("b32", "and"),
        ("b32", "or"),
        ("b32", "xor"),
        ("u32", "inc"),
        ("u32", "dec"),
        ("b32", "exch"),
        ("u64", "add"),
        ("b64", "exch"),
        ("s64", "max"),
        ("f32", "add"),
        ("f64", "add"),
        ("b32", "cas"),
        ("b16", "cas"),
        ("b64", "cas"),
    ],
)
def test_atomics_are_sequential(space, type_, op):
    bits = int(type_[1:])
    kind = {"u": f"uint{bits}", "s": f"int{bits}", "b": f"uint{bits}", "f": f"float{bits}"}[type_[0]]
    rng = np.random.default_rng(0)
    values = rng.integers(0, 9, 64).astype(kind)
    extra = rng.integers(0, 9, 64).astype(kind)
    cells, old = np.full(4, 3, kind), np.zeros(64, kind)
    size = bits // 8
    dot = f".{space}" if space else ""
    address = "mad.wide.u32 %b, %c, SIZE, %b;" if space != "shared" else "mad.lo.u32 %s, %c, SIZE, %s;"
    where = "[%b]" if space != "shared" else "[%s]"
    more = ", %w" if op == "cas" else ""
    body = f"""ld.param.u64 %a, [p1]; mad.wide.u32 %a, %t, SIZE, %a; ld.global.bN %v, [%a];
        ld.param.u64 %a, [p2]; mad.wide.u32 %a, %t, SIZE, %a; ld.global.bN %w, [%a];
        ld.param.u64 %b, [p0]; and.b32 %c, %t, 3; mov.u32 %s, cells; {address}
        atom{dot}.{op}.{type_} %r, {where}, %v{more};
        ld.param.u64 %o, [p3]; mad.wide.u32 %o, %t, SIZE, %o; st.global.bN [%o], %r; bar.sync 0;"""
    if space == "shared":
        body = (
            """ld.param.u64 %b, [p0]; and.b32 %c, %t, 3; mad.wide.u32 %b, %c, SIZE, %b; mov.u32 %s, cells;
            mad.lo.u32 %s, %c, SIZE, %s; ld.global.bN %v, [%b]; st.shared.bN [%s], %v; bar.sync 0;"""
            + body
            + """ld.param.u64 %b, [p0]; mad.wide.u32 %b, %c, SIZE, %b; ld.shared.bN %v, [%s]; st.global.bN [%b], %v;"""
        )
    declared = f".reg .b{max(16, bits)} %v, %w, %r; .reg .b32 %c, %s; .shared .align 8 .b8 cells[64];"
    run(
        (declared + body + "ret;").replace("SIZE", str(size)).replace("bN", f"b{bits}"),
        [cells, values, extra, old],
        threads=64,
    )
    for c in range(4):
        want, last = sequential(
            op, kind and np.array(3, kind).item(), values[c::4].tolist(), extra[c::4].tolist()
        )
        assert old[c::4].tolist() == want and cells[c] == last


def test_red_vector_and_half_atomics():
    f = np.zeros(4, np.float32)
    h = np.zeros(4, np.float16)
    b = np.zeros(2, ml_dtypes.bfloat16)
    run(
        """ld.param.u64 %a, [p0]; .reg .f32 %f, %g<4>; cvt.rn.f32.u32 %f, %t; red.global.add.f32 [%a], %f;
        red.relaxed.gpu.global.add.f32 [%a+4], 0f40000000; atom.global.v2.f32.add {%g0, %g1}, [%a+8], {%f, 0f3F800000};
        ld.param.u64 %a, [p1]; .reg .b16 %h; .reg .b32 %x; cvt.rn.f16.f32 %h, %f; red.global.add.noftz.f16 [%a], %h;
        mov.b32 %x, {%h, %h}; red.global.add.noftz.f16x2 [%a+4], %x;
        ld.param.u64 %a, [p2]; cvt.rn.bf16.f32 %h, 0f3F800000; atom.global.add.noftz.bf16 %h, [%a], %h; ret;""",
        [align32(f), align32(h), b],
    )
    f2 = align32(f)
    run(
        """ld.param.u64 %a, [p0]; .reg .f32 %f, %g<4>; cvt.rn.f32.u32 %f, %t; red.global.add.f32 [%a], %f;
        red.relaxed.gpu.global.add.f32 [%a+4], 0f40000000;
        atom.global.v2.f32.add {%g0, %g1}, [%a+8], {%f, 0f3F800000}; ret;""",
        [f2],
    )
    assert f2.tolist() == [496, 64, 496, 32]
    assert b[0] == 32
    h2 = align32(h)
    run(
        """ld.param.u64 %a, [p0]; .reg .b16 %h; .reg .b32 %x; cvt.rn.f16.u32 %h, %t; red.global.add.noftz.f16 [%a], %h;
        mov.b32 %x, {%h, 0x3c00}; red.global.add.noftz.f16x2 [%a+4], %x; ret;""",
        [h2],
    )
    assert h2.tolist() == [496, 0, 496, 32]


def test_cas_128():
    cell = align32(np.array([1, 2], np.uint64))
    out = align32(np.zeros((32, 2), np.uint64).reshape(-1))
    run(
        """ld.param.u64 %a, [p0]; ld.param.u64 %o, [p1]; mad.wide.u32 %o, %t, 16, %o; .reg .b128 %x, %y, %z; .reg .b64 %l, %h;
        mov.b64 %l, 1; mov.b64 %h, 2; mov.b128 %x, {%l, %h}; cvt.u64.u32 %l, %t; mov.b128 %y, {%l, %l};
        atom.global.cas.b128 %z, [%a], %x, %y; st.global.b128 [%o], %z; ret;""",
        [cell, out],
    )
    out = out.reshape(32, 2)
    assert out[0].tolist() == [1, 2] and (out[1:] == 0).all() and cell.tolist() == [0, 0]


# asynchronous copies
def test_cp_async_is_done_only_when_waited_for():
    src, out = np.arange(1, 65, dtype=np.uint32), np.zeros((32, 4), np.uint32)
    run(
        """.shared .align 16 .b8 s[256]; .reg .b32 %s, %x<4>; .reg .pred %p;
        ld.param.u64 %a, [p0]; mad.wide.u32 %a, %t, 4, %a; mov.u32 %s, s; mad.lo.u32 %s, %t, 4, %s;
        mov.b32 %x0, 0; st.shared.b32 [%s], %x0; st.shared.b32 [%s+128], %x0;
        cp.async.ca.shared.global [%s], [%a], 4; cp.async.commit_group;
        cp.async.ca.shared.global.L2::128B [%s+128], [%a+128], 4; cp.async.commit_group;
        ld.shared.b32 %x0, [%s]; cp.async.wait_group 1; ld.shared.b32 %x1, [%s]; ld.shared.b32 %x2, [%s+128];
        cp.async.wait_group 0; ld.shared.b32 %x3, [%s+128];
        ld.param.u64 %o, [p1]; mad.wide.u32 %o, %t, 16, %o; st.global.v4.b32 [%o], {%x0, %x1, %x2, %x3}; ret;""",
        [src, out],
    )
    t = np.arange(32)
    assert (out == np.stack([0 * t, t + 1, 0 * t, t + 33], 1)).all()


def test_cp_async_sizes():
    src, out = np.arange(1, 129, dtype=np.uint32), np.full((32, 4), 9, np.uint32)
    run(
        """.shared .align 16 .b8 s[512]; .reg .b32 %s, %n, %x<4>; .reg .pred %p;
        ld.param.u64 %a, [p0]; mad.wide.u32 %a, %t, 16, %a; mov.u32 %s, s; mad.lo.u32 %s, %t, 16, %s;
        setp.ge.u32 %p, %t, 16; and.b32 %n, %t, 7; shl.b32 %n, %n, 1; @%p bra IGN;
        cp.async.cg.shared.global [%s], [%a], 16, %n; bra DONE;
        IGN: cp.async.cg.shared.global [%s], [%a], 16, %p;
        DONE: cp.async.wait_all; ld.shared.v4.b32 {%x0, %x1, %x2, %x3}, [%s];
        ld.param.u64 %o, [p1]; mad.wide.u32 %o, %t, 16, %o; st.global.v4.b32 [%o], {%x0, %x1, %x2, %x3}; ret;""",
        [align32(src), got := align32(out.reshape(-1))],
    )
    raw = src.view(np.uint8).reshape(32, 16).copy()
    for t in range(32):
        raw[t, (t & 7) * 2 if t < 16 else 0 :] = 0
    assert (got.view(np.uint8).reshape(32, 16) == raw).all()


# mbarriers
def test_mbarrier_between_two_warps():
    out = np.zeros((2, 32), np.uint32)
    report = run(
        """.shared .align 8 .b64 full; .shared .align 8 .b64 empty; .shared .align 4 .b8 slot[128];
        .reg .b32 %f, %e, %i, %ph, %x, %y, %s; .reg .b64 %st; .reg .pred %p, %w;
        mov.u32 %f, full; mov.u32 %e, empty; mov.u32 %s, slot; and.b32 %y, %t, 31; mad.lo.u32 %s, %y, 4, %s;
        setp.eq.u32 %p, %t, 0; @%p mbarrier.init.shared::cta.b64 [%f], 32; @%p mbarrier.init.shared.b64 [%e], 32;
        bar.sync 0; setp.ge.u32 %w, %t, 32; mov.u32 %i, 0; mov.u32 %x, 0; @%w bra CONSUMER;
        PRODUCER: and.b32 %ph, %i, 1; xor.b32 %ph, %ph, 1;
        W1: mbarrier.try_wait.parity.shared.b64 %p, [%e], %ph; @!%p bra W1;
        mad.lo.u32 %x, %i, 1000, %y; st.shared.b32 [%s], %x; mbarrier.arrive.shared.b64 %st, [%f];
        add.u32 %i, %i, 1; setp.lt.u32 %p, %i, 10; @%p bra PRODUCER; bra END;
        CONSUMER: and.b32 %ph, %i, 1;
        W2: mbarrier.test_wait.parity.shared.b64 %p, [%f], %ph; @!%p bra W2;
        ld.shared.b32 %ph, [%s]; add.u32 %x, %x, %ph; mbarrier.arrive.shared.b64 _, [%e];
        add.u32 %i, %i, 1; setp.lt.u32 %p, %i, 10; @%p bra CONSUMER;
        END: ld.param.u64 %o, [p0]; mad.wide.u32 %o, %t, 4, %o; st.global.b32 [%o], %x; ret;""",
        [out],
        threads=64,
        check=True,
        seed=2,
    )
    assert report.findings == []
    assert (out[1] == 45000 + 10 * np.arange(32)).all()


def test_mbarrier_transactions_and_states():
    out = np.zeros(4, np.uint32)
    run(
        """.shared .align 8 .b64 m; .reg .b32 %x<4>, %m; .reg .b64 %s, %q; .reg .pred %p<4>;
        mov.u32 %m, m; setp.ne.u32 %p0, %t, 0; @%p0 exit; mbarrier.init.shared.b64 [%m], 2;
        mbarrier.arrive.expect_tx.shared.b64 %s, [%m], 16; mbarrier.pending_count.b64 %x0, %s;
        mbarrier.arrive.shared.b64 %q, [%m]; mbarrier.test_wait.shared.b64 %p1, [%m], %s; selp.u32 %x1, 1, 0, %p1;
        mbarrier.complete_tx.shared::cta.relaxed.cta.b64 [%m], 16; mbarrier.test_wait.shared.b64 %p1, [%m], %s;
        selp.u32 %x2, 1, 0, %p1; mbarrier.try_wait.parity.shared.b64 %p1, [%m], 1, 1000; selp.u32 %x3, 1, 0, %p1;
        ld.param.u64 %o, [p0]; st.global.v4.b32 [%o], {%x0, %x1, %x2, %x3}; ret;""",
        [out],
    )
    assert out.tolist() == [2, 0, 1, 0]


# matrices
@pytest.mark.parametrize("trans", ["", ".trans"])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_ldmatrix_and_stmatrix(count, trans):
    src = np.arange(8 * 8 * count, dtype=np.uint16)
    out, back = np.zeros((32, count), np.uint32), np.zeros_like(src)
    regs = ", ".join(f"%x{i}" for i in range(count))
    stores = "".join(f"st.global.b32 [%o+{4 * i}], %x{i};" for i in range(count))
    run(
        f""".shared .align 16 .b8 s[{128 * count}]; .reg .b32 %s, %l, %x<4>, %y<4>; .reg .pred %p; .reg .b64 %g;
        setp.lt.u32 %p, %t, {8 * count}; and.b32 %l, %t, {8 * count - 1}; mov.u32 %s, s; mad.lo.u32 %s, %l, 16, %s;
        ld.param.u64 %a, [p0]; mad.wide.u32 %a, %l, 16, %a;
        @%p ld.global.v4.b32 {{%y0, %y1, %y2, %y3}}, [%a]; @%p st.shared.v4.b32 [%s], {{%y0, %y1, %y2, %y3}}; bar.warp.sync -1;
        ldmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 {{{regs}}}, [%s];
        ld.param.u64 %o, [p1]; mad.wide.u32 %o, %t, {4 * count}, %o; {stores} bar.warp.sync 0xffffffff;
        stmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 [%s], {{{regs}}}; bar.warp.sync 0xffffffff;
        ld.param.u64 %a, [p2]; mad.wide.u32 %a, %l, 16, %a; ld.shared.v4.b32 {{%y0, %y1, %y2, %y3}}, [%s];
        @%p st.global.v4.b32 [%a], {{%y0, %y1, %y2, %y3}}; ret;""",
        [align32(src), out, b := align32(back)],
    )
    mats = src.reshape(count, 8, 8)
    for i, m in enumerate(mats):
        m = m.T if trans else m
        want = np.ascontiguousarray(m).view(np.uint32).reshape(-1)
        assert (out[:, i] == want).all()
    assert (b == src).all()


def test_matrices_under_a_guard():
    """Warps that a guard switches off neither read nor write, whatever address they have."""
    out = np.zeros(64, np.uint32)
    run(
        """.shared .align 16 .b8 s[256]; .reg .b32 %s, %l, %x, %v; .reg .pred %p; .reg .b64 %o; setp.lt.u32 %p, %t, 32;
        and.b32 %l, %t, 7; mov.u32 %s, s; mad.lo.u32 %s, %l, 16, %s; selp.b32 %s, %s, -16, %p; mov.b32 %v, %t; mov.b32 %x, 99;
        @%p stmatrix.sync.aligned.m8n8.x1.shared.b16 [%s], {%v}; bar.sync 0;
        @%p ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%x}, [%s];
        ld.param.u64 %o, [p0]; mad.wide.u32 %o, %t, 4, %o; st.global.b32 [%o], %x; ret;""",
        [out], threads=64,
    )  # fmt: skip
    assert (out == np.where(np.arange(64) < 32, np.arange(64), 99)).all()


def fragments(matrix, kind, shape):
    """The registers of an mma operand by the ISA's formulas, [32, registers] as 32-bit words (or f64)."""
    rows, cols = matrix.shape
    per = 1 if matrix.dtype.itemsize >= 4 else 4 // matrix.dtype.itemsize
    out = []
    for lane in range(32):
        g, t = lane >> 2, lane & 3
        items = []
        if kind == "a":
            for k0 in range(0, cols, 4 * per):
                for r0 in range(0, rows, 8):
                    items += [matrix[g + r0, k0 + t * per + j] for j in range(per)]
        else:
            for k0 in range(0, rows, 4 * per):
                items += [matrix[k0 + t * per + j, g] for j in range(per)]
        out.append(items)
    flat = np.array(out, matrix.dtype)
    return flat if matrix.dtype == np.float64 else np.ascontiguousarray(flat).view(np.uint32)


MMAS = [
    ("m16n8k8", "f32", "f16", "f16", np.float16), ("m16n8k16", "f32", "f16", "f16", np.float16),
    ("m16n8k16", "f16", "f16", "f16", np.float16), ("m16n8k8", "f32", "bf16", "bf16", ml_dtypes.bfloat16),
    ("m16n8k16", "f32", "bf16", "bf16", ml_dtypes.bfloat16), ("m16n8k4", "f32", "tf32", "tf32", np.float32),
    ("m16n8k8", "f32", "tf32", "tf32", np.float32), ("m8n8k16", "s32", "s8", "u8", np.int8),
    ("m16n8k16", "s32", "u8", "s8", np.int8), ("m16n8k32", "s32", "s8", "s8", np.int8),
    ("m16n8k4", "f64", "f64", "f64", np.float64),
    ("m8n8k4", "f64", "f64", "f64", np.float64), ("m16n8k8", "f64", "f64", "f64", np.float64),
    ("m16n8k16", "f64", "f64", "f64", np.float64),
    ("m16n8k32", "f32", "e4m3", "e4m3", ml_dtypes.float8_e4m3fn), ("m16n8k32", "f32", "e5m2", "e5m2", ml_dtypes.float8_e5m2),
    ("m16n8k32", "f16", "e4m3", "e4m3", ml_dtypes.float8_e4m3fn), ("m16n8k16", "f32", "e4m3", "e4m3", ml_dtypes.float8_e4m3fn),
]  # fmt: skip


@pytest.mark.parametrize("shape, acc, at, bt, dtype", MMAS, ids=lambda v: v if isinstance(v, str) else "")
def test_mma(shape, acc, at, bt, dtype):
    m, n, k = (int(x) for x in shape[1:].replace("n", " ").replace("k", " ").split())
    rng = np.random.default_rng(0)
    adt = np.uint8 if at == "u8" else dtype
    bdt = np.uint8 if bt == "u8" else dtype
    low = 0 if at[0] == "u" or bt[0] == "u" else -4
    am = rng.integers(low, 5, (m, k)).astype(adt)
    bm = rng.integers(low, 5, (k, n)).astype(bdt)
    fa, fb = fragments(am, "a", shape), fragments(bm, "b", shape)
    wide = acc == "f64"
    reg = "f64" if wide else "b32"
    size = 8 if wide else 4
    accumulators = (m * n // 32) // (2 if acc == "f16" else 1)
    out = np.zeros((32, accumulators), np.float64 if wide else np.uint32)
    load = "".join(f"ld.global.{reg} %a{i}, [%ap+{size * i}];" for i in range(fa.shape[1]))
    load += "".join(f"ld.global.{reg} %b{i}, [%bp+{size * i}];" for i in range(fb.shape[1]))
    one = {"f64": "0d3FF0000000000000", "f32": "0x3F800000", "s32": "1", "f16": "0x3C003C00"}[acc]
    init = "".join(f"mov.{reg} %c{i}, {one};" for i in range(accumulators))
    names = [
        ", ".join(f"%{r}{i}" for i in range(count))
        for r, count in (("a", fa.shape[1]), ("b", fb.shape[1]), ("c", accumulators))
    ]
    code = f""".reg .{reg} %a<9>, %b<9>, %c<5>; .reg .b64 %ap, %bp; ld.param.u64 %ap, [p0];
        mad.wide.u32 %ap, %t, {size * fa.shape[1]}, %ap; ld.param.u64 %bp, [p1]; mad.wide.u32 %bp, %t, {size * fb.shape[1]}, %bp;
        {load}{init} mma.sync.aligned.{shape}.row.col.{acc}.{at}.{bt}.{acc}
        {{{names[2]}}}, {{{names[0]}}}, {{{names[1]}}}, {{{names[2]}}};
        ld.param.u64 %o, [p2]; mad.wide.u32 %o, %t, {size * accumulators}, %o;
        {"".join(f"st.global.{reg} [%o+{size * i}], %c{i};" for i in range(accumulators))} ret;"""
    run(code.replace(".reg .b64 %a, %b, %o;", ""), [fa, fb, out])
    want = am.astype(np.float64) @ bm.astype(np.float64) + 1
    values = out if wide else out.view({"f32": np.float32, "s32": np.int32, "f16": np.float16}[acc])
    for lane in range(32):
        g, t = lane >> 2, lane & 3
        for i in range(m * n // 32):
            assert values[lane, i] == want[g + 8 * (i // 2), t * 2 + i % 2], (lane, i)


@pytest.mark.parametrize(
    "shape, type_", [("m8n8k32", "s4"), ("m16n8k32", "u4"), ("m16n8k64", "s4"), ("m8n8k128", "b1"), ("m16n8k256", "b1")]
)  # fmt: skip
def test_mma_of_elements_below_a_byte(shape, type_):
    """Words of 8 or 32 elements lie as 32-bit elements do."""
    m, n, k = (int(x) for x in shape[1:].replace("n", " ").replace("k", " ").split())
    low, high, bits = {"s4": (-8, 8, 4), "u4": (0, 16, 4), "b1": (0, 2, 1)}[type_]
    rng = np.random.default_rng(k)
    a, b = rng.integers(low, high, (m, k)), rng.integers(low, high, (n, k))
    words = []
    for x in (a, b):
        cut = (x.reshape(len(x), -1, 32 // bits) & ((1 << bits) - 1)) << (np.arange(32 // bits) * bits)
        words.append(cut.sum(-1).astype(np.uint32))
    fa, fb = fragments(words[0], "a", shape), fragments(np.ascontiguousarray(words[1].T), "b", shape)
    out = np.zeros((32, m * n // 32), np.int32)
    names = [
        ", ".join(f"%{r}{i}" for i in range(count))
        for r, count in (("a", fa.shape[1]), ("b", fb.shape[1]), ("c", out.shape[1]))
    ]
    loads = "".join(
        f"ld.param.u64 %o, [p{p}]; mad.wide.u32 %o, %t, {4 * f.shape[1]}, %o;"
        + "".join(f"ld.global.b32 %{r}{i}, [%o+{4 * i}];" for i in range(f.shape[1]))
        for p, (r, f) in enumerate((("a", fa), ("b", fb)))
    )
    run(
        f""".reg .b32 %a<4>, %b<4>, %c<4>; .reg .b64 %o; {loads}
        {"".join(f"mov.b32 %c{i}, 1;" for i in range(out.shape[1]))}
        mma.sync.aligned.{shape}.row.col.s32.{type_}.{type_}.s32{".and.popc" if bits == 1 else ""}
          {{{names[2]}}}, {{{names[0]}}}, {{{names[1]}}}, {{{names[2]}}};
        ld.param.u64 %o, [p2]; mad.wide.u32 %o, %t, {4 * out.shape[1]}, %o;
        {"".join(f"st.global.b32 [%o+{4 * i}], %c{i};" for i in range(out.shape[1]))} ret;""".replace(
            ".reg .b64 %o;", ""
        ),
        [fa, fb, out],
    )
    want = a @ b.T + 1
    for lane in range(32):
        g, t = lane >> 2, lane & 3
        for i in range(m * n // 32):
            assert out[lane, i] == want[g + 8 * (i // 2), t * 2 + i % 2], (lane, i)


def test_movmatrix():
    src = np.arange(64, dtype=np.uint16).reshape(8, 8)
    got = apply(
        "movmatrix.sync.aligned.m8n8.trans.b16 %d0, %a0;", [src.view(np.uint32).reshape(-1)], [np.uint32]
    )
    assert (got.view(np.uint16).reshape(8, 8) == src.T).all()


def test_device_functions_and_recursion():
    source = (
        HEAD
        + """.func (.param .b32 r) square(.param .b32 x) {
            .reg .b32 %v; ld.param.b32 %v, [x]; mul.lo.u32 %v, %v, %v; st.param.b32 [r], %v; ret; }
        .func (.reg .b32 r) plain(.reg .b32 x) { add.u32 r, x, 100; ret; }
        .visible .entry k(.param .u64 p0) { .reg .b32 %t, %v, %w; .reg .b64 %a; .reg .pred %p; mov.u32 %t, %tid.x; mov.u32 %v, %t;
            setp.lt.u32 %p, %t, 5; @%p bra SKIP;
            { .param .b32 arg; .param .b32 res; st.param.b32 [arg], %t; call.uni (res), square, (arg); ld.param.b32 %v, [res]; }
            SKIP: call (%w), plain, (%v); ld.param.u64 %a, [p0]; mad.wide.u32 %a, %t, 4, %a; st.global.u32 [%a], %w; ret; }"""
    )
    out = np.zeros(32, np.uint32)
    launch(source, "k", 1, 32, [out])
    t = np.arange(32)
    assert (out == np.where(t < 5, t, t * t) + 100).all()
    loop = HEAD + ".func f() { call f; ret; } .visible .entry k() { call f; ret; }"
    with pytest.raises(EmulatorError, match="recursive"):
        launch(loop, "k", 1, 1, [])


def test_device_malloc_and_free():
    before = """.extern .func (.param .b64 r) malloc (.param .b64 n); .extern .func free (.param .b64 p);\n"""
    out = np.zeros(32, np.uint32)
    code = """{ .param .b64 n; .param .b64 r; st.param.b64 [n], 64; call.uni (r), malloc, (n); ld.param.b64 %b, [r]; }
        st.u32 [%b+60], %t; ld.u32 %t, [%b+60]; ld.param.u64 %o, [p0]; mad.wide.u32 %o, %t, 4, %o; st.global.u32 [%o], %t;
        { .param .b64 p; st.param.b64 [p], %b; call.uni free, (p); } MORE ret;"""
    run(code.replace("MORE", ""), [out], before=before)
    assert out.tolist() == list(range(32))
    with pytest.raises(EmulatorError, match="out of bounds"):
        run(code.replace("MORE", "st.u32 [%b], %t;"), [out], before=before)


@pytest.mark.parametrize("trans", [False, True])
@pytest.mark.parametrize("bits", [4, 6, 8])
def test_ldmatrix_of_bytes(bits, trans):
    """Element by element: the row that a lane points at, unpacked, and who gets which of its bytes."""
    if bits == 8 and not trans:
        return  # m8n8 with 16 bits
    rng = np.random.default_rng(bits)
    x = rng.integers(0, 256, (32, 16)).astype(np.uint8)
    stream = np.unpackbits(x[:, : 2 * bits], axis=1, bitorder="little").reshape(32, 16, bits)
    values = (stream.astype(int) << np.arange(bits)).sum(-1) if bits < 8 else x.astype(int)
    for count in (1, 2) if trans else (1, 2, 4):
        registers = count * (2 if trans else 1)
        kind = "b8" if bits == 8 else {4: "b8x16.b4x16_p64", 6: "b8x16.b6x16_p32"}[bits]
        shape = f"m16n16.x{count}.trans" if trans else f"m8n16.x{count}"
        regs = ", ".join(f"%x{i}" for i in range(registers))
        stores = " ".join(f"st.global.b32 [%o+{128 * i}], %x{i};" for i in range(registers))
        body = f""".reg .b32 %t, %x<8>, %s; .reg .b64 %a, %o; .shared .align 16 .b8 s[512]; mov.u32 %t, %tid.x; mov.u32 %s, s;
            ld.param.u64 %a, [p0]; ld.param.u64 %o, [p1]; mad.wide.u32 %a, %t, 16, %a; mad.lo.u32 %s, %t, 16, %s;
            mad.wide.u32 %o, %t, 4, %o; ld.global.v4.b32 {{%x0, %x1, %x2, %x3}}, [%a];
            st.shared.v4.b32 [%s], {{%x0, %x1, %x2, %x3}}; bar.warp.sync 0xffffffff;
            ldmatrix.sync.aligned.{shape}.shared.{kind} {{{regs}}}, [%s]; {stores} ret;"""
        out = np.zeros((registers, 32), np.uint32)
        launch(entry(body, ".param .u64 p0, .param .u64 p1"), "k", 1, 32, [x, out])
        for r, t, j in np.ndindex(registers, 32, 4):
            if trans:
                want = values[r // 2 * 16 + 4 * (t % 4) + j, t // 4 + 8 * (r % 2)]
            else:
                want = values[r * 8 + t // 4, 4 * (t % 4) + j]
            assert int(out[r, t]) >> 8 * j & 255 == want


OTHERS = f"""{HEAD}.extern .shared .align 16 .b8 dynamic[]; .shared .align 4 .b8 often[24]; .shared .b32 once;
.func helper() {{ .shared .align 4 .b8 mine[40]; .reg .b32 %x; mov.u32 %x, mine; st.shared.u32 [%x], 1; ret; }}
.visible .entry other() {{ .shared .align 4 .b8 big[4096]; .reg .b32 %x; mov.u32 %x, big; mov.u32 %x, often; call helper; ret; }}
.visible .entry k(.param .u64 p0) {{ .reg .b32 %x; .reg .b64 %o; ld.param.u64 %o, [p0]; mov.u32 %x, dynamic; USE
st.global.u32 [%o], %x; mov.u32 %x, %total_smem_size; st.global.u32 [%o+4], %x; ret; }}"""


@pytest.mark.parametrize("use, offset", [("", 0), ("mov.u32 %x, once; add.u32 %x, %x, 0; mov.u32 %x, dynamic;", 16),
                                         ("call helper;", 48)])  # fmt: skip
def test_shared_memory_is_that_of_the_entry_and_of_what_it_calls(use, offset):
    out = np.zeros(2, np.uint32)
    launch(OTHERS.replace("USE", use), "k", 1, 1, [out], dynamic_shared_bytes=256)
    assert out.tolist() == [offset, offset + 256]
