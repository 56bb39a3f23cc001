"""Joins Tile sources to whatever build_ext and bdist_wheel a project uses, its own, torch's, Cython's or setuptools'.

`extend_command` derives from the class that is there; it replaces nothing. build_ext gets its Tile objects before the
first extension is linked; an extension is handed on without its Tile sources, with the objects and headers they became.
"""

from __future__ import annotations

import copy
import os
import sys
from collections.abc import Iterator
from typing import Any

from setuptools.errors import CompileError, OptionError

from . import options
from .build import Builder, Unit, find_archs, read_fingerprint
from .extension import TileExtension, TileKernels, tile_sources
from .jobs import count_jobs
from .module import merge_tables, write_loader, write_module


def has_tile_sources(distribution: Any) -> bool:
    """Returns whether any extension of the distribution is for us: others' projects stay as they are."""
    return any(isinstance(one, TileKernels) or (hasattr(one, "sources") and tile_sources(one))
               for one in distribution.ext_modules or [])  # fmt: skip


def extend_command(name: str, base: type) -> type:
    """Returns `base` with Tile support; the same class again for the same base."""
    mixin = {"build_ext": TileBuildExt, "bdist_wheel": TileBdistWheel}[name]
    if issubclass(base, mixin):
        return base
    if base not in _EXTENDED:
        _EXTENDED[base] = type(
            base.__name__, (mixin, base), {"__module__": base.__module__, "__doc__": base.__doc__}
        )
    return _EXTENDED[base]


_EXTENDED: dict[type, type] = {}


class TileBdistWheel:
    """A wheel of data kernels fits every Python of a platform: images carry host code, so never `any`."""

    def get_tag(self) -> tuple[str, str, str]:
        tag: tuple[str, str, str] = super().get_tag()  # type: ignore[misc]
        modules = self.distribution.ext_modules or []  # type: ignore[attr-defined]
        if modules and all(isinstance(one, TileKernels) for one in modules) and tag[2] != "any":
            return ("py3", "none", tag[2])
        return tag


class TileBuildExt:
    """The part of build_ext that is ours; every method goes on to the class below."""

    # What the class below provides.
    distribution: Any
    extensions: list[Any]
    build_lib: str
    build_temp: str
    compiler: Any
    force: Any
    inplace: Any
    parallel: Any
    debug: Any
    plat_name: Any
    verbose: Any

    def finalize_options(self) -> None:
        super().finalize_options()  # type: ignore[misc]
        self.tile_units: dict[int, list[Unit]] = {}
        for ext in self.extensions:
            sources = tile_sources(ext)
            if not sources and isinstance(ext, TileKernels):
                raise OptionError(f"TileKernels of '{ext.tile_package}' has no sources")
            stems = [os.path.splitext(os.path.basename(one))[0] for one in sources]
            if isinstance(ext, TileKernels) and len(set(stems)) != len(stems):
                twice = next(one for one in stems if stems.count(one) > 1)
                raise OptionError(f"TileKernels of '{ext.tile_package}': two sources are named '{twice}'")

    # --- what the sdist takes

    def get_source_files(self) -> list[str]:
        files: list[str] = list(super().get_source_files())  # type: ignore[misc]
        for ext in self.extensions:
            # Releases of setuptools before 2023 leave `depends` out of the sdist.
            matrix = getattr(ext, "tile_options", {}).get("matrix")
            for path in [*tile_sources(ext), *(ext.depends or []), *([matrix] if matrix else [])]:
                path = str(path)
                inside = not os.path.isabs(path) and ".." not in path.replace("\\", "/").split("/")
                if path not in files and inside and os.path.isfile(path):
                    files.append(path)
        return files

    # --- what is installed

    def _data_files(self, ext: Any) -> dict[str, str]:
        """Returns build-directory path -> path below build_lib for the files installed beside a module."""
        if not getattr(ext, "tile_package_data", False):
            return {}
        package = ext.tile_package if isinstance(ext, TileKernels) else ext.name.rpartition(".")[0]
        folder = os.path.join(*package.split(".")) if package else ""
        formats = ext.tile_options.get("formats") or ["fatbin", "json"]
        files: dict[str, str] = {}
        for unit in self._units(ext):
            for form in formats:
                if form == "fatbin":
                    files[unit.fatbin] = os.path.join(folder, unit.stem + ".fatbin")
                elif form == "json":
                    files[unit.path(unit.stem + ".kernels.json")] = os.path.join(
                        folder, unit.stem + ".kernels.json"
                    )
                elif form == "tilebc":
                    files[unit.bytecode] = os.path.join(folder, unit.stem + ".tilebc")
                else:
                    for arch in unit.archs:
                        if form == "cubin" and arch.kind != "virtual":
                            path = unit.image(arch)
                        elif form == "ptx" and not unit.tile_abi:
                            path = unit.path(f"{unit.stem}.{arch}.ptx")
                        else:
                            continue
                        files[path] = os.path.join(folder, os.path.basename(path))
        if isinstance(ext, TileKernels) and ext.tile_loader:
            path = os.path.join(self._directory(ext), ext.tile_loader + ".py")
            files[path] = os.path.join(folder, ext.tile_loader + ".py")
        return files

    def get_outputs(self) -> list[str]:
        kept = [ext for ext in self.extensions if not isinstance(ext, TileKernels)]
        outputs: list[str] = self._with_extensions(kept, super().get_outputs)  # type: ignore[misc]
        for ext in self.extensions:
            outputs += [os.path.join(self.build_lib, path) for path in self._data_files(ext).values()]
        return outputs

    def get_output_mapping(self) -> dict[str, str]:
        kept = [ext for ext in self.extensions if not isinstance(ext, TileKernels)]
        mapping: dict[str, str] = self._with_extensions(kept, super().get_output_mapping)  # type: ignore[misc]
        if self.inplace:
            for ext in self.extensions:
                for path in self._data_files(ext).values():
                    mapping[os.path.join(self.build_lib, path)] = self._inplace_path(path)
        return mapping

    def copy_extensions_to_source(self) -> None:
        kept = [ext for ext in self.extensions if not isinstance(ext, TileKernels)]
        self._with_extensions(kept, super().copy_extensions_to_source)  # type: ignore[misc]
        for ext in self.extensions:
            for path in self._data_files(ext).values():
                regular = os.path.join(self.build_lib, path)
                if os.path.exists(regular) or not getattr(ext, "optional", False):
                    target = self._inplace_path(path)
                    os.makedirs(os.path.dirname(target) or ".", exist_ok=True)
                    self.copy_file(regular, target, level=self.verbose)  # type: ignore[attr-defined]

    def _inplace_path(self, path: str) -> str:
        build_py = self.get_finalized_command("build_py")  # type: ignore[attr-defined]
        package = ".".join(os.path.dirname(path).split(os.sep))
        return os.path.join(build_py.get_package_dir(package), os.path.basename(path))

    def _with_extensions(self, extensions: list[Any], call: Any) -> Any:
        every = self.extensions
        self.extensions = extensions
        try:
            return call()
        finally:
            self.extensions = every

    # --- building

    def _directory(self, ext: Any) -> str:
        return os.path.join(self.build_temp, "tileiras", ext.name)

    def _units(self, ext: Any) -> list[Unit]:
        """Returns the units of an extension, made once. Errors: CompileError when no architecture is named."""
        if id(ext) not in self.tile_units:
            self.tile_units[id(ext)] = list(self._make_units(ext))
        return self.tile_units[id(ext)]

    def _make_units(self, ext: Any) -> Iterator[Unit]:
        defaults: dict[str, Any] = getattr(self.distribution, "tileiras_defaults", {})
        values = {**defaults, **{k: v for k, v in getattr(ext, "tile_options", {}).items() if v is not None}}
        values.setdefault("compiler", os.environ.get("TILEIRAS_COMPILER") or "builtin")
        if self.debug and values.get("lineinfo") is None:
            values["lineinfo"] = True
        archs = find_archs(values.get("archs"), os.environ, values["compiler"], self._warn_once)
        machine = str(self.plat_name or "").rpartition("-")[2].lower()
        host = {"amd64": "x86_64", "arm64": "aarch64"}.get(machine, machine or "x86_64")
        system = "windows" if str(self.plat_name).startswith("win") else "linux"
        extra = getattr(ext, "tile_compile_args", {}).get("tileiras", [])
        with_object = not isinstance(ext, TileKernels)
        for source in tile_sources(ext):
            folder = os.path.dirname(source)
            # A source outside the project must not place its objects outside the build directory.
            folder = os.path.splitdrive(folder)[1].replace("..", "__").lstrip("/\\")
            yield Unit(source, os.path.join(self._directory(ext), folder), values, archs,
                       [str(one) for one in ext.depends or []], extra, (host, system), with_object)  # fmt: skip

    def _warn_once(self, text: str) -> None:
        said: set[str] = self.__dict__.setdefault("tile_said", set())
        if text not in said:
            said.add(text)
            self.warn(text)  # type: ignore[attr-defined]

    def build_extensions(self) -> None:
        """Builds every Tile source of every extension first, several at once, then what build_ext always built."""
        self.tile_failures: dict[int, CompileError] = {}
        if getattr(self, "dry_run", False):
            super().build_extensions()  # type: ignore[misc]
            return
        every: list[Unit] = []
        for ext in self.extensions:
            if tile_sources(ext):
                try:
                    every += self._units(ext)
                except CompileError as error:
                    self.tile_failures[id(ext)] = CompileError(f"{ext.name}: {error}")
        if every:
            fingerprint = read_fingerprint()
            stale = [unit for unit in every if self.force or not unit.is_current(fingerprint)]
            jobs = count_jobs(self.parallel, os.environ)
            Builder(jobs, self._say, os.environ).build(stale, fingerprint)
        super().build_extensions()  # type: ignore[misc]

    def _say(self, text: str) -> None:
        """Shows a command where build_ext shows the C compiler's."""
        try:
            from setuptools._distutils import log
        except ImportError:
            from distutils import log
        self.announce(text, level=log.INFO)  # type: ignore[attr-defined]

    def build_extension(self, ext: Any) -> None:
        if not tile_sources(ext):
            super().build_extension(ext)  # type: ignore[misc]
            return
        failure = self.tile_failures.get(id(ext))
        if getattr(self, "dry_run", False):
            return
        units = [] if failure else self._units(ext)
        failure = failure or next((unit.failure for unit in units if unit.failure is not None), None)
        if failure is not None:
            self._remove_outputs(ext)
            raise failure
        tables = {unit.stem: self._write_table(unit) for unit in units}
        if not isinstance(ext, TileKernels):
            self._link(ext, units, tables)
        elif ext.tile_loader:
            files = {unit.stem: unit.stem + ".fatbin" for unit in units}
            module = f"{ext.tile_package}.{ext.tile_loader}" if ext.tile_package else ext.tile_loader
            _write_if_new(
                os.path.join(self._directory(ext), ext.tile_loader + ".py"), write_loader(module, files)
            )
        for path, target in self._data_files(ext).items():
            target = os.path.join(self.build_lib, target)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            self.copy_file(path, target, preserve_mode=False)  # type: ignore[attr-defined]

    def _remove_outputs(self, ext: Any) -> None:
        """After a failure the module of an earlier build must not be packed as if it were new."""
        paths = [os.path.join(self.build_lib, path) for path in self._data_files_or_none(ext)]
        if not isinstance(ext, TileKernels):
            inplace, self.inplace = self.inplace, False
            paths.append(self.get_ext_fullpath(ext.name))  # type: ignore[attr-defined]
            self.inplace = inplace
        for path in paths:
            if os.path.isfile(path):
                os.unlink(path)

    def _data_files_or_none(self, ext: Any) -> list[str]:
        try:
            return list(self._data_files(ext).values())
        except CompileError:
            return []

    def _write_table(self, unit: Unit) -> str:
        import json

        tables = []
        for path in unit.tables:
            with open(path, encoding="utf-8") as file:
                tables.append(json.load(file))
        text = merge_tables(tables)
        _write_if_new(unit.path(unit.stem + ".kernels.json"), text)
        return text

    def _link(self, ext: Any, units: list[Unit], tables: dict[str, str]) -> None:
        """Hands the extension on with the objects and headers that its Tile sources became."""
        mine = set(tile_sources(ext))
        copied = copy.copy(ext)
        copied.sources = [one for one in ext.sources if str(one) not in mine]
        # Absolute, because torch compiles from another directory.
        folders = dict.fromkeys(os.path.abspath(unit.directory) for unit in units)
        copied.include_dirs = [*(ext.include_dirs or []), *folders]
        objects = self._compile_generated([unit.c_source for unit in units])
        copied.extra_objects = [*(ext.extra_objects or []), *objects]
        # build_ext compares time stamps: the objects are sources of the link, the headers of the compilation.
        copied.depends = [*(ext.depends or []), *objects, *(unit.header for unit in units)]
        mapped = self._prefix_map()
        if isinstance(ext, TileExtension) and _is_torch(self):
            words = ext.tile_compile_args
            copied.extra_compile_args = {"cxx": [*words["cxx"], *mapped], "nvcc": list(words["nvcc"])}
        elif isinstance(ext.extra_compile_args, dict):
            copied.extra_compile_args = dict(ext.extra_compile_args)
        else:
            copied.extra_compile_args = [*(ext.extra_compile_args or []), *mapped]
        if not copied.sources:
            name = ext.name.rpartition(".")[2]
            path = os.path.join(self._directory(ext), name + "_module.c")
            header = {unit.stem: os.path.basename(unit.header) for unit in units}
            rows = [(unit.stem, unit.prefix, header[unit.stem], tables[unit.stem]) for unit in units]
            _write_if_new(path, write_module(name, rows))
            copied.sources = [path]
        super().build_extension(copied)  # type: ignore[misc]

    def _prefix_map(self) -> list[str]:
        """Returns the flag that keeps this build's directory out of debug information and __FILE__."""
        program = _find_words(getattr(self.compiler, "compiler_so", None))[:1]
        name = os.path.basename(program[0]) if program else ""
        known = any(one in name for one in ("gcc", "g++", "clang", "cc", "c++"))
        if self.compiler.compiler_type != "unix" or sys.platform == "darwin" or not known:
            return []
        return [f"-ffile-prefix-map={os.getcwd()}=."]

    def _compile_generated(self, sources: list[str]) -> list[str]:
        """Returns the objects of the generated C files, compiled when older; not by a compiler that others patched.

        torch replaces `compiler.compile` by one that hands everything to ninja, with flags meant for C++ and CUDA.
        """
        try:
            from setuptools._distutils.ccompiler import new_compiler
            from setuptools._distutils.sysconfig import customize_compiler
        except ImportError:  # SETUPTOOLS_USE_DISTUTILS=stdlib
            from distutils.ccompiler import new_compiler
            from distutils.sysconfig import customize_compiler
        compiler = new_compiler(compiler=self.compiler.compiler_type, force=self.force)
        customize_compiler(compiler)
        if hasattr(compiler, "initialize") and not getattr(compiler, "initialized", True):
            compiler.initialize(self.plat_name)
        objects = []
        for source in sources:
            target = compiler.object_filenames([source], output_dir="")[0]
            if (
                self.force
                or not os.path.exists(target)
                or os.path.getmtime(target) < os.path.getmtime(source)
            ):
                compiler.compile([source], output_dir="", extra_postargs=self._prefix_map(), debug=self.debug)
            objects.append(target)
        return objects


def _find_words(value: object) -> list[str]:
    return [str(one) for one in value] if isinstance(value, (list, tuple)) else []


def _is_torch(command: object) -> bool:
    return any(base.__module__.startswith("torch.") for base in type(command).__mro__)


def _write_if_new(path: str, text: str) -> None:
    """Writes through a temporary sibling; a file that would not change keeps its time stamp."""
    data = text.encode("utf-8")
    try:
        with open(path, "rb") as file:
            if file.read() == data:
                return
    except OSError:
        os.makedirs(os.path.dirname(path), exist_ok=True)
    temporary = f"{path}.{os.getpid()}.tmp"
    with open(temporary, "wb") as file:
        file.write(data)
    os.replace(temporary, path)


__all__ = ["TileBdistWheel", "TileBuildExt", "extend_command", "has_tile_sources", "options"]
