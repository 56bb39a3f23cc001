"""``tileiras-build``: the one command that CMake, Bazel, setuptools and the nvcc shim call.

Each verb is a module of this package with a ``FLAGS`` table and a ``run``.  What all share is here: outputs
appear whole or not at all, a failure or a signal leaves no output and no depfile behind, and the exit code
says which stage stopped (0 done, 1 usage or unreadable input, 2 configuration, 3 bytecode, 5 compilation).
"""

from __future__ import annotations

import sys

from tileiras.diag import Catalogue

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

VERBS = {
    "compile": "one source for one architecture: cubin, and on request PTX, bytecode, kernel table, depfile",
    "fatbin": "images of several architectures in one container",
    "header": "C or C++ header and source that embed an image, list its kernels and load them",
    "kernels": "several sources for several architectures at once: images, containers, headers",
    "object": "an object file that holds an image",
    "json": "the kernel table of a cubin",
    "bytecode": "text or bytecode to verified bytecode",
    "export": "cuTile Python source to bytecode, through the installed cuda-tile",
    "test": "launch a kernel and compare with expected arrays",
}

diags = Catalogue("tileiras.tools.build.diags")


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one verb; returns the exit code."""
    from tileiras.terminal import until_broken_pipe

    return until_broken_pipe(_main, argv)


def _main(argv: Sequence[str] | None = None) -> int:
    from tileiras.diag import UsageError
    from tileiras.terminal import refuse, take_words

    words = take_words(sys.argv[1:] if argv is None else argv, "tileiras-build")
    if not words or words[0] in ("-h", "--help"):
        print(usage())
        return 0 if words else 1
    if words[0] in ("-V", "--version"):
        from tileiras.version import __version__

        print(f"tileiras-build {__version__}")
        return 0
    verb, *rest = words
    if verb not in VERBS:
        return refuse(UsageError(diags.UNKNOWN_VERB, verb=verb, known=", ".join(VERBS)), "tileiras-build")
    if verb == "test":
        from tileiras.tools import kernel_test

        return kernel_test.main(rest)
    from tileiras.tools.build import command

    return command.run_verb(verb, rest)


_ALL = "Each verb has its own --help. All take --color[=auto|always|never] and --diagnostic-codes."


def usage() -> str:
    """The list of verbs."""
    width = max(map(len, VERBS))
    rows = "\n".join(f"  {verb.ljust(width)}  {text}" for verb, text in VERBS.items())
    return f"usage: tileiras-build VERB [options]\n\n{rows}\n\n{_ALL}"
