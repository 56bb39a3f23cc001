"""Makes Python compile the user's files under names that do not depend on where the tree lies.

cuTile writes the file name of a kernel's code object into the bytecode's source locations.  An absolute name
would give the same source other bytes in every checkout, so names are mapped while a kernel file is imported:
by the caller's OLD=NEW pairs first, then to the path relative to the folder of the kernel file.
"""

from __future__ import annotations

import os

from tileiras.options import renamed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


class CodeNames:
    """Inside a `with`, source files are compiled under their mapped names."""

    def __init__(self, pairs: Sequence[tuple[str, str]]) -> None:
        self._pairs = list(pairs)

    def __enter__(self) -> None:
        from importlib.machinery import SourceFileLoader as Loader

        plain_code, plain_compile = Loader.get_code, Loader.source_to_code
        self._plain = (plain_code, plain_compile)
        pairs = self._pairs

        def get_code(self, fullname):  # type: ignore[no-untyped-def]
            path = self.get_filename(fullname)
            if renamed(os.path.abspath(path), pairs) == path:
                return plain_code(self, fullname)
            # Past __pycache__: what lies there carries the name under which it was compiled.
            return self.source_to_code(self.get_data(path), path)

        def source_to_code(self, data, path, **options):  # type: ignore[no-untyped-def]
            original = os.path.abspath(os.fsdecode(path))
            name = renamed(original, pairs)
            if name != original:
                _remember_lines(name, data)
            return plain_compile(self, data, name if name != original else path, **options)

        Loader.get_code = get_code  # type: ignore[method-assign]
        Loader.source_to_code = source_to_code  # type: ignore[method-assign]

    def __exit__(self, *_: object) -> None:
        from importlib.machinery import SourceFileLoader as Loader

        Loader.get_code, Loader.source_to_code = self._plain  # type: ignore[method-assign]


def _remember_lines(name: str, data: bytes) -> None:
    """Lets `inspect.getsource`, which cuTile reads kernels with, find the text under the mapped name."""
    import importlib.util
    import linecache

    text = importlib.util.decode_source(data)
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
