"""``tileiras-config``: what was found on this machine, where, and why; the one answer every integration
reads.

``--json`` is the whole of it (keys documented in docs/build-command.md), without arguments it is text for
people. Single facts for scripts: ``--cmake-dir``, ``--bazel-dir``, ``--include-dir``, ``--fingerprint``.
``--toolkit-view DIR`` makes a directory that CMake's FindCUDAToolkit accepts out of a toolkit that came as
wheels, ``--why-rebuilt FILE`` says which input, option or tool changed.
"""

from __future__ import annotations

import os
import sys

from tileiras.diag import Catalogue, Refusal, UsageError
from tileiras.toolchain.locate import Tool

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from tileiras.diag import Emitted

diags = Catalogue("tileiras.tools.diags")
build = Catalogue("tileiras.tools.build.diags")

BYTECODE_VERSIONS = ("13.1", "13.2", "13.3", "13.4", "13.5")

USAGE = """\
usage: tileiras-config [--toolkit-root DIR] [ACTION]

  (no action)          what was found, as text
  --json               the same as JSON
  --fingerprint        a digest of compiler and tools; changes when any of them does
  --cmake-dir          directory of TileirasConfig.cmake
  --bazel-dir          directory of the Bazel rules
  --include-dir        directory of tileiras.h
  --toolkit-view DIR   make DIR look like an installed toolkit (for CMake's FindCUDAToolkit)
  --why-rebuilt FILE   why FILE was last rebuilt, and what would rebuild it now
  --cache-stats        what the cache holds, and how often it had the answer
  --cache-clear        remove what the cache holds
  --color[=WHEN]       colour in messages: auto, always, never
  --diagnostic-codes   name the code of an error in a last note; a terminal always has it
  --version            version of tileiras
  --toolkit-root DIR   the toolkit to look in, instead of searching"""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; returns the exit code."""
    from tileiras.terminal import until_broken_pipe

    return until_broken_pipe(_main, argv)


def _main(argv: Sequence[str] | None = None) -> int:
    from tileiras.diag import CompileError
    from tileiras.terminal import refuse, show_all, take_words

    words = take_words(sys.argv[1:] if argv is None else argv, "tileiras-config")
    try:
        root, action, operand = _parse(words)
    except UsageError as error:
        return refuse(error, "tileiras-config", f"\n{USAGE}")
    try:
        return _act(root, action, operand)
    except CompileError as error:
        return show_all(error)
    except OSError as error:
        if error.filename is None:  # standard output
            raise
        return refuse(Refusal(diags.OS_ERROR, why=error.strerror or error, place=f": '{error.filename}'"))


def _parse(words: list[str]) -> tuple[str | None, str, str]:
    root: str | None = None
    action, operand = "", ""
    with_operand = ("--toolkit-root", "--toolkit-view", "--why-rebuilt")
    plain = (
        "--json",
        "--fingerprint",
        "--cmake-dir",
        "--bazel-dir",
        "--include-dir",
        "--cache-stats",
        "--cache-clear",
        "--version",
        "--help",
        "-h",
    )
    at = 0
    while at < len(words):
        name, equals, value = words[at].partition("=")
        at += 1
        if name in with_operand:
            if not equals:
                if at == len(words):
                    raise UsageError(diags.NEEDS_VALUE, option=name)
                value = words[at]
                at += 1
            if not value:
                raise UsageError(build.EMPTY, option=name)
            if name == "--toolkit-root":
                root = value
                continue
        elif name not in plain or equals:
            raise diags.unknown_option(words[at - 1], USAGE)
        if action:
            raise UsageError(diags.CFG_TWO_ACTIONS, first=action, second=name)
        action, operand = name, value
    return root, action, operand


def _act(root: str | None, action: str, operand: str) -> int:
    if action in ("--help", "-h"):
        print(USAGE)
    elif action == "--version":
        from tileiras.version import __version__

        print(__version__)
    elif action == "--cmake-dir":
        from tileiras.cmake_dir import cmake_dir

        print(cmake_dir())
    elif action == "--bazel-dir":
        print(_bazel_folder())
    elif action == "--include-dir":
        print(include_dir())
    elif action == "--why-rebuilt":
        from tileiras.tools.build.record import explain

        for line in explain(operand):
            print(f"{operand}: {line}")
    elif action == "--cache-stats":
        print(_cache_statistics())
    elif action == "--cache-clear":
        print(_clear_cache())
    elif action == "--toolkit-view":
        print(make_toolkit_view(root, operand))
    elif action == "--fingerprint":
        print(describe(root)["fingerprint"])
    elif action == "--json":
        import json

        answer = describe(root)
        _complain(answer["problems"])
        print(json.dumps(answer, indent=1))
    else:
        answer = describe(root)
        print(_text(answer))
        _complain(answer["problems"])
    return 0


def _complain(problems: list[str]) -> None:
    for problem in problems:
        sys.stderr.write(f"warning: {problem}\n")


def describe(root: str | None = None) -> dict[str, Any]:
    """The whole answer. Errors: CompileError(2) only where the toolkit that the user named is none."""
    from tileiras.archs import FIRST_WITH_SUFFIX, NUMBERS, PTXAS_SINCE
    from tileiras.toolchain import cache, diags, locate
    from tileiras.toolchain.catalog import TOOLS, ptx_isa_max
    from tileiras.version import __version__

    tools, disagreements = locate.find_set(root)
    named = root or os.environ.get("TILEIRAS_TOOLKIT_ROOT")
    if named and not tools:
        how = "option --toolkit-root" if root else "environment variable TILEIRAS_TOOLKIT_ROOT"
        raise diags.fail(2, diags.one(diags.ROOT_INVALID, path=named, how=how, tool="ptxas or other tool"))
    problems = [_plain(emitted) for emitted in disagreements]
    ptxas = tools.get("ptxas")
    if ptxas is None:
        problems.append(
            "ptxas not found: PTX can be generated but no cubin; install it with: "
            f"python -m pip install {TOOLS['ptxas'].wheel}   (or name a toolkit by TILEIRAS_TOOLKIT_ROOT)"
        )
    lacking: list[int] = []
    if ptxas is not None and ptxas.release is not None:
        lacking = [number for number in NUMBERS if PTXAS_SINCE[f"sm_{number}"] > ptxas.release]
    anchor = ptxas or next(iter(tools.values()), None)
    machine, system = locate.host()
    where = cache.cache_directory()
    return {
        "version": __version__,
        "compiler": {"kind": "builtin", "path": _package(), "version": __version__},
        "host": {"arch": machine, "os": system},
        "toolkit": {
            "root": anchor.root if anchor else None,
            "version": anchor.version if anchor else None,
            "origin": anchor.how if anchor else None,
        },
        "tools": {name: _tool(tool) for name, tool in tools.items()},
        "libnvvm": _libnvvm(anchor.root) if anchor else None,
        "ptx_isa_max": ".".join(map(str, ptx_isa_max(ptxas.release))) if ptxas and ptxas.release else None,
        "supported_architectures": [str(number) for number in NUMBERS if number not in lacking],
        "architectures_needing_newer_ptxas": {
            str(number): ".".join(map(str, PTXAS_SINCE[f"sm_{number}"])) for number in lacking
        },
        "first_with_suffix": dict(FIRST_WITH_SUFFIX),
        "nvidia_architectures": _nvidia_archs(tools.get("tileiras")),
        "bytecode_versions": list(BYTECODE_VERSIONS),
        "fingerprint": fingerprint(tools),
        "cache": {"directory": where, "limit_bytes": cache.size_limit(), "enabled": where is not None},
        "searched": _searched(root),
        "problems": problems,
    }


def _cache_statistics() -> str:
    """Lines of `name  value`."""
    from tileiras.toolchain.cache import open_cache, own_root

    store = open_cache()
    if store is None:
        return "cache        off"
    found = store.statistics()
    asked = found["hits"] + found["misses"]
    share = f" ({found['hits'] * 100 // asked} %)" if asked else ""
    rows = [
        ("cache", store.directory),
        ("entries", str(found["entries"])),
        ("size", f"{_megabytes(found['bytes'])} of {_megabytes(store.limit_bytes)}"),
        ("hits", f"{found['hits']} of {asked}{share}"),
    ]
    if found["unfinished"]:
        rows.append(("unfinished", f"{found['unfinished']} files that some process writes or left behind"))
    if found["not_ours"]:
        rows.append(("ignored", f"{found['not_ours']} files that another user owns or may write to"))
    try:
        if os.path.isdir(store.directory) and not own_root(store.directory):
            rows.append(("problem", "another user owns this folder: nothing is kept in it"))
    except OSError as error:
        rows.append(("problem", f"nothing is kept: {error.strerror}"))
    return "\n".join(f"{name.ljust(11)}  {value}" for name, value in rows)


def _megabytes(size: int) -> str:
    return f"{size / (1 << 20):.1f} MB"


def _clear_cache() -> str:
    from tileiras.toolchain.cache import open_cache

    store = open_cache()
    if store is None:
        return "the cache is off"
    files, size = store.clear()
    left = len(store.files())
    rest = f"; {left} could not be removed" if left else ""
    return f"{files} files, {_megabytes(size)}, removed from {store.directory}{rest}"


def _nvidia_archs(tool: Tool | None) -> list[str]:
    from tileiras.archs import NVIDIA_SINCE

    if tool is None:
        return []
    return [
        str(n) for n, since in sorted(NVIDIA_SINCE.items()) if tool.release is None or tool.release >= since
    ]


def _plain(emitted: Emitted) -> str:
    return emitted.message


def _tool(tool: Tool) -> dict[str, Any]:
    return {
        "path": tool.path,
        "version": tool.version or None,
        "version_from": tool.version_from,
        "origin": tool.how,
        "root": tool.root,
    }


def _searched(root: str | None) -> list[dict[str, Any]]:
    """Every file that was looked for as ptxas and as nvcc, in order, whether it is there or not."""
    from tileiras.toolchain.locate import candidates

    rows = []
    for name in ("ptxas", "nvcc", "tileiras"):
        for path, how in candidates(name, root):
            rows.append({"tool": name, "path": path, "origin": how, "found": os.path.isfile(path)})
    return rows


def _libnvvm(root: str) -> str | None:
    for folder in ("nvvm/lib64", "nvvm/lib", "nvvm/bin"):
        try:
            names = sorted(os.listdir(os.path.join(root, folder)))
        except OSError:
            continue
        for name in names:
            if name.startswith(("libnvvm.so", "nvvm64")):
                return os.path.join(root, folder, name)
    return None


def fingerprint(tools: dict[str, Tool]) -> str:
    """A digest of the content of the compiler and of each tool that takes part in a build: no paths, no
    times."""
    from tileiras.toolchain.cache import content_digest
    from tileiras.toolchain.digest import digest_text
    from tileiras.toolchain.locate import digest_file

    rows = [f"compiler {content_digest()}"]
    for name in ("ptxas", "fatbinary", "tileiras", "nvcc"):
        if name in tools:
            rows.append(f"{name} {tools[name].version} {digest_file(tools[name].path)}")
    return digest_text("\n".join(rows))


def _package() -> str:
    return os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def _bazel_folder() -> str:
    """Bazel's rules: inside the package (a wheel) or beside it (a checkout)."""
    package = _package()
    for folder in (os.path.join(package, "bazel"), os.path.join(os.path.dirname(package), "bazel")):
        if os.path.exists(os.path.join(folder, "defs.bzl")):
            return folder
    raise FileNotFoundError(2, "no such part of this installation", os.path.join(package, "bazel"))


def include_dir() -> str:
    """The directory of tileiras.h."""
    package = _package()
    for folder in ("include", "capi", "capi/include"):
        if os.path.exists(os.path.join(package, folder, "tileiras.h")):
            return os.path.join(package, folder)
    raise FileNotFoundError(
        2, "no such part of this installation", os.path.join(package, "include", "tileiras.h")
    )


def make_toolkit_view(root: str | None, view: str) -> str:
    """`view`, a directory of links to the toolkit that CMake's FindCUDAToolkit accepts."""
    from tileiras.files import write_atomically
    from tileiras.toolchain import locate
    from tileiras.toolchain.view import make_view

    tool = locate.find_tool("nvcc", root) or locate.require("ptxas", root)
    view = os.path.abspath(view)
    make_view(tool.root, view)
    if tool.version and not os.path.exists(os.path.join(tool.root, "version.json")):
        row = f'{{"cuda": {{"name": "CUDA SDK", "version": "{tool.version}"}}}}\n'
        write_atomically(os.path.join(view, "version.json"), row.encode())
    return view


def _text(answer: dict[str, Any]) -> str:
    rows = [
        ("tileiras", f"{answer['version']} ({answer['compiler']['path']})"),
        ("host", f"{answer['host']['arch']} {answer['host']['os']}"),
    ]
    toolkit = answer["toolkit"]
    if toolkit["root"]:
        rows.append(
            (
                "toolkit",
                f"{toolkit['version'] or 'unknown release'} at {toolkit['root']} ({toolkit['origin']})",
            )
        )
    for name, tool in answer["tools"].items():
        rows.append((name, f"{tool['version'] or 'unknown release'}  {tool['path']}  ({tool['origin']})"))
    rows.append(("architectures", " ".join(answer["supported_architectures"])))
    for arch, needed in answer["architectures_needing_newer_ptxas"].items():
        rows.append((f"  sm_{arch}", f"needs ptxas {needed}"))
    rows.append(("bytecode", " ".join(answer["bytecode_versions"])))
    cache = answer["cache"]
    rows.append(
        ("cache", f"{cache['directory']} ({cache['limit_bytes'] >> 20} MB)" if cache["enabled"] else "off")
    )
    rows.append(("fingerprint", answer["fingerprint"]))
    width = max(len(left) for left, _ in rows)
    return "\n".join(f"{left.ljust(width)}  {right}" for left, right in rows)


if __name__ == "__main__":
    sys.exit(main())
