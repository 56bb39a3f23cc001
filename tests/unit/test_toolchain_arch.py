"""Every spelling of an architecture list; what is dropped, what is refused."""

from __future__ import annotations

import peers  # noqa: F401  (keeps the import order of the suite the same everywhere)
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tileiras.archs import NUMBERS, NVIDIA_NUMBERS
from tileiras.diag import CompileError
from tileiras.toolchain import arch as module
from tileiras.toolchain.arch import parse_arch, parse_archs


def names(text: str, supported: tuple[int, ...] = NVIDIA_NUMBERS) -> list[str]:
    archs, warnings = parse_archs(text, supported)
    assert not warnings
    return [str(arch) for arch in archs]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("100", "sm_100 compute_100"),
        ("sm_100", "sm_100"),
        ("compute_100", "compute_100"),
        ("100-real", "sm_100"),
        ("100-virtual", "compute_100"),
        ("10.0", "sm_100"),
        ("10.0+PTX", "sm_100 compute_100"),
        ("12.1", "sm_121"),
        ("9.0a", "sm_90a"),
        ("9.0a+PTX", "sm_90a compute_90a"),
        ("90a-real;100f-virtual", "sm_90a compute_100f"),
        ("8.0;8.6+PTX", "sm_80 sm_86 compute_86"),
        ("8.0 8.6+PTX", "sm_80 sm_86 compute_86"),
        ("sm_90,sm_100", "sm_90 sm_100"),
        ("90;90;sm_90", "sm_90 compute_90"),
        ("compute_80:sm_80,sm_86;compute_90:compute_90,sm_90", "sm_80 sm_86 compute_90 sm_90"),
    ],
)
def test_spellings(text: str, expected: str) -> None:
    assert names(text) == expected.split()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("all-major", "sm_80 sm_90 sm_100 sm_120 compute_120"),
        ("all", "sm_80 sm_86 sm_90 sm_100 sm_103 sm_120 sm_121 compute_120"),
    ],
)
def test_groups(text: str, expected: str) -> None:
    assert names(text, (80, 86, 90, 100, 103, 120, 121)) == expected.split()


@pytest.mark.parametrize(
    "text",
    ["sm_66", "80a", "90f", "9", "1000", "sm100", "sm_", "10.00", "1.00", "-real", "100-fast", "sm_90-real",
     "nativ", "compute_80:", "sm_80:sm_80", "banana:sm_80", "٩٠", "010", "10.0+ptx+PTX"],
)  # fmt: skip
def test_no_architecture(text: str) -> None:
    with pytest.raises(CompileError) as caught:
        parse_archs(text)
    assert caught.value.exit_code == 2
    assert caught.value.diagnostics[0].code == "TC-0301"


@pytest.mark.parametrize("text", ["", " ; ,", "OFF", "false"])
def test_empty_is_an_error(text: str) -> None:
    with pytest.raises(CompileError) as caught:
        parse_archs(text)
    assert (caught.value.exit_code, caught.value.diagnostics[0].code) == (2, "TC-0304")


def test_unsupported_are_dropped_with_one_warning() -> None:
    archs, warnings = parse_archs("52;70;75;100-real", NVIDIA_NUMBERS)
    assert [str(arch) for arch in archs] == ["sm_100"]
    (warning,) = warnings
    assert warning.text.endswith("sm_52 sm_70 sm_75")
    archs, warnings = parse_archs("75;100-real", NUMBERS)
    assert [str(arch) for arch in archs] == ["sm_75", "compute_75", "sm_100"]
    assert warnings == []


def test_nothing_left_is_an_error() -> None:
    with pytest.raises(CompileError) as caught:
        parse_archs("75", NVIDIA_NUMBERS)  # CMake's default
    assert caught.value.exit_code == 2
    assert "sm_80" in str(caught.value)


def test_native(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "native_archs", lambda: [90, 100])
    assert names("native") == ["sm_90", "sm_100"]
    monkeypatch.setattr(module, "native_archs", list)
    for text in ("native", "No CUDA devices found.-real"):
        with pytest.raises(CompileError) as caught:
            parse_archs(text)
        assert caught.value.diagnostics[0].code == "TC-0305"


def test_one_architecture() -> None:
    assert str(parse_arch("sm_90a")) == "sm_90a"
    assert parse_arch("90").gpu_name == "sm_90"
    with pytest.raises(CompileError):
        parse_arch("80;90")


ARCH = st.builds(
    lambda number, suffix: (number, suffix if number >= (100 if suffix == "f" else 90) else ""),
    st.sampled_from(NVIDIA_NUMBERS),
    st.sampled_from(["", "a", "f"]),
)
SPELLINGS = {
    "sm_{n}{s}": ("sm",),
    "compute_{n}{s}": ("compute",),
    "{n}{s}": ("sm", "compute"),
    "{n}{s}-real": ("sm",),
    "{n}{s}-virtual": ("compute",),
    "{M}.{m}{s}": ("sm",),
    "{M}.{m}{s}+PTX": ("sm", "compute"),
}


@given(
    st.lists(st.tuples(ARCH, st.sampled_from(sorted(SPELLINGS))), min_size=1, max_size=8),
    st.sampled_from([";", ",", " ", " ; "]),
)
def test_any_list_means_the_union_of_its_words(
    rows: list[tuple[tuple[int, str], str]], separator: str
) -> None:
    words, expected = [], []
    for (number, suffix), spelling in rows:
        words.append(spelling.format(n=number, s=suffix, M=number // 10, m=number % 10))
        expected += [f"{kind}_{number}{suffix}" for kind in SPELLINGS[spelling]]
    assert names(separator.join(words)) == list(dict.fromkeys(expected))


@given(st.text(max_size=20))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        archs, _ = parse_archs(text)
    except CompileError as error:
        assert error.exit_code == 2
    else:
        assert archs
        assert [str(a) for a in parse_archs(";".join(map(str, archs)))[0]] == [str(a) for a in archs]
