"""scripts/mutate.py: what it breaks by default is there, and each change is one that the file can have."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))

import mutate

ROOT = Path(__file__).resolve().parents[2]


def test_each_file_that_is_broken_by_default_is_there_and_has_tests() -> None:
    gone = [path for path in mutate.DEFAULT if not (ROOT / path).is_file()]
    assert gone == [] and [path for path in mutate.DEFAULT if not mutate.tests_of(path)] == []
    assert [name for _, names in mutate.ROOMS for name in names if not (ROOT / name).is_file()] == []


def test_each_change_of_a_python_file_is_another_program() -> None:
    source = "def f(x, out):\n    if x < 3 and out:\n        out.append('two words')\n    return x + out[0]\n"
    made = list(mutate.python_mutants("f.py", source))
    assert {mutant.kind for mutant in made} >= {"negate", "compare", "without", "constant", "text", "drop"}
    assert source.strip() not in {ast.unparse(mutant.make()) for mutant in made}


def test_each_change_of_a_c_file_is_another_text() -> None:
    source = "int f(int x) {\n  if (x) {\n    free(p);\n  }\n  return 2;\n}\n"
    made = {mutant.make() for mutant in mutate.c_mutants("f.c", source)}
    assert len(made) > 2 and source not in made
