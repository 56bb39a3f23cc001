"""A thin layer over cuda-tile's own bytecode writer, to make modules of single ops with any attribute value.

The frontends never write most attribute values (directed rounding of f64, overflow promises, unsigned loops),
so these modules are written by hand through the same encoder functions. Strings stand for enum members, and
attributes that are not given have their defaults.
"""

from __future__ import annotations

import enum
import inspect
from contextlib import contextmanager

from cuda.tile import _bytecode as bc
from cuda.tile._bytecode import attribute, encodings
from cuda.tile._bytecode.basic import encode_varint

ELEMENTS = {
    "i1": "I1", "i4": "I4", "i8": "I8", "i16": "I16", "i32": "I32", "i64": "I64", "u8": "I8", "u16": "I16",
    "u32": "I32", "u64": "I64", "f16": "F16", "bf16": "BF16", "f32": "F32", "tf32": "TF32", "f64": "F64",
    "e4m3": "F8E4M3FN", "e5m2": "F8E5M2", "e8m0": "F8E8M0FNU", "e2m1": "F4E2M1FN", "token": "Token",
}  # fmt: skip
DEFAULTS = {
    "rounding_mode": "nearest_even", "flush_to_zero": False, "propagate_nan": False, "overflow": "none",
    "saturating": False, "fast_acc": False, "mask": None, "paddingValue": None, "token": None,
    "memory_scope": None, "memory_ordering_semantics": "weak", "optimization_hints": None,
    "unsignedCmp": False, "global_": False, "reverse": False,
}  # fmt: skip

OTHER_ROUNDING = {"Exp": "full", "TanH": "full", "FToI": "nearest_int_to_zero"}


class SameElements(attribute.AssumePredicate):
    """The one predicate that cuda-tile has a class for but cannot encode."""

    def __init__(self, groups):
        self.groups = groups

    def encode_tagged(self, string_table, buf):
        buf.extend(attribute.AttributeTag.SameElements._value_)
        encode_varint(len(self.groups), buf)
        for group in self.groups:
            buf.extend(int(group).to_bytes(8, "little", signed=True))


class Kernel:
    """One entry under construction. `p` are its parameters; every method returns values of the writer."""

    def __init__(self, writer, code, params):
        self.writer, self.code, self.p = writer, code, params
        self.types = writer.type_table

    # Types.

    def elem(self, name):
        if name.startswith("ptr "):
            return self.types.pointer(self.elem(name[4:]), bc.PtrAttr.Missing)
        return self.types.simple(bc.SimpleType[ELEMENTS[name]])

    def tile(self, name, *shape):
        return self.types.tile(self.elem(name), shape)

    @property
    def token_type(self):
        return self.types.simple(bc.SimpleType.Token)

    # Ops.

    def op(self, name, *operands, **attrs):
        """Calls encode_<name>Op; strings become members of the enum that the parameter asks for."""
        function = getattr(encodings, f"encode_{name}Op")
        bound = {}
        positional = list(operands)
        for p in list(inspect.signature(function).parameters.values())[1:]:
            if p.name in attrs:
                value = attrs.pop(p.name)
            elif p.name == "result_token_type":
                value = self.token_type
            elif p.name == "rounding_mode" and name in OTHER_ROUNDING:
                value = OTHER_ROUNDING[name]
            elif p.name in DEFAULTS and p.name != "token":
                value = DEFAULTS[p.name]
            elif positional and "Optional" not in str(p.annotation):
                value = positional.pop(0)
            else:
                value = DEFAULTS[p.name]
            if isinstance(value, str):
                value = self.member(p.annotation, value)
            bound[p.name] = value
        assert not attrs and not positional, (name, attrs, positional)
        return function(self.code, **bound)

    @staticmethod
    def member(annotation, text):
        kinds = [annotation, *getattr(annotation, "__args__", ())]
        for kind in kinds:
            if isinstance(kind, type) and issubclass(kind, enum.Enum):
                aliases = {"signed": "Signed", "unsigned": "Unsigned"}
                return kind[aliases[text]] if text in aliases else kind[text.upper()]
        return text

    def const(self, name, data, *shape):
        return self.op("Constant", self.tile(name, *shape), data)

    def int(self, value, name="i32", *shape):
        bits = {"i8": 1, "i16": 2, "i32": 4, "i64": 8}[name]
        return self.const(name, int(value).to_bytes(bits, "little", signed=True), *shape)

    def identity(self, value, name):
        """An attribute of reduce and scan."""
        if name[0] in "iu":
            bits = int(name[1:])
            return attribute.Integer(self.elem(name), bits, value)
        return attribute.Float(value, bc.SimpleType[ELEMENTS[name]], self.types)

    # Contiguous access from a pointer parameter.

    def spread(self, value, name, shape):
        """A scalar in every element of a tile."""
        ones = self.op("Reshape", self.tile(name, *(1 for _ in shape)), value) if shape else value
        return self.op("Broadcast", self.tile(name, *shape), ones) if shape else ones

    def at(self, pointer, name, shape):
        """Pointers to consecutive elements, row-major."""
        if not shape:
            return pointer
        count = 1
        for n in shape:
            count *= n
        many = self.spread(pointer, f"ptr {name}", (count,))
        line = self.op(
            "Offset", self.tile(f"ptr {name}", count), many, self.op("Iota", self.tile("i32", count))
        )
        return line if len(shape) == 1 else self.op("Reshape", self.tile(f"ptr {name}", *shape), line)

    def load(self, pointer, name, shape, **attrs):
        return self.op("LoadPtrTko", self.tile(name, *shape), self.at(pointer, name, shape), **attrs)[0]

    def store(self, pointer, name, shape, value, **attrs):
        return self.op("StorePtrTko", self.at(pointer, name, shape), value, **attrs)

    # Regions.

    @contextmanager
    def region(self, builder, *types):
        with builder.new_block(types) as arguments:
            yield arguments

    def ret(self):
        self.op("Return", ())


def write_module(entry, version, parameters, body, output):
    """One entry: `parameters` are names of rank-0 tiles ("ptr f32", "i32"); `body(k)` writes the rest."""
    buf = bytearray()
    with bc.write_bytecode(1, buf, version) as writer:
        types = writer.type_table
        probe = Kernel(writer, None, ())
        ids = [probe.tile(p) for p in parameters]
        with writer.function(entry, ids, (), True, {}, bc.MISSING_DEBUG_ATTR_ID) as (code, params):
            kernel = Kernel(writer, code, params)
            body(kernel)
            kernel.ret()
    assert types
    with open(output, "wb") as stream:
        stream.write(buf)
