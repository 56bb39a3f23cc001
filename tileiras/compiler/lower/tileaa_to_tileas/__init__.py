"""ConvertTileAAToTileAS: gives every tensor a layout and inserts convert_layout where renaming is not enough.

Layouts are inferred forward in one walk, loops to a fixed point (`infer.py`); then the function is rebuilt with
them (`rebuild.py`). attachKernelSpecAttributes (schedule/kernel_spec.py) decides threads, cluster and registers first.
"""

from __future__ import annotations

from tileiras.compiler.dialects.nv_tileas import ops as tileas
from tileiras.compiler.ir.build import create
from tileiras.compiler.ir.core import Block, Op, Region

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.analyses import Analyses


def lower_module(module: Op, analyses: Analyses, sink: Any, module_attrs: dict[str, Any]) -> Op:
    """An nv_tileas module; globals are copied."""
    from tileiras.compiler.dialects.nv_tileaa.kernel_spec import KEY
    from tileiras.compiler.schedule.kernel_spec import kernel_spec

    from .infer import Inference
    from .rebuild import rebuild

    body = Block()
    for op in module.regions[0].block.ops:
        if op.spec.name == "func":
            spec = op.attrs.get(KEY) or kernel_spec(op, analyses, module_attrs, sink)
            inference = Inference(op, analyses, spec.num_warps)
            func = rebuild(op, inference)
            func.attrs[KEY] = spec
            body.append(func)
        else:
            body.append(create(tileas.BY_NAME[op.spec.name], attrs=dict(op.attrs), loc=op.loc))
    return create(tileas.MODULE, attrs=dict(module.attrs), regions=[Region([body])])
