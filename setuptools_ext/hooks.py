"""What setuptools finds by entry points. Runs in every project of an environment, so it imports next to nothing.

`finalize_distribution` reads [tool.tileiras] and lets the distribution's build_ext, bdist_wheel and sdist pass through
command.extend_command, at the moment they are asked for: whatever class is there by then, from cmdclass, from another
plugin or from setuptools, is extended and not replaced. Projects without Tile sources get their classes untouched.
"""

from __future__ import annotations

import os

from tileiras.diag import Catalogue
from tileiras.terminal import told

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

diags = Catalogue(f"{__package__}.diags")

EXTENDED = ("build_ext", "bdist_wheel", "sdist")


def finalize_distribution(distribution: Any) -> None:
    """Entry point setuptools.finalize_distribution_options. Safe to run again on the same distribution."""
    if not getattr(distribution, "_tileiras_hooked", False):
        distribution._tileiras_hooked = True
        _wrap_command_lookup(distribution)
        _read_pyproject(distribution)


finalize_distribution.order = 10  # type: ignore[attr-defined]  # after plugins that add extension modules


def _wrap_command_lookup(distribution: Any) -> None:
    lookup = distribution.get_command_class

    def get_command_class(command: str) -> Any:
        found = lookup(command)
        if command not in EXTENDED or not _may_have_tile_sources(distribution):
            return found
        from . import command as tile_command

        if not tile_command.has_tile_sources(distribution):
            return found
        extended = tile_command.extend_command(command, found)
        distribution.cmdclass[command] = extended
        return extended

    distribution.get_command_class = get_command_class


def _may_have_tile_sources(distribution: Any) -> bool:
    """Returns whether a closer look is worth its imports."""
    for one in getattr(distribution, "ext_modules", None) or []:
        if type(one).__module__.startswith("tileiras.") or any(
            hasattr(base, "__module__") and base.__module__.startswith("tileiras.")
            for base in type(one).__mro__
        ):
            return True
        if any(str(source).endswith((".tileir", ".tilebc", ".tileirbc", ".mlir")) for source in
               getattr(one, "sources", None) or []):  # fmt: skip
            return True
    return False


def _read_pyproject(distribution: Any) -> None:
    root = getattr(distribution, "src_root", None) or os.curdir
    path = os.path.join(root, "pyproject.toml")
    if not os.path.exists(path):
        return
    with open(path, "rb") as file:
        if b"tool.tileiras" not in file.read():
            return
    from setuptools.errors import OptionError

    from . import pyproject

    try:
        table = pyproject.load_table(path)
        if table is None:
            return
        defaults, jobs, extensions = pyproject.read_project(table, root)
    except OptionError as error:
        # setuptools shows an exception of a plugin with all that led to it; the user's mistake is in one line.
        raise SystemExit(f"error: {error}") from None
    distribution.tileiras_defaults = defaults
    if jobs is not None:
        os.environ.setdefault("TILEIRAS_JOBS", str(jobs))
    if extensions:
        distribution.ext_modules = [*(distribution.ext_modules or []), *extensions]


def check_tile_kernels(distribution: Any, keyword: str, value: Any) -> None:
    """Entry point distutils.setup_keywords: setup(tile_kernels=[TileKernels(...), ...])."""
    from setuptools.errors import OptionError

    from .extension import TileKernels

    if not isinstance(value, (list, tuple)) or not all(isinstance(one, TileKernels) for one in value):
        raise OptionError(told(diags.KERNELS_LIST, keyword=keyword))
    known = distribution.ext_modules or []
    distribution.ext_modules = [*known, *(one for one in value if one not in known)]


def tool_schema(tool_name: str = "tileiras") -> dict[str, Any]:
    """Entry point validate_pyproject.tool_schema."""
    from .pyproject import schema

    return schema()
