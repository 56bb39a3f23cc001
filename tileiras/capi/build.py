"""Builds and installs libtileiras with the machine's C compiler: `python -m tileiras.capi.build --prefix DIR`.

    DIR/lib/libtileiras.so     -> libtileiras.so.0      DIR/lib/libtileiras.a
    DIR/include/tileiras.h                              DIR/lib/pkgconfig/tileiras.pc

The library remembers this interpreter and this package as its worker; $TILEIRAS_COMMAND overrides it. Nothing but a C99
compiler with POSIX threads is needed, and `cc -shared -fPIC -pthread -Iinclude *.c` in this folder does the same.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tileiras.files import temporary_sibling, write_new

HERE = Path(__file__).resolve().parent
SOURCES = ("tileiras.c", "worker.c")
FLAGS = ("-std=c99", "-O2", "-fPIC", "-fvisibility=hidden", "-pthread", "-Wall", "-Wextra")
SONAME = "libtileiras.so.0"

PC = """\
prefix=${{pcfiledir}}/../..
includedir=${{prefix}}/include
libdir=${{prefix}}/lib

Name: tileiras
Description: CUDA Tile IR to cubin, from C
Version: {version}
Cflags: -I${{includedir}}
Libs: -L${{libdir}} -ltileiras
Libs.private: -pthread
"""


def worker_header(python: str, launch: str) -> str:
    """The header that tells the library how its worker is started."""
    words = ", ".join(
        '"' + word.replace("\\", "\\\\").replace('"', '\\"') + '"' for word in (python, "-I", "-S", launch)
    )
    return f"#define TILEIRAS_WORKER {words}\n"


def build(prefix: Path, cc: str | None = None, defines: tuple[str, ...] = ()) -> None:
    """Builds into a scratch folder, then installs file by file. Errors: SystemExit with the compiler's words."""
    from tileiras.version import __version__

    compiler = (
        cc or os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    )
    if not compiler:
        raise SystemExit("no C compiler: set CC")
    words = (
        [compiler] if os.path.exists(compiler) else compiler.split()
    )  # "ccache gcc", or a path with blanks
    with tempfile.TemporaryDirectory(prefix="tileiras-capi-") as folder:
        scratch = Path(folder)
        (scratch / "tileiras_worker.h").write_text(worker_header(sys.executable, str(HERE / "launch.py")))
        objects = []
        for name in SOURCES:
            objects.append(str(scratch / (name + ".o")))
            flags = [*FLAGS, *(f"-D{define}" for define in defines), f"-I{HERE / 'include'}", f"-I{scratch}"]
            _run([*words, *flags, "-c", str(HERE / name), "-o", objects[-1]])
        shared = scratch / SONAME
        _run([*words, "-shared", "-pthread", f"-Wl,-soname,{SONAME}", *objects, "-o", str(shared)])
        archive = scratch / "libtileiras.a"
        _run([os.environ.get("AR", "ar"), "rcs", str(archive), *objects])
        (scratch / "tileiras.pc").write_text(PC.format(version=__version__))
        for place in ("lib/pkgconfig", "include"):
            (prefix / place).mkdir(parents=True, exist_ok=True)
        for source, target in (
            (shared, f"lib/{SONAME}"), (archive, "lib/libtileiras.a"), (scratch / "tileiras.pc", "lib/pkgconfig/tileiras.pc"),
            (HERE / "include" / "tileiras.h", "include/tileiras.h"),
        ):  # fmt: skip
            _install(source, prefix / target)
        link = prefix / "lib" / "libtileiras.so"
        if link.is_symlink() or link.exists():
            link.unlink()
        link.symlink_to(SONAME)


def _install(source: Path, target: Path) -> None:
    temporary = temporary_sibling(str(target))
    write_new(temporary, source.read_bytes())
    os.chmod(temporary, 0o755 if source.suffix in (".0", ".so") else 0o644)
    os.replace(temporary, target)


def _run(argv: list[str]) -> None:
    done = subprocess.run(argv, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(argv)}\n{done.stdout}{done.stderr}")


def main(argv: list[str]) -> int:
    if len(argv) != 2 or argv[0] != "--prefix":
        sys.stderr.write("usage: python -m tileiras.capi.build --prefix DIR\n")
        return 1
    build(Path(argv[1]).absolute())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
