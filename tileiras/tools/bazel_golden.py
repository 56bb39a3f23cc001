"""Compares a kernel's disassembly with a stored text: the test behind tile_golden_test.

    tile-build bazel-golden --kind ptx|sass|tileir --golden FILE --golden-source PATH [--nvdisasm TOOL] [--bless] IMAGE

What two builds of the same code may differ in is hidden, and nothing else: comments that name the producer, and lines
of debug paths. `--bless` (from `bazel run <target> -- --bless`) rewrites the file in the workspace instead.
Exit codes: 0 equal, 1 usage, 2 a tool is missing, 6 different.
"""

from __future__ import annotations

import os

from tileiras.diag import Catalogue, Refusal, suggestion

diags = Catalogue("tileiras.tools.diags")

DIFFERENT = 6
OPTIONS = ("--kind", "--golden", "--golden-source", "--nvdisasm")


def main(argv: list[str]) -> int:
    """Returns the exit code of the comparison."""
    try:
        return _compare(argv)
    except Refusal as error:
        from tileiras.tools.bazel_actions import refuse

        return refuse(error, "tile_golden_test")


def _compare(argv: list[str]) -> int:
    options: dict[str, str] = {}
    bless = False
    image = ""
    words = iter(argv)
    for word in words:
        if word == "--bless":
            bless = True
        elif word in OPTIONS:
            options[word] = next(words, "")
        elif word.startswith("--"):
            raise Refusal(diags.UNKNOWN_OPTION, option=word, hint=suggestion(word, OPTIONS))
        else:
            image = word
    if not image or "--golden" not in options:
        raise Refusal(diags.BZL_GOLDEN_WORDS)
    got = disassemble(options.get("--kind", "ptx"), image, options.get("--nvdisasm", ""))
    if bless:
        workspace = os.environ.get("BUILD_WORKSPACE_DIRECTORY")
        if not workspace:
            raise Refusal(diags.BZL_BLESS_WITH_RUN)
        path = os.path.join(workspace, options["--golden-source"])
        from tileiras.tools.bazel_actions import write_text

        write_text(path, got)
        print(f"wrote {path}")
        return 0
    with open(options["--golden"], encoding="utf-8") as file:
        expected = file.read()
    if got == expected:
        return 0
    import difflib

    lines = difflib.unified_diff(
        expected.splitlines(),
        got.splitlines(),
        options.get("--golden-source", "golden"),
        "built",
        lineterm="",
    )
    print("\n".join(lines))
    print(
        f"{os.path.basename(image)} differs from its golden file; to accept: bazel run <this target> -- --bless"
    )
    return DIFFERENT


def disassemble(kind: str, image: str, nvdisasm: str) -> str:
    """Returns the normalised text of an image."""
    if kind == "ptx":
        with open(image, encoding="utf-8") as file:
            return normalise(file.read())
    if kind == "tileir":
        from pathlib import Path

        import tileiras

        return normalise(str(tileiras.load(Path(image))))
    if kind != "sass":
        raise Refusal(diags.BZL_GOLDEN_KIND, kind=kind)
    import subprocess

    try:
        done = subprocess.run([nvdisasm, "-c", image], capture_output=True)
    except OSError as error:
        raise Refusal(diags.BZL_NVDISASM, path=nvdisasm, why=error.strerror) from None
    if done.returncode:
        raise Refusal(diags.BZL_NVDISASM_SAID, text=done.stderr.decode("utf-8", "replace").strip())
    return normalise(done.stdout.decode("utf-8"))


def normalise(text: str) -> str:
    """Returns `text` without comment lines, debug file names, trailing blanks and leading or repeated empty lines."""
    lines: list[str] = []
    for line in text.splitlines():
        line = line.rstrip()
        if line.lstrip().startswith("//") or line.lstrip().startswith(".file"):
            continue
        if not line and (not lines or not lines[-1]):
            continue
        lines.append(line)
    while lines and not lines[-1]:
        lines.pop()
    return "\n".join(lines) + "\n"
