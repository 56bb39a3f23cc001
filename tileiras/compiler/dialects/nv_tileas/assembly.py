"""Text form of nv_tileas: the default form of every op, tensors with `#linear` layouts, pipelines."""

from __future__ import annotations

from tileiras.compiler.dialects.cuda_tile import forms, type_syntax
from tileiras.compiler.dialects.cuda_tile.ops import ENUMS
from tileiras.compiler.dialects.nv_tileaa.assembly import TensorDialect
from tileiras.compiler.dialects.nv_tileaa.types import parse_tile

from .ops import BY_NAME
from .types import parse_pipeline, parse_shared, parse_tensor_memory, parse_tma_descriptor, parse_type_ref

DIALECT = TensorDialect("nv_tileas", BY_NAME, ENUMS)
DIALECT.types = {
    **type_syntax.TYPES, "async.pipeline": parse_pipeline, "shared": parse_shared, "tensor_memory": parse_tensor_memory,
    "tma_descriptor": parse_tma_descriptor, "type_ref": parse_type_ref,
}  # fmt: skip
DIALECT.attrs = {**forms.ATTRS, "tile": parse_tile}
