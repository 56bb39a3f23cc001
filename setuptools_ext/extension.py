"""What to build: an Extension with Tile sources (TileExtension), or images as package data (TileKernels).

A plain setuptools Extension may list `.tileir` as well; it then gets the project's defaults. Sources may be text
(.tileir, .mlir), bytecode (.tilebc, .tileirbc) or, where ENTRIES and SIGNATURE say what to export, cuTile Python (.py).
"""

from __future__ import annotations

import difflib
import inspect
import keyword
import os

from setuptools import Extension

from tileiras.diag import Catalogue
from tileiras.terminal import told

from .options import BY_NAME, OptionError, check_value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

diags = Catalogue(f"{__package__}.diags")

TILE_SUFFIXES = (".tileir", ".tilebc", ".tileirbc", ".mlir")
COMPILERS = ("cxx", "nvcc", "tileiras")


def is_tile_source(path: object) -> bool:
    """Returns whether a source of any Extension is for the Tile compiler."""
    return str(path).endswith(TILE_SUFFIXES)


def split_options(keywords: dict[str, Any], where: str) -> dict[str, Any]:
    """Takes the Tile options out of `keywords` and returns them, checked. Errors: OptionError."""
    return {
        name: check_value(BY_NAME[name], keywords.pop(name), where)
        for name in list(keywords)
        if name in BY_NAME
    }


def refuse_unknown(names: Sequence[str], known: Sequence[str], where: str) -> None:
    """A misspelt keyword is an error: a budget that setuptools ignores with a warning is none. Errors: TypeError."""
    for name in names:
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"; did you mean '{near[0]}'?" if near else ""
        raise TypeError(f"{where}: unknown keyword '{name}'{hint}")


def _known_keywords() -> list[str]:
    """Returns the keywords of setuptools' own Extension and of the class below it."""
    return [one.name for base in Extension.__mro__ if "__init__" in vars(base) and base is not object
            for one in inspect.signature(base.__init__).parameters.values()
            if one.name != "self" and one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)]  # fmt: skip


class TileExtension(Extension):
    """An extension module whose sources may include Tile IR; `extra_compile_args` may be a dict by compiler.

    With Tile sources alone the module itself is generated: it has `images` and `tables`, one entry per source.
    `package_data=True` also installs the files named by `formats` beside the module.
    """

    def __init__(
        self,
        name: str,
        sources: Sequence[str | os.PathLike[str]],
        *,
        package_data: bool = False,
        extra_compile_args: Sequence[str] | Mapping[str, Sequence[str]] | None = None,
        **keywords: Any,
    ) -> None:
        where = f"TileExtension({name!r})"
        self.tile_options = split_options(keywords, where)
        known = [*_known_keywords(), "py_limited_api"]
        refuse_unknown([one for one in keywords if one not in known], [*known, *BY_NAME], where)
        self.tile_package_data = package_data
        by_compiler: dict[str, list[str]] = {"cxx": [], "nvcc": [], "tileiras": []}
        if hasattr(extra_compile_args, "items"):
            for key, values in extra_compile_args.items():  # type: ignore[union-attr]
                if key not in COMPILERS:
                    raise OptionError(
                        told(diags.COMPILE_ARGS, where=where, known=", ".join(COMPILERS), key=key)
                    )
                by_compiler[key] = list(values)
        else:
            by_compiler["cxx"] = list(extra_compile_args or ())  # type: ignore[arg-type]
        self.tile_compile_args = by_compiler
        super().__init__(
            name, [os.fspath(one) for one in sources], extra_compile_args=by_compiler["cxx"], **keywords
        )


class TileKernels(Extension):
    """Kernels as data of `package`: images, a JSON table and a small loader module; no C compiler takes part.

    `loader` is True for a module `tile_kernels`, another module name, or False for the files alone.
    """

    def __init__(self, package: str, sources: Sequence[str | os.PathLike[str]], *, loader: bool | str = True,
                 depends: Sequence[str] | None = None, optional: bool = False, **keywords: Any) -> None:  # fmt: skip
        where = f"TileKernels({package!r})"
        self.tile_options = split_options(keywords, where)
        refuse_unknown(list(keywords), [*BY_NAME, "sources", "loader", "depends", "optional"], where)
        self.tile_package = package
        self.tile_loader = "tile_kernels" if loader is True else loader or ""
        if self.tile_loader and (
            not self.tile_loader.isidentifier()
            or keyword.iskeyword(self.tile_loader)
            or self.tile_loader == "__init__"
        ):
            raise OptionError(told(diags.LOADER_NAME, where=where, name=self.tile_loader))
        self.tile_compile_args: dict[str, list[str]] = {"cxx": [], "nvcc": [], "tileiras": []}
        self.tile_package_data = True
        name = (
            f"{package}.{self.tile_loader or 'tile_kernels'}"
            if package
            else self.tile_loader or "tile_kernels"
        )
        super().__init__(
            name, [os.fspath(one) for one in sources], depends=list(depends or ()), optional=optional
        )


def tile_sources(extension: Extension) -> list[str]:
    """Returns the sources that are for the Tile compiler, cuTile Python where this extension takes it."""
    own = isinstance(extension, (TileExtension, TileKernels))
    return [
        str(one) for one in extension.sources if is_tile_source(one) or (own and str(one).endswith(".py"))
    ]
