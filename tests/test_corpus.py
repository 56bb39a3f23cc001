"""Every corpus case by three witnesses: the reference interpreter, the emulated machine code, and NumPy.

The quick tier runs a third of the cases on the interpreter and the slice `QUICK` on the emulator and
through the compiler; the full tier runs everything for sm_80 and sm_90 and compiles everything for every
target.
"""

from __future__ import annotations

import functools
import zlib
from pathlib import Path

import pytest

pytest.importorskip("numpy")
pytest.importorskip("ml_dtypes")

from tests import fixtures
from tests.corpus.case import Case
from tests.corpus.check import (
    ERROR,
    NUMBERS_OF_PTX,
    PASS,
    SKIP,
    arch_number,
    compile_case,
    copy_of,
    judge,
    launch_case,
)
from tests.corpus.export import archive_path, bytecode_path, is_stale, keep, made_from
from tests.corpus.registry import CASES, one_per_module
from tests.corpus.run import nvidia_case

TARGETS = (
    "sm_75",
    "sm_80",
    "sm_86",
    "sm_87",
    "sm_88",
    "sm_89",
    "sm_90",
    "sm_100",
    "sm_103",
    "sm_107",
    "sm_110",
    "sm_120",
    "sm_121",
)
LIMIT_S = 60.0

# One or two cases of each family, the ones that reach furthest into the compiler.
QUICK = (
    "vadd_f32",
    "vadd_bf16",
    "vadd_f32_strided",
    "axpy_f32",
    "mixed_chain",
    "sin_cos_f32",
    "softmax_row_f32",
    "softmax_online",
    "layer_norm_f16",
    "sum_axis0_f32",
    "extrema_axis1_i32",
    "cumsum_rows_f32",
    "transpose_f16",
    "permute_201",
    "matmul_f16_ragged",
    "matmul_f32_tiny",
    "find_first",
    "branch_tiles",
    "cast_f32_bf16",
    "divisions_i32",
    "compare_f16",
    "gather_rows",
    "histogram",
    "spin_lock",
    "padding_modes_f16",
    "cpp_layer_norm",
    "cpp_early_exit_40",
)


def require(outcome: object) -> None:
    """Fails with the whole story, skips with the reason."""
    if outcome.word == SKIP:
        pytest.skip(outcome.reason)
    assert outcome.word == PASS, f"{outcome.word}: {outcome.reason}\n{outcome.detail}"


def test_quick_slice_names_cases() -> None:
    assert set(QUICK) <= set(CASES)


@pytest.mark.parametrize("name", CASES)
def test_a_kernel_that_stores_nothing_fails(name: str) -> None:
    """No formula is satisfied by untouched memory, and every formula has the shape and type of its array."""
    case = CASES[name]
    values = case.make_values()
    problem = judge(case, copy_of(values), values)
    assert problem and "formula gives" not in problem


@functools.cache
def made() -> dict[str, tuple[str, str]]:
    return made_from()


@pytest.mark.parametrize("name", CASES)
def test_committed_bytecode_is_of_the_present_source(name: str) -> None:
    case = CASES[name]
    assert not is_stale(case, made()), "run: python -m tests.corpus.export"
    assert bytecode_path(case).read_bytes()[:8] == b"\x7fTileIR\0"


def test_committed_bytecode_lies_in_archives() -> None:
    """What lies beside them is read by nobody: a case that was added to a checkout from before the archives."""
    assert not fixtures.loose(), (
        "run: python -m tests.corpus.export (it makes archives and removes these files)"
    )
    families = {archive_path(c) for c in CASES.values()}
    assert families == set(fixtures.ARCHIVES.glob("*.zip"))


def test_the_same_members_make_the_same_archive(tmp_path: Path) -> None:
    for path in fixtures.archives():
        again = tmp_path / path.name
        fixtures.write(again, dict(reversed(fixtures.read(path).items())))
        assert again.read_bytes() == path.read_bytes(), path.name


def test_export_keeps_what_it_made_and_drops_what_went(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new file goes to its family's archive with its fingerprint; one without a case and loose files go."""
    case, other = CASES["axpy_f32"], CASES["matmul_f16_ragged"]
    monkeypatch.setattr(fixtures, "ARCHIVES", tmp_path / "kept")
    fixtures.write(archive_path(case), {"axpy_f32.tilebc": (b"old", "old"), "gone.tilebc": (b"old", "old")})
    fixtures.write(archive_path(other), {"axpy_f32.tilebc": (b"moved", "old")})
    (tmp_path / "kept" / "loose.tilebc").write_bytes(b"")
    (tmp_path / "made").mkdir()
    assert is_stale(case, made_from())
    (tmp_path / "made" / "axpy_f32.tilebc").write_bytes(b"new")
    keep([case, other], tmp_path / "made")
    assert not is_stale(case, made_from()) and is_stale(other, made_from())
    assert [p.name for p in fixtures.archives()] == [archive_path(case).name] and not fixtures.loose()
    assert [(n, data) for n, (data, _) in fixtures.read(archive_path(case)).items()] == [
        ("axpy_f32.tilebc", b"new")
    ]


def test_committed_bytecode_names_no_machine() -> None:
    for case in CASES.values():
        data = bytecode_path(case).read_bytes()
        for mark in (b"/root", b"/home", b"/tmp", b"site-packages"):
            assert mark not in data, f"{case.module} contains {mark.decode()}"


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", CASES)
def test_reference(name: str) -> None:
    require(launch_case(CASES[name], "reference", "sm_90", LIMIT_S))


@pytest.mark.parametrize("name", QUICK)
def test_emulator_quick(name: str) -> None:
    require(launch_case(CASES[name], "emulator", gpu_of(CASES[name], ("sm_80", "sm_90")), LIMIT_S))


@pytest.mark.parametrize("name", QUICK)
def test_cpu_quick(name: str) -> None:
    pytest.importorskip("llvmlite")
    require(launch_case(CASES[name], "cpu", "", LIMIT_S))


@pytest.mark.full
@pytest.mark.parametrize("name", CASES)
def test_cpu(name: str) -> None:
    pytest.importorskip("llvmlite")
    require(launch_case(CASES[name], "cpu", "", LIMIT_S))


@pytest.mark.parametrize("name", QUICK)
def test_compile_quick(name: str) -> None:
    require(compile_case(CASES[name], gpu_of(CASES[name], ("sm_75", "sm_89", "sm_100", "sm_120")), LIMIT_S))


@pytest.mark.full
@pytest.mark.parametrize("gpu_name", ("sm_80", "sm_90"))
@pytest.mark.parametrize("name", CASES)
def test_emulator(name: str, gpu_name: str) -> None:
    require(launch_case(CASES[name], "emulator", gpu_name, LIMIT_S))


@pytest.mark.full
@pytest.mark.parametrize("gpu_name", ("sm_90", "sm_100", "sm_120"))
@pytest.mark.parametrize("name", CASES)
def test_emulator_with_tensor_maps(name: str, gpu_name: str) -> None:
    """Every kernel for which the launcher makes maps."""
    case = CASES[name]
    if arch_number(gpu_name) < case.min_arch or case.entry not in entries_with_maps(case.module, gpu_name):
        pytest.skip("takes no tensor maps")
    require(launch_case(case, "emulator", gpu_name, LIMIT_S, tensor_maps="launcher"))


@functools.cache
def entries_with_maps(module: str, gpu_name: str) -> set[str]:
    """The kernels of a file that have hidden parameters."""
    import tileiras

    case = next(case for case in CASES.values() if case.module == module)
    program = tileiras.compile(
        bytecode_path(case), gpu_name=gpu_name, emit="ptx", launch_abi="simt", tensor_maps="launcher"
    )
    return {name for name, kernel in program.kernels.items() if kernel.tensor_maps}


MATRIX = [
    (case.name, gpu)
    for case in one_per_module(CASES.values())
    for gpu in (TARGETS if case.frontend != "writer" else ("sm_75", "sm_80", "sm_90", "sm_100", "sm_120"))
]


def test_a_text_that_targets_share_is_assembled_once() -> None:
    seen: set[str] = set()
    for gpu_name in ("sm_80", "sm_86"):
        assert compile_case(CASES["axpy_f32"], gpu_name, LIMIT_S, seen).word == PASS
    assert len(seen) == 1
    texts = [f".version 8.{n}\n.target sm_{name}\n" for n, name in enumerate(("90", "90a", "100a", "100f"))]
    assert len({NUMBERS_OF_PTX.sub(r"\1", text) for text in texts}) == 3


@pytest.fixture(scope="module")
def assembled() -> set[str]:
    """Texts that ptxas has taken."""
    return set()


@pytest.mark.full
@pytest.mark.parametrize(("name", "gpu_name"), MATRIX)
def test_compile(name: str, gpu_name: str, assembled: set[str]) -> None:
    """For every target; ptxas sees a text that several targets share for the first of them."""
    require(compile_case(CASES[name], gpu_name, LIMIT_S, assembled))


# NVIDIA's 13.4.92 ends by a signal in ptr_two_walks, whose loop of Tile C++ reads through a pointer that another index moves
NVIDIA_FAILS = frozenset(("cpp_pointers",))


@pytest.mark.full
@pytest.mark.parametrize(
    "module", sorted({c.module for c in CASES.values() if not {"large", "museum"}.intersection(c.tags)})
)
def test_nvidia_accepts(module: str) -> None:
    """The bytecode that judges our compiler is bytecode to the assembler it stands in for.

    What it makes of the museum's kernels, which it may fail on, is in docs/museum.md."""
    import peers

    case = next(c for c in CASES.values() if c.module == module)
    names = tuple(n for n in ("sm_80", "sm_90", "sm_100", "sm_120") if arch_number(n) >= case.min_arch)
    outcome = nvidia_case(case, gpu_of(case, names), str(peers.require("tileiras")), LIMIT_S)
    if module in NVIDIA_FAILS:
        assert outcome.word == ERROR, "NVIDIA's assembler takes it now: it is no exception any more"
    else:
        require(outcome)


@pytest.mark.full
def test_export_again_gives_the_same_bytes(tmp_path: object) -> None:
    """The frontends here write what is committed: a new release shows up as a difference, by name."""
    pytest.importorskip("cuda.tile")
    from tests.corpus.export import export, find_nvcc

    cases = [c for c in CASES.values() if c.frontend == "python" or find_nvcc()]
    errors = export(cases, tmp_path)
    assert not errors
    differ = {
        c.module
        for c in cases
        if (tmp_path / bytecode_path(c).name).read_bytes() != bytecode_path(c).read_bytes()
    }
    assert not differ


def gpu_of(case: Case, names: tuple[str, ...]) -> str:
    """One of `names`, chosen by the case's name: the quick tier sees every target, each run the same."""
    return names[zlib.crc32(case.name.encode()) % len(names)]
