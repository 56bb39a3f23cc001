"""Every snippet of docs/tutorial runs as printed, page by page: kernels are files, Python and commands follow in order."""

from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
PAGES = sorted((REPOSITORY / "docs" / "tutorial").glob("*.md"))
FENCE = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', re.M | re.S)
COMMANDS = {
    "tileiras": "tileiras",
    "tileiras-translate": "tileiras.tools.translate",
    "tileiras-opt": "tileiras.tools.opt",
}


def test_there_are_pages_and_each_has_snippets_of_every_kind() -> None:
    kinds = {kind for page in PAGES for kind, _, _ in FENCE.findall(page.read_text())}
    assert len(PAGES) >= 4 and kinds == {"tileir", "python", "output", "console"}


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.stem)
def test_snippets_run_as_printed(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numpy")
    pytest.importorskip("llvmlite")
    monkeypatch.chdir(tmp_path)
    tools = tmp_path / "bin"
    tools.mkdir()
    for name, module in COMMANDS.items():
        (tools / name).write_text(
            f'#!/bin/sh\nPYTHONPATH="{REPOSITORY}" exec "{sys.executable}" -m {module} "$@"\n'
        )
        (tools / name).chmod(0o755)
    env = {**os.environ, "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}"}
    names: dict[str, object] = {}
    printed = ""
    for kind, title, body in FENCE.findall(page.read_text()):
        if kind == "tileir":
            (tmp_path / title).write_text(body)
        elif kind == "python":
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                exec(compile(body, f"{page.name}", "exec"), names)
            printed = out.getvalue()
        elif kind == "output":
            assert printed == body
        else:
            printed = ""
            for line in body.splitlines():
                assert line.startswith("$ ")
                done = subprocess.run(
                    line[2:], shell=True, env=env, capture_output=True, text=True, timeout=120
                )
                assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
                printed += done.stdout
