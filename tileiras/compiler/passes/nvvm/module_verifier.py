"""The module verifier behind the MLIR tier (layer 3): kernels are marked, and their launch bounds agree."""

from __future__ import annotations

from tileiras.compiler.ir.passes import Context, Pass
from tileiras.compiler.nvvm.directives import KERNEL, cluster_dim
from tileiras.compiler.target import sm
from tileiras.compiler.target.cost import CostModel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MAX_THREADS = 1024


class ModuleVerifier(Pass):
    NAME = "ModuleVerifier"
    SUMMARY = "Every kernel has nvvm.kernel and launch bounds that agree"
    """
    does: layer 3: kernels are marked, launch bounds agree
    without: not checked
    """
    ANCHOR = "module"
    LAYER = 3
    __slots__ = ()

    def run(self, module: Any, context: Context) -> bool:
        errors = context.sink.errors
        emit = context.sink.emit
        for fn in module.functions:
            unmarked = KERNEL not in fn.attrs
            problems = [] if unmarked else launch_bound_problems(fn, context.target)
            if problems or (unmarked and fn.is_entry):
                from tileiras.compiler.nvvm import diags as D

                if unmarked:
                    emit(D.NO_METADATA, loc=fn.loc, function=fn.name)
                for what in problems:
                    emit(D.LAUNCH_BOUNDS, loc=fn.loc, function=fn.name, what=what)
        return context.sink.errors == errors


def launch_bound_problems(fn: Any, target: Any) -> list[str]:
    """What does not fit together in the launch bounds of a kernel."""
    attrs, found = fn.attrs, []
    x, y, z = fn.block
    if min(x, y, z) < 1:
        found.append(f"nvvm.reqntid [{x}, {y}, {z}] has an extent below 1")
    elif x * y * z > MAX_THREADS:
        found.append(f"nvvm.reqntid [{x}, {y}, {z}] is more than {MAX_THREADS} threads")
    dims = cluster_dim(fn)
    size = dims[0] * dims[1] * dims[2]
    text = f"nvvm.cluster_dim [{dims[0]}, {dims[1]}, {dims[2]}]"
    if size > 1 and attrs.get("nvvm.blocksareclusters") not in (None, False):
        found.append(f"nvvm.blocksareclusters is only legal with cluster_dim [1, 1, 1], not with {text}")
    if target is not None and target.has(sm.CLUSTER):
        if min(dims) < 1:
            found.append(f"{text} has an extent below 1")
        elif size > CostModel.most_cluster:
            found.append(f"{text} is more than {CostModel.most_cluster} CTAs")
        rank = attrs.get("nvvm.maxclusterrank")
        if rank is not None and size > 1:
            found.append(f"nvvm.maxclusterrank {rank} and {text} exclude each other")
        elif rank is not None and attrs.get("nvvm.blocksareclusters") not in (None, False):
            found.append(f"nvvm.maxclusterrank {rank} and nvvm.blocksareclusters exclude each other")
    for name, low, high in (
        ("nvvm.maxnreg", 1, 255),
        ("nvvm.minctasm", 1, 32),
        ("nvvm.maxclusterrank", 1, CostModel.most_cluster),
    ):
        value = attrs.get(name)
        if value is not None and not (isinstance(value, int) and low <= value <= high):
            found.append(f"{name} must be from {low} to {high}, but is {value}")
    return found
