"""The kernels of production size that benchmarks and GPU tests compile: what each is, and how large. Bytecode: exports.py.

`kernels("standard")` is the list that benchmarks/code_quality.py prints by default; `kernels("full")` has every matrix
product of KINDS x TILES x LAYOUTS besides, `kernels("unproven")` those by index tiles and pointers of which nothing is promised.
"""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path[:0] = [p for p in (str(REPOSITORY), str(REPOSITORY / "tests")) if p not in sys.path]

import numpy as np  # noqa: E402

from tests.corpus.case import DTYPES, Array, ListOf, Scalar  # noqa: E402
from tileiras.report.hot_loop import Product  # noqa: E402

BITS = {name: np.dtype(DTYPES[name]).itemsize * 8 for name in ("i8", "e4m3", "f16", "bf16", "f32", "f64")}


@dataclasses.dataclass(frozen=True)
class Stream:
    """The work of one block of a memory-bound kernel: elements, and bytes of the main array, read and written, each.

    `chunk`: elements of one pass of the source's loop, where it has one.
    """

    elements: int
    read: int
    written: int
    chunk: int = 0


@dataclasses.dataclass(frozen=True)
class Production:
    """One kernel: `source` as `text_of` takes it, arguments as tests.corpus.export does."""

    name: str
    source: str
    kernel: str
    signature: tuple[Any, ...]
    work: Product | Stream
    min_arch: int = 80

    @property
    def entry(self) -> str:
        return self.kernel if self.source.endswith(".cu") else self.name


# ---- matrix products
TILES = ((128, 128, 64), (128, 256, 64), (256, 128, 64), (64, 64, 64))
LAYOUTS = {"nn": (0, 0), "nt": (0, 1), "tn": (1, 0)}
KINDS = {  # operand, accumulator, result
    "f16": ("f16", "f32", "f16"),
    "bf16": ("bf16", "f32", "bf16"),
    "tf32": ("f32", "f32", "f32"),
    "i8": ("i8", "i32", "i32"),
    "e4m3": ("e4m3", "f32", "bf16"),
    "f64": ("f64", "f64", "f64"),
    "f32": ("f32", "f32", "f32"),
    "w8a16": ("bf16", "f32", "bf16"),
}
# What a kernel may assume that PyTorch's allocator and usual sizes give: 16-byte pointers, extents and strides of 16.
PROVEN = {"div": 16, "align": 16}
UNPROVEN = {"div": 1, "align": 1}


def _step(element: str, tile: tuple[int, int, int], bits: tuple[int, int] | None = None) -> Product:
    m, n, k = tile
    a, b = bits or (BITS["f32" if element == "tf32" else element],) * 2
    return Product(element, 2 * m * n * k, (m * k * a + k * n * b) // 8, m, n, k)


def product(kind: str, tile: tuple[int, int, int], layout: str = "nn", facts: str = "") -> Production:
    """The plain product of a kind; `facts` is "" (proven) or "unproven"."""
    operand, accumulator, result = KINDS[kind]
    at, bt = LAYOUTS[layout]
    known = UNPROVEN if facts else PROVEN
    a, b, c = Array(operand, 2, **known), Array(operand, 2, **known), Array(result, 2, **known)
    name = "_".join(w for w in ("mm", kind, "x".join(map(str, tile)), layout, facts) if w)
    if kind == "w8a16":
        signature: tuple[Any, ...] = (a, Array("i8", 2, **known), Array("bf16", 1, **known), c, *tile, bt)
        return Production(name, "products.py", "weights_8bit", signature, _step("bf16", tile, (16, 8)))
    if kind == "tf32":
        return Production(
            name, "corpus/converted.py", "product_tf32", (a, b, c, *tile, at, bt), _step("tf32", tile)
        )
    source, kernel = {
        "f32": ("products.py", "product"),
        "i32": ("corpus/converted.py", "product_int8"),
        "f64": ("products.py", "product_float64"),
    }[accumulator]
    least = 90 if kind == "e4m3" else 80
    return Production(name, source, kernel, (a, b, c, *tile, at, bt), _step(kind, tile), least)


def _special_products() -> list[Production]:
    tile = (128, 128, 64)
    bf, step = Array("bf16", 2, **PROVEN), _step("bf16", tile)  # type: ignore[arg-type]
    wide, four = Array("f32", 2, **PROVEN), Array("bf16", 4, **PROVEN)  # type: ignore[arg-type]
    half = Array("f16", 2, **PROVEN)  # type: ignore[arg-type]
    e4m3, deep = Array("e4m3", 2, **PROVEN), Array("bf16", 3, **PROVEN)  # type: ignore[arg-type]

    def one(name: str, kernel: str, signature: tuple[Any, ...], source: str = "products.py") -> Production:
        return Production(name, source, kernel, signature, step)

    lists = (ListOf(bf),) * 3
    return [
        one("mm_bf16_transposed_value", "transposed_in_registers", (bf, bf, bf, *tile)),
        one("mm_bf16_linear_gelu", "linear_gelu", (bf, bf, Array("bf16", 1, **PROVEN), bf, *tile)),  # type: ignore[arg-type]
        one("mm_bf16_persistent", "persistent", (bf, bf, bf, *tile)),
        one("mm_bf16_grouped_order", "grouped_order", (bf, bf, bf, *tile, 8)),
        one("mm_bf16_grouped", "grouped", (*lists, *tile)),
        one("mm_bf16_split_k", "split_k", (bf, bf, wide, *tile, 4)),
        one("mm_bf16_hinted", "hinted", (bf, bf, bf, *tile)),
        *(
            Production(
                f"mm_bf16_two_ctas_{'x'.join(map(str, t))}",
                "corpus/clusters.py",
                "product_2",
                (bf, bf, bf, *t),
                _step("bf16", t),
                90,
            )
            for t in ((128, 128, 64), (256, 128, 64), (256, 256, 64))
        ),
        Production(
            "mm_bf16_residual_128x256",
            "corpus/matmul.py",
            "residual",
            (bf, bf, bf, bf, 128, 256, 64),
            _step("bf16", (128, 256, 64)),
        ),
        Production(
            "mm_f16_alpha_beta_128x256",
            "products.py",
            "alpha_beta",
            (
                Array("f16", 2, **PROVEN),
                Array("f16", 2, **PROVEN),
                wide,
                Scalar("f32"),
                Scalar("f32"),
                128,
                256,
                32,
            ),  # type: ignore[arg-type]
            _step("f16", (128, 256, 32)),
        ),
        Production(
            "mm_bf16_w4a16",
            "products.py",
            "weights_4bit",
            (bf, Array("u8", 2, **PROVEN), bf, bf, *tile),  # type: ignore[arg-type]
            _step("bf16", tile, (16, 4)),
        ),
        Production(
            "mm_f16_w4_words",
            "products.py",
            "weights_in_words",
            (half, Array("i32", 2, **PROVEN), half, Array("i32", 2, **PROVEN), half, 128, 128, 64),  # type: ignore[arg-type]
            _step("f16", (128, 128, 64), (16, 4)),
        ),
        Production(
            "mm_bf16_w4_words_of_rows",
            "products.py",
            "weights_in_words_of_rows",
            (bf, Array("i32", 2, **PROVEN), bf, Array("u8", 2, **PROVEN), bf, 64, 128, 128),  # type: ignore[arg-type]
            _step("bf16", (64, 128, 128), (16, 4)),
        ),
        Production(
            "mm_e4m3_scaled_steps",
            "products.py",
            "scaled_steps",
            (e4m3, wide, e4m3, wide, bf, 128, 128, 128),
            _step("e4m3", (128, 128, 128)),
            90,
        ),
        one("mm_bf16_batched", "batched", (deep, deep, deep, *tile)),
        one("mm_bf16_gated", "gated", (bf, bf, bf, bf, 128, 64, 64)),
        one("mm_bf16_gathered", "gathered", (bf, bf, Array("i32", 1, **PROVEN), bf, *tile)),  # type: ignore[arg-type]
        one("mm_bf16_by_index", "by_index", (bf, bf, bf, *tile)),
        Production(
            "mm_tf32_by_index",
            "corpus/pointers.py",
            "by_index_tf32",
            (wide, wide, wide, 128, 128, 32),
            _step("tf32", (128, 128, 32)),
        ),
        one("mm_bf16_convolution", "convolution", (four, four, bf, *tile, 56, 56, 3, 3)),
        one("mm_bf16_positive_part", "positive_part", (bf, bf, bf, *tile)),
        Production(
            "mm_f32_in_parts",
            "products.py",
            "f32_in_parts",
            (wide, wide, wide, 128, 128, 32),
            Product("bf16", 6 * 128 * 128 * 32, 2 * 128 * 32 * 4, 128, 128, 32),
        ),
        one("mm_cpp", "cpp_product", (), "products.cu"),
        one("mm_cpp_pointers", "cpp_pointers", (), "products.cu"),
        one("mm_cpp_pointers_whole", "cpp_pointers_whole", (), "products.cu"),
        one("mm_cpp_aligned", "cpp_product_aligned", (), "products.cu"),
        one("mm_cpp_linear_gelu", "cpp_linear_gelu", (), "products.cu"),
        Production(
            "mm_cpp_e4m3_scaled", "products.cu", "cpp_e4m3_scaled", (), _step("e4m3", (128, 128, 128)), 90
        ),
        Production("mm_cpp_lambdas_i8", "products.cu", "cpp_lambdas_i8", (), _step("i8", (128, 128, 64))),
        Production(
            "mm_cpp_left_by_break", "products.cu", "cpp_left_by_break", (), _step("f16", (128, 128, 64))
        ),
        Production("mm_cpp_left_behind", "products.cu", "cpp_left_behind", (), _step("f16", (128, 128, 64))),
    ]


def _scaled_products() -> list[Production]:
    """mxfp8, mxfp4 and nvfp4: operands with a scale for 32 or 16 elements along K."""
    known: dict[str, Any] = PROVEN
    found = []
    for name, element, scale, block in (
        ("mxfp8", "e4m3", "e8m0", 32),
        ("mxfp4", "e2m1", "e8m0", 32),
        ("nvfp4", "e2m1", "e4m3", 16),
    ):
        m, n, k = tile = (128, 128, 128)
        operand, scales = Array("u8" if element == "e2m1" else element, 2, **known), Array(scale, 2, **known)
        signature = (operand, scales, operand, scales, Array("bf16", 2, **known), *tile, block)
        bits = 4 if element == "e2m1" else 8
        work = Product(element, 2 * m * n * k, (m + n) * (k * bits // 8 + k // block), m, n, k)
        kernel = "four_bits_loop" if element == "e2m1" else "scaled_loop_nt"
        found.append(
            Production(f"mm_{name}_{m}x{n}x{k}_nt", "corpus/scaled.py", kernel, signature, work, 100)
        )
    return found


# ---- attention
def attention(element: str, m: int, n: int, d: int, causal: int, group: int) -> Production:
    known: dict[str, Any] = PROVEN
    q = Array(element, 3, **known)
    name = (
        f"attn_{element}_{m}x{n}_d{d}" + ("_causal" if causal else "") + (f"_gqa{group}" if group > 1 else "")
    )
    step = Product(element, 4 * m * n * d, 2 * n * d * BITS[element] // 8, m, n, d)
    return Production(
        name,
        "attention.py",
        "forward",
        (q, q, q, q, Scalar("f32"), m, n, d, causal, group),
        step,
        90 if element == "e4m3" else 80,
    )


def backward(name: str, element: str, tile: tuple[int, int, int], relaxed: int, group: int = 1) -> Production:
    m, n, d = tile
    t, rows = Array(element, 3, **PROVEN), Array("f32", 2, **PROVEN)
    signature = (
        t,
        t,
        t,
        t,
        rows,
        rows,
        Array("f32", 3, **PROVEN),
        t,
        t,
        Scalar("f32"),
        *tile,
        relaxed,
        group,
    )
    work = Product(element, 10 * m * n * d, 2 * m * d * BITS[element] // 8, *tile)
    return Production(f"attn_{name}", "attention.py", "backward_fused", signature, work)


def decoding(name: str, m: int, n: int) -> Production:
    four, d = Array("bf16", 4, **PROVEN), 128
    results = Array("f32", 5, **PROVEN), Array("f32", 4, **PROVEN)
    work = Product("bf16", 4 * m * n * d, 2 * n * d * 2, m, n, d)
    return Production(
        name, "attention.py", "decoding", (four, four, four, *results, Scalar("f32"), m, n, d, 8), work
    )


def latent(name: str, m: int, n: int) -> Production:
    """Decoding of m heads over a latent of 512 columns and 64 of positions, n keys a step."""
    known: dict[str, Any] = PROVEN
    wide, places = 512, 64
    deep = Array("bf16", 3, **known)
    results = Array("f32", 4, **known), Array("f32", 3, **known)
    work = Product("bf16", 2 * m * n * (2 * wide + places), n * (wide + places) * 2, m, n, wide)
    signature = (deep, deep, deep, deep, *results, Scalar("f32"), m, n, wide, places, 8)
    return Production(name, "attention.py", "latent", signature, work)


def _attention() -> list[Production]:
    known: dict[str, Any] = PROVEN
    q, r = Array("bf16", 3, **known), Array("f32", 2, **known)
    m, n, d = 64, 64, 64
    back = Product("bf16", 8 * m * n * d, 2 * m * d * 2, m, n, d)
    signature = (q, q, q, q, r, r, q, q, Scalar("f32"), m, n, d)
    return [
        attention("bf16", 128, 64, 64, 0, 1),
        attention("bf16", 128, 64, 128, 0, 1),
        attention("bf16", 128, 64, 128, 1, 1),
        attention("f16", 128, 128, 128, 1, 1),
        attention("bf16", 128, 64, 128, 1, 4),
        attention("bf16", 64, 64, 256, 0, 1),
        attention("f16", 128, 64, 256, 1, 1),
        attention("bf16", 256, 128, 128, 0, 1),
        attention("f16", 128, 128, 128, 0, 1),
        attention("e4m3", 128, 64, 128, 0, 1),
        Production("attn_bf16_backward_keys", "attention.py", "backward_keys", signature, back),
        backward("bf16_backward_ordered", "bf16", (64, 128, 64), 0),
        backward("f16_backward_ordered_d128", "f16", (64, 64, 128), 0),
        backward("bf16_backward_relaxed", "bf16", (64, 128, 64), 1),
        backward("f16_backward_relaxed_gqa4", "f16", (64, 64, 64), 1, 4),
        Production(
            "attn_bf16_backward_queries",
            "attention.py",
            "backward_queries",
            (q, q, q, q, r, r, q, Scalar("f32"), 128, 64, 128),
            Product("bf16", 6 * 128 * 64 * 128, 2 * 64 * 128 * 2, 128, 64, 128),
        ),
        decoding("attn_bf16_decoding", 16, 128),
        decoding("attn_bf16_decoding_32", 32, 64),
        Production(
            "attn_bf16_linear",
            "attention.py",
            "linear",
            (q, q, q, q, 64, 128),
            Product("bf16", 2 * 64 * 128 * (64 + 64 + 128 + 128), 3 * 64 * 128 * 2, 64, 64, 128),
        ),
        Production(
            "attn_f16_biased",
            "attention.py",
            "biased",
            (*[Array("f16", 3, **known)] * 5, Scalar("f32"), 128, 64, 64),
            Product("f16", 4 * 128 * 64 * 64, (2 * 64 * 64 + 128 * 64) * 2, 128, 64, 64),
        ),
        latent("attn_bf16_latent", 64, 64),
        latent("attn_bf16_latent_16x32", 16, 32),
        Production(
            "attn_bf16_state_space",
            "corpus/chains.py",
            "faded_state",
            (q, q, q, r, q, 64, 128, 64),
            Product(
                "bf16", 2 * 64 * (64 * 128 + 64 * 64 + 2 * 128 * 64), 64 * (2 * 128 + 64) * 2, 64, 64, 128
            ),
        ),
        Production(
            "attn_bf16_retention",
            "corpus/chains.py",
            "retained",
            (q, q, q, q, Array("f32", 1, **known), 128, 128),
            Product("bf16", 8 * 128 * 128 * 128, 3 * 128 * 128 * 2, 128, 128, 128),
        ),
        Production(
            "attn_f16_persistent",
            "attention.py",
            "persistent",
            (*[Array("f16", 3, **known)] * 4, Scalar("f32"), 128, 64, 64, 16),
            Product("f16", 4 * 128 * 64 * 64, 2 * 64 * 64 * 2, 128, 64, 64),
        ),
        Production(
            "attn_bf16_packed",
            "attention.py",
            "packed",
            (q, q, q, Array("i32", 1, **known), q, Scalar("f32"), 128, 64, 128),
            Product("bf16", 4 * 128 * 64 * 128, 2 * 64 * 128 * 2, 128, 64, 128),
        ),
        Production(
            "attn_cpp_128x128_d64_causal",
            "products.cu",
            "cpp_attention_causal",
            (),
            Product("f16", 4 * 128 * 128 * 64, 2 * 128 * 64 * 2, 128, 128, 64),
        ),
    ]


# ---- memory-bound kernels
def _streams() -> list[Production]:
    def array(element: str, rank: int = 1) -> Array:
        return Array(element, rank, **PROVEN)  # type: ignore[arg-type]

    def one(
        name: str, kernel: str, signature: tuple[Any, ...], work: Stream, source: str = "streams.py"
    ) -> Production:
        return Production(name, source, kernel, signature, work)

    f, h = array("f32"), array("bf16")
    rows, wide = array("bf16", 2), array("f32", 2)
    four = array("bf16", 4)
    return [
        one("vadd_f32", "vadd", (f, f, f, 1024), Stream(1024, 8, 4), "corpus/elementwise.py"),
        one("gelu_bf16", "gelu", (h, h, 2048), Stream(2048, 2, 2)),
        one("gelu_f16", "gelu", (array("f16"), array("f16"), 2048), Stream(2048, 2, 2)),
        one("gelu_backward_bf16", "gelu_backward", (h, h, h, 2048), Stream(2048, 4, 2)),
        one("silu_mul_bf16", "silu_mul", (h, h, h, 2048), Stream(2048, 4, 2), "corpus/elementwise.py"),
        one("adamw_f32", "adamw", (f, h, f, f, Scalar("f32"), 1024), Stream(1024, 14, 12)),
        one("softmax_bf16_4096", "softmax_row", (rows, rows, 4096), Stream(4096, 2, 2), "corpus/rows.py"),
        one("softmax_f32_1024", "softmax_row", (wide, wide, 1024), Stream(1024, 4, 4), "corpus/rows.py"),
        one("layer_norm_bf16", "layer_norm", (rows, h, h, rows, Scalar("f32"), 1024), Stream(4096, 2, 2, 1024)),
        one("rms_norm_rope_bf16", "rms_norm_rope", (four, rows, wide, wide, four, Scalar("f32"), 32, 64), Stream(4096, 2, 2)),
        one("embedding_bf16", "embedding", (rows, array("i32"), rows, 2048), Stream(2048, 2, 2)),
        one("row_sum_bf16", "row_sum", (rows, f, 16, 512), Stream(16 * 4096, 2, 0, 16 * 512)),
        one("transpose_bf16", "transpose_tiles", (rows, rows, 64, 64), Stream(4096, 2, 2), "corpus/shapes.py"),
        one("transpose_f32", "transpose_tiles", (wide, wide, 64, 64), Stream(4096, 4, 4), "corpus/shapes.py"),
        one("quantize_bf16", "quantize", (rows, array("i8", 2), f, 4096), Stream(4096, 2, 1)),
        one("residual_rms_norm_bf16", "residual_rms_norm", (rows, rows, h, rows, rows, Scalar("f32"), 4096), Stream(4096, 4, 4)),
        one("softmax_backward_bf16", "softmax_backward", (rows, rows, rows, 2048), Stream(2048, 4, 2)),
        one("cumulative_sums_f32", "cumulative_sums", (wide, wide, 4, 1024), Stream(4096, 4, 4)),
        one("argmax_f32", "argmax", (wide, array("i32"), 4, 1024), Stream(4096, 4, 0)),
        one("quantize_groups_e4m3", "quantize_groups", (rows, array("e4m3", 2), wide, 128, 16), Stream(2048, 2, 1)),
        one("divergence_bf16", "divergence", (rows, rows, f, 2048), Stream(16384, 4, 0, 2048)),
        one("gelu_f32", "gelu", (f, f, 1024), Stream(1024, 4, 4)),
        one("bias_gradient_bf16", "bias_gradient", (rows, f, 128, 128), Stream(16384, 2, 0)),
        one("swap_heads_bf16", "swap_heads", (four, four, 16, 8, 64), Stream(8192, 2, 2)),
        one("add_by_index_bf16", "add_by_index", (h, h, h, 2048), Stream(2048, 4, 2)),
        one("cross_entropy_bf16", "cross_entropy", (rows, array("i32"), f, 2048), Stream(32768, 2, 0, 2048)),
    ]  # fmt: skip


# ---- forms that the others do not have
def _unusual() -> list[Production]:
    known: dict[str, Any] = PROVEN

    def array(element: str, rank: int = 2) -> Array:
        return Array(element, rank, **known)

    def one(
        name: str, kernel: str, signature: tuple[Any, ...], work: Product | Stream, least: int = 80
    ) -> Production:
        shared = kernel in (
            "stream_k",
            "nearest",
            "masked",
            "bilinear",
            "windows",
            "operands_ahead",
            "one_loop",
            "beside_zero",
        )
        return Production(
            name, "corpus/unusual.py" if shared else "unusual.py", kernel, signature, work, least
        )

    h, bf, f8, f32 = array("f16"), array("bf16"), array("e4m3"), array("f32")
    i8, i32 = array("i8"), array("i32")
    q, places = array("bf16", 3), array("f32", 1)
    tile, wide, deep = (128, 128, 64), (128, 256, 64), (128, 128, 256)
    scaled, scales = array("e5m2"), array("e8m0")
    return [
        one("mm_f16_sums_of_16_bits", "sums_of_16_bits", (h, h, h, *wide), _step("f16", wide)),
        one("mm_bf16_short_latency", "short_latency", (bf, bf, bf, *wide), _step("bf16", wide), 90),
        one("mm_e4m3_promoted", "promoted", (f8, f8, bf, 128, 128, 128, 4), _step("e4m3", (128, 128, 128)), 90),
        one("mm_bf16_stream_k", "stream_k", (bf, bf, f32, Scalar("i32"), *tile), _step("bf16", tile)),
        one("mm_bf16_low_rank", "low_rank", (bf, bf, bf, bf, bf, Scalar("f32"), *tile, 16),
            Product("bf16", 2 * 128 * 144 * 64, (128 + 144) * 64 * 2, 128, 144, 64)),
        one("mm_f16_nearest", "nearest", (h, h, places, array("i32", 1), 128, 64, 64),
            Product("f16", 2 * 128 * 64 * 64, 64 * 64 * 2, 128, 64, 64)),
        one("mm_f16_w4_words_of_columns", "words_of_columns", (h, i32, h, i32, h, 64, 128, 128),
            _step("f16", (64, 128, 128), (16, 4))),
        one("mm_f16_w4_scaled_sums", "scaled_sums", (h, array("u8"), h, h, *tile), _step("f16", tile, (16, 4))),
        one("mm_f16_channels_last", "channels_last", (array("f16", 4), h, array("f16", 1), h, *tile, 28, 28, 256),
            _step("f16", tile)),
        one("mm_bf16_norm_in_front", "norm_in_front", (bf, array("bf16", 1), bf, bf, Scalar("f32"), *tile),
            _step("bf16", tile)),
        Production("mm_f16_begun_again", "corpus/pointers.py", "begun_again", (h, h, f32, *tile, 0), _step("f16", tile)),
        one("mm_bf16_operands_ahead", "operands_ahead", (bf, bf, bf, *tile), _step("bf16", tile)),
        one("mm_f16_one_loop", "one_loop", (h, h, h, *tile), _step("f16", tile)),
        one("mm_i8_beside_zero", "beside_zero", (i8, i8, i32, Scalar("i32"), Scalar("i32"), *tile), _step("i8", tile)),
        one("mm_bf16_windows", "windows", (bf, q, f32, *tile, 64), _step("bf16", tile)),
        Production("mm_mxfp8_128x128x256_nt", "corpus/scaled.py", "scaled_loop_nt",
            (scaled, scales, scaled, scales, bf, *deep, 32),
            Product("e4m3", 2 * 128 * 128 * 256, 256 * (256 + 8), *deep), 100),
        one("attn_bf16_windowed", "windowed", (q, q, q, q, Scalar("f32"), Scalar("f32"), Scalar("i32"), 64, 64, 128),
            Product("bf16", 4 * 64 * 64 * 128, 2 * 64 * 128 * 2, 64, 64, 128)),
        one("attn_bf16_64x64_d512", "windowed",
            (q, q, q, q, Scalar("f32"), Scalar("f32"), Scalar("i32"), 64, 64, 512),
            Product("bf16", 4 * 64 * 64 * 512, 2 * 64 * 512 * 2, 64, 64, 512)),
        one("attn_f16_masked", "masked", (array("f16", 3),) * 3 + (array("i8"), array("f16", 3), Scalar("f32"), 128, 64, 128),
            Product("f16", 4 * 128 * 64 * 128, 2 * 64 * 128 * 2, 128, 64, 128)),
        one("bilinear_f16", "bilinear", (h, places, places, h, 32, 64), Stream(2048, 8, 2)),
        one("dropout_f16", "dropout", (array("f16", 1), array("f16", 1), Scalar("u32"), Scalar("f32"), 2048),
            Stream(2048, 2, 2)),
        Production("transpose_i8", "corpus/shapes.py", "transpose_tiles", (array("i8"), array("i8"), 128, 128),
            Stream(16384, 1, 1)),
    ]  # fmt: skip


def _branches(bf: Array, i32: Array, f32: Array, tile: tuple[int, int, int]) -> list[Production]:
    def one(name: str, kernel: str, signature: tuple[Any, ...], work: Product | None = None) -> Production:
        return Production(name, "corpus/branches.py", kernel, signature, work or _step("bf16", tile))

    q = Array("bf16", 3, **PROVEN)  # type: ignore[arg-type]
    pages = (q, q, q, i32, Array("f32", 3, **PROVEN), Scalar("f32"), 128, 64, 128)  # type: ignore[arg-type]
    return [
        one("mm_bf16_ends_at_flag", "ends_at_flag", (bf, bf, i32, f32, *tile)),
        one("mm_bf16_products_by_mode", "products_by_mode", (bf, bf, bf, f32, Scalar("i32"), *tile)),
        one("mm_bf16_two_sums_in_turn", "two_sums_in_turn", (bf, bf, f32, f32, *tile, 0)),
        one("mm_bf16_chosen_products", "chosen_products", (bf, bf, bf, i32, f32, *tile)),
        one("mm_bf16_halved_every_third", "halved_every_third", (bf, bf, f32, *tile)),
        one(
            "attn_bf16_pages_to_end",
            "pages_to_end",
            pages,
            Product("bf16", 4 * 128 * 64 * 128, 2 * 64 * 128 * 2, 128, 64, 128),
        ),
    ]


def _asked() -> list[Production]:
    known: dict[str, Any] = PROVEN

    def array(element: str, rank: int = 2) -> Array:
        return Array(element, rank, **known)

    def one(name: str, kernel: str, signature: tuple[Any, ...], work: Product) -> Production:
        return Production(name, "asked.py", kernel, signature, work)

    h, bf, i8, f32 = array("f16"), array("bf16"), array("i8"), array("f32")
    row, number, factor = array("bf16", 1), array("i32", 1), array("f32", 1)
    tile, wide, deep, low, few = (
        (128, 128, 64),
        (128, 256, 128),
        (128, 128, 128),
        (128, 128, 32),
        (16, 128, 128),
    )
    experts, width = (64, 128, 64), 4096
    return [
        one("mm_i8_scaled_rows_128x256", "scaled_rows", (i8, i8, factor, factor, row, bf, *wide), _step("i8", wide)),
        one("mm_bf16_experts_by_token", "experts_by_token",
            (row, array("bf16", 3), bf, factor, number, number, width, *experts, 2), _step("bf16", experts)),
        one("mm_tf32_one_after_the_other", "one_after_the_other", (f32, f32, f32, number, number, *low, 2), _step("tf32", low)),
        one("mm_bf16_weights_of_rows", "weights_of_rows", (bf, i8, row, bf, *few), _step("bf16", few, (16, 8))),
        one("mm_f16_weights_of_four_bits", "weights_of_four_bits", (h, array("u8"), h, h, *deep), _step("f16", deep, (16, 4))),
        one("mm_bf16_gradient_of_weights", "gradient_of_weights", (bf, bf, f32, factor, *tile), _step("bf16", tile)),
        Production("mm_f16_blocks_left_out", "corpus/left_out.py", "by_flag", (h, h, array("i32"), h, *tile), _step("f16", tile)),
        Production("mm_f16_left_by_break", "corpus/left_out.py", "left_by_break",
            (h, h, h, Scalar("i32"), *tile), _step("f16", tile)),
        Production("mm_f16_counted_down", "corpus/left_out.py", "counted_down",
            (h, h, h, Scalar("i32"), *tile), _step("f16", tile)),
        one("mm_f16_rows_of_a_list", "rows_of_a_list", (h, h, number, h, *tile), _step("f16", tile)),
        Production("mm_bf16_values_by_code", "corpus/looked_up.py", "by_code",
            (bf, array("u8"), factor, f32, bf, *experts), _step("bf16", experts, (16, 4))),
        Production("mm_f16_vectors_by_code", "corpus/looked_up.py", "by_vector",
            (h, array("u8"), h, h, *tile, 8), _step("f16", tile, (16, 1))),
        *_branches(bf, array("i32"), array("f32"), tile),
    ]  # fmt: skip


# ---- by index tiles and pointers, nothing promised
def _unproven() -> list[Production]:
    def array(element: str, rank: int = 2) -> Array:
        return Array(element, rank, **UNPROVEN)  # type: ignore[arg-type]

    tile, deep = (128, 128, 64), (128, 128, 128)
    bf, f32 = array("bf16"), array("f32")
    found = []
    for kind, ways in (("bf16", ("nn", "nt", "tn")), ("f16", ("nt",)), ("e4m3", ("nn", "nt"))):
        operand, _, result = KINDS[kind]
        for way in ways:
            a, c, size = array(operand), array(result), deep if kind == "e4m3" else tile
            signature = (a, a, c, *size, *LAYOUTS[way])
            least = 90 if kind == "e4m3" else 80
            name = f"un_{kind}_{way}"
            found.append(Production(name, "unproven.py", "by_index", signature, _step(kind, size), least))

    def one(name: str, source: str, kernel: str, signature: tuple[Any, ...], work: Product | Stream) -> None:
        least = 90 if isinstance(work, Product) and work.element == "e4m3" else 80
        found.append(Production(f"un_{name}", source, kernel, signature, work, least))

    python, step = "unproven.py", _step("bf16", tile)
    low = (128, 128, 32)
    pages = Product("bf16", 4 * 128 * 64 * 128, 2 * 64 * 128 * 2, 128, 64, 128)
    one("tf32", "corpus/pointers.py", "by_index_tf32", (f32, f32, f32, *low), _step("tf32", low))
    one("i8_nt", python, "by_index_int32", (array("i8"), array("i8"), array("i32"), *deep), _step("i8", deep))
    one("gathered", "products.py", "gathered", (bf, bf, array("i32", 1), bf, *tile), step)
    four = array("bf16", 4)
    one("convolution", "products.py", "convolution", (four, four, bf, *tile, 56, 56, 3, 3), step)
    one(
        "experts",
        python,
        "experts",
        (bf, array("bf16", 3), array("i32", 1), array("i32", 1), bf, *tile),
        step,
    )
    one("paged", python, "paged", (bf, bf, bf, bf, array("i32"), Scalar("f32"), 128, 64, 128), pages)
    for name, element, size in (
        ("stepping", "bf16", tile),
        ("whole", "bf16", tile),
        ("half_nt", "f16", tile),
        ("e4m3", "e4m3", deep),
    ):
        one(f"cpp_{name}", "unproven.cu", f"cpp_{name}", (), _step(element, size))
    row = (bf, bf, bf, array("bf16", 1), bf, bf, Scalar("f32"), 1024)
    one("gated_norm", python, "gated_norm", row, Stream(4096, 8, 4, 1024))
    flat = array("f32", 1)
    one("add_f32", "streams.py", "add_by_index", (flat, flat, flat, 1024), Stream(1024, 8, 4))
    return found


def kernels(which: str = "standard") -> list[Production]:
    """The kernels of a set, "standard", "full" or "unproven"."""
    if which == "unproven":
        return _unproven()
    plain = [product(kind, (128, 128, 64)) for kind in KINDS if kind not in ("f64", "f32")]
    plain += [product("f64", (64, 64, 64)), product("f32", (64, 64, 64)), product("f32", (128, 128, 64))]
    plain += [product("bf16", tile) for tile in TILES[1:]]
    plain += [
        product(kind, (128, 128, 64), way) for kind in ("bf16", "tf32", "i8", "e4m3") for way in ("nt", "tn")
    ]
    plain += [product("w8a16", (128, 128, 64), "nt"), product("e4m3", (128, 256, 64), "nt")]
    plain += [product("bf16", (32, 64, 64)), product("bf16", (128, 128, 256))]
    plain += [product("f16", (256, 128, 64), "nt"), product("bf16", (128, 128, 64), "nn", "unproven")]
    if which == "full":
        plain = [product(kind, tile, way) for kind in KINDS for tile in TILES for way in LAYOUTS
                 if not (kind == "w8a16" and way == "tn")]  # fmt: skip
        plain.append(product("bf16", (128, 128, 64), "nn", "unproven"))
    return (
        plain + _special_products() + _scaled_products() + _attention() + _streams() + _unusual() + _asked()
    )
