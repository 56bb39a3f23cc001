"""Memory: pointers, masks, views, atomics, globals, alloca, and what is reported."""

from __future__ import annotations

import numpy as np
import pytest
from unit.reference_kit import DTYPES, ELEMS, Kernel, pointer, tile

from tileiras.compiler.dialects.cuda_tile.ops import BY_NAME
from tileiras.compiler.ir import types as T
from tileiras.compiler.ir.core import Op
from tileiras.run import LaunchError

WEAK = {"memory_ordering_semantics": "weak"}
RELAXED = {"memory_ordering_semantics": "relaxed", "memory_scope": "device"}


def view_of(k: Kernel, base, elem: str, shape: list, strides: list):
    """make_tensor_view with every extent and stride given by i32 constants (dynamic)."""
    vt = T.TensorView(ELEMS[elem], (None,) * len(shape), (None,) * len(strides), None)
    ints = lambda xs: [k.const(x, "i32") for x in xs]  # noqa: E731
    return k.op("make_tensor_view", [base, ints(shape), ints(strides)], [vt])


def load_view(k: Kernel, view, vt, shape: tuple, elem: str, index: list, **attrs):
    kind = {
        T.PartitionView: "make_partition_view",
        T.StridedView: "make_strided_view",
        T.GatherScatterView: "make_gather_scatter_view",
    }[type(vt)]
    made = k.op(kind, [view], [vt])
    return k.op("load_view_tko", [made, index, None], [tile(elem, *shape), T.TOKEN], **WEAK, **attrs)[0]


def findings(error: pytest.ExceptionInfo) -> list[str]:
    return [d.code for d in error.value.diagnostics]


def test_masked_load_pads_and_does_not_touch() -> None:
    k = Kernel("*f32", "*i1", "*f32")
    where, mask = k.addresses(k.args[0], 8, (8,)), k.load(k.args[1], 8)
    pad = k.const(-1.0, "f32", 8)
    k.store(k.args[2], k.op("load_ptr_tko", [where, mask, pad, None], [tile("f32", 8), T.TOKEN], **WEAK)[0])
    out = np.zeros(8, np.float32)
    k.run(np.arange(5, dtype=np.float32), np.arange(8) < 5, out)  # lanes 5..7 would be outside
    assert out.tolist() == [0, 1, 2, 3, 4, -1, -1, -1]


def test_masked_store_leaves_other_elements() -> None:
    k = Kernel("*i32", "*i1")
    where, mask = k.addresses(k.args[0], 8, (8,)), k.load(k.args[1], 8)
    k.op("store_ptr_tko", [where, k.const(7, "i32", 8), mask, None], [T.TOKEN], **WEAK)
    out = np.zeros(8, np.int32)
    k.run(out, np.arange(8) % 3 == 0)
    assert out.tolist() == [7, 0, 0, 7, 0, 0, 7, 0]


def test_bool_memory_is_bytes_and_any_nonzero_byte_is_true() -> None:
    k = Kernel("*i1", "*i1")
    k.store(k.args[1], k.load(k.args[0], 4))
    out = np.full(4, 9, np.uint8)
    k.run(np.array([0, 1, 2, 255], np.uint8), out)
    assert out.tolist() == [0, 1, 1, 1]


def test_access_past_the_end_names_op_place_block_element_and_region() -> None:
    k = Kernel("*f32", "*f32")
    k.store(k.args[1], k.load(k.args[0], 8))
    with pytest.raises(LaunchError) as error:
        k.run(np.zeros(5, np.float32), np.zeros(8, np.float32))
    (found,) = error.value.diagnostics
    assert found.code == "RUN-0001" and found.op == "cuda_tile.load_ptr_tko" and found.loc.file == "k.py"
    assert dict(found.facts)["element"] == "[5]" and dict(found.facts)["block"] == "(0, 0, 0)"
    assert error.value.exit_code == 5 and found.notes


def test_every_element_of_an_array_is_reachable_and_nothing_beside_it() -> None:
    base = np.zeros(100, np.int32)
    middle = base[40:50]
    k = Kernel("*i32", "i32")
    where = k.op("offset", [k.args[0], k.args[1]], [tile(pointer("i32"))])
    k.op("store_ptr_tko", [where, k.const(1, "i32"), None, None], [T.TOKEN], **WEAK)
    for i in range(10):
        k.run(middle, i)
    for i in (-1, 10):
        with pytest.raises(LaunchError):
            k.run(middle, i)
    assert base.tolist() == [0] * 40 + [1] * 10 + [0] * 50


def test_strided_and_negative_strides_are_addressed_as_they_lie() -> None:
    base = np.arange(64, dtype=np.int32)
    k = Kernel("*i32", "i32", "*i32")
    where = k.op("offset", [k.args[0], k.args[1]], [tile(pointer("i32"))])
    k.store(k.args[2], k.op("load_ptr_tko", [where, None, None, None], [tile("i32"), T.TOKEN], **WEAK)[0])
    for array, step in ((base[::-1], -1), (base[3::7], 7), (base.reshape(8, 8).T, 8)):
        out = np.zeros(1, np.int32)
        k.run(array, step, out)
        assert out[0] == array.reshape(-1)[0] + step


def test_misaligned_and_read_only_accesses_are_reported() -> None:
    k = Kernel("*i8", "*i32")
    wide = k.op("ptr_to_ptr", [k.args[0]], [tile(pointer("i32"))])
    k.store(k.args[1], k.op("load_ptr_tko", [wide, None, None, None], [tile("i32"), T.TOKEN], **WEAK)[0])
    raw = np.zeros(64, np.uint8)
    skew = -raw.ctypes.data % 4
    with pytest.raises(LaunchError) as error:
        k.run(raw[skew + 1 :], np.zeros(1, np.int32))
    assert findings(error) == ["RUN-0003"]
    frozen = np.zeros(1, np.int32)
    frozen.flags.writeable = False
    with pytest.raises(LaunchError) as error:
        k.run(raw[skew:], frozen)
    assert findings(error) == ["RUN-0004"]


def test_stored_pointers_reach_memory_passed_beside_the_arguments() -> None:
    k = Kernel("*i64", "*f32")
    inner = k.op("int_to_ptr", [k.load(k.args[0])], [tile(pointer("f32"))])
    k.store(k.args[1], k.load(inner, 4))
    hidden, out = np.arange(4, dtype=np.float32), np.zeros(4, np.float32)
    table = np.array([hidden.ctypes.data], np.int64)
    with pytest.raises(LaunchError):
        k.run(table, out)
    k.run(table, out, memory=[hidden])
    np.testing.assert_array_equal(out, hidden)


def test_arguments_may_alias() -> None:
    k = Kernel("*i32", "*i32")
    k.store(k.args[1], k.op("addi", [k.load(k.args[0], 4)] * 2, [tile("i32", 4)]))
    a = np.arange(8, dtype=np.int32)
    k.run(a[:4], a[2:6])
    assert a.tolist() == [0, 1, 0, 2, 4, 6, 6, 7]


def test_scattered_tile_over_two_arrays() -> None:
    k = Kernel("*i64", "*i32")
    where = k.op("int_to_ptr", [k.load(k.args[0], 4)], [tile(pointer("i32"), 4)])
    k.store(k.args[1], k.op("load_ptr_tko", [where, None, None, None], [tile("i32", 4), T.TOKEN], **WEAK)[0])
    a, b, out = np.arange(4, dtype=np.int32), np.arange(10, 14, dtype=np.int32), np.zeros(4, np.int32)
    table = np.array([a.ctypes.data + 4, b.ctypes.data + 8, a.ctypes.data, b.ctypes.data], np.int64)
    k.run(table, out, memory=[a, b])
    assert out.tolist() == [1, 12, 0, 10]


# ---- views

PADDINGS = {None: 0.0, "zero": 0.0, "neg_zero": -0.0, "nan": np.nan, "pos_inf": np.inf, "neg_inf": -np.inf}


@pytest.mark.parametrize("elem", ["f16", "bf16", "f32", "f64"])
@pytest.mark.parametrize("padding", PADDINGS)
def test_partition_view_pads_beyond_the_extent(elem: str, padding: str | None) -> None:
    x = np.arange(1, 16).reshape(3, 5).astype(DTYPES[elem])
    k = Kernel(f"*{elem}", f"*{elem}")
    view = view_of(k, k.args[0], elem, [3, 5], [5, 1])
    vt = T.PartitionView((2, 4), view.type, (0, 1), padding)
    k.store(k.args[1], load_view(k, view, vt, (2, 4), elem, [k.const(1, "i32"), k.const(1, "i32")]))
    out = np.zeros((2, 4), DTYPES[elem])
    k.run(x, out)
    want = np.full((2, 4), PADDINGS[padding])
    want[0, 0] = 15
    np.testing.assert_array_equal(out.astype(np.float64), want)
    assert (np.signbit(out.astype(np.float64)) == np.signbit(want))[~np.isnan(want)].all()


@pytest.mark.parametrize("traversal", [None, (1, 3), (4, 8)])
@pytest.mark.parametrize("dim_map", [(0, 1), (1, 0)])
def test_dense_views_agree_with_their_definition(dim_map: tuple, traversal: tuple | None) -> None:
    x = np.arange(7 * 11, dtype=np.int32).reshape(7, 11)
    shape = (2, 4)
    steps = traversal or shape
    counts = [-(-x.shape[m] // s) for m, s in zip(dim_map, steps)]
    k = Kernel("*i32", "*i32", "*i32")
    view = view_of(k, k.args[0], "i32", list(x.shape), [11, 1])
    vt = (
        T.PartitionView(shape, view.type, dim_map, "zero")
        if traversal is None
        else T.StridedView(shape, traversal, view.type, dim_map, "zero")
    )
    bx, by, _ = k.op("get_tile_block_id", (), [tile("i32")] * 3)
    value = load_view(k, view, vt, shape, "i32", [bx, by])
    nx = k.const(counts[1], "i32")
    number = k.op("addi", [k.op("muli", [bx, nx], [tile("i32")]), by], [tile("i32")])
    far = k.op("muli", [number, k.const(8, "i32")], [tile("i32")])
    k.store(k.op("offset", [k.args[1], far], [tile(pointer("i32"))]), value)
    space = k.op(
        "get_index_space_shape",
        [k.op("make_partition_view" if traversal is None else "make_strided_view", [view], [vt])],
        [tile("i32")] * 2,
    )
    for i, extent in enumerate(space):
        k.store(k.op("offset", [k.args[2], k.const(i, "i32")], [tile(pointer("i32"))]), extent)
    out, extents = np.zeros((*counts, *shape), np.int32), np.zeros(2, np.int32)
    k.run(x, out, extents, grid=tuple(counts))
    assert extents.tolist() == counts
    for tx in range(counts[0]):
        for ty in range(counts[1]):
            for i in range(2):
                for j in range(4):
                    place = [0, 0]
                    place[dim_map[0]], place[dim_map[1]] = tx * steps[0] + i, ty * steps[1] + j
                    inside = place[0] < 7 and place[1] < 11
                    assert out[tx, ty, i, j] == (x[tuple(place)] if inside else 0)


def test_view_stores_skip_what_is_outside() -> None:
    k = Kernel("*i32")
    view = view_of(k, k.args[0], "i32", [3, 5], [8, 1])
    made = k.op("make_partition_view", [view], [T.PartitionView((4, 8), view.type, (0, 1), None)])
    zero = k.const(0, "i32")
    k.op("store_view_tko", [k.const(1, "i32", 4, 8), made, [zero, zero], None], [T.TOKEN], **WEAK)
    out = np.zeros((4, 8), np.int32)
    k.run(out)
    want = np.zeros((4, 8), np.int32)
    want[:3, :5] = 1
    np.testing.assert_array_equal(out, want)


@pytest.mark.parametrize("sparse", [0, 1])
def test_gather_scatter_view_takes_element_indices(sparse: int) -> None:
    x = np.arange(6 * 10, dtype=np.float32).reshape(6, 10)
    rows = np.array([5, 0, 9, 2], np.int32)
    shape = (4, 2) if sparse == 0 else (2, 4)
    k = Kernel("*f32", "*i32", "*f32")
    view = view_of(k, k.args[0], "f32", [6, 10], [10, 1])
    vt = T.GatherScatterView(shape, view.type, sparse, "zero")
    index = [k.load(k.args[1], 4), k.const(3, "i32")]
    k.store(k.args[2], load_view(k, view, vt, shape, "f32", index if sparse == 0 else index[::-1]))
    out = np.zeros(shape, np.float32)
    k.run(x, rows, out)
    padded = np.zeros((16, 16), np.float32)
    padded[:6, :10] = x
    np.testing.assert_array_equal(out, padded[rows][:, 3:5] if sparse == 0 else padded[3:5][:, rows])


def test_a_view_with_a_negative_stride_reads_backwards() -> None:
    x = np.arange(8, dtype=np.int32)
    k = Kernel("*i32", "*i32")
    view = view_of(k, k.args[0], "i32", [8], [-1])
    vt = T.PartitionView((8,), view.type, (0,), None)
    k.store(k.args[1], load_view(k, view, vt, (8,), "i32", [k.const(0, "i32")]))
    out = np.zeros(8, np.int32)
    k.run(x[::-1], out)
    assert out.tolist() == x[::-1].tolist()


def test_a_view_larger_than_its_array_is_reported_at_the_element() -> None:
    k = Kernel("*i32", "*i32")
    view = view_of(k, k.args[0], "i32", [4, 4], [4, 1])
    vt = T.PartitionView((4, 4), view.type, (0, 1), None)
    zero = k.const(0, "i32")
    k.store(k.args[1], load_view(k, view, vt, (4, 4), "i32", [zero, zero]))
    with pytest.raises(LaunchError) as error:
        k.run(np.zeros(14, np.int32), np.zeros(16, np.int32))
    (found,) = error.value.diagnostics
    assert found.op == "cuda_tile.load_view_tko" and dict(found.facts)["element"] == "[3, 2]"


def test_nibble_views_pack_two_elements_per_byte() -> None:
    raw = np.array([0x21, 0x43, 0x65, 0x07], np.uint8)  # elements 1..7, 0
    k = Kernel("*f4E2M1FN", "*f32", "*f4E2M1FN")
    view = view_of(k, k.args[0], "f4E2M1FN", [7], [1])
    vt = T.PartitionView((8,), view.type, (0,), "zero")
    zero = k.const(0, "i32")
    value = load_view(k, view, vt, (8,), "f4E2M1FN", [zero])
    k.store(k.args[1], k.op("ftof", [value], [tile("f32", 8)], rounding_mode="nearest_even"))
    target = view_of(k, k.args[2], "f4E2M1FN", [7], [1])
    made = k.op("make_partition_view", [target], [T.PartitionView((8,), target.type, (0,), None)])
    k.op("store_view_tko", [value, made, [zero], None], [T.TOKEN], **WEAK)
    out, copy = np.zeros(8, np.float32), np.full(4, 0xF0, np.uint8)
    k.run(raw, out, copy)
    assert out.tolist() == [0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 0.0]
    assert copy.tolist() == [0x21, 0x43, 0x65, 0xF7]  # the eighth element is outside: kept


def test_nibble_arrays_of_ml_dtypes_are_packed_for_the_launch() -> None:
    import ml_dtypes

    x = np.array([0.5, -1, 1.5, 2, -3, 4, 6], ml_dtypes.float4_e2m1fn)
    k = Kernel("*f4E2M1FN", "*f4E2M1FN", "*f32")
    zero = k.const(0, "i32")
    view = view_of(k, k.args[0], "f4E2M1FN", [7], [1])
    value = load_view(k, view, T.PartitionView((8,), view.type, (0,), "zero"), (8,), "f4E2M1FN", [zero])
    target = view_of(k, k.args[1], "f4E2M1FN", [7], [1])
    made = k.op("make_partition_view", [target], [T.PartitionView((8,), target.type, (0,), None)])
    k.op("store_view_tko", [value, made, [zero], None], [T.TOKEN], **WEAK)
    k.store(k.args[2], k.op("ftof", [value], [tile("f32", 8)], rounding_mode="nearest_even"))
    out, wide = np.zeros(7, ml_dtypes.float4_e2m1fn), np.zeros(8, np.float32)
    k.run(x, out, wide)
    assert wide.tolist() == [0.5, -1, 1.5, 2, -3, 4, 6, 0]
    np.testing.assert_array_equal(out.view(np.uint8) & 15, x.view(np.uint8) & 15)


# ---- atomics


def rmw(mode: str, elem: str, start, values, mask=None) -> tuple[np.ndarray, np.ndarray]:
    """All lanes on one address; (old values, memory after)."""
    count = len(values)
    k = Kernel(f"*{elem}", f"*{elem}", f"*{elem}", "*i1")
    one = k.op("reshape", [k.args[0]], [tile(pointer(elem), 1)])
    where = k.op("broadcast", [one], [tile(pointer(elem), count)])
    lanes = None if mask is None else k.load(k.args[3], count)
    old = k.op(
        "atomic_rmw_tko",
        [where, k.load(k.args[1], count), lanes, None],
        [tile(elem, count), T.TOKEN],
        mode=mode,
        **RELAXED,
    )[0]
    k.store(k.args[2], old)
    memory, out = np.array([start]).astype(DTYPES[elem]), np.zeros(count, DTYPES[elem])
    k.run(
        memory,
        np.asarray(values).astype(DTYPES[elem]),
        out,
        np.zeros(count, bool) if mask is None else np.asarray(mask),
    )
    return out, memory


def test_atomics_on_one_address_happen_one_after_another() -> None:
    old, memory = rmw("add", "i32", 10, [1, 2, 3, 4])
    assert old.tolist() == [10, 11, 13, 16] and memory[0] == 20
    old, memory = rmw("xchg", "i64", 5, [1, 2, 3, 4])
    assert old.tolist() == [5, 1, 2, 3] and memory[0] == 4
    for elem in ("f16", "bf16", "f32", "f64"):
        old, memory = rmw("addf", elem, 0.5, [1, 2, 3, 4])
        assert old.astype(float).tolist() == [0.5, 1.5, 3.5, 6.5] and float(memory[0]) == 10.5


@pytest.mark.parametrize("elem", ["i32", "i64"])
def test_integer_modes(elem: str) -> None:
    values = [-5, 3, 12, -1]
    assert rmw("max", elem, 0, values)[1][0] == 12 and rmw("min", elem, 0, values)[1][0] == -5
    assert rmw("umax", elem, 0, values)[1][0] == -1 and rmw("umin", elem, 7, values)[1][0] == 3
    assert rmw("and", elem, 14, [7, 6, -1, 15])[1][0] == 6 and rmw("or", elem, 1, [2, 4, 8, 8])[1][0] == 15
    assert rmw("xor", elem, 1, [2, 2, 4, 8])[1][0] == 13


STEPS = {
    "add": lambda a, b: a + b,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "max": max,
    "min": min,
    "xchg": lambda a, b: b,
    "umax": lambda a, b: max(a, b, key=lambda v: v & 0xFFFFFFFF),
    "umin": lambda a, b: min(a, b, key=lambda v: v & 0xFFFFFFFF),
}


@pytest.mark.parametrize("places", [2, 20, 64])
@pytest.mark.parametrize("mode", STEPS)
def test_repeated_addresses_are_updated_in_turn(mode: str, places: int) -> None:
    """Few addresses with many updates, many with few, and in between; with a mask; old values and memory."""
    rng = np.random.default_rng(places)
    where, values = rng.integers(0, places, 64).astype(np.int32), rng.integers(-99, 99, 64).astype(np.int32)
    mask, memory = rng.random(64) < 0.8, rng.integers(-99, 99, places).astype(np.int32)
    k = Kernel("*i32", "*i32", "*i32", "*i1", "*i32")
    base = k.op(
        "broadcast", [k.op("reshape", [k.args[0]], [tile(pointer("i32"), 1)])], [tile(pointer("i32"), 64)]
    )
    pointers = k.op("offset", [base, k.load(k.args[1], 64)], [base.type])
    operands = [pointers, k.load(k.args[2], 64), k.load(k.args[3], 64), None]
    old = k.op("atomic_rmw_tko", operands, [tile("i32", 64), T.TOKEN], mode=mode, **RELAXED)[0]
    k.store(k.args[4], old)
    want, want_old, out = memory.tolist(), {}, np.zeros(64, np.int32)
    k.run(memory, where, values, mask, out)
    for lane in np.flatnonzero(mask):
        want_old[lane] = want[where[lane]]
        want[where[lane]] = STEPS[mode](want[where[lane]], int(values[lane]))
    assert memory.tolist() == want and {lane: out[lane] for lane in want_old} == want_old


def test_masked_lanes_take_no_part() -> None:
    old, memory = rmw("add", "i32", 0, [1, 2, 4, 8], [True, False, True, False])
    assert memory[0] == 5 and old[[0, 2]].tolist() == [0, 1]


def test_cas_compares_bits_and_masked_lanes_return_cmp() -> None:
    k = Kernel("*f32", "*f32", "*f32", "*i1", "*f32")
    where = k.addresses(k.args[0], 4, (4,))
    cmp, val, mask = k.load(k.args[1], 4), k.load(k.args[2], 4), k.load(k.args[3], 4)
    old = k.op("atomic_cas_tko", [where, cmp, val, mask, None], [tile("f32", 4), T.TOKEN], **RELAXED)[0]
    k.store(k.args[4], old)
    memory = np.array([1.0, -0.0, np.nan, 5.0], np.float32)
    expected, out = np.array([1.0, 0.0, np.nan, 5.0], np.float32), np.zeros(4, np.float32)
    k.run(memory, expected, np.full(4, 9, np.float32), np.array([1, 1, 1, 0], bool), out)
    assert memory.tolist() == [9.0, -0.0, 9.0, 5.0]  # -0 is not 0; a NaN equals itself bit by bit
    assert out[0] == 1.0 and out[3] == 5.0 and np.isnan(out[2])


def test_view_reduction_skips_what_is_outside() -> None:
    k = Kernel("*i32")
    view = view_of(k, k.args[0], "i32", [3], [1])
    made = k.op("make_partition_view", [view], [T.PartitionView((4,), view.type, (0,), None)])
    k.op(
        "atomic_red_view_tko",
        [made, [k.const(0, "i32")], k.const(2, "i32", 4), None],
        [T.TOKEN],
        mode="add",
        **RELAXED,
    )
    out = np.zeros(4, np.int32)
    k.run(out, grid=5)
    assert out.tolist() == [10, 10, 10, 0]


# ---- memory of the module and of the block


def test_globals_hold_their_values_and_constants_refuse_stores() -> None:
    for constant in (False, True):
        k = Kernel("*f32")
        kind = tile("f32", 4)
        data = np.arange(4, dtype=np.float32)
        k.globals.append(
            Op(
                BY_NAME["global"],
                (),
                (),
                {
                    "sym_name": "tab",
                    "value": T.Dense(kind, data.tobytes()),
                    "alignment": 64,
                    "constant": constant or None,
                },
            )
        )
        where = k.op("get_global", (), [tile(pointer("f32"))], name="tab")
        k.store(k.args[0], k.load(where, 4))
        out = np.zeros(4, np.float32)
        k.run(out)
        np.testing.assert_array_equal(out, data)
        k.block.ops.pop()
        k.store(where, k.const(1.0, "f32", 4))
        if constant:
            with pytest.raises(LaunchError) as error:
                k.run(out)
            assert findings(error) == ["RUN-0004"]
        else:
            k.run(out)


def test_alloca_is_private_and_ends_with_the_block() -> None:
    k = Kernel("*i64", "*i32")
    where = k.op("alloca", (), [tile(pointer("i32"))], num_elem=4, alignment=128)
    bx, _, _ = k.op("get_tile_block_id", (), [tile("i32")] * 3)
    k.op("store_ptr_tko", [where, bx, None, None], [T.TOKEN], **WEAK)
    back = k.load(where)
    k.store(k.op("offset", [k.args[1], bx], [tile(pointer("i32"))]), back)
    k.store(k.args[0], k.op("ptr_to_int", [where], [tile("i64")]))
    address, out = np.zeros(1, np.int64), np.zeros(8, np.int32)
    k.run(address, out, grid=8)
    assert out.tolist() == list(range(8)) and address[0] % 128 == 0
    read = Kernel("*i64", "*i32")
    inner = read.op("int_to_ptr", [read.load(read.args[0])], [tile(pointer("i32"))])
    read.store(read.args[1], read.load(inner))
    with pytest.raises(LaunchError):
        read.run(address, out)
