"""Ops of the cute_nvgpu dialect: one per kind of atom; `arch` is the capability it is meant for."""

from __future__ import annotations

from tileiras.compiler.ir.spec import VARIADIC, Arg, Attr, OpSpec

D = "cute_nvgpu"
_ARCH = Attr("arch", "i32")
_VALUES = (Arg("operands", "any", VARIADIC),)
_RESULTS = (Arg("results", "any", VARIADIC),)
COPY = OpSpec("copy", dialect=D, operands=_VALUES, attrs=(Attr("atom", "copy_atom"), _ARCH), results=_RESULTS)
MMA = OpSpec("mma", dialect=D, operands=_VALUES, attrs=(Attr("atom", "mma_atom"), _ARCH), results=_RESULTS)
TMA_LOAD = OpSpec(
    "tma_load", dialect=D, operands=_VALUES, attrs=(Attr("atom", "tma_atom"), _ARCH), results=_RESULTS
)
BY_NAME = {spec.name: spec for spec in (COPY, MMA, TMA_LOAD)}
