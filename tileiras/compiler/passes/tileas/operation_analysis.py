"""TileIR operation analysis (layer 3): what only the whole module shows, before the conversion to per-thread code.

Every kernel has its kernel_spec, every call reaches a function of the module with these types, and no attribute
names a type that the module's type table does not have.
"""

from __future__ import annotations

import sys

from tileiras.compiler.ir.passes import Context, Pass, functions_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any


TYPES = "tileiras.compiler.dialects.nv_tileas.types"


class OperationAnalysis(Pass):
    NAME = "TileIROperationAnalysis"
    SUMMARY = "Kernel specs, called symbols and types of attributes of the whole module"
    """
    does: layer 3: kernel specs, called symbols, types of attributes
    without: not checked
    """
    ANCHOR = "module"
    LAYER = 3
    KEEPS_ANALYSES = True
    __slots__ = ()

    def run(self, module: Any, context: Context) -> bool:
        errors = context.sink.errors
        types = sys.modules.get(TYPES)
        functions = {f.attrs["sym_name"]: f for f in functions_of(module)}
        for name, func in functions.items():
            if "nv_tileaa.kernel_spec" not in func.attrs:
                from tileiras.compiler.dialects.nv_tileas import diags as D

                context.sink.emit(D.NO_SPEC, loc=func.loc, function=name)
        if context.names is None or "call" in context.names:
            self.check_calls(functions, context)
        if types is not None and types.TypeRef.made:  # what was never made needs no search
            self.check_types(module, functions, context)
        return context.sink.errors == errors

    def check_calls(self, functions: dict[str, Any], context: Context) -> None:
        from tileiras.compiler.dialects.nv_tileas import diags as D

        for name, func in functions.items():
            for op in func.walk():
                if op.spec.name != "call":
                    continue
                callee = op.attrs["callee"]
                target = functions.get(callee)
                if target is None:
                    context.sink.emit(D.UNRESOLVED, loc=op.loc, callee=callee, function=name)
                    continue
                got = [v.type for v in op.operands]
                want = [a.type for a in target.regions[0].block.args]
                if got != want:
                    context.sink.emit(
                        D.CALL_TYPES, loc=op.loc, callee=callee, function=name, got=got, want=want
                    )

    def check_types(self, module: Any, functions: dict[str, Any], context: Context) -> None:
        from tileiras.compiler.dialects.nv_tileas import diags as D

        table = module.attrs.get("nv_tileaa.type_table") or ()
        for name, func in functions.items():
            for op in func.walk():
                for attr, value in op.attrs.items():
                    for ref in references(value):
                        if ref.index >= len(table):
                            context.sink.emit(
                                D.FOREIGN_TYPE,
                                loc=op.loc,
                                attr=attr,
                                name=op.spec.full_name,
                                function=name,
                                type=ref,
                            )


def references(value: Any) -> Iterator[Any]:
    """References to the type table inside an attribute."""
    from tileiras.compiler.dialects.nv_tileas.types import TypeRef

    if isinstance(value, TypeRef):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from references(item)
    elif isinstance(value, tuple):
        for item in value:
            yield from references(item)
