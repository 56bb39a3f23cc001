"""The CPU as a target: Tile IR compiled to native code by LLVM, tile blocks on all cores.

From the tensor level on (nv_tileaa, before GPU layouts): `lower.py` walks a function, `tiles.py` fuses what has no
effects into loops over vectors, `kernel.py` compiles, `launch.py` runs.
"""

from __future__ import annotations

from .launch import kernel_of, launch

__all__ = ["kernel_of", "launch"]
