"""Text form of nv_tileaa: the default form of every op, `tensor<...>` types."""

from __future__ import annotations

from tileiras.compiler.dialects.cuda_tile import forms, type_syntax
from tileiras.compiler.dialects.cuda_tile.ops import ENUMS
from tileiras.compiler.ir.asm import Dialect

from .kernel_spec import KEY, read
from .ops import BY_NAME, plain_spec
from .types import parse_tile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.core import Op


class TensorDialect(Dialect):
    """nv_tileaa and nv_tileas."""

    def after_parse(self, parser: Any, op: Op) -> Op:
        if op.spec.name == "func" and KEY in op.attrs:
            op.attrs[KEY] = read(plain_spec(op.attrs[KEY]))
        for name in list(op.attrs):  # attributes without a field are plain values, as the lowering makes them
            if name not in op.spec.attr_by_name and name != KEY:
                op.attrs[name] = plain_spec(op.attrs[name])
        return op


DIALECT = TensorDialect("nv_tileaa", BY_NAME, ENUMS)
DIALECT.types = type_syntax.TYPES
DIALECT.attrs = {**forms.ATTRS, "tile": parse_tile}
