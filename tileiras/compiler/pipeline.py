"""The order of every pass and lowering: the table of contents of the compiler.

cuda_tile -> nv_tileaa -> nv_tileas -> nvvm -> PTX text.
"""

from __future__ import annotations

from tileiras.diag import EXIT_COMPILE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from tileiras.compiler.ir.core import Op
    from tileiras.diag import Sink

STATIC_SHARED_BYTES = 48 * 1024  # what a block may have without opting in


class Stages:
    """What each stage made, by name; `ptx` is the last."""

    __slots__ = ("nvvm", "ptx", "tileaa", "tileas")

    def __init__(self) -> None:
        self.tileaa: Any = None
        self.tileas: Any = None
        self.nvvm: Any = None
        self.ptx = ""


def compile_module(
    module: Op,
    target: Any,
    sink: Sink,
    *,
    opt_level: int = 3,
    lineinfo: bool = False,
    device_debug: bool = False,
    launch_abi: str = "tile",
    launch_metadata: bool = False,
    remarks: dict[str, str] | None = None,
    after: Callable[[str, Any], None] | None = None,
) -> Stages:
    """PTX for a verified cuda_tile module. `after(stage name, IR)` is called behind every stage.

    `launch_metadata`: the PTX is for a ptxas that takes the marks of tile kernels (see ptx/text.py).
    `remarks`: which optimisation remarks were asked for, kind -> category.
    """
    from tileiras.compiler.lower import cuda_tile_to_tileaa, tileaa_to_tileas, tileas_to_nvvm
    from tileiras.compiler.nvvm.code import DebugTable
    from tileiras.compiler.ptx.text import print_module

    stages = Stages()

    def done(name: str, ir: Any) -> None:
        if after is not None:
            after(name, ir)

    stages.tileaa = cuda_tile_to_tileaa.lower_module(module)
    stages.tileaa.attrs.setdefault("nv_tileaa.compute_capability", target.number)
    done("tileaa", stages.tileaa)
    stages.tileas = tileaa_to_tileas.lower_module(stages.tileaa, target, sink, module.attrs)
    done("tileas", stages.tileas)
    debug = DebugTable(device_debug) if lineinfo or device_debug else None
    stages.nvvm, ok = tileas_to_nvvm.lower_module(stages.tileas, target, sink, debug, remarks)
    if not ok or sink.errors:
        raise sink.fail(EXIT_COMPILE)
    for fn in stages.nvvm.functions:
        if launch_abi == "simt" and fn.shared_bytes > STATIC_SHARED_BYTES:
            fn.dynamic_shared_bytes = fn.shared_bytes
    done("nvvm", stages.nvvm)
    stages.ptx = print_module(stages.nvvm, launch_metadata)
    done("ptx", stages.ptx)
    return stages
