"""Descriptors of the emulator: what is encoded is what is read, and what no driver encodes is refused."""

from __future__ import annotations

import random
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tileiras.run.emulator import EmulatorError, tensor_map
from tileiras.run.emulator.tensor_map import ELEMENTS, TensorMap, encode

NUMBERS = {name: number for number, (name, _, _) in reversed(ELEMENTS.items())}


def drawn(rng: random.Random) -> dict[str, Any]:
    """Arguments of `encode` that a driver takes."""
    name, bits, shared = rng.choice([row for row in ELEMENTS.values() if row[1] >= 8])
    swizzle = rng.choice(["none", "32B", "64B", "128B", "128B_ATOM_32B", "128B_ATOM_64B"])
    rank = rng.randint(1, 5)
    most = 256 * bits // 8 if swizzle == "none" else int(swizzle.split("B")[0])
    step = rng.randint(1, 3)
    inner = rng.randrange(16, most + 1, 16) * 8 // shared
    inner, step = (inner * step, step) if inner * step <= 256 else (min(inner, 256), 1)
    return {
        "address": rng.randrange(1 << 43) * 16,
        "element": name,
        "extents": [rng.choice([1, rng.randint(1, 5000), (1 << 32) - 1, 1 << 32]) for _ in range(rank)],
        "strides": [rng.randrange(1 << 36) * 16 for _ in range(rank - 1)],
        "box": [*[rng.randint(1, 256) for _ in range(rank - 1)], inner],
        "swizzle": swizzle,
        "element_strides": [*[rng.randint(1, 8) for _ in range(rank - 1)], step],
        "fill": rng.choice(["zeros", "nan"]) if "f" in name else "zeros",
    }


@pytest.mark.parametrize("seed", range(300))
def test_what_is_encoded_is_read_back(seed: int) -> None:
    fields = drawn(random.Random(seed))
    raw = encode(**fields)
    read = TensorMap(raw)
    rank = len(fields["extents"])
    assert len(raw) == 128 and read.rank == rank and read.address == fields["address"]
    assert read.element == NUMBERS[fields["element"]]
    assert read.extents[:rank] == fields["extents"][::-1]
    assert read.strides[:rank] == [0, *fields["strides"][::-1]]
    assert read.box[:rank] == fields["box"][::-1] and read.steps[:rank] == fields["element_strides"][::-1]
    assert (read.swizzle, read.atomicity) == {
        "none": (0, 0), "32B": (1, 0), "64B": (2, 0), "128B": (3, 0), "128B_ATOM_32B": (3, 1), "128B_ATOM_64B": (3, 3)
    }[fields["swizzle"]]  # fmt: skip
    assert read.fill == (fields["fill"] == "nan")
    assert encode(**{**fields, "element": read.element}) == raw


@pytest.mark.parametrize(
    "dtype",
    ["int8", "uint16", "int32", "float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e5m2"],
)
def test_the_map_of_an_array_is_that_of_its_address_and_strides(dtype: str) -> None:
    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    whole = np.zeros((6, 5, 256), kind)
    part = whole[1::2, :3, 32:]
    raw = tensor_map(part, (1, 3, 32), "none")
    name = {"int8": "u8", "uint16": "u16", "int32": "s32", "float16": "f16", "bfloat16": "bf16", "float32": "f32",
            "float64": "f64"}.get(dtype, "u8")  # fmt: skip
    size = kind.itemsize
    assert raw == encode(
        whole.ctypes.data + (5 * 256 + 32) * size,
        name,
        (3, 3, 224),
        (2560 * size, 256 * size),
        (1, 3, 32),
        "none",
    )


GOOD: dict[str, Any] = {
    "address": 4096,
    "element": "f16",
    "extents": (8, 64),
    "strides": (128,),
    "box": (8, 64),
}


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"extents": (0, 64)}, r"1 to 2\^32 elements"),
        ({"extents": (8, (1 << 32) + 1)}, r"1 to 2\^32 elements"),
        ({"address": 4104}, "multiples of 16"),
        ({"strides": (136,)}, "multiples of 16"),
        ({"strides": (-128,)}, "multiples of 16"),
        ({"strides": (1 << 40,)}, r"below 2\^40"),
        ({"strides": (128, 64)}, "1 to 5 dimensions"),
        ({"element": "f8"}, "no elements of type f8"),
        ({"element": 16}, "no elements of type 16"),
        ({"element": "s32", "box": (8, 32), "fill": "nan"}, "no NaN"),
        ({"box": (8, 65)}, "130 bytes"),
        ({"element_strides": (1, 9)}, "element strides of 1 to 8"),
    ],
)
def test_what_no_driver_encodes_is_refused(wrong: dict[str, Any], why: str) -> None:
    encode(**GOOD)
    with pytest.raises(EmulatorError, match=why):
        encode(**{**GOOD, **wrong})


def test_arrays_that_have_no_map_are_refused() -> None:
    with pytest.raises(EmulatorError, match="no elements of complex128"):
        tensor_map(np.zeros((4, 8), np.complex128), (4, 8), "none")
    with pytest.raises(EmulatorError, match="type f16 for an array of float32"):
        tensor_map(np.zeros((4, 8), np.float32), (4, 8), "none", element=6)
    with pytest.raises(EmulatorError, match="elements in each dimension"):
        tensor_map(np.zeros((0, 8), np.float32), (4, 8), "none")
