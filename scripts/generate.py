#!/usr/bin/env python3
"""Writes every file that is made from a table of the compiler: what to run when a row of one was added.

  tileiras/archs.py       bazel/private/arch_table.bzl, README's list of targets
  tileiras/settings.py    CMake's keywords, Bazel's attributes, docs/reference/options.md, setuptools' schema
  every command's options share/: completions and manual pages
  dialects/*/ops.py       docs/reference/ops.md
  passes/*/*.py           the table of docs/passes.md

Tests compare each of them with its table.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY))

from scripts import ops_page, option_pages, passes_page, shell_pages  # noqa: E402
from tileiras import archs  # noqa: E402


def readme() -> str:
    """README.md with the list of targets."""
    text = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    named = f"sm_{', '.join(map(str, archs.NUMBERS))},"
    return re.sub(r"^sm_\d+(, \d+)*,", named, text, count=1, flags=re.MULTILINE)


def main() -> int:
    option_pages.main()
    shell_pages.main()
    ops_page.PAGE.write_text(ops_page.page(), encoding="utf-8")
    passes_page.PAGE.write_text(passes_page.page(), encoding="utf-8")
    (REPOSITORY / "bazel" / "private" / "arch_table.bzl").write_text(archs.bzl(), encoding="utf-8")
    (REPOSITORY / "README.md").write_text(readme(), encoding="utf-8")
    command = [sys.executable, "-m", "tileiras.setuptools_ext.pyproject"]
    return subprocess.run(command, cwd=REPOSITORY, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
