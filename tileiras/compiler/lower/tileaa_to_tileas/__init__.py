"""ConvertTileAAToTileAS: gives every tensor a layout and inserts convert_layout where renaming is not enough.

Layouts are inferred forward in one walk, loops to a fixed point (`infer.py`); then the function is rebuilt with
them (`rebuild.py`). attachKernelSpecAttributes (`spec.py`) decides threads, cluster and registers first.
"""

from __future__ import annotations

from tileiras.compiler.dialects.nv_tileas import ops as tileas
from tileiras.compiler.ir.core import Block, Op, Region

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def lower_module(module: Op, target: Any, sink: Any, module_attrs: dict[str, Any]) -> Op:
    """An nv_tileas module; globals are copied."""
    from .infer import Inference
    from .rebuild import rebuild
    from .spec import kernel_spec

    body = Block()
    for op in module.regions[0].block.ops:
        if op.spec.name == "func":
            spec = kernel_spec(op, target, module_attrs)
            inference = Inference(op, target, spec["num_warps"])
            func = rebuild(op, inference)
            func.attrs["kernel_spec"] = spec
            body.append(func)
        else:
            body.append(Op(tileas.BY_NAME[op.spec.name], attrs=dict(op.attrs), loc=op.loc))
    return Op(tileas.MODULE, attrs=dict(module.attrs), regions=[Region([body])])
