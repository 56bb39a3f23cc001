#!/usr/bin/env python3
"""Writes docs/museum.md: every exhibit of tests/museum with its reports, our result and that of NVIDIA's assembler.

`scripts/museum_table.py` runs everything and rewrites the page, `--stdout` prints it, `-k SUBSTR` takes some exhibits
only. Each run has 60 s and 8 GB of memory; what needs more is cut off and said so. Needs NVIDIA's tools of the full tier.
"""

from __future__ import annotations

import argparse
import os
import resource
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(REPOSITORY), str(REPOSITORY / "tests")]

RELEASES = ("13.3", "13.4")
# The assembler of the older release with what it needs beside it: without libnvvm it only says that it failed.
WHEELS = ("nvidia-cuda-tileiras==13.3.36", "nvidia-cuda-nvcc==13.3.73", "nvidia-nvvm==13.3.73")
LIMIT_S, LIMIT_BYTES = 60, 8 << 30
HEAD = """\
# The crash museum

Public reports of tile compilers that crashed, hung, spilled absurdly or failed without a reason, each with a kernel of
our own that has its shape. Where this compiler is to succeed, all tests of the corpus hold the kernel to its results; where
it is to fail, a test holds it to naming the operation, the line, the cause and a remedy, and tries the remedy:
[tests/museum](../tests/museum). The last columns show what became of the same kernel here and with NVIDIA's assembler of
two releases, from bytecode to cubin: processor seconds, cut at {limit} s and {memory} GB. Many of the reports are about other
compilers, and most of those have been answered by a correction since; a kernel that has the shape of a report need not crash the
compiler that the report is about. This page is written by `scripts/museum_table.py`.

{count} reports, {exhibits} kernels.
"""


def limited() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (LIMIT_BYTES, LIMIT_BYTES))


def outcome(line: list[str], folder: Path) -> str:
    """What a compiler did: `ok, 0.4 s`, a signal, a limit, or its first words."""
    with (folder / "said").open("w+") as said:
        process = subprocess.Popen(
            line, cwd=folder, stdout=said, stderr=said, preexec_fn=limited, start_new_session=True
        )
        try:
            process.wait(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return f"cut at {LIMIT_S} s"
        said.seek(0)
        lines = [text.strip() for text in said.read().splitlines() if text.strip()]
        words = next((text for text in lines if "error: " in text), lines[0] if lines else "")
        words = words[words.find("error: ") :] if "di_loc" in words else words
    if process.returncode == 0:
        return "ok"
    if process.returncode < 0:
        return signal.Signals(-process.returncode).name
    # A shell's code for a signal, as launchers pass it on.
    if process.returncode > 128:
        return signal.Signals(process.returncode - 128).name
    return (
        f"code {process.returncode}: `{words.replace('|', '/').replace('`', '')[:100]}`"
        if words
        else f"code {process.returncode}"
    )


def timed(line: list[str], folder: Path) -> str:
    """The outcome with the processor seconds that it took."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    what = outcome(line, folder)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return what if what.startswith("cut") else f"{what}, {seconds:.1f} s"


def bytecode(exhibit: Any, folder: Path) -> Path | None:
    """The kernel as a file for both compilers; of a text with a fault, as far as bytecode can hold it."""
    from tests.corpus.export import bytecode_path
    from tests.corpus.registry import CASES

    if exhibit.case:
        return bytecode_path(CASES[exhibit.case])
    from tileiras.compiler.bytecode.writer import write
    from tileiras.compiler.ir.text import parse
    from tileiras.diag import CompileError, Sink

    try:
        ops = parse(exhibit.source(), Sink(), file="k.tileir")
        data = write(ops[0], (13, 3), sink=Sink())
    except (CompileError, ValueError, AttributeError):
        return None
    path = folder / "k.tilebc"
    path.write_bytes(data)
    return path


def older() -> Path:
    """NVIDIA's assembler of 13.3, installed below .cache at the first call."""
    folder = REPOSITORY / ".cache" / "museum-13.3"
    tool = folder / "nvidia" / "cu13" / "bin" / "tileiras"
    if not tool.exists():
        words = ["install", "--quiet", "--no-compile", "--no-deps", "--target", str(folder), *WHEELS]
        subprocess.run([sys.executable, "-m", "pip", *words], check=True)
    return tool


def rows(substring: str) -> list[str]:
    """The table, one line for each exhibit."""
    import peers

    from tests.museum.exhibits import exhibits

    ours = [sys.executable, "-m", "tileiras"]
    os.environ["PYTHONPATH"] = str(REPOSITORY)
    os.environ["TILEIRAS_CACHE"] = "0"
    tools = [older(), peers.require("tileiras")]
    found = []
    for exhibit in exhibits():
        if substring not in exhibit.name:
            continue
        print(exhibit.name, file=sys.stderr, flush=True)
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            flags = [f"--gpu-name={exhibit.gpu}", "-o", "k.cubin"]
            path = bytecode(exhibit, folder)
            source = path
            if exhibit.text:
                source = folder / "k.tileir"
                source.write_text(exhibit.source())
            cells = [timed([*ours, str(source), *flags], folder).replace(f"{folder}/", "")]
            for tool in tools:
                if path is None:
                    cells.append("no bytecode can hold it")
                else:
                    cells.append(timed([str(tool), str(path), *flags], folder).replace(f"{folder}/", ""))
        reports = "<br>".join(
            f"[{'/'.join(address.split('/')[3:5])}#{address.split('/')[-1]}]({address}): {symptom}"
            for address, symptom in exhibit.threads
        )
        found.append(f"| {exhibit.about} | {reports} | {exhibit.gpu} | {' | '.join(cells)} |")
    return found


def page(substring: str = "") -> str:
    """The whole page."""
    from tests.museum.exhibits import exhibits

    every = exhibits()
    count = len({address for exhibit in every for address, _ in exhibit.threads})
    head = HEAD.format(limit=LIMIT_S, memory=LIMIT_BYTES >> 30, count=count, exhibits=len(every))
    titles = " | ".join(f"NVIDIA {release}" for release in RELEASES)
    table = [
        f"| kernel | reports | target | tileiras | {titles} |",
        "|---|---|---|---|" + "---|" * len(RELEASES),
    ]
    return "\n".join([head, *table, *rows(substring), ""])


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description="Writes docs/museum.md.")
    parser.add_argument("--stdout", action="store_true", help="print the page instead")
    parser.add_argument("-k", default="", metavar="SUBSTR", help="only exhibits whose name contains this")
    options = parser.parse_args(argv)
    text = page(options.k)
    if options.stdout or options.k:
        sys.stdout.write(text)
    else:
        (REPOSITORY / "docs" / "museum.md").write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
