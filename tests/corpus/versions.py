"""Makes tests/data/bytecode/versions: the same kernels in every bytecode version, as each writer writes it.

`python -m tests.corpus.versions`. One archive a version, 13.x.zip; KERNEL-13.x.tilebc for 13.1 to 13.4 come from cuda-tile;
13.5 comes from nvcc of toolkit 13.5 (the environment variable TILEIRAS_PEERS or --nvcc says where). See the README there.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
import tempfile
from pathlib import Path

from tests import fixtures
from tests.corpus.case import VERSIONS, Case
from tests.corpus.export import export_cpp, export_python, export_writer
from tests.corpus.registry import CASES

# What differs between versions: hints and their keys, pointer and view flags, optional attributes, padding bytes.
PYTHON = (
    "vadd_f32", "softmax_online", "matmul_f16_ragged", "find_first", "padding_modes_f32", "atomic_integers_i32",
    "exp_special_f32", "matmul_grouped",
)  # fmt: skip
WRITER = (
    "op_global_public", "op_negi_i32", "op_exp_f32", "op_tanh_f32", "op_for_unsigned", "op_rmw_masked_acq_rel",
    "op_ftoi_f32_i32_signed", "op_constant_i1", "op_loop_types_10", "op_print",
)  # fmt: skip
SINCE = {"op_negi_i32": "13.1", "op_exp_f32": "13.1", "op_tanh_f32": "13.1"}
CPP = (
    "elementwise",
    "blocks",
    "control",
    "numbers",
    "algorithms",
    "memory",
    "narrow",
    "pointers",
    "loops",
    "branches",
)
CPP_VERSION = "13.5"
LATER = "later"  # a source that only nvcc 13.5 takes; tests/test_corpus_later.py has the formulas


def versions_of(case: Case) -> list[str]:
    """The versions from 13.1 to 13.4 that can hold a case."""
    since = SINCE.get(case.name, case.since)
    return [v for v in VERSIONS if v >= since]


def path_of(name: str, version: str) -> Path:
    """The file of a kernel in a version, for reading."""
    return fixtures.BYTECODE / "versions" / f"{name}-{version}.tilebc"


def keep(folder: Path) -> None:
    """Puts the files in `folder` into the archives of their versions."""
    for version in (*VERSIONS, CPP_VERSION):
        path = fixtures.ARCHIVES / "versions" / f"{version}.zip"
        made = {file.name: (file.read_bytes(), "") for file in folder.glob(f"*-{version}.tilebc")}
        fixtures.write(path, {**fixtures.read(path), **made})


def make(folder: Path, nvcc: str | None) -> None:
    """Writes all files of all versions into `folder`; those of 13.5 with `nvcc` only."""
    for name in (*PYTHON, *WRITER):
        case = CASES[name]
        for version in versions_of(case):
            write = export_python if case.frontend == "python" else export_writer
            at = dataclasses.replace(case, version=version)
            write([at] if case.frontend == "python" else at, folder / path_of(name, version).name)
    for stem in (*CPP, LATER) if nvcc else ():
        case = next(c for c in CASES.values() if c.source == f"cpp/{stem if stem != LATER else CPP[0]}.cu")
        export_cpp(
            dataclasses.replace(case, source=f"cpp/{stem}.cu", module=f"cpp_{stem}"),
            folder / path_of(f"cpp_{stem}", CPP_VERSION).name,
            Path(nvcc),
        )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nvcc", help="nvcc of toolkit 13.5")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make(folder, options.nvcc)
        keep(folder)
    if not options.nvcc:
        print("no --nvcc: the 13.5 files are left as they are", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
