"""Tiles beyond the registers of a block: every sliced form on the interpreter, on the emulator and in NumPy."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest

np = pytest.importorskip("numpy")
pytest.importorskip("ml_dtypes")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import tile_text as text  # noqa: E402
from tile_text import Kernel, tile  # noqa: E402

import tileiras  # noqa: E402
from tileiras.compiler.passes.tileaa.slices import leading_cut, reshaped_cut, sliced  # noqa: E402

WITNESSES = [
    ("reference", "sm_90"),
    ("emulator", "sm_80"),
    pytest.param("emulator", "sm_90", marks=pytest.mark.full),
]
everywhere = pytest.mark.parametrize(("target", "gpu_name"), WITNESSES)
N = 1 << 17
MANY_LINES = 3000  # PTX of a kernel whose tile was not cut: over 10,000


def numbers(*shape: int) -> Any:
    """Small whole numbers: every order of adding them gives the same sum."""
    return np.random.default_rng(0).integers(-8, 8, shape).astype(np.float32)


def launch(source: str, args: list, target: str, gpu_name: str) -> None:
    tileiras.launch(source, "k", grid=(1, 1, 1), args=args, target=target, gpu_name=gpu_name)


def run(source: str, inputs: list, shape: tuple[int, ...], target: str, gpu_name: str) -> Any:
    """The one output of a kernel."""
    out = np.zeros(shape, np.float32)
    launch(source, [*inputs, out], target, gpu_name)
    return out


def test_cuts() -> None:
    assert leading_cut((4, 64), 3) == (0, 0, 1)
    assert leading_cut((4, 64), 3, last=[0]) == (1, 1, 1)
    assert sliced((4, 64), (0, 0, 1)) == (1, 32)
    assert reshaped_cut((4, 64), (0, 0, 1), (256,)) == (0, 0, 0)
    assert reshaped_cut((256,), (0, 0, 0), (2, 2, 64)) == (0, 1, 2)
    assert reshaped_cut((4, 64), (1, 1), (256,)) is None  # slices of columns are no blocks of the line


@everywhere
@pytest.mark.parametrize(
    ("source", "result"), [((N,), (2, N // 2)), ((512, 256), (2, 256, 256)), ((4, N // 4), (N // 8, 8))]
)
def test_reshape(source: tuple[int, ...], result: tuple[int, ...], target: str, gpu_name: str) -> None:
    x = numbers(*source)
    assert (
        run(text.reshaped(source, result), [x], result, target, gpu_name) == (x * x).reshape(result)
    ).all()


@everywhere
@pytest.mark.parametrize(("shape", "dim"), [((N,), 0), ((512, 256), 0), ((512, 256), 1), ((4, N // 4), 1)])
def test_cat(shape: tuple[int, ...], dim: int, target: str, gpu_name: str) -> None:
    x, y = np.split(numbers(*shape), 2, dim)
    x, y = np.ascontiguousarray(x), np.ascontiguousarray(y)
    got = run(text.joined(shape, dim), [x, y], shape, target, gpu_name)
    assert (got == np.concatenate([x, y], dim) ** 2).all()


@everywhere
@pytest.mark.parametrize("shape", [(N,), (512, 256)])
def test_carried_tile(shape: tuple[int, ...], target: str, gpu_name: str) -> None:
    x = numbers(4 * shape[0], *shape[1:]) / 8
    want = np.ones(shape, np.float32)
    for block in np.split(x, 4):
        want = want * block + block
    assert (run(text.carried(shape), [x], shape, target, gpu_name) == want).all()


@everywhere
@pytest.mark.parametrize(
    ("shape", "dim"),
    [((N,), 0), ((512, 256), 0), ((512, 256), 1), ((4, N // 4), 0), ((4, N // 4), 1), ((2, 64, 1024), 1)],
)
def test_sums_and_running_sums(shape: tuple[int, ...], dim: int, target: str, gpu_name: str) -> None:
    x = numbers(*shape)
    kept = shape[:dim] + shape[dim + 1 :] or (1,)
    got = run(text.reduction(shape, dim), [x], kept, target, gpu_name)
    assert (got == (x * x).sum(dim).reshape(kept)).all()
    assert (run(text.prefix(shape, dim), [x], shape, target, gpu_name) == np.cumsum(x, dim)).all()


@everywhere
@pytest.mark.parametrize("shape", [(4, N // 4), (512, 256)])
def test_reverse_scan_of_maps(shape: tuple[int, ...], target: str, gpu_name: str) -> None:
    """Composition of affine maps does not commute: slices must be joined in order, from the end."""
    k, t = Kernel(), tile(shape, "i32")
    f, a = k.load(shape, "i32"), k.load(shape, "i32")
    k.lines.append(f"""%r:2 = scan {f}, {a} dim=1 reverse=true identities=[1 : i32, 0 : i32] : {t}, {t} -> {t}, {t}
      (%f1: tile<i32>, %f2: tile<i32>, %a1: tile<i32>, %a2: tile<i32>) {{
      %m = muli %f1, %f2 : tile<i32>
      %n = muli %a1, %f2 : tile<i32>
      %o = addi %n, %a2 : tile<i32>
      yield %m, %o : tile<i32>, tile<i32> }}""")
    k.store("%r#1", shape, "i32")
    rng = np.random.default_rng(1)
    f_in, a_in = (rng.integers(-9, 9, shape).astype(np.int32) * 2 + 1 for _ in range(2))
    out = np.zeros(shape, np.int32)
    launch(k.text(), [f_in, a_in, out], target, gpu_name)
    want, line = np.zeros(shape, np.int32), np.zeros(shape[0], np.int32)
    for c in reversed(range(shape[1])):
        line = line * f_in[:, c] + a_in[:, c]
        want[:, c] = line
    assert (out == want).all()


@everywhere
def test_transposed_and_flattened(target: str, gpu_name: str) -> None:
    """Slices of rows, put together again from slices of columns."""
    m, n = 256, 512
    k = Kernel()
    x = k.load((m, n), "f32")
    y = k.let(f"permute {x} [1, 0] : {tile((m, n), 'f32')} -> {tile((n, m), 'f32')}")
    z = k.let(f"reshape {y} : {tile((n, m), 'f32')} -> {tile((m * n,), 'f32')}")
    k.store(k.let(f"addf {z}, {z} : {tile((m * n,), 'f32')}"), (m * n,), "f32")
    x_in = numbers(m, n)
    assert (run(k.text(), [x_in], (m * n,), target, gpu_name) == 2 * x_in.T.reshape(-1)).all()


def recurrence(jump: str) -> str:
    """Two huge tiles through five rounds of a loop; `jump` says what the next round gets."""
    k, t = Kernel(), tile((N,), "f32")
    a, b = k.load((N,), "f32"), k.load((N,), "f32")
    low, high, one = (k.let(f"constant <i32: {v}> : tile<i32>") for v in (0, 5, 1))
    k.lines.append(f"%r:2 = for %i in ({low} to {high}, step {one}) : tile<i32> "
                   f"iter_values(%a = {a}, %b = {b}) -> ({t}, {t}) {{")  # fmt: skip
    k.lines += [f"%c = addf %a, %b : {t}", f"continue {jump} : {t}, {t}", "}"]
    k.store("%r#0", (N,), "f32")
    k.store("%r#1", (N,), "f32")
    return k.text()


@everywhere
@pytest.mark.parametrize("jump", ["%b, %a", "%b, %c", "%c, %b", "%c, %c"])
def test_carried_tiles_that_trade_places(jump: str, target: str, gpu_name: str) -> None:
    a, b = numbers(N), numbers(N) + 1
    x, y = np.zeros_like(a), np.zeros_like(a)
    launch(recurrence(jump), [a, b, x, y], target, gpu_name)
    for _ in range(5):
        found = {"%a": a, "%b": b, "%c": a + b}
        a, b = (found[name] for name in jump.split(", "))
    assert (x == a).all() and (y == b).all()


@everywhere
@pytest.mark.parametrize("rounds", [0, 3])
def test_huge_tiles_through_early_exits(rounds: int, target: str, gpu_name: str) -> None:
    k, t = Kernel(), tile((N,), "f32")
    a = k.load((N,), "f32")
    k.params.append("%n: tile<i32>")
    zero, one = k.zero(), k.let("constant <i32: 1> : tile<i32>")
    k.lines += [
        f"%r:2 = loop iter_values(%x = {a}, %i = {zero}) : {t}, tile<i32> -> {t}, tile<i32> {{",
        f"%y = addf %x, {a} : {t}",
        "%s = cmpi greater_than_or_equal %i, %n, signed : tile<i32> -> tile<i1>",
        f"if %s {{ break %y, %i : {t}, tile<i32> }}",
        f"%j = addi %i, {one} : tile<i32>",
        f"continue %y, %j : {t}, tile<i32>",
        "}",
        f"%odd = cmpi equal %r#1, {zero}, signed : tile<i32> -> tile<i1>",
        f"%z = if %odd -> ({t}) {{ %u = mulf %r#0, {a} : {t} yield %u : {t} }} else {{ yield {a} : {t} }}",
        f"%w = addf %r#0, %z : {t}",
    ]
    k.store("%w", (N,), "f32")
    x, out = numbers(N), np.zeros(N, np.float32)
    launch(k.text(), [x, np.int32(rounds), out], target, gpu_name)
    total = x * (rounds + 2)
    assert (out == total + (total * x if rounds == 0 else x)).all()


@everywhere
def test_product_beyond_registers(target: str, gpu_name: str) -> None:
    a, b = numbers(512, 64).astype(np.float16), numbers(64, 256).astype(np.float16)
    got = run(text.matmul(512, 256, 16, "f16"), [a, b], (512, 256), target, gpu_name)
    assert (got == a.astype(np.float32) @ b.astype(np.float32)).all()


@everywhere
def test_bytes_of_huge_tiles(target: str, gpu_name: str) -> None:
    k = Kernel()
    x = k.load((N,), "f32")
    y = k.let(f"pack {x} : {tile((N,), 'f32')} -> {tile((4 * N,), 'i8')}")
    k.store(y, (4 * N,), "i8")
    z = k.let(f"unpack {y} : {tile((4 * N,), 'i8')} -> {tile((N,), 'i32')}")
    k.store(z, (N,), "i32")
    x_in = numbers(N)
    out, words = np.zeros(4 * N, np.int8), np.zeros(N, np.int32)
    launch(k.text(), [x_in, out, words], target, gpu_name)
    assert (out == x_in.view(np.int8)).all() and (words == x_in.view(np.int32)).all()


@everywhere
@pytest.mark.parametrize("index", [0, 1])
def test_strided_view(index: int, target: str, gpu_name: str) -> None:
    """Tiles that start every N / 2 elements; the second hangs over the end."""
    k, extent = Kernel(), N + 1000
    base = f"tensor_view<{extent}xf32, strides=[1]>"
    view = f"strided_view<tile=({N}), traversal_strides=[{N // 2}], padding_value = zero, {base}>"
    b = k.let(f"make_tensor_view {k.pointer('f32')}, shape = [{extent}], strides = [1] : {base}")
    v, at = k.let(f"make_strided_view {b} : {view}"), k.let(f"constant <i32: {index}> : tile<i32>")
    k.lines.append(f"%x, %t = load_view_tko weak {v}[{at}] : {view}, tile<i32> -> {tile((N,), 'f32')}, token")
    k.store("%x", (N,), "f32")
    x = numbers(extent)
    want = np.zeros(N, np.float32)
    part = x[index * N // 2 :][:N]
    want[: len(part)] = part
    assert (run(k.text(), [x], (N,), target, gpu_name) == want).all()


@everywhere
@pytest.mark.parametrize("dim", [0, 1])
def test_rows_gathered_and_scattered(dim: int, target: str, gpu_name: str) -> None:
    shape = (N // 64, 64)
    k = Kernel()
    rows = k.load((shape[dim],), "i32")
    base = f"tensor_view<{shape[0]}x{shape[1]}xf32, strides=[64,1]>"
    view = f"gather_scatter_view<tile=({shape[0]}x{shape[1]}), sparse_dim={dim}, {base}>"
    zero, t = k.zero(), tile(shape, "f32")
    at = f"[{rows}, {zero}]" if dim == 0 else f"[{zero}, {rows}]"
    types = (
        f"{tile((shape[dim],), 'i32')}, tile<i32>" if dim == 0 else f"tile<i32>, {tile((shape[dim],), 'i32')}"
    )
    views = []
    for _ in range(2):
        b = k.let(
            f"make_tensor_view {k.pointer('f32')}, shape = [{shape[0]}, {shape[1]}], strides = [64, 1] : {base}"
        )
        views.append(k.let(f"make_gather_scatter_view {b} : {view}"))
    k.lines += [
        f"%x, %t = load_view_tko weak {views[0]}{at} : {view}, {types} -> {t}, token",
        f"%y = addf %x, %x : {t}",
        f"%u = store_view_tko weak %y, {views[1]}{at} : {t}, {view}, {types} -> token",
    ]
    order = np.random.default_rng(2).permutation(shape[dim]).astype(np.int32)
    x, out = numbers(*shape), np.zeros(shape, np.float32)
    launch(k.text(), [order, x, out], target, gpu_name)
    assert (out == 2 * x).all()


@everywhere
def test_tile_far_larger_than_its_tensor(target: str, gpu_name: str) -> None:
    """Most slices lie behind the end: zeros are loaded, nothing is stored."""
    k = Kernel()
    base = "tensor_view<100xf32, strides=[1]>"
    view = f"partition_view<tile=({N}), padding_value = zero, {base}>"
    names = []
    for _ in range(2):
        b = k.let(f"make_tensor_view {k.pointer('f32')}, shape = [100], strides = [1] : {base}")
        names.append(k.let(f"make_partition_view {b} : {view}"))
    zero, t = k.zero(), tile((N,), "f32")
    k.lines += [
        f"%x, %t = load_view_tko weak {names[0]}[{zero}] : {view}, tile<i32> -> {t}, token",
        f"%y = cos %x : {t}",
        f"%u = store_view_tko weak %y, {names[1]}[{zero}] : {t}, {view}, tile<i32> -> token",
    ]
    x, out = numbers(100), np.full(128, 7, np.float32)
    launch(k.text(), [x, out], target, gpu_name)
    assert np.allclose(out[:100], np.cos(x), rtol=1e-6) and (out[100:] == 7).all()


@everywhere
def test_product_of_huge_operands(target: str, gpu_name: str) -> None:
    """K alone is beyond the registers: 64 x 2048 times 2048 x 64, four times."""
    a, b = numbers(64, 4 * 2048).astype(np.float16), numbers(4 * 2048, 64).astype(np.float16)
    got = run(text.matmul(64, 64, 2048, "f16"), [a, b], (64, 64), target, gpu_name)
    assert (got == a.astype(np.float32) @ b.astype(np.float32)).all()


@everywhere
@pytest.mark.parametrize("shape", [(1 << 14,), (128, 128)])
def test_long_chain_is_a_loop(shape: tuple[int, ...], target: str, gpu_name: str) -> None:
    """Tiles that registers hold, and too much to do with them to do it all in a row."""
    source = text.elementwise(shape)
    x, y = numbers(*shape) / 256, numbers(*shape) / 512
    want_x, want_y = x.astype(np.float64), y.astype(np.float64)
    for _ in range(4):
        q = want_x * want_y + want_x
        want_x, want_y = np.maximum(q, want_y), np.exp2(q)
    got = run(source, [x, y], shape, target, gpu_name)
    assert np.allclose(got, want_x + want_y, rtol=1e-3)
    code = tileiras.compile(source, gpu_name=gpu_name).ptx
    assert code.count("ex2.approx") <= 32
    assert code.count("ld.global.v4") == 4  # eight elements of both, for one turn of the loop


@everywhere
@pytest.mark.parametrize("elem", ["f32", "f16", "f64", "i8"])
@pytest.mark.parametrize("spread", [False, True])
def test_block_of_many_chosen_at_run_time(elem: str, spread: bool, target: str, gpu_name: str) -> None:
    """64 places of an 8x16 block; `spread`: of a tile whose rows are all the same."""
    shape = (1, 128) if spread else (64, 128)
    k = Kernel()
    x = k.load(shape, elem)
    k.params.insert(1, "%i: tile<i32>")
    k.params.insert(2, "%j: tile<i32>")
    if spread:
        x = k.let(f"broadcast {x} : {tile(shape, elem)} -> {tile((64, 128), elem)}")
    y = k.let(f"extract {x}[%i, %j] : {tile((64, 128), elem)} -> {tile((8, 16), elem)}")
    k.store(y, (8, 16), elem)
    kind = {"f32": np.float32, "f16": np.float16, "f64": np.float64, "i8": np.int8}[elem]
    x_in = np.random.default_rng(0).integers(-100, 100, shape).astype(kind)
    whole = np.broadcast_to(x_in, (64, 128))
    for i, j in ((0, 0), (5, 2), (7, 7)):
        out = np.zeros((8, 16), kind)
        launch(k.text(), [x_in, np.int32(i), np.int32(j), out], target, gpu_name)
        assert (out == whole[8 * i : 8 * i + 8, 16 * j : 16 * j + 16]).all()


def addresses(k: Kernel, shape: tuple[int, ...]) -> str:
    """Pointers to a dense row-major array."""
    line, p = (int(np.prod(shape)),), "ptr<f32>"
    one = k.let(f"reshape {k.pointer('f32')} : tile<{p}> -> tile<1x{p}>")
    many = k.let(f"broadcast {one} : tile<1x{p}> -> {tile(line, p)}")
    iota = k.let(f"iota : {tile(line, 'i32')}")
    far = k.let(f"offset {many}, {iota} : {tile(line, p)}, {tile(line, 'i32')} -> {tile(line, p)}")
    return k.let(f"reshape {far} : {tile(line, p)} -> {tile(shape, p)}")


@everywhere
def test_block_of_pointers(target: str, gpu_name: str) -> None:
    k, p = Kernel(), "ptr<f32>"
    far = addresses(k, (64, 128))
    k.params.append("%i: tile<i32>")
    part = k.let(f"extract {far}[%i, %i] : {tile((64, 128), p)} -> {tile((8, 16), p)}")
    k.lines.append(f"%x, %t = load_ptr_tko weak {part} : {tile((8, 16), p)} -> {tile((8, 16), 'f32')}, token")
    k.store("%x", (8, 16), "f32")
    x, out = numbers(64, 128), np.zeros((8, 16), np.float32)
    launch(k.text(), [x, np.int32(3), out], target, gpu_name)
    assert (out == x[24:32, 48:64]).all()


@everywhere
def test_transposed_pointers(target: str, gpu_name: str) -> None:
    """Slices of rows of pointers, put together again from slices of columns."""
    k, p = Kernel(), "ptr<f32>"
    far = addresses(k, (256, 512))
    turned = k.let(f"permute {far} [1, 0] : {tile((256, 512), p)} -> {tile((512, 256), p)}")
    line = k.let(f"reshape {turned} : {tile((512, 256), p)} -> {tile((N,), p)}")
    k.lines.append(f"%x, %t = load_ptr_tko weak {line} : {tile((N,), p)} -> {tile((N,), 'f32')}, token")
    k.store("%x", (N,), "f32")
    x = numbers(256, 512)
    assert (run(k.text(), [x], (N,), target, gpu_name) == x.T.reshape(-1)).all()


def test_more_than_local_memory_holds() -> None:
    """Five tiles of 2^24 elements that are all needed twice: what they would take is said, where and at once."""
    n, count = 1 << 24, 5
    k, t = Kernel(), tile((n,), "f32")
    tiles = [k.load((n,), "f32") for _ in range(count)]
    total = "%zero"
    k.lines.append("%zero = constant <f32: 0.0> : tile<f32>")
    for x in tiles:
        total = k.let(f"addf {total}, {k.fold('reduce', x, (n,), 0)} : tile<f32>")
    one = k.let(f"reshape {total} : tile<f32> -> tile<1xf32>")
    out = k.let(f"broadcast {one} : tile<1xf32> -> {t}")
    for x in tiles:
        out = k.let(f"divf {out}, {x} : {t}")
    k.store(out, (n,), "f32")
    with pytest.raises(
        tileiras.CompileError, match=r":\d+:\d+: error: .*655360 bytes of local memory .* 524288"
    ) as caught:
        tileiras.compile(k.text(), gpu_name="sm_90")
    assert caught.value.exit_code == 5


CUT = {
    "reshape": text.reshaped((1 << 20,), (2, 1 << 19)),
    "cat": text.joined((1 << 20,), 0),
    "carried": text.carried((1 << 20,)),
    "scan": text.prefix((1024, 1024), 1),
    "rows": text.softmax((1024, 1024)),
    "long row": text.softmax((1, 1 << 20)),
    "product": text.matmul(1024, 256, 32, "f16"),
    "deep product": text.matmul(64, 64, 1 << 14, "f16"),
    "trading places": recurrence("%b, %c"),
}


@pytest.mark.parametrize("name", CUT)
def test_code_does_not_grow_with_the_tile(name: str) -> None:
    ptx = tileiras.compile(CUT[name], gpu_name="sm_90").ptx
    assert len(re.findall(r"^\t[^.}]", ptx, re.M)) < MANY_LINES
