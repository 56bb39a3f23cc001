"""Kernels over tiles of any size, as text: what the tests of huge tiles and benchmarks/tile_sizes.py compile.

Every generator returns one module with an entry `k`; its parameters are pointers to dense row-major arrays, inputs
first, in the order of loading.
"""

from __future__ import annotations

Shape = tuple[int, ...]


def tile(shape: Shape, elem: str) -> str:
    return f"tile<{''.join(f'{e}x' for e in shape)}{elem}>"


def view_type(shape: Shape, elem: str) -> str:
    """A static row-major view that is one tile of `shape`."""
    strides = [1] * len(shape)
    for d in reversed(range(len(shape) - 1)):
        strides[d] = strides[d + 1] * shape[d + 1]
    dims = "x".join(map(str, shape))
    return f"tensor_view<{dims}x{elem}, strides=[{','.join(map(str, strides))}]>"


class Kernel:
    """Lines of one entry; every method returns the name of what it made."""

    def __init__(self) -> None:
        self.params: list[str] = []
        self.lines: list[str] = []
        self.count = 0

    def name(self) -> str:
        self.count += 1
        return f"%v{self.count}"

    def pointer(self, elem: str) -> str:
        name = f"%p{len(self.params)}"
        self.params.append(f"{name}: tile<ptr<{elem}>>")
        out = self.name()
        self.lines.append(f"{out} = assume div_by<16>, {name} : tile<ptr<{elem}>>")
        return out

    def let(self, text: str) -> str:
        out = self.name()
        self.lines.append(f"{out} = {text}")
        return out

    def zero(self) -> str:
        return self.let("constant <i32: 0> : tile<i32>")

    def partition(self, pointer: str, shape: Shape, elem: str, whole: Shape | None = None) -> tuple[str, str]:
        view = view_type(whole or shape, elem)
        base = self.let(f"make_tensor_view {pointer}, shape = [{', '.join(map(str, whole or shape))}], "
                        f"strides = {view[view.index('strides=') + 8:-1]} : {view}")  # fmt: skip
        type = f"partition_view<tile=({'x'.join(map(str, shape))}), {view}>"
        return self.let(f"make_partition_view {base} : {type}"), type

    def load(
        self, shape: Shape, elem: str, index: dict[int, str] | None = None, whole: Shape | None = None
    ) -> str:
        part, type = self.partition(self.pointer(elem), shape, elem, whole)
        return self.load_from(part, type, shape, elem, index)

    def load_from(
        self, part: str, type: str, shape: Shape, elem: str, index: dict[int, str] | None = None
    ) -> str:
        zero = self.zero()
        at = ", ".join((index or {}).get(d, zero) for d in range(len(shape)))
        out, token = self.name(), self.name()
        self.lines.append(
            f"{out}, {token} = load_view_tko weak {part}[{at}] : {type}, tile<i32> -> {tile(shape, elem)}, token"
        )
        return out

    def store(self, value: str, shape: Shape, elem: str) -> None:
        part, type = self.partition(self.pointer(elem), shape, elem)
        zero = self.zero()
        at = ", ".join([zero] * len(shape))
        self.let(
            f"store_view_tko weak {value}, {part}[{at}] : {tile(shape, elem)}, {type}, tile<i32> -> token"
        )

    def fold(self, kind: str, value: str, shape: Shape, dim: int, op: str = "addf") -> str:
        """reduce or scan of f32 along `dim`."""
        identity = "0.0" if op == "addf" else "0xFF800000"
        kept = shape[:dim] + shape[dim + 1 :] if kind == "reduce" else shape
        more = " reverse=false" if kind == "scan" else ""
        a, b, c = self.name(), self.name(), self.name()
        return self.let(f"{kind} {value} dim={dim}{more} identities=[{identity} : f32] : {tile(shape, 'f32')} -> "
                        f"{tile(kept, 'f32')} ({a}: tile<f32>, {b}: tile<f32>) "
                        f"{{ {c} = {op} {a}, {b} : tile<f32> yield {c} : tile<f32> }}")  # fmt: skip

    def text(self) -> str:
        body = "\n    ".join([*self.lines, "return"])
        return f"cuda_tile.module @m {{\n  entry @k({', '.join(self.params)}) {{\n    {body}\n  }}\n}}\n"


def spread(k: Kernel, value: str, kept: Shape, dim: int, shape: Shape) -> str:
    """A reduced tile broadcast along the dimension that it lost."""
    one = (*kept[:dim], 1, *kept[dim:])
    made = k.let(f"reshape {value} : {tile(kept, 'f32')} -> {tile(one, 'f32')}")
    return k.let(f"broadcast {made} : {tile(one, 'f32')} -> {tile(shape, 'f32')}")


def elementwise(shape: Shape) -> str:
    k, t = Kernel(), tile(shape, "f32")
    x, y = k.load(shape, "f32"), k.load(shape, "f32")
    for _ in range(4):
        p = k.let(f"mulf {x}, {y} : {t}")
        q = k.let(f"addf {p}, {x} : {t}")
        x, y = k.let(f"maxf {q}, {y} : {t}"), k.let(f"exp2 {q} : {t}")
    k.store(k.let(f"addf {x}, {y} : {t}"), shape, "f32")
    return k.text()


def softmax(shape: Shape) -> str:
    k, t, dim = Kernel(), tile(shape, "f32"), len(shape) - 1
    kept = shape[:dim]
    x = k.load(shape, "f32")
    top = spread(k, k.fold("reduce", x, shape, dim, "maxf"), kept, dim, shape)
    e = k.let(f"exp {k.let(f'subf {x}, {top} : {t}')} : {t}")
    total = spread(k, k.fold("reduce", e, shape, dim), kept, dim, shape)
    k.store(k.let(f"divf {e}, {total} : {t}"), shape, "f32")
    return k.text()


def reduction(shape: Shape, dim: int) -> str:
    k = Kernel()
    x = k.load(shape, "f32")
    y = k.let(f"mulf {x}, {x} : {tile(shape, 'f32')}")
    kept = shape[:dim] + shape[dim + 1 :]
    total = k.fold("reduce", y, shape, dim)
    if not kept:
        total, kept = k.let(f"reshape {total} : tile<f32> -> tile<1xf32>"), (1,)
    k.store(total, kept, "f32")
    return k.text()


def prefix(shape: Shape, dim: int) -> str:
    k = Kernel()
    k.store(k.fold("scan", k.load(shape, "f32"), shape, dim), shape, "f32")
    return k.text()


def transpose(shape: Shape, order: Shape) -> str:
    k = Kernel()
    out = tuple(shape[d] for d in order)
    x = k.load(shape, "f32")
    y = k.let(f"permute {x} {list(order)} : {tile(shape, 'f32')} -> {tile(out, 'f32')}")
    k.store(y, out, "f32")
    return k.text()


def gather(shape: Shape) -> str:
    k = Kernel()
    index = k.load(shape, "i32")
    table = k.pointer("f32")
    ones = (1,) * len(shape)
    p = k.let(f"reshape {table} : tile<ptr<f32>> -> {tile(ones, 'ptr<f32>')}")
    p = k.let(f"broadcast {p} : {tile(ones, 'ptr<f32>')} -> {tile(shape, 'ptr<f32>')}")
    p = k.let(
        f"offset {p}, {index} : {tile(shape, 'ptr<f32>')}, {tile(shape, 'i32')} -> {tile(shape, 'ptr<f32>')}"
    )
    out, token = k.name(), k.name()
    k.lines.append(
        f"{out}, {token} = load_ptr_tko weak {p} : {tile(shape, 'ptr<f32>')} -> {tile(shape, 'f32')}, token"
    )
    k.store(out, shape, "f32")
    return k.text()


def reshaped(source: Shape, target: Shape) -> str:
    k = Kernel()
    x = k.load(source, "f32")
    y = k.let(f"reshape {x} : {tile(source, 'f32')} -> {tile(target, 'f32')}")
    k.store(k.let(f"mulf {y}, {y} : {tile(target, 'f32')}"), target, "f32")
    return k.text()


def carried(shape: Shape) -> str:
    """acc = acc * x + x, four times over blocks of rows."""
    k, t = Kernel(), tile(shape, "f32")
    part, type = k.partition(k.pointer("f32"), shape, "f32", (4 * shape[0], *shape[1:]))
    start = k.let(f"constant <f32: 1.0> : {t}")
    low, high, one = (k.let(f"constant <i32: {v}> : tile<i32>") for v in (0, 4, 1))
    result, iv, acc = k.name(), k.name(), k.name()
    k.lines.append(f"{result} = for {iv} in ({low} to {high}, step {one}) : tile<i32> "
                   f"iter_values({acc} = {start}) -> ({t}) {{")  # fmt: skip
    x = k.load_from(part, type, shape, "f32", {0: iv})
    y = k.let(f"addf {k.let(f'mulf {acc}, {x} : {t}')}, {x} : {t}")
    k.lines += [f"continue {y} : {t}", "}"]
    k.store(result, shape, "f32")
    return k.text()


def joined(shape: Shape, dim: int) -> str:
    k = Kernel()
    half = tuple(e // 2 if d == dim else e for d, e in enumerate(shape))
    x, y = k.load(half, "f32"), k.load(half, "f32")
    z = k.let(f"cat {x}, {y} dim = {dim} : {tile(half, 'f32')}, {tile(half, 'f32')} -> {tile(shape, 'f32')}")
    k.store(k.let(f"mulf {z}, {z} : {tile(shape, 'f32')}"), shape, "f32")
    return k.text()


def matmul(m: int, n: int, k_extent: int, elem: str) -> str:
    """C = sum over 4 blocks of K of A[:, k] B[k, :], accumulated in f32 (i8: i32)."""
    k = Kernel()
    out = "i32" if elem == "i8" else "f64" if elem == "f64" else "f32"
    acc_type = tile((m, n), out)
    a, a_type = k.partition(k.pointer(elem), (m, k_extent), elem, (m, 4 * k_extent))
    b, b_type = k.partition(k.pointer(elem), (k_extent, n), elem, (4 * k_extent, n))
    start = k.let(f"constant <{out}: {'0' if out == 'i32' else '0.0'}> : {acc_type}")
    low, high, one = (k.let(f"constant <i32: {v}> : tile<i32>") for v in (0, 4, 1))
    result, iv, acc = k.name(), k.name(), k.name()
    k.lines.append(f"{result} = for {iv} in ({low} to {high}, step {one}) : tile<i32> "
                   f"iter_values({acc} = {start}) -> ({acc_type}) {{")  # fmt: skip
    x = k.load_from(a, a_type, (m, k_extent), elem, {1: iv})
    y = k.load_from(b, b_type, (k_extent, n), elem, {0: iv})
    op, signs = ("mmai", " signed signed") if elem == "i8" else ("mmaf", "")
    z = k.let(
        f"{op} {x}, {y}, {acc}{signs} : {tile((m, k_extent), elem)}, {tile((k_extent, n), elem)}, {acc_type}"
    )
    k.lines += [f"continue {z} : {acc_type}", "}"]
    k.store(result, (m, n), out)
    return k.text()
