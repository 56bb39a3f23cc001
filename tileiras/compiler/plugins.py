"""Passes from outside: classes that another installed package offers under the entry point group `tileiras.passes`.

    [project.entry-points."tileiras.passes"]
    CountOps = "my_package:CountOps"

The class is a `Pass` whose NAME is the name of the entry point; AFTER names the row of the pipeline behind which it runs.
It is looked up when somebody asks for it by name, never otherwise: a compile that names no plugin reads no metadata.
"""

from __future__ import annotations

import os

from tileiras.compiler.ir.passes import Pass
from tileiras.compiler.pipeline import BY_NAME, OPTIONAL, PIPELINE, Row
from tileiras.diag import ERROR, EXIT_CONFIGURATION, Diag

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from importlib.metadata import EntryPoint
    from typing import Any

    from tileiras.diag import Sink

GROUP = "tileiras.passes"
_seen: set[str] = set()  # folders whose .pth files were read
_from_source: set[str] = set()  # packages whose modules are not loaded as they were compiled once
ANCHORS = ("func", "module")
UNKNOWN = Diag(
    "PM-0101",
    ERROR,
    "no installed package offers a pass '{name}' (entry points of the group {group})",
    "plugins",
)
"""
cause: `--plugin` names a pass that no installed package offers, that two packages or the pipeline itself call so,
or whose class is no pass with a place in the pipeline.
remedy: Install the package into the environment of `tileiras`; give the entry point of the group `tileiras.passes`
a name of its own, the class that NAME, and AFTER the name of a row of docs/passes.md.

in: kernel
- $ tileiras k.tileir --gpu-name=sm_90 --emit=ptx --plugin=NoSuchPass
+ $ tileiras k.tileir --gpu-name=sm_90 --emit=ptx
"""

CLASH = Diag("PM-0102", ERROR, "the name of the pass '{name}' of {package} is taken by {other}", "plugins")
"""
see: PM-0101

! Another package has to be installed for it.
"""

UNUSABLE = Diag("PM-0103", ERROR, "the pass '{name}' of {package} cannot be used: {why}", "plugins")
"""
see: PM-0101

! Another package has to be installed for it.
"""


class OutsideRow(Row):
    """A row that stands behind another one; `package`: who offers it, with version."""

    __slots__ = ("after", "made_by", "package")

    def __init__(self, name: str, made_by: type[Pass], package: str) -> None:
        after = made_by.AFTER
        super().__init__(BY_NAME[after].stage, name, BY_NAME[after].file, made_by.__name__, None, 0, OPTIONAL)
        self.after = after
        self.made_by = made_by
        self.package = package

    def load(self, **options: Any) -> Pass:
        return self.made_by(**options)


def rows(names: Iterable[str], sink: Sink) -> list[OutsideRow]:
    """The rows of passes from outside, in the order of `names`. Errors: CompileError, code 2, for a name that nobody offers,
    that two packages offer or that is a pass of ours, and for what is no pass with a place in the pipeline."""
    out = []
    for name in dict.fromkeys(names):
        points = _points(name)
        if not points:
            sink.emit(UNKNOWN, name=name, group=GROUP)
            raise sink.fail(EXIT_CONFIGURATION)
        packages = [_package(point) for point in points]
        if name in BY_NAME or len(packages) > 1:
            other = "the pipeline" if name in BY_NAME else packages[1]
            sink.emit(CLASH, name=name, package=packages[0], other=other)
            raise sink.fail(EXIT_CONFIGURATION)
        try:
            _compile_from_source(points[0].module.partition(".")[0])
            found = points[0].load()
            why = _why_not(found, name)
        except (Exception, SystemExit) as error:  # code of others: whatever it does on import is its failure
            why = f"{type(error).__name__}: {error}"
        if why:
            sink.emit(UNUSABLE, name=name, package=packages[0], why=why)
            raise sink.fail(EXIT_CONFIGURATION)
        out.append(OutsideRow(name, found, packages[0]))
    return out


def offered(name: str) -> bool:
    """Whether an installed package offers a pass of that name."""
    return bool(_points(name))


def _points(name: str) -> list[EntryPoint]:
    from importlib.metadata import entry_points

    _see_editable()
    return list(entry_points(group=GROUP, name=name))


def _see_editable() -> None:
    """Lets packages be imported that lie where a .pth file says, as those whose sources are being edited do. The commands run
    without such files (-S), which cost every start and may do anything; who names a pass asks for them."""
    import sys

    if not sys.flags.no_site:
        return
    import site

    for folder in [path for path in sys.path if path.endswith(("site-packages", "dist-packages"))]:
        if folder not in _seen:  # what a .pth file runs, it runs once
            _seen.add(folder)
            site.addsitedir(folder)


def _compile_from_source(package: str) -> None:
    """Lets the modules of a package be compiled from what their files hold now. Python takes a compiled module for current that
    has the size and the second of its source's last edit; a cache whose key is the digest of an edit within that second would
    keep what the source before it made."""
    import sys
    from importlib.machinery import SourceFileLoader

    class FromSource(SourceFileLoader):
        def get_code(self, fullname: str) -> Any:
            return self.source_to_code(self.get_data(self.path), self.path)

    class Finder:
        @staticmethod
        def find_spec(fullname: str, path: Any = None, target: Any = None) -> Any:
            if fullname.partition(".")[0] != package:
                return None
            others = (finder for finder in sys.meta_path if finder is not Finder)
            found = (finder.find_spec(fullname, path, target) for finder in others)
            spec = next((spec for spec in found if spec is not None), None)
            if spec is not None and type(spec.loader) is SourceFileLoader:
                spec.loader = FromSource(fullname, spec.loader.path)
            return spec

    if package not in _from_source:
        _from_source.add(package)
        sys.meta_path.insert(0, Finder)  # type: ignore[arg-type]


def _package(point: EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist is not None else point.value


def _why_not(found: Any, name: str) -> str:
    """Why an object is no pass with this name and a place; empty when it is. Errors: those of its constructor."""
    if not (isinstance(found, type) and issubclass(found, Pass)):
        return "it is no subclass of tileiras.compiler.ir.passes.Pass"
    if found.NAME != name:
        return f"its NAME is '{found.NAME}'"
    if found.AFTER not in BY_NAME:
        return f"its AFTER is '{found.AFTER}', which is no row of the pipeline"
    if found.ANCHOR not in ANCHORS:
        return f"its ANCHOR is '{found.ANCHOR}', which is neither {' nor '.join(ANCHORS)}"
    found()
    return ""


def identity(name: str) -> str:
    """What decides what a pass does, for keys of caches: package, version, digest of the modules it may be made of; empty for
    a name that nobody offers."""
    from tileiras.toolchain.digest import digest_bytes

    words = []
    for point in _points(name):
        parts = []
        for path in _modules(point):
            with open(path, "rb") as file:
                parts += [os.fsencode(path), file.read()]
        words.append(f"{_package(point)} {point.value} {digest_bytes(*parts)}")
    return "; ".join(words)


def files(names: Iterable[str]) -> list[str]:
    """The modules that passes of these names may be made of, for depfiles: whoever edits one wants another image. Nothing
    for a name that nobody offers."""
    return sorted(
        {path for name in dict.fromkeys(names) for point in _points(name) for path in _modules(point)}
    )


def _modules(point: EntryPoint) -> list[str]:
    """The files of the module that an entry point names, or of all modules of the package that it lies in, by name: a pass may
    import any of them. Nothing is imported for it."""
    from importlib.util import find_spec

    spec = find_spec(point.module.partition(".")[0])
    if spec is None:
        return []
    if spec.submodule_search_locations is None:
        return [spec.origin] if spec.origin else []
    found = []
    for root in spec.submodule_search_locations:
        for folder, _, files in os.walk(root):
            found += [os.path.join(folder, file) for file in files if file.endswith((".py", ".so"))]
    return sorted(found)


def placed(ours: Iterable[Row], theirs: Iterable[OutsideRow]) -> list[Row]:
    """Our rows with theirs, each behind the row that it names, in the order in which they were asked for. Where that row is
    left out at the level, behind the one before it."""

    order = {row.name: i for i, row in enumerate(PIPELINE)}
    out = list(ours)
    for row in theirs:
        at = order[row.after]
        before = [
            i
            for i, r in enumerate(out)
            if (order[r.after] if isinstance(r, OutsideRow) else order[r.name]) <= at
        ]
        out.insert(before[-1] + 1 if before else 0, row)
    return out
