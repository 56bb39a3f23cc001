"""Tile kernels in Python packages built by setuptools: `.tileir` among the sources of any Extension, and more.

    from tileiras.setuptools_ext import TileExtension, TileKernels

extension.py says what to build, build.py builds it and knows what is up to date, command.py joins that to whatever
build_ext a project uses, pyproject.py reads [tool.tileiras], hooks.py is what setuptools finds by entry points.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .extension import TileExtension, TileKernels

__all__ = ["TileExtension", "TileKernels"]


def __getattr__(name: str) -> object:
    # Entry points load `hooks` in every project of an environment; only projects with kernels pay for the rest.
    if name in __all__:
        from . import extension

        return getattr(extension, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
