"""What the package defines for others, others use; scripts/unused_names.py finds what they don't."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "scripts"))

from unused_names import CALLED, public_names, unused  # noqa: E402


def test_every_public_name_of_the_package_is_used_outside_of_tests():
    assert unused(ROOT) == ([], []), "remove it, or say in CALLED who uses it"


def test_every_exception_is_a_name_that_exists():
    import ast

    defined = {
        name
        for path in (ROOT / "tileiras").rglob("*.py")
        for name, _ in public_names(ast.parse(path.read_text()))
    }
    assert set(CALLED) <= defined


def test_what_is_found(tmp_path):
    files = {
        "tileiras/a.py": "X = 1\ndef lonely(): pass\ndef tried(): pass\ndef used(): pass\ndef _own(): pass\n"
        "@rule\ndef row(): pass\n"
        "class C:\n    @property\n    def part(self): pass\n    def __len__(self): pass\n",
        "tileiras/b.py": "from tileiras.a import used, C\n",
        "tests/test_a.py": "from tileiras.a import tried\n",
        "docs/index.md": "`X` is one.\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    assert unused(tmp_path) == (
        ["tileiras/a.py:2: lonely", "tileiras/a.py:10: part"],
        ["tileiras/a.py:3: tried"],
    )
