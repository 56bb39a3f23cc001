"""Optimization hints that nothing reads: a warning each, on request only.

Compilers ignore what they do not know here, silently; a frontend that wants to know asks for these.
"""

from __future__ import annotations

from tileiras.archs import NAMES
from tileiras.diag import ERROR, WARNING, Diag

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.core import Op
    from tileiras.diag import Sink

UNKNOWN_ARCH = Diag("CT-0100", WARNING, "unknown hint key {arch}", src="real verifier")
"""
cause: An optimization hint has a key, name or value that this release does not know.
remedy: Use keys like sm_90, and values in the range that the message names; a hint may also be left out, it never
changes results.

  $ tileiras-opt k.tileir --Wunsupported-hints
  cuda_tile.module @m {
- entry @k() optimization_hints = <sm_100a = {num_cta_in_cga = 2}> {
+ entry @k() optimization_hints = <sm_100 = {num_cta_in_cga = 2}> {
      return
    }
  }
"""

UNKNOWN_HINT = Diag("CT-0101", WARNING, "{name} is not known hint for current Operation", src="real verifier")
"""
see: CT-0100

  $ tileiras-opt k.tileir --Wunsupported-hints
  cuda_tile.module @m {
- entry @k() optimization_hints = <sm_100 = {num_qqq = 1}> {
+ entry @k() optimization_hints = <sm_100 = {occupancy = 1}> {
      return
    }
  }
"""

NOT_INTEGER = Diag("CT-0102", WARNING, "integer value expected for {arch}.{name}", src="real verifier")
"""
see: CT-0100

  $ tileiras-opt k.tileir --Wunsupported-hints
  cuda_tile.module @m {
- entry @k() optimization_hints = <sm_100 = {num_cta_in_cga = "a"}> {
+ entry @k() optimization_hints = <sm_100 = {num_cta_in_cga = 2}> {
      return
    }
  }
"""

NOT_BOOL = Diag("CT-0103", WARNING, "bool value expected for {arch}.{name}", src="own")
"""
see: CT-0100

in: kernel(%p: tile<ptr<f32>>)
  $ tileiras-opt k.tileir --Wunsupported-hints
      %v = make_tensor_view %p, shape = [64], strides = [1] : tensor_view<64xf32, strides=[1]>
      %w = make_partition_view %v : partition_view<tile=(8), tensor_view<64xf32, strides=[1]>>
      %i = constant <i32: 0> : tile<i32>
-   %x, %t = load_view_tko weak %w[%i] optimization_hints = <sm_100 = {allow_tma = 1}> : partition_view<tile=(8), tensor_view<64xf32, strides=[1]>>, tile<i32> -> tile<8xf32>, token
+   %x, %t = load_view_tko weak %w[%i] optimization_hints = <sm_100 = {allow_tma = true}> : partition_view<tile=(8), tensor_view<64xf32, strides=[1]>>, tile<i32> -> tile<8xf32>, token
"""  # noqa: E501

NOT_POWER = Diag("CT-0104", WARNING, "expected power-of-two ≤ {high} for {arch}.{name}", src="real verifier")
"""
see: CT-0100

  $ tileiras-opt k.tileir --Wunsupported-hints
  cuda_tile.module @m {
- entry @k() optimization_hints = <sm_100 = {num_cta_in_cga = 7}> {
+ entry @k() optimization_hints = <sm_100 = {num_cta_in_cga = 8}> {
      return
    }
  }
"""

OUT_OF_RANGE = Diag(
    "CT-0105",
    WARNING,
    "integer value in the range [{low}, {high}] is expected for {arch}.{name}",
    src="real verifier",
)
"""
see: CT-0100

  $ tileiras-opt k.tileir --Wunsupported-hints
  cuda_tile.module @m {
- entry @k() optimization_hints = <sm_100 = {occupancy = 64}> {
+ entry @k() optimization_hints = <sm_100 = {occupancy = 32}> {
      return
    }
  }
"""

FAILED = Diag("CT-0106", ERROR, "Optimization hints verification failed", src="real verifier")
"""
see: CT-0100

  $ tileiras-opt k.tileir --Werr-hints
  cuda_tile.module @m {
- entry @k() optimization_hints = <sm_100 = {occupancy = 64}> {
+ entry @k() optimization_hints = <sm_100 = {occupancy = 32}> {
      return
    }
  }
"""


ARCHITECTURES = frozenset(("default", *NAMES))
POWER, RANGE, BOOL = range(3)
ENTRY = {
    "num_cta_in_cga": (POWER, 1, 16),
    "num_worker_warps_per_cta": (POWER, 1, 32),
    "occupancy": (RANGE, 1, 32),
}
LATENCY = {"latency": (RANGE, 1, 10)}
VIEW = {**LATENCY, "allow_tma": (BOOL, 0, 1)}
KNOWN = {
    "entry": ENTRY,
    "load_ptr_tko": LATENCY,
    "store_ptr_tko": LATENCY,
    "load_view_tko": VIEW,
    "store_view_tko": VIEW,
}


def check_hints(root: Op, sink: Sink, *, errors: bool = False) -> bool:
    """Whether every hint in `root` is one that a compiler reads; warns of the others. `errors`: an error per op."""
    fine = True
    for op in root.walk():
        hints = op.attrs.get("optimization_hints")
        if not hints:
            continue
        before = len(sink.emitted)
        known = KNOWN.get(op.spec.name, {})
        for arch, values in hints.items():
            if arch not in ARCHITECTURES:
                sink.emit(UNKNOWN_ARCH, op, arch=arch)
                continue
            for name, value in values.items():
                check_value(op, sink, arch, name, value, known.get(name))
        if len(sink.emitted) != before:
            fine = False
            if errors:
                sink.emit(FAILED, op)
    return fine


def check_value(
    op: Op, sink: Sink, arch: str, name: str, value: Any, rule: tuple[int, int, int] | None
) -> None:
    if rule is None:
        sink.emit(UNKNOWN_HINT, op, name=name)
        return
    kind, low, high = rule
    if kind == BOOL:
        if not isinstance(value, bool):
            sink.emit(NOT_BOOL, op, arch=arch, name=name)
    elif isinstance(value, bool) or not isinstance(value, int):
        sink.emit(NOT_INTEGER, op, arch=arch, name=name)
    elif kind == POWER and (not low <= value <= high or value & (value - 1)):
        sink.emit(NOT_POWER, op, arch=arch, name=name, high=high)
    elif not low <= value <= high:
        sink.emit(OUT_OF_RANGE, op, arch=arch, name=name, low=low, high=high)
