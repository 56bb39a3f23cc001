"""What the type of a tile view says of its dimensions."""

from __future__ import annotations

from .types import GatherScatterView

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def view_dims(type: Any) -> tuple[int, ...]:
    """The tensor dimension of each dimension of a view's tile."""
    return getattr(type, "dim_map", None) or tuple(range(len(type.tile)))


def unit_dim(type: Any) -> int:
    """The dimension of a view's tile whose elements are neighbours in memory; -1: none. Rows that a list names are none."""
    sparse = type.sparse_dim if isinstance(type, GatherScatterView) else -1
    strides = type.view.strides
    return next(
        (d for d, m in enumerate(view_dims(type)) if strides[m] == 1 and type.tile[d] > 1 and d != sparse), -1
    )
