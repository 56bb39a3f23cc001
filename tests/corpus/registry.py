"""All cases of the corpus, by name. Each module under `cases/` contributes what its `Family` objects hold."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable

from tests.corpus import cases as _cases
from tests.corpus.case import Case, Family


def load() -> dict[str, Case]:
    """name -> Case, in the order of the family files."""
    found: dict[str, Case] = {}
    for info in sorted(pkgutil.iter_modules(_cases.__path__), key=lambda i: i.name):
        module = importlib.import_module(f"{_cases.__name__}.{info.name}")
        for value in vars(module).values():
            if isinstance(value, Family):
                for case in value.cases:
                    if found.setdefault(case.name, case) is not case:
                        raise ValueError(f"two corpus cases are named {case.name}")
    return found


CASES = load()


def one_per_module(cases: Iterable[Case]) -> list[Case]:
    """The first case of each bytecode file: a file compiles as a whole, with all its entries."""
    first: dict[str, Case] = {}
    for case in cases:
        first.setdefault(case.module, case)
    return list(first.values())
