"""Every step of a compile, from the bytes of the input to the kernel table, with the function that takes it.

The passes and conversions are those of `pipeline.PIPELINE`, in its order; the steps of a conversion stand behind it. The
list is for people and tests: the compile itself walks through `driver.py` and `pipeline.py`.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_NVVM = "tileiras.compiler.lower.tileas_to_nvvm"
# step -> "module:name" of what takes it
BEFORE = {
    "check-header": "tileiras.compiler.bytecode.reader:check_header",
    "check-options": "tileiras.driver:check_options",
    "read-bytecode": "tileiras.compiler.bytecode.reader:read",
    "parse-text": "tileiras.compiler.ir.text:parse",
    "verify-input": "tileiras.compiler.ir.verify:verify",
    "find-target": "tileiras.driver:find_target",
}
INSIDE = {
    "ConvertCudaTileToTileAA": {"lower-scaled-mma": "tileiras.compiler.lower.cuda_tile_to_tileaa.scaled:lower_mmaf_scaled"},
    "attachKernelSpecAttributes": {"kernel-spec": "tileiras.compiler.lower.tileaa_to_tileas.spec:kernel_spec"},
    "ConvertTileAAToTileAS": {
        "integer-facts": "tileiras.compiler.passes.tileaa.facts:Facts",
        "infer-layouts": "tileiras.compiler.lower.tileaa_to_tileas.infer:Inference",
        "insert-conversions": "tileiras.compiler.lower.tileaa_to_tileas.rebuild:rebuild",
    },
    "TileASMaterializeConvertLayout": {"plan-conversion": "tileiras.compiler.layout.convert:plan"},
    "TileASUnspecializedPipeline": {"expand-loop": "tileiras.compiler.passes.tileas.pipeline_loop:expand"},
    "ConvertTileASToLLVM": {
        "lower-arith": f"{_NVVM}.arith:LOWER", "lower-shape": f"{_NVVM}.shape:LOWER", "lower-memory": f"{_NVVM}.memory:LOWER",
        "lower-control": f"{_NVVM}.control:LOWER", "lower-reduce": f"{_NVVM}.reduce:LOWER", "lower-mma": f"{_NVVM}.mma:LOWER",
        "lower-convert-layout": f"{_NVVM}.convert:lower_convert_layout", "lower-math": f"{_NVVM}.math:LOWER",
        "lower-casts": f"{_NVVM}.casts:LOWER", "lower-atomics": f"{_NVVM}.atomics:LOWER", "lower-scan": f"{_NVVM}.scan:LOWER",
        "lower-system": f"{_NVVM}.system:LOWER",
    },
    "KernelAttrPass": {"spell-directives": "tileiras.compiler.nvvm.directives:directives"},
    "NVVMIRVerifier": {
        "size-parameters": "tileiras.compiler.nvvm.sizer:total_bytes",
        "check-instructions": "tileiras.compiler.nvvm.verify:check_instructions",
    },
}  # fmt: skip
AFTER = {
    "spell-target": "tileiras.compiler.ptx.text:spell_target",
    "print-ptx": "tileiras.compiler.ptx.text:print_module",
    "find-ptxas": "tileiras.toolchain.locate:find_ptxas",
    "assemble": "tileiras.toolchain.ptxas:assemble",
    "read-resources": "tileiras.toolchain.ptxas:parse_log",
}


def full_pipeline() -> list[str]:
    """Names of all steps, in order."""
    from .pipeline import PIPELINE

    found = list(BEFORE)
    for row in PIPELINE:
        found += [row.name, *INSIDE.get(row.name, ())]
    return [*found, *AFTER]


def find_step(name: str) -> Callable[..., Any]:
    """The function, class or table that takes a step."""
    from importlib import import_module

    from .pipeline import BY_NAME

    row = BY_NAME.get(name)
    if row is not None:
        return row.load
    tables = [BEFORE, *INSIDE.values(), AFTER]
    module, _, attribute = next(table[name] for table in tables if name in table).partition(":")
    found = getattr(import_module(module), attribute)
    return found.get if isinstance(found, dict) else found  # type: ignore[no-any-return]
