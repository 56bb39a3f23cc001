"""Finds the modules of this package by their cached bytecode, for the time of a command.

A compile loads some 150 modules, and a third of that time goes to questions which have one answer here: which finder, which
suffix, which folder. What is not as the usual import left it (no bytecode, an older one, another kind) is left to the usual
import, which writes what is missing.
"""

from __future__ import annotations

import marshal
import sys
from os import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import CodeType
    from typing import Any

_PACKAGE = "tileiras."
_BOOTSTRAP: Any = sys.modules["_frozen_importlib"]  # importlib's own modules, without the package around them
_EXTERNAL: Any = sys.modules["_frozen_importlib_external"]
_TAIL = f".{sys.implementation.cache_tag}.pyc"
_MAGIC = _EXTERNAL.MAGIC_NUMBER + bytes(4)  # flags 0: the bytecode is of a source with this time and size


class Loader(_EXTERNAL.SourceFileLoader):  # type: ignore[misc]
    """Loads a module whose code is at hand."""

    def get_code(self, fullname: str) -> CodeType:
        code: CodeType | None = self.__dict__.pop("code", None)
        return super().get_code(fullname) if code is None else code  # type: ignore[no-any-return]


class Finder:
    """A finder for `sys.meta_path`."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: object = None) -> Any:
        """Where a module of the package is and how it is loaded; None: the usual import knows."""
        if not path or not name.startswith(_PACKAGE):
            return None
        stem = f"{path[0]}/{name[name.rindex('.') + 1 :]}"
        inside = None
        try:
            source = stem + ".py"
            try:
                status = stat(source)
                head, _, tail = stem.rpartition("/")
            except OSError:
                source, inside = stem + "/__init__.py", [stem]
                status = stat(source)
                head, tail = stem, "__init__"
            cached = f"{head}/__pycache__/{tail}{_TAIL}"
            with open(cached, "rb", 0) as file:
                data = file.read()
        except OSError:
            return None
        of = int(status.st_mtime) & 0xFFFFFFFF, status.st_size & 0xFFFFFFFF
        if data[:16] != _MAGIC + of[0].to_bytes(4, "little") + of[1].to_bytes(4, "little"):
            return None
        try:
            code = marshal.loads(memoryview(data)[16:])
        except (EOFError, ValueError, TypeError):
            return None
        loader = Loader(name, source)
        loader.code = code
        spec = _BOOTSTRAP.ModuleSpec(name, loader, origin=source)
        spec.submodule_search_locations = inside
        spec.cached = cached
        spec.has_location = True
        return spec


def install() -> None:
    """From now on; not where bytecode is kept elsewhere or optimised."""
    if sys.pycache_prefix is None and not sys.flags.optimize:
        sys.meta_path.insert(0, Finder)  # type: ignore[arg-type]


def remove() -> None:
    """No longer."""
    if Finder in sys.meta_path:
        sys.meta_path.remove(Finder)  # type: ignore[arg-type]
