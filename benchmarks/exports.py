"""Bytecode of the kernels of production.py: exported by their frontends, cuTile Python by cuda-tile, Tile C++ by NVIDIA's nvcc.

Sources lie in benchmarks/kernels; what the corpus has too stands there alone (`corpus/NAME.py`). Results are kept by content.
"""

from __future__ import annotations

import hashlib
import linecache
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

from production import REPOSITORY, Production

SOURCES = Path(__file__).resolve().parent / "kernels"
CORPUS = REPOSITORY / "tests" / "corpus" / "python"


def cache_folder() -> Path:
    """Where exported bytecode and NVIDIA's images are kept: $TILEIRAS_QUALITY_CACHE, else .cache/quality."""
    chosen = os.environ.get("TILEIRAS_QUALITY_CACHE")
    folder = Path(chosen) if chosen else REPOSITORY / ".cache" / "quality"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def digest(*parts: str | bytes) -> str:
    """Hexadecimal digest of the parts, each with its length."""
    h = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        h.update(len(data).to_bytes(8, "little") + data)
    return h.hexdigest()[:32]


def keep(path: Path, data: bytes) -> None:
    """Writes a cache file whole."""
    partial = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    partial.write_bytes(data)
    os.replace(partial, path)


class ExportError(Exception):
    """A frontend is missing or refused the kernel."""


_modules: dict[str, ModuleType] = {}


def text_of(source: str) -> bytes:
    """A kernel source below benchmarks/kernels, or the corpus's: corpus/NAME.py."""
    folder, _, name = source.rpartition("/")
    return ((CORPUS if folder else SOURCES) / name).read_bytes()


def _load(source: str) -> ModuleType:
    """A kernel source as a module that says it comes from /production/..., wherever it lies."""
    if source not in _modules:
        text, filename = text_of(source).decode(), f"/production/{source}"
        linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)
        module = ModuleType("production_" + source.removesuffix(".py").replace("/", "_"))
        module.__file__ = filename
        sys.modules[module.__name__] = module
        exec(compile(text, filename, "exec"), module.__dict__)
        _modules[source] = module
    return _modules[source]


def _export_python(kernel: Production) -> bytes:
    from cuda.tile import compilation as cc

    from tests.corpus.export import constraint, hide_install_path

    hide_install_path()
    parameters = [constraint(p) for p in kernel.signature]
    signature = cc.KernelSignature(
        parameters, symbol=kernel.entry, calling_convention=cc.CallingConvention.cutile_python_v1()
    )
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "k.tilebc"
        cc.export_kernel(
            getattr(_load(kernel.source), kernel.kernel), [signature], str(output),
            output_format="tileir_bytecode", bytecode_version="13.3", gpu_code=None,
        )  # fmt: skip
        return output.read_bytes()


def _export_cpp(kernel: Production) -> bytes:
    from tests.corpus.export import find_nvcc, only_entry
    from tests.corpus.neutral import neutral_strings

    nvcc = find_nvcc()
    if nvcc is None:
        raise ExportError("no nvcc found")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary).resolve()
        source = folder / kernel.source
        source.write_text(only_entry(text_of(kernel.source).decode(), kernel.kernel))
        words = [
            "-std=c++20",
            "--tile-only",
            "-tilebc",
            "-arch=sm_90",
            f"-I{REPOSITORY / 'tests/corpus/cpp/include'}",
            source.name,
            "-o",
            "k.tilebc",
        ]
        done = subprocess.run([str(nvcc), *words], cwd=folder, capture_output=True, text=True, timeout=500)
        if done.returncode:
            raise ExportError(f"nvcc: {done.stderr.strip()[-300:]}")
        homes = {
            f"{nvcc.parent}/../include": "/cuda/include",
            str(nvcc.parents[1]): "/cuda",
            str(folder): "/production",
        }
        return neutral_strings((folder / "k.tilebc").read_bytes(), homes)


def bytecode(kernel: Production) -> bytes:
    """The kernel's bytecode, exported now or before. Errors: ExportError."""
    from importlib import metadata

    made_by = f"nvidia-cuda-nvcc {_version(metadata, 'nvidia-cuda-nvcc')}"
    if not kernel.source.endswith(".cu"):
        made_by = f"cuda-tile {_version(metadata, 'cuda-tile')}"
    key = digest(made_by, text_of(kernel.source), kernel.name, repr(kernel.signature))
    path = cache_folder() / f"{kernel.name}.{key}.tilebc"
    if not path.exists():
        try:
            data = _export_cpp(kernel) if kernel.source.endswith(".cu") else _export_python(kernel)
        except ExportError:
            raise
        except Exception as error:  # the frontend's own classes: each says what it refused
            raise ExportError(f"{type(error).__name__}: {str(error)[:300]}") from error
        keep(path, data)
    return path.read_bytes()


def _version(metadata: Any, name: str) -> str:
    try:
        return str(metadata.version(name))
    except metadata.PackageNotFoundError:
        return "absent"
