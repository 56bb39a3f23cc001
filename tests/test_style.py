"""The tree is as ruff formats it, ruff finds nothing in it, and its types check (settings: pyproject.toml)."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize("words", [("ruff", "format", "--check"), ("ruff", "check"), ("mypy",)], ids=" ".join)
def test_clean(words: tuple[str, ...]) -> None:
    if find_spec(words[0]) is None:
        pytest.skip(f"{words[0]} is not installed")
    done = subprocess.run([sys.executable, "-m", *words], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr
