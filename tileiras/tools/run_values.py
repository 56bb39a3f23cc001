"""Values of the command line of `tileiras-run`: arrays from files or made on the spot, scalars, and their types."""

from __future__ import annotations

import math

from tileiras.diag import Catalogue, Refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    import numpy as np

diags = Catalogue("tileiras.tools.diags")

# Tile IR element types as NumPy dtypes; those of ml_dtypes by its names.
NUMPY_TYPES = {"i1": "bool", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64", "f16": "float16",
               "f32": "float32", "tf32": "float32", "f64": "float64"}  # fmt: skip

ML_TYPES = {
    "bf16": "bfloat16",
    "f8E4M3FN": "float8_e4m3fn",
    "f8E5M2": "float8_e5m2",
    "f8E8M0FNU": "float8_e8m0fnu",
    "f4E2M1FN": "float4_e2m1fn",
}


class Usage(Refusal):
    """Something on the command line is wrong; the text says what."""


def dtype_of(name: str) -> np.dtype[Any]:
    """The dtype of a type name of the command line."""
    import numpy as np

    if name in ML_TYPES or name in ML_TYPES.values():
        try:
            import ml_dtypes
        except ImportError:
            raise Usage(diags.RUN_NEEDS_ML_DTYPES, name=name) from None
        return np.dtype(getattr(ml_dtypes, ML_TYPES.get(name, name)))
    try:
        dtype = np.dtype(NUMPY_TYPES.get(name, name))
    except (TypeError, ValueError, SyntaxError):  # NumPy reads some names as Python
        raise Usage(diags.RUN_ELEMENT_TYPE, name=name) from None
    if dtype.kind in "OSUMm" or dtype.names or dtype.subdtype:
        raise Usage(diags.RUN_ELEMENT_TYPE, name=name)
    return dtype


def is_type(name: str) -> bool:
    try:
        dtype_of(name)
    except Usage:
        return False
    return True


def shape_of(text: str) -> tuple[int, ...]:
    try:
        shape = tuple(int(n) for n in text.split("x")) if text else ()
    except ValueError:
        raise Usage(diags.RUN_SHAPE, text=text) from None
    if any(n < 0 for n in shape):
        raise Usage(diags.RUN_NEGATIVE_EXTENT, text=text)
    return shape


def make_array(kind: str, rest: list[str]) -> np.ndarray:
    """zeros:T:S, ones, empty, arange, full:T:S:V, random:T:S[:SEED], normal:T:S[:SEED]. Errors: Usage."""
    try:
        return filled_array(kind, rest)
    except (MemoryError, OverflowError, ValueError) as error:  # ValueError: more elements than NumPy counts
        why = error if isinstance(error, ValueError) else "there is not so much memory"
        raise Usage(diags.RUN_NO_ARRAY_MADE, text=kind + ":" + ":".join(rest), why=why) from None


def filled_array(kind: str, rest: list[str]) -> np.ndarray:
    import numpy as np

    want = 3 if kind == "full" else 2
    if len(rest) < want or len(rest) > 3 or (len(rest) == 3 and kind not in ("full", "random", "normal")):
        form = f"{kind}:TYPE:SHAPE{':VALUE' if kind == 'full' else ''}"
        raise Usage(diags.RUN_ARRAY_FORM, text=f"{kind}:{':'.join(rest)}", form=form)
    dtype, shape = dtype_of(rest[0]), shape_of(rest[1])
    if kind in ("zeros", "empty"):
        return np.zeros(shape, dtype)
    if kind == "ones":
        return np.ones(shape, dtype)
    if kind == "arange":
        return np.arange(math.prod(shape)).reshape(shape).astype(dtype)
    if kind == "full":
        if dtype.kind in "iu":
            return np.full(shape, whole_number(":".join(rest), rest[0], scalar_value(rest[2]))).astype(dtype)
        return np.full(shape, scalar_value(rest[2]), np.float64 if dtype.kind not in "iub" else None).astype(
            dtype
        )
    try:
        rng = np.random.default_rng(int(rest[2]) if len(rest) == 3 else 0)
    except ValueError:
        raise Usage(diags.RUN_SEED, text=rest[2]) from None
    if kind == "normal":
        return rng.standard_normal(shape).astype(dtype)
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return rng.integers(info.min, info.max, shape, dtype, endpoint=True)
    return rng.random(shape).astype(dtype)


MAX_DIGITS = 400  # of a number: more than any type has; a message shortens what is longer

MAKERS = ("zeros", "ones", "empty", "arange", "full", "random", "normal")


def scalar_value(text: str) -> Any:
    """A Python number from text."""
    low = text.lower()
    if low in ("true", "false"):
        return low == "true"
    if len(text) <= MAX_DIGITS:
        for convert in (lambda t: int(t, 0), float, float.fromhex):
            try:
                return convert(text)
            except (ValueError, OverflowError):
                continue
    raise Usage(diags.RUN_NO_VALUE, text=text)


def whole_number(text: str, name: str, value: Any) -> int:
    """A number as an integer of a type of the command line; i32 takes what fits int32 or uint32. Errors: Usage."""
    import numpy as np

    if isinstance(value, float) and not value.is_integer():
        raise Usage(diags.RUN_NO_INTEGER, text=text, value=value)
    number, info = int(value), np.iinfo(dtype_of(name))
    high = (1 << info.bits) - 1 if name.startswith("i") and name in NUMPY_TYPES else int(info.max)
    if not info.min <= number <= high:
        raise Usage(diags.RUN_DOES_NOT_FIT, text=text, number=number, name=name)
    return number


def load_array(path: str, key: str | None, reinterpret: str | None) -> np.ndarray:
    import numpy as np

    try:
        found = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        reason = getattr(error, "strerror", None) or error
        raise Usage(diags.CANNOT_READ, path=path, why=reason) from None
    if not isinstance(found, np.ndarray):
        with found:
            if key is None:
                raise Usage(diags.RUN_ARCHIVE, path=path, known=", ".join(found.files))
            if key not in found.files:
                raise Usage(diags.RUN_ARCHIVE_KEY, path=path, key=key, known=", ".join(found.files))
            array = found[key]
    else:
        array = found
    if reinterpret is not None:
        dtype = dtype_of(reinterpret)
        if dtype.itemsize != array.dtype.itemsize:
            raise Usage(
                diags.RUN_REINTERPRET,
                path=path,
                size=array.dtype.itemsize,
                name=reinterpret,
                wanted=dtype.itemsize,
            )
        array = array.view(dtype)
    return array


def parse_value(text: str, known: dict[str, Any]) -> Any:
    """An array or scalar from its form on the command line."""
    if text.startswith("@"):
        if text[1:] not in known:
            raise Usage(diags.RUN_NO_EARLIER, text=text)
        return known[text[1:]]
    if text == "null":
        return None
    head, *rest = text.split(":")
    if head in MAKERS:
        return make_array(head, rest)
    base, dot, tail = text.rpartition(".npz:")
    if dot:
        key, _, reinterpret = tail.partition(":")
        return load_array(base + ".npz", key, reinterpret or None)
    base, dot, tail = text.rpartition(".npy:")
    if dot:
        return load_array(base + ".npy", None, tail)
    if text.endswith((".npy", ".npz")):
        return load_array(text, None, None)
    if len(rest) == 1 and is_type(head):
        import numpy as np

        value, dtype = scalar_value(rest[0]), dtype_of(head)
        if dtype.kind in "iu":
            number = whole_number(text, head, value)
            return Typed(head, number if head.startswith("i") else dtype.type(number))
        return Typed(head, value if dtype.kind == "b" else np.asarray(value).astype(dtype)[()])
    return scalar_value(text)


class Typed:
    """A scalar that says its type, to be compared with the parameter's."""

    def __init__(self, type_name: str, value: Any) -> None:
        self.type_name, self.value = type_name, value


def split_name(text: str) -> tuple[str | None, str]:
    """(name, value) of NAME=VALUE; a path with = in it needs no name because names are identifiers."""
    name, equals, value = text.partition("=")
    return (name, value) if equals and (name.isidentifier() or name.isdigit()) else (None, text)


def tile_types(name: str) -> tuple[str, ...]:
    """The Tile IR types that a scalar written as `name:value` can be: NumPy's unsigned ones are of the same width."""
    dtype = dtype_of(name)
    bits = dtype.itemsize * 8
    if dtype.kind == "b":
        return ("i1",)
    if dtype.kind in "iu":
        return (f"i{bits}", "i1", *(("ptr",) if bits == 64 else ()))
    plain = next(
        (tile for tile, known in (*NUMPY_TYPES.items(), *ML_TYPES.items()) if dtype.name == known), name
    )
    return (plain, "tf32") if plain in ("f32", "tf32") else (plain,)
