"""`tileiras-nvcc`: nvcc's command line for projects that hold Tile IR beside CUDA C++.

Two routes. A line without Tile IR input belongs to the real nvcc, argument for argument, by exec; most such lines never
reach this file, because delegate.sh hands them over before Python starts. A line with Tile IR input is planned here
(plan.py), our steps run, and one nvcc gets the rest. Exit codes: 1 for a wrong line, a failing tool's own code, 128+n
for a tool killed by signal n, 127 for a tool that is not there.
"""

from __future__ import annotations

import os
import sys

from tileiras.diag import Catalogue, Refusal

from . import home
from .argv import OURS, Line, Usage, is_tile_input, parse_line, refuse
from .flags import TILE_OPTIONS, index_flags, parse_help

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, MutableMapping, Sequence

    from .plan import Plan

diags = Catalogue(f"{__package__}.diags")

DEPTH = "TILEIRAS_NVCC_DEPTH"  # grows by one letter per start of this shim inside itself
DEPTH_MAX = 8
USAGE_CODE = 1
MISSING_CODE = 127


def main(argv: Sequence[str]) -> int:
    """Returns the exit code; does not return at all when the real nvcc takes over."""
    environ = dict(os.environ)
    script = environ.pop("TILEIRAS_NVCC_SELF", sys.argv[0])
    if "TILEIRAS_NVCC_SELF" not in os.environ:  # started without delegate.sh, which counts
        environ[DEPTH] = "x" + environ.get(DEPTH, "")
    if len(environ[DEPTH]) > DEPTH_MAX:
        refuse(Usage(diags.LOOP), OURS)
        return USAGE_CODE
    try:
        return _main(_take_colour(argv, environ), environ, script)
    except Usage as error:
        refuse(error)
        return USAGE_CODE
    except home.Missing as error:
        way = (
            "; install one (python -m pip install nvidia-cuda-nvcc) or name it by TILEIRAS_NVCC=/path/to/nvcc"
        )
        refuse(error, OURS, way)
        return MISSING_CODE


def _take_colour(argv: Sequence[str], environ: MutableMapping[str, str]) -> list[str]:
    """Returns the words without --color[=WHEN], which nvcc does not know; the steps of a plan ask terminal.is_coloured."""
    if not any(word.partition("=")[0] == "--color" for word in argv):
        return list(argv)
    from tileiras import terminal

    words, modes = terminal.split_colour(argv)
    for mode in modes:
        if not terminal.set_colour(mode):
            raise Usage(diags.VALUE, value=mode, option="color")
    if not terminal.is_coloured(sys.stderr):
        environ["NO_COLOR"] = "1"  # what nvcc starts
    elif not terminal.is_terminal(sys.stderr) and _has_tile_option(words):
        words.append("-Xtileiras=--color=always")
    return words


def _main(words: list[str], environ: MutableMapping[str, str], script: str) -> int:
    index = index_flags()
    try:
        line = parse_line(words, environ, index)
    except Usage:
        # nvcc must be the one to complain about its own lines.
        if any(is_tile_input(word) for word in words if not word.startswith("-")):
            raise
        return delegate(words, environ, script, None, None, _has_tile_option(words))
    if line.has("--tileiras-version"):
        from tileiras.terminal import print_page
        from tileiras.version import __version__

        return print_page(f"tileiras-nvcc {__version__}\n")
    for item in line.inputs():
        item.is_tile = is_tile_input(item.values[0])
    explicit = line.one("--tileiras-nvcc")
    asks = any(item.flag is not None and item.flag.action == "ask" for item in line.items)
    if asks or not any(item.is_tile for item in line.inputs()):
        ours = [item for item in line.items if item.flag is not None and item.flag.ours]
        tile = next(
            (item for item in line.items if item.flag is not None and item.flag.long in TILE_OPTIONS), None
        )
        if not ours:
            return delegate(words, environ, script, None, line, tile.words[0] if tile else "")
        # Ours are unknown to nvcc: the expanded line without them, so the environment's flags must not come twice.
        from .plan import _rest_words

        for name in ("NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS"):
            environ.pop(name, None)
        compiler = line.one("--tileiras-compiler")
        if compiler:
            environ["TILEIRAS_COMPILER"] = compiler
        return delegate(_rest_words(line, {}), environ, script, explicit, line, tile.words[0] if tile else "")
    return run_native(line, words, environ, script, explicit)


def _has_tile_option(words: Sequence[str]) -> str:
    index = index_flags()
    for word in words:
        flag = index.get(word.partition("=")[0])
        if flag is not None and flag.long in TILE_OPTIONS:
            return word
    return ""


def delegate(words: Sequence[str], environ: Mapping[str, str], script: str, explicit: str | None, line: Line | None,
             tile: str) -> int:  # fmt: skip
    """Hands the line to the real nvcc; `tile` is the tile option on it, if any, which needs 13.3 and our private home."""
    nvcc = home.find_nvcc(environ, explicit)
    if tile and not nvcc.has_tile and nvcc.version:
        flag = index_flags().get(tile.partition("=")[0])
        spelled = f"{flag.long} ({flag.short})" if flag is not None else tile
        raise Usage(diags.TILE_NVCC, option=spelled, path=nvcc.path, version=nvcc.version)
    target = nvcc.path
    base = None
    if nvcc.has_tile:
        from tileiras.toolchain.cache import cache_directory

        base = cache_directory(environ)
        if base is not None:
            try:
                entry = home.make_home(nvcc, home.own_command("tileiras", "tileiras.cli", script),
                                       os.path.join(base, "nvcc"))  # fmt: skip
            except (OSError, home.Missing):
                base = None  # a cache that cannot be written, or a toolkit of unusual shape: see below
            else:
                if explicit is None:
                    home.record_route(nvcc, entry, script, environ)
                if tile and environ.get("TILEIRAS_COMPILER") != "nvidia":
                    target = entry
        if base is None and tile and environ.get("TILEIRAS_COMPILER") != "nvidia":
            return _delegate_without_cache(nvcc, words, environ, script)
    elif explicit is None:
        home.record_route(nvcc, None, script, environ)
    if tile and line is not None:
        _warn_dropped(line)
        output = _tilecubin_output(line)
        if output is not None:
            return _delegate_and_check(target, words, environ, output)
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        os.execve(target, [target, *words], dict(environ))
    except OSError as error:
        raise home.Missing(diags.CANNOT_START, path=target, why=error.strerror) from None


def _warn_dropped(line: Line) -> None:
    """Says that nvcc will leave the tile code out; it does so without a word where no architecture supports it."""
    from tileiras.archs import NVIDIA_NUMBERS

    from .arch import list_entries

    asks = (
        not line.inputs()
        or line.has("--disable-warnings")
        or line.has("--simt-only")
        or line.has("--tile-only")
    )
    if asks or not line.has("--enable-tile"):
        return
    try:
        entries = list_entries(line, NVIDIA_NUMBERS, lambda: [NVIDIA_NUMBERS[0]], [])
    except Usage:
        return  # nvcc's to say
    if entries and not any(entry.number in NVIDIA_NUMBERS for entry in entries):
        names = ", ".join(sorted({f"sm_{entry.number}" for entry in entries}))
        sys.stderr.write(f"nvcc warning : nvcc leaves tile code out for {names}; name an architecture with Tile support, "
                         "such as -arch=sm_90\n")  # fmt: skip


def _tilecubin_output(line: Line) -> str | None:
    """Returns the file that -tilecubin must write, or None when the line does not end there."""
    from .plan import find_phase

    inputs = line.inputs()
    if (
        find_phase(line) != "--tilecubin"
        or len(inputs) != 1
        or line.has("--dryrun")
        or line.has("--clean-targets")
    ):
        return None
    stem = os.path.splitext(os.path.basename(inputs[0].values[0]))[0]
    return line.one("--output-file") or os.path.join(
        line.one("--output-directory") or "", stem + ".tile.cubin"
    )


def _delegate_and_check(target: str, words: Sequence[str], environ: Mapping[str, str], output: str) -> int:
    """Runs nvcc and looks for its output: with `code=[compute_100,sm_100]` it succeeds and writes nothing."""
    from .plan import Plan
    from .steps import execute, remove

    if output not in ("-", "/dev/stdout"):
        remove(output)
    plan = Plan()
    plan.rest = list(words)
    code = execute(plan, target, environ, os.getcwd())
    if code == 0 and output not in ("-", "/dev/stdout") and not os.path.exists(output):
        refuse(Refusal(diags.NO_TILECUBIN, output=output), OURS)
        return USAGE_CODE
    return code


def _delegate_without_cache(
    nvcc: home.RealNvcc, words: Sequence[str], environ: Mapping[str, str], script: str
) -> int:
    """Runs nvcc from a home that lives as long as it does: there is no cache (an empty HOME in a build sandbox)."""
    from .plan import Plan

    plan = Plan()
    plan.rest = list(words)
    return _execute_without_cache(plan, nvcc, environ, script)


def _execute_without_cache(
    plan: Plan, nvcc: home.RealNvcc, environ: Mapping[str, str], script: str, missing: Refusal | None = None
) -> int:
    """Runs a plan whose nvcc must find our assembler where no cache can hold its home."""
    import shutil
    import tempfile

    from .steps import execute

    folder = ""
    try:
        try:
            folder = tempfile.mkdtemp(prefix="tileiras-nvcc-")
            entry = home.make_home(nvcc, home.own_command("tileiras", "tileiras.cli", script), folder)
        except OSError as error:
            raise Usage(
                diags.NO_FOLDER,
                why=error.strerror or error,
                place=f": '{error.filename}'" if error.filename else "",
            ) from None
        return execute(plan, entry, environ, os.getcwd(), missing)
    finally:
        if folder:
            shutil.rmtree(folder, ignore_errors=True)


def run_native(line: Line, words: Sequence[str], environ: MutableMapping[str, str], script: str, explicit: str | None
               ) -> int:  # fmt: skip
    """Plans and runs a line with Tile IR input."""
    from tileiras.toolchain.arch import native_archs

    from .plan import Tools, plan_line
    from .steps import execute, outputs_of, say

    nvcc: home.RealNvcc | None = None
    missing: Refusal | None = None
    try:
        nvcc = home.find_nvcc(environ, explicit)
    except home.Missing as error:
        missing = error
    if line.unknown() and nvcc is not None:
        line = _learn(line, words, nvcc, environ)
    compiler = line.one("--tileiras-compiler") or environ.get("TILEIRAS_COMPILER") or "builtin"
    if compiler not in ("builtin", "nvidia"):
        raise Usage(diags.COMPILER, compiler=compiler)
    build = [*home.own_command("tileiras-build", "tileiras.tools.build", script), *_colour_words()]
    # Where nvcc was named, the other tools come from its toolkit: two releases never mix.
    root = nvcc.root if nvcc is not None and (explicit or environ.get("TILEIRAS_NVCC")) else None
    tools = Tools(build, nvcc.path if nvcc else None, _find_gcc(environ), compiler,
                  list_tile_archs(compiler), native_archs, root)  # fmt: skip
    directory = temporary_directory(
        environ, line.one("--output-file") if line.has("--objdir-as-tempdir") else None
    )
    for item in line.inputs():
        if item.is_tile and not os.path.exists(item.values[0]):
            raise Usage(diags.NO_INPUT_FILE, path=item.values[0], why="No such file or directory")
        if item.is_tile and is_device(item.values[0]):  # several steps read it, and a pipe can be read once
            raise Usage(diags.NO_INPUT_FILE, path=item.values[0], why="not a regular file")
    plan = plan_line(line, tools, directory, os.getcwd(), environ, is_text, is_device)
    sources = [item.values[0] for item in line.inputs() if os.path.exists(item.values[0])]
    header = line.one("--tileiras-header")
    for path in [
        *outputs_of(plan),
        *([header] if header else []),
    ]:  # removed before the first step, or written over
        if os.path.exists(path) and any(os.path.samefile(path, source) for source in sources):
            raise Usage(diags.OUTPUT_IS_INPUT, path=path)
    for name in ("NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS"):
        value = environ.pop(name, "")  # expanded once, above
        if value and plan.verbose:
            say(f"#$ {name}={home.quote(value)}")
    if not line.has("--disable-warnings"):
        for text in plan.warnings:
            say(f"nvcc warning : {text}")
    target = nvcc.path if nvcc else None
    if nvcc is not None and plan.rest is not None:
        tile = _has_tile_option(plan.rest)
        if tile and not nvcc.has_tile:
            others = [item for item in line.inputs() if not item.is_tile and item.values[0].endswith(".cu")]
            if others:
                raise Usage(diags.TILE_NVCC, option=tile, path=nvcc.path, version=nvcc.version)
            plan.rest = _without_tile_options(plan.rest)
        elif tile and compiler == "builtin":
            from tileiras.toolchain.cache import cache_directory

            base = cache_directory(environ)
            if base is None:
                return _execute_without_cache(plan, nvcc, environ, script, missing)
            try:
                target = home.make_home(nvcc, home.own_command("tileiras", "tileiras.cli", script),
                                        os.path.join(base, "nvcc"))  # fmt: skip
            except OSError:  # a cache that cannot be written, or that others can write to
                return _execute_without_cache(plan, nvcc, environ, script, missing)
    return execute(plan, target, environ, os.getcwd(), missing)


def _colour_words() -> list[str]:
    """Returns the option for steps whose output is collected: they see no terminal, but what they say may go to one."""
    from tileiras.terminal import is_coloured

    return ["--color=always"] if is_coloured(sys.stderr) else []


def _without_tile_options(words: Sequence[str]) -> list[str]:
    """Returns the words without tile options, which say nothing once every Tile input has become an object."""
    index, kept, skip = index_flags(), [], False
    for word in words:
        if skip:
            skip = False
            continue
        flag = index.get(word.partition("=")[0])
        if flag is not None and flag.long in TILE_OPTIONS:
            skip = flag.value != 0 and "=" not in word
            continue
        kept.append(word)
    return kept


def _learn(line: Line, words: Sequence[str], nvcc: home.RealNvcc, environ: Mapping[str, str]) -> Line:
    """Returns the line read again with the options that this nvcc's own help lists and our table lacks."""
    from tileiras.toolchain.run import run

    done = run([nvcc.path, "--help"], timeout=30)
    if done.status != 0:
        return line
    again = parse_line(words, environ, index_flags(parse_help(done.stdout.decode("utf-8", "replace"))))
    for item in again.inputs():
        item.is_tile = is_tile_input(item.values[0])
    return again


def _find_gcc(environ: Mapping[str, str]) -> str:
    for name in ("gcc", "cc", "clang"):
        path = home._which(name, environ)
        if path:
            return path
    return "gcc"


def list_tile_archs(compiler: str) -> list[int]:
    """Returns the architectures that a Tile compiler can make images for, ascending."""
    from tileiras import archs

    names = archs.NUMBERS if compiler == "builtin" else archs.NVIDIA_NUMBERS
    return sorted(names)


def is_text(path: str) -> bool:
    """Returns whether a Tile input is text, not bytecode."""
    try:
        with open(path, "rb") as file:
            return not file.read(8).startswith(b"\x7fTileIR")
    except OSError:
        return False


def is_device(path: str) -> bool:
    """Returns whether an output is there and is no regular file: /dev/null, a pipe, a terminal."""
    return os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path)


def temporary_directory(environ: Mapping[str, str], output: str | None) -> str:
    """Returns a name for this process's intermediates in TMPDIR; with -objtemp beside the output."""
    if output:
        return output + ".tmp"
    return os.path.join(environ.get("TMPDIR") or "/tmp", f"tileiras_{os.getpid():08x}_{os.urandom(4).hex()}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
