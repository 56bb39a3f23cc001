"""Exports corpus kernels to bytecode: `python -m tests.corpus.export [-k SUBSTR] [--check]`.

cuda.tile kernels go through `cuda.tile.compilation.export_kernel` (this must run in an environment that
has cuda-tile), Tile C++ through `nvcc -std=c++20 --tile-only -tilebc`. Results lie in
tests/data/bytecode, an archive a family, whose members say what each was made from, so that the quick test tier
needs no frontend and a test can say which file is stale. Where two branches changed one archive, take either side and
export: what the other side had is missing or stale, and is made again. Kernel sources are loaded under a neutral file
name: bytecode carries debug information, and committed files must not name the machine that made them.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import inspect
import linecache
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

from tests import fixtures
from tests.corpus.case import Array, Case, ListOf, Scalar
from tests.corpus.neutral import neutral_strings
from tests.corpus.registry import CASES

HERE = Path(__file__).resolve().parent


def bytecode_path(case: Case) -> Path:
    """Where the exported bytecode of a case lies, for reading."""
    return fixtures.BYTECODE / f"{case.module}.tilebc"


def archive_path(case: Case) -> Path:
    """The archive that keeps a case's bytecode: its family's, or that of the first case of a file that several share."""
    return fixtures.ARCHIVES / f"{_first(case.module).family}.zip"


@functools.cache
def _first(module: str) -> Case:
    return next(c for c in CASES.values() if c.module == module)


def together(case: Case) -> list[Case]:
    """All cases whose entries share the case's bytecode file."""
    return [c for c in CASES.values() if c.module == case.module]


def fingerprint(case: Case) -> str:
    """Digest of all that decides a case's bytecode, apart from the frontend itself."""
    source = (HERE / case.source).read_bytes()
    key = f"nvcc {case.module}"
    if case.frontend == "writer":
        source += (HERE / "writer" / "builder.py").read_bytes()
    if case.frontend != "cpp":
        key = repr([(c.kernel, c.entry, c.signature, c.version) for c in together(case)])
    return hashlib.sha256(source + key.encode()).hexdigest()[:16]


def load_kernels(relative: str) -> ModuleType:
    """A kernel source as a module whose functions say they come from /corpus/..., wherever it lies."""
    text = (HERE / relative).read_text()
    filename = f"/corpus/{relative}"
    linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)
    module = ModuleType("corpus_" + Path(relative).stem)
    module.__file__ = filename
    sys.modules[module.__name__] = module
    exec(compile(text, filename, "exec"), module.__dict__)
    return module


def constraint(param: Any) -> Any:
    """The cuda.tile constraint for one parameter of a case's signature; constants stay as they are."""
    import cuda.tile as ct
    from cuda.tile import compilation as cc

    names = {
        "i1": "bool_",
        "bf16": "bfloat16",
        "e4m3": "float8_e4m3fn",
        "e5m2": "float8_e5m2",
        "e8m0": "float8_e8m0fnu",
        "tf32": "tfloat32",
    }

    def dtype(short: str) -> Any:
        long = names.get(short) or {"i": "int", "u": "uint", "f": "float"}[short[0]] + short[1:]
        return getattr(ct, long)

    if isinstance(param, Array):
        n = param.ndim
        return cc.ArrayConstraint(
            dtype(param.dtype),
            n,
            index_dtype=dtype(param.index),
            stride_lower_bound_incl=0,
            alias_groups=list(param.alias),
            may_alias_internally=param.overlaps,
            stride_constant=None if param.strided or n == 0 else [None] * (n - 1) + [1],
            stride_divisible_by=1
            if param.div == 1
            else [param.div] * (n - 1) + [param.div if param.strided else 1],
            shape_divisible_by=param.div,
            base_addr_divisible_by=param.align,
        )
    if isinstance(param, ListOf):
        return cc.ListConstraint(constraint(param.element), alias_groups=[], elements_may_alias=False)
    if isinstance(param, Scalar):
        return cc.ScalarConstraint(dtype(param.dtype))
    return param


_modules: dict[str, ModuleType] = {}


def hide_install_path() -> None:
    """Makes the frontend name its own files /cuda/tile/... in debug information, wherever it is installed."""
    from cuda.tile._bytecode.debug_info import DebugAttrTable

    if getattr(DebugAttrTable, "corpus_neutral", False):
        return

    def neutral(path: str) -> str:
        return "/cuda/tile" + path.rsplit("/cuda/tile", 1)[1] if "/cuda/tile" in path else path

    file, loc = DebugAttrTable.file, DebugAttrTable.loc
    DebugAttrTable.file = lambda self, name, folder: file(self, name, neutral(folder))
    DebugAttrTable.loc = lambda self, scope, name, line, column: loc(self, scope, neutral(name), line, column)
    DebugAttrTable.corpus_neutral = True


def export_python(cases: list[Case], output: Path) -> None:
    """Writes one file with an entry for each of `cases`, which are signatures of one cuda.tile kernel."""
    from cuda.tile import compilation as cc

    hide_install_path()
    first = cases[0]
    if first.source not in _modules:
        _modules[first.source] = load_kernels(first.source)
    kernel = getattr(_modules[first.source], first.kernel)
    signatures = [
        cc.KernelSignature(
            [constraint(p) for p in case.signature],
            symbol=case.entry,
            calling_convention=cc.CallingConvention.cutile_python_v1(),
        )
        for case in cases
    ]
    cc.export_kernel(
        kernel,
        signatures,
        str(output),
        output_format="tileir_bytecode",
        bytecode_version=first.version,
        gpu_code=None if first.version >= "13.3" else "sm_90",
    )


def export_writer(case: Case, output: Path) -> None:
    """Writes the module that a function of writer/ops.py describes."""
    from cuda.tile import _bytecode as bc

    from tests.corpus.writer import builder, ops

    parameters, body = getattr(ops, case.kernel)(*case.signature)
    version = bc.BytecodeVersion[f"V_{case.version.replace('.', '_')}"]
    builder.write_module(case.entry, version, parameters, body, output)


def find_nvcc() -> Path | None:
    """nvcc of the toolkit wheels beside this interpreter, or of the peers tree."""
    for root in sys.path:
        tool = Path(root) / "nvidia" / "cu13" / "bin" / "nvcc"
        if tool.exists():
            return tool
    try:
        from tests import peers
    except ImportError:
        return None
    found = peers.tool("nvcc")
    return Path(found) if found else None


def only_entry(text: str, entry: str) -> str:
    """A Tile C++ source with every other entry blanked out: line numbers stay as they are."""
    out, dropping, depth = [], False, 0
    for line in text.splitlines():
        if line.startswith('extern "C" __tile_global__') and f" {entry}(" not in line:
            dropping, depth = True, 0
        if not dropping:
            out.append(line)
            continue
        out.append("")
        opened = depth
        depth += line.count("{") - line.count("}")
        dropping = depth > 0 or (opened == 0 and "{" not in line)
    return "\n".join(out) + "\n"


def export_cpp(case: Case, output: Path, nvcc: Path) -> None:
    """Writes the bytecode of a Tile C++ case: its entry alone, or all entries of its source."""
    text = (HERE / case.source).read_text()
    if case.module == case.entry:
        text = only_entry(text, case.entry)
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder).resolve() / Path(case.source).name
        source.write_text(text)
        done = subprocess.run(
            [
                str(nvcc),
                "-std=c++20",
                "--tile-only",
                "-tilebc",
                "-arch=sm_90",
                f"-I{HERE / 'cpp' / 'include'}",
                source.name,
                "-o",
                "out.tilebc",
            ],
            cwd=source.parent,
            capture_output=True,
            text=True,
            timeout=500,
        )
        if done.returncode:
            raise RuntimeError(f"nvcc: {done.stderr.strip()}")
        data = (source.parent / "out.tilebc").read_bytes()
        tools = nvcc.parent
        output.write_bytes(
            neutral_strings(
                data,
                {
                    f"{tools}/../include": "/cuda/include",
                    str(tools.parent): "/cuda",
                    str(HERE / "cpp"): "/corpus/cpp",
                    str(source.parent): "/corpus/cpp",
                },
            )
        )


def export(cases: list[Case], folder: Path) -> dict[str, str]:
    """Exports each case's module into `folder`; returns module -> error for those that failed."""
    errors: dict[str, str] = {}
    seen: set[str] = set()
    for case in cases:
        if case.module in seen:
            continue
        seen.add(case.module)
        output = folder / f"{case.module}.tilebc"
        partial = output.with_suffix(f".{os.getpid()}.tmp")
        try:
            if case.frontend == "python":
                export_python(together(case), partial)
            elif case.frontend == "writer":
                export_writer(case, partial)
            else:
                nvcc = find_nvcc()
                if nvcc is None:
                    raise RuntimeError("no nvcc found")
                export_cpp(case, partial, nvcc)
            os.replace(partial, output)
        except Exception as error:
            errors[case.module] = f"{type(error).__name__}: {error}"
        finally:
            partial.unlink(missing_ok=True)
    return errors


def made_from() -> dict[str, tuple[str, str]]:
    """module -> the archive that has it, and the fingerprint of what its bytecode there was made from."""
    return {
        Path(name).stem: (path.stem, comment)
        for path in sorted(fixtures.ARCHIVES.glob("*.zip"))
        for name, (_, comment) in fixtures.read(path).items()
    }


def is_stale(case: Case, made: dict[str, tuple[str, str]]) -> bool:
    """Whether a case's bytecode is missing, of another source, or in another archive than its own."""
    return made.get(case.module) != (archive_path(case).stem, fingerprint(case))


def keep(cases: list[Case], folder: Path) -> None:
    """Puts the files that `folder` has of `cases` into their archives; modules that no case has any more go."""
    archive_of = {c.module: archive_path(c) for c in CASES.values()}
    found = {path: fixtures.read(path) for path in (*fixtures.ARCHIVES.glob("*.zip"), *archive_of.values())}
    changed = {
        path: {n: m for n, m in of.items() if archive_of.get(Path(n).stem) == path}
        for path, of in found.items()
    }
    for case in cases:
        file = folder / f"{case.module}.tilebc"
        if file.exists():
            changed[archive_of[case.module]][file.name] = (file.read_bytes(), fingerprint(case))
    for path, members in changed.items():
        if members != found[path]:
            fixtures.write(path, members)
    for path in fixtures.loose():
        path.unlink()


def main() -> int:
    parser = argparse.ArgumentParser(description=inspect.getdoc(sys.modules[__name__]))
    parser.add_argument("-k", default="", help="only cases whose name contains this")
    parser.add_argument("--force", action="store_true", help="export also what is up to date")
    parser.add_argument("--check", action="store_true", help="export to a temporary folder and compare")
    options = parser.parse_args()
    cases = [c for c in CASES.values() if options.k in c.name or options.k in c.module]
    made = made_from()
    if options.check:
        with tempfile.TemporaryDirectory() as folder:
            errors = export(cases, Path(folder))
            differ = sorted(
                {
                    c.module
                    for c in cases
                    if c.module not in errors
                    and (Path(folder) / bytecode_path(c).name).read_bytes() != bytecode_path(c).read_bytes()
                }
            )
        print(f"{len(cases)} cases, {len(errors)} failed, differ: {differ or 'none'}")
    else:
        stale = [c for c in cases if options.force or is_stale(c, made)]
        with tempfile.TemporaryDirectory() as folder:
            errors = export(stale, Path(folder))
            keep(stale, Path(folder))
        differ = []
        print(f"{len(stale)} of {len(cases)} cases exported, {len(errors)} modules failed")
    for module, error in errors.items():
        print(f"--- {module}\n{error}")
    return 1 if errors or differ else 0


if __name__ == "__main__":
    sys.exit(main())
