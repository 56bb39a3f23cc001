"""Names of the package that nobody uses, or only tests: `python scripts/unused_names.py [--tests]`.

A public name at the top of a file, or a method, counts as used where its word stands a second time in its own file, or anywhere
in another file that is not a test: code, CMake, Bazel, examples, documentation. What a decorator puts into a table is used.
Words are compared, not scopes: what is listed is unused, what is not may be. `--tests`: also those that tests alone use.
"""

from __future__ import annotations

import argparse
import ast
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WORD = re.compile(r"[A-Za-z_]\w*")
TEXTS = {
    ".py",
    ".md",
    ".cmake",
    ".in",
    ".bzl",
    ".bazel",
    ".txt",
    ".toml",
    ".c",
    ".h",
    ".cu",
    ".sh",
    ".yml",
    ".html",
    ".js",
    "",
}

FOREIGN = ("_", "pytest_")  # private, or called by pytest under these names
PLAIN = (
    "property",
    "staticmethod",
    "classmethod",
    "cache",
    "lru_cache",
    "cached_property",
    "contextmanager",
    "overload",
    "setter",
)
# Names that nobody here says, and who does.
CALLED = {
    "wait_event": "PyTorch's streams have it",
    "wait_stream": "PyTorch's streams have it",
    "record_event": "PyTorch's streams have it",
    "call_assertfail": "the emulator, by the name of the function that PTX calls",
    "call_malloc": "the emulator, by the name of the function that PTX calls",
    "call_free": "the emulator, by the name of the function that PTX calls",
    "encode_request": "Bazel's end of the wire, which tests stand for",
    "decode_response": "Bazel's end of the wire, which tests stand for",
    "DRIVER_BIT": "the contract's words, which tests hold diagnostics to",
    "SEVERITY_WORDS": "the contract's words, which tests hold diagnostics to",
}


def tracked(root: Path) -> list[Path]:
    """Text files of the checkout, new ones included."""
    command = ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, capture_output=True, check=True).stdout.decode().split("\0")
    return [root / name for name in listed if name and Path(name).suffix in TEXTS and (root / name).is_file()]


def registered(node: ast.FunctionDef | ast.ClassDef) -> bool:
    """Whether a decorator may have put it into a table: every one but those of the language."""
    return any(
        not isinstance(d, (ast.Name, ast.Attribute)) or getattr(d, "id", getattr(d, "attr", "")) not in PLAIN
        for d in node.decorator_list
    )


def public_names(tree: ast.Module) -> list[tuple[str, int]]:
    """(name, line) of what a file defines for others: functions, classes, constants and methods."""
    found: list[tuple[str, int]] = []
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            if not registered(node):
                found.append((node.name, node.lineno))
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found += [(t.id, node.lineno) for t in targets if isinstance(t, ast.Name)]
        if isinstance(node, ast.ClassDef):
            parts = [part for part in node.body if isinstance(part, ast.FunctionDef)]
            found += [(part.name, part.lineno) for part in parts if not registered(part)]
    return [(name, line) for name, line in found if not name.startswith(FOREIGN)]


def unused(root: Path, package: str = "tileiras") -> tuple[list[str], list[str]]:
    """Places `file:line: name` of names that nobody uses, and of those that only tests do."""
    words: dict[Path, Counter[str]] = {}
    for path in tracked(root):
        if path.name != Path(__file__).name:  # whose exceptions would be uses
            words[path] = Counter(WORD.findall(path.read_text(errors="replace")))
    total: Counter[str] = Counter()
    in_tests: Counter[str] = Counter()
    for path, counts in words.items():
        (in_tests if path.relative_to(root).parts[0] == "tests" else total).update(counts)
    nobody: list[str] = []
    tests: list[str] = []
    for path in sorted(words):
        if path.suffix != ".py" or path.relative_to(root).parts[0] != package:
            continue
        for name, line in public_names(ast.parse(path.read_text())):
            if total[name] == 1 and name not in CALLED:
                (tests if in_tests[name] else nobody).append(f"{path.relative_to(root)}:{line}: {name}")
    return nobody, tests


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tests", action="store_true", help="also what only tests use")
    options = parser.parse_args()
    nobody, tests = unused(ROOT)
    for place in nobody:
        print(place)
    if options.tests:
        print(*(f"{place} (tests)" for place in tests), sep="\n")
    return 1 if nobody else 0


if __name__ == "__main__":
    sys.exit(main())
