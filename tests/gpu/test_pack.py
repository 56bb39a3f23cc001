"""The archive for a bare GPU machine: packed, rehearsed without a driver, and run to its end on a stand-in for libcuda.

The stand-in (stub_cuda.c) has host memory and kernels that add, do nothing, fail, crash or hang, by name: that proves
the parameters, the comparison, the isolation of kernels from each other, and that an interrupted run goes on.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import peers
import pytest

pytest.importorskip("numpy")
pytest.importorskip("ml_dtypes")
sys.path.insert(0, str(Path(__file__).parent))
import pack
from bare import values

from tests.corpus.registry import CASES

HERE = Path(__file__).parent
WORDS = ["vadd_f32", "softmax_row_64", "select_min_max", "axpy_f32", "staged_f16_narrow"]


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    peers.require("ptxas")
    peers.require("tileiras")
    pytest.importorskip("cuda.tile")
    folder = tmp_path_factory.mktemp("pack")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TILEIRAS_QUALITY_CACHE", str(folder / "cache"))
        pack.build(folder / "gpu.pyz", "sm_90", WORDS)
    return folder / "gpu.pyz"


@pytest.fixture(scope="module")
def stub(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    library = tmp_path_factory.mktemp("stub") / "libcuda.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-w", "-o", library, HERE / "stub_cuda.c"], check=True)
    return library


def bare(
    archive: Path, *flags: str, library: Path | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    """A run as on the bare machine: isolated, so that nothing but the standard library can be imported."""
    env = {"PATH": os.environ["PATH"], "TILEIRAS_LIBCUDA": str(library or "libcuda-absent.so"), **environment}
    argv = [sys.executable, "-I", "-S", str(archive), *flags]
    return subprocess.run(argv, capture_output=True, text=True, env=env, timeout=120)


def rows(folder: Path, step: str) -> dict[str, dict[str, object]]:
    lines = [json.loads(line) for line in (folder / f"{step}.jsonl").read_text().splitlines()]
    return {line["name"]: line for line in lines}


def test_the_rehearsal_ends_where_the_driver_is_missing(archive: Path, tmp_path: Path) -> None:
    done = bare(archive, "--rehearse")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "archive for sm_90: " in done.stdout and "no GPU: libcuda-absent.so" in done.stdout
    without = bare(archive, "--results", str(tmp_path / "r"))
    assert without.returncode == 2 and "no GPU: " in without.stderr and not (tmp_path / "r").exists()


def test_a_damaged_archive_is_named_in_the_rehearsal(archive: Path, tmp_path: Path) -> None:
    short = tmp_path / "short.pyz"
    with zipfile.ZipFile(archive) as old, zipfile.ZipFile(short, "w") as new:
        for name in old.namelist():
            if name != "images/vadd_f32.nvidia.cubin":
                new.writestr(name, old.read(name))
    done = bare(short, "--rehearse")
    assert done.returncode == 1 and "timing/vadd_f32: no image vadd_f32.nvidia" in done.stdout


def test_a_run_isolates_kernels_and_goes_on_where_it_stopped(
    archive: Path, stub: Path, tmp_path: Path
) -> None:
    results = ["--results", str(tmp_path)]
    with zipfile.ZipFile(archive) as packed:
        names = {n[7:-5] for n in packed.namelist() if n.startswith("corpus/") and n.endswith(".json")}
        symbols = {n: json.loads(packed.read(f"corpus/{n}.json"))["symbol"] for n in names}
    others = sorted(n for n in names if not n.startswith("vadd"))
    failing, crashing = others[0], others[-1]
    assert failing != crashing and any(n.startswith("vadd") for n in names)
    maps = tmp_path / "maps"
    environment = {"STUB_FAILS": symbols[failing], "STUB_CRASHES": symbols[crashing], "STUB_MAPS": str(maps)}
    first = bare(archive, *results, "--minutes", "0", library=stub, **environment)
    assert first.returncode == 75 and "items left: call again" in first.stdout
    done = bare(archive, *results, library=stub, **environment)
    assert done.returncode == 0, done.stdout + done.stderr
    corpus = rows(tmp_path, "corpus")
    assert set(corpus) == names
    assert "problem" not in corpus["vadd_f32"], corpus["vadd_f32"]
    assert corpus[failing][
        "problem"
    ] == "cuCtxSynchronize: CUDA_ERROR_LAUNCH_FAILED" or "cuLaunchKernel" in str(corpus[failing])
    assert "died with status -6" in str(corpus[crashing]["problem"])
    assert "staged_f16_narrow.maps" in names
    case = CASES["staged_f16_narrow"]
    extents = [value.shape for value in case.make_values()[:2]]
    assert sorted(maps.read_text().splitlines()) == sorted(f"6 2 1 {k} {m}" for m, k in extents)
    timing = rows(tmp_path, "timing")["vadd_f32"]
    assert timing["ours"] > 0 and timing["nvidia"] > 0 and timing["nvidia_block"] == [1, 1, 1]  # type: ignore[operator]
    report = (tmp_path / "report.md").read_text()
    assert "# Measured on Stub" in report and "Geometric mean of ours over NVIDIA's time" in report
    before = (tmp_path / "corpus.jsonl").read_text()
    again = bare(archive, *results, library=stub)
    assert again.returncode == 0 and (tmp_path / "corpus.jsonl").read_text() == before, (
        "nothing is done twice"
    )


def test_an_archive_for_another_gpu_is_refused(archive: Path, stub: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.pyz"
    with zipfile.ZipFile(archive) as old, zipfile.ZipFile(other, "w") as new:
        for name in old.namelist():
            new.writestr(name, '{"gpu_name": "sm_80"}' if name == "archive.json" else old.read(name))
    done = bare(other, library=stub)
    assert (
        done.returncode == 2 and "for sm_80, the GPU is sm_90: pack one with --gpu-name sm_90" in done.stderr
    )


@pytest.mark.parametrize("kind", ["f16", "bf16", "f32", "f64", "e4m3", "e5m2", "e8m0", "i8", "u16", "i64"])
def test_numbers_decode_as_numpy_has_them(kind: str) -> None:
    import numpy as np

    from tests.corpus.case import DTYPES

    raw = np.random.default_rng(3).integers(0, 256, 4096, np.uint8)
    if values.SIZES[kind] == 1:
        raw = np.arange(256, dtype=np.uint8)
    with np.errstate(all="ignore"):
        want = raw.view(DTYPES[kind]).astype(np.float64 if kind[0] in "efb" else DTYPES[kind])
    got = np.array(values.decode(raw.tobytes(), kind), want.dtype)
    assert np.array_equal(got, want, equal_nan=kind[0] in "efb")
    assert len(values.pattern(kind, count=100)) == 100 * values.SIZES[kind]


@pytest.mark.parametrize("got, want, tolerances, agree", [
    ([1.0], [1.0], (0, 0), True),
    ([0.0], [-0.0], (0, 0), False),
    ([0.0], [-0.0], (1e-6, 0), True),
    ([float("nan")], [float("nan")], (0, 0), True),
    ([1.0], [float("nan")], (1, 1), False),
    ([1.01], [1.0], (0.02, 0), True),
    ([1.01], [1.0], (0.001, 0), False),
    ([float("inf")], [3e38], (1, 1), False),
    ([3e38], [float("inf")], (1, 1), False),
])  # fmt: skip
def test_differences_are_judged_as_the_corpus_does(
    got: list[float], want: list[float], tolerances: tuple[float, float], agree: bool
) -> None:
    import numpy as np

    from tests.corpus.check import compare

    a, b = np.array(got, np.float32), np.array(want, np.float32)
    said = values.difference(a.tobytes(), b.tobytes(), "f32", *tolerances)
    assert (said == "") is agree
    assert (compare(a, b, *tolerances) == "") is agree


@pytest.mark.parametrize("gpu_name", ["sm_80", "sm_90"])
def test_the_peak_kernel_multiplies(gpu_name: str) -> None:
    """On the emulator: one round leaves finite sums that are not zero, two rounds twice as much."""
    import numpy as np

    from tileiras.run.emulator import launch

    ptx, spec = pack.peak_kernel(gpu_name)
    sums = []
    for rounds in (1, 2):
        out = np.zeros(256, np.float32)
        launch(ptx, "peak", 1, spec["threads"], [out, np.uint32(rounds)])
        sums.append(out)
    assert np.isfinite(sums[0]).all() and (sums[0] != 0).all()
    assert np.allclose(sums[1], 2 * sums[0], rtol=1e-3)
