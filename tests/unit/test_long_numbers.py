"""Numbers that no type, file or machine has, wherever a command takes one: an error in a line, never a traceback."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from contract.kit import NOOP

LONG = "9" * 5000


@pytest.mark.parametrize(
    "value",
    [
        f"i32:{LONG}", "i32:1.5", "i32:inf", "i32:nan", "i32:4294967296", "i32:-2147483649", "uint8:300", "int8:200", LONG,
        f"0x{LONG}", f"zeros:f32:{LONG}", "zeros:f32:9999999x99999999x999", "arange:f32:9999999999999", "random:f32:4:-1",
        f"random:f32:4:{LONG}", "full:i32:4:nan", "full:i8:4:300", "full:i32:4:1.5", f"full:f32:4:{LONG}",
        f"zeros:f32:{'9' * 300}", f"ones:f32:{'x'.join(['1'] * 70)}", f"zeros:{LONG}:4", f"zeros:({LONG},)f4:4", "zeros:O:4",
        "full:S5:4:1", "arange:U3:4", "ones:M8[s]:4", "zeros:f4,i4:4", "zeros:3f4:4", "O:1", "3f4:1",
    ],
    ids=lambda value: value[:24],
)  # fmt: skip
def test_values_that_nothing_holds(value: str) -> None:
    pytest.importorskip("numpy")
    from tileiras.diag import shortened
    from tileiras.tools.run_values import Usage, parse_value

    with pytest.raises(Usage) as caught:
        parse_value(value, {})
    assert len(shortened(str(caught.value))) < 600


def test_values_that_fit() -> None:
    np = pytest.importorskip("numpy")
    from tileiras.tools.run_values import parse_value

    assert parse_value("i32:4294967295", {}).value == 2**32 - 1 and parse_value("i32:2.0", {}).value == 2
    assert parse_value("full:i32:2:4294967295", {}).tolist() == [-1, -1]
    assert parse_value("full:uint8:2:255", {}).dtype == np.uint8 and parse_value("uint8:255", {}).value == 255
    assert (
        parse_value("full:f32:1:1e30", {})[0] == np.float32(1e30)
        and parse_value("f32:1e400", {}).value == np.inf
    )


@pytest.mark.parametrize("flag", ["--rtol", "--atol"])
@pytest.mark.parametrize("value", [LONG, "inf", "nan", "-1"], ids=lambda value: value[:8])
def test_tolerances_that_nothing_exceeds(
    flag: str, value: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("numpy")
    from tileiras.tools import kernel_test, run

    with pytest.raises(SystemExit) as caught:
        run.main([str(tmp_path / "k.tileir"), f"{flag}={value}"])
    assert caught.value.code == 1
    with pytest.raises(kernel_test.TestError):
        kernel_test._number({flag: value}, flag)
    capsys.readouterr()


@pytest.mark.parametrize("word", [f"f32[{LONG}]", "f32[99999999]", f"f32[1]:{LONG}", f"={LONG}", "f32[\u00b2]"],
                         ids=lambda word: word[:14])  # fmt: skip
def test_signatures(word: str) -> None:
    from tileiras.tools.build.command import Failed
    from tileiras.tools.build.export_verb import _parameter

    with pytest.raises(Failed) as caught:
        _parameter(word, word, object(), object(), "i32")
    assert caught.value.exit_code == 1


def test_kernels_whose_names_look_mangled() -> None:
    from tileiras.tools.build.table import plain_name

    assert plain_name("_Z4vaddPf") == "vadd" and plain_name("_ZN2ns4vaddEPf") == "vadd"
    for symbol in (f"_Z{LONG}", "_Z5", f"_ZN{LONG}x", "_Z99abc"):
        assert plain_name(symbol) in (symbol, "abc", "x")


def test_expected_diagnostics(tmp_path: Path) -> None:
    from tileiras.tools.expect import compare

    text = (
        f"// expected-error@+{LONG} {{{{x}}}}\n// expected-note {LONG} {{{{y}}}}\n"
        "// expected-error-re {{ {{(}} }}\n// expected-error-re {{ {{x{99999999999}}} }}\n"
    )
    problems = compare(text, 0, [])
    assert len(problems) >= 4


def test_words_of_nvcc() -> None:
    from nvcc_shim.arch import parse_name
    from nvcc_shim.argv import Usage, parse_line
    from nvcc_shim.flags import index_flags
    from nvcc_shim.plan import _threads

    for name in (f"sm_{LONG}", "sm_\u00b2", "sm_\u0669\u0660", "sm_090000"):
        with pytest.raises(Usage, match="Unsupported gpu architecture"):
            parse_name(name)
    assert parse_name("sm_90a") == ("sm", 90, "a")
    for count in (LONG, "\u00b2", "-1", "1e3"):
        with pytest.raises(Usage, match=re.escape("expected a number")):
            _threads(parse_line(["-c", "a.tileir", f"--threads={count}"], {}, index_flags()))


@pytest.mark.parametrize("jobs", [LONG, "\u00b2", "-3", "0", "many"], ids=lambda jobs: jobs[:8])
def test_jobs_of_setuptools(jobs: str) -> None:
    from setuptools_ext.jobs import count_jobs

    assert count_jobs(None, {"TILEIRAS_JOBS": jobs, "MAX_JOBS": "3"}) == 3


@pytest.mark.skipif(sys.version_info < (3, 11), reason="this Python reads numbers of any length")
def test_the_limit_is_real() -> None:
    with pytest.raises(ValueError, match="digits"):
        int(LONG)
    assert LONG not in NOOP
