"""The architecture grammar of the Bazel rules says what the toolchain's says.

`bazel/private/archs.bzl` is Starlark, a subset of Python but for a few names, so it runs here and is compared with
`tileiras.toolchain.arch` word by word.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tileiras.archs import NUMBERS, NVIDIA_NUMBERS
from tileiras.diag import CompileError
from tileiras.toolchain.arch import REAL, parse_archs

BAZEL = Path(__file__).resolve().parents[2] / "bazel"

SPECS = [
    "90",
    "90a",
    "9.0",
    "9.0a",
    "10.0+PTX",
    "10.0f",
    "100f",
    "sm_90",
    "sm_90a",
    "compute_120",
    "90-real",
    "120-virtual",
    "100-real;120-virtual",
    "all",
    "all-major",
    "compute_80:sm_80,sm_86;compute_90:sm_90",
    "compute_80:compute_80,sm_80",
    "sm_80,sm_90",
    "8.0 9.0a+PTX",
    "90;90;sm_90",
    "75",
    "75;90",
    "70;80",
    "",
    ";",
    "101",
    "20",
    "sm_91",
    "85",
    "89a",
    "90f",
    "sm_x",
    "ninety",
    "9",
    "1000",
    "10.01",
    "1.00",
    "09",
    "x:sm_90",
    "compute_90:",
    "native",
]


def starlark(path: Path) -> dict:
    """Returns the globals of a Starlark file, run as Python; it loads from its own folder."""

    def load(label: str, *wanted: str) -> None:
        names.update({name: starlark(path.with_name(label.rpartition(":")[2]))[name] for name in wanted})

    names: dict = {
        "load": load,
        "struct": SimpleNamespace,
        "type": lambda value: {list: "list", str: "string", tuple: "tuple"}.get(type(value), "other"),
    }
    exec(compile(path.read_text(), str(path), "exec"), names)
    return names


NORMALIZE = starlark(BAZEL / "private" / "archs.bzl")["normalize_archs"]


@pytest.mark.parametrize("supported", [NUMBERS, NVIDIA_NUMBERS], ids=["builtin", "nvidia"])
@pytest.mark.parametrize("spec", SPECS)
def test_same_as_the_toolchain(spec: str, supported: tuple[int, ...]) -> None:
    got = NORMALIZE(spec, [str(number) for number in supported])
    if spec == "native":
        # Bazel must not ask the machine; the toolchain may.
        assert "one machine" in got.error
        return
    try:
        expected, _ = parse_archs(spec, supported)
    except CompileError:
        assert got.error is not None, f"accepted: real {got.real}, virtual {got.virtual}"
        return
    assert got.error is None
    assert sorted(got.real) == sorted(a.label for a in expected if a.kind == REAL)
    assert sorted(got.virtual) == sorted(a.label for a in expected if a.kind != REAL)


def test_order_is_ascending_and_stable() -> None:
    supported = [str(number) for number in NUMBERS]
    assert NORMALIZE("120 75 100a 100 90", supported).real == ["75", "90", "100", "100a", "120"]


def test_dropped_words_are_reported() -> None:
    got = NORMALIZE("75;90", [str(number) for number in NVIDIA_NUMBERS])
    assert got.dropped == ["75"] and got.real == ["90"]


def test_the_rules_know_the_compilers_architectures() -> None:
    """The table is generated: `python -m tileiras.archs --bzl > bazel/private/arch_table.bzl`."""
    done = subprocess.run(
        [sys.executable, "-m", "tileiras.archs", "--bzl"], capture_output=True, text=True, check=True
    )
    assert (BAZEL / "private" / "arch_table.bzl").read_text() == done.stdout
    assert starlark(BAZEL / "private" / "arch_table.bzl")["BUILTIN_ARCHS"] == [str(n) for n in NUMBERS]


def test_the_readme_names_every_architecture() -> None:
    text = (BAZEL.parent / "README.md").read_text()
    line = next(line for line in text.splitlines() if line.startswith("sm_75"))
    assert line.startswith(f"sm_{', '.join(map(str, NUMBERS))},")
