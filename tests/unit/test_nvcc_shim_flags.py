"""The shim's option table against what every nvcc says about itself, and the reading of a command line."""

from __future__ import annotations

import subprocess

import peers
import pytest
from build_support import map_checkout

map_checkout()
from tileiras.nvcc_shim import argv, flags  # noqa: E402


def test_table_is_sorted_and_spellings_are_unique() -> None:
    longs = [row[0] for row in flags.TABLE]
    assert longs == sorted(longs)
    shorts = [row[1] for row in flags.TABLE + flags.OURS]
    assert len(set(shorts)) == len(shorts)


@pytest.mark.parametrize("release", ["13.1", "13.4", pytest.param("13.5", marks=pytest.mark.full)])
def test_table_covers_the_help_of(release: str) -> None:
    nvcc = peers.require("nvcc", release)
    text = subprocess.run([nvcc, "--help"], capture_output=True, text=True, check=True).stdout
    rows = flags.parse_help(text)
    assert len(rows) > 100
    index = flags.index_flags()
    silent = {"--dependency-output", "--qpp-config"}  # take a value that the help does not mention
    for long, short, value in rows:
        assert long in index, long
        assert index[long].short == short
        assert index[long].value == value or long in silent, long


def test_learned_options_of_a_newer_nvcc_split_the_line_rightly() -> None:
    rows = flags.parse_help("--from-the-future <thing>              (-fut)                \n        Text.\n")
    assert rows == [("--from-the-future", "-fut", flags.ONE)]
    line = argv.parse_line(["-fut", "k.tileir", "a.cu"], {}, flags.index_flags(rows))
    assert [item.values[0] for item in line.inputs()] == ["a.cu"]


def values(words: list[str], long: str) -> list[str]:
    return argv.parse_line(words, {}).all(long)


@pytest.mark.parametrize(
    ("words", "long", "expected"),
    [
        (["-I", "a,b"], "--include-path", ["a", "b"]),
        (["-Ia"], "--include-path", ["a"]),
        (["-I=a"], "--include-path", ["a"]),
        (["--include-path", "a"], "--include-path", ["a"]),
        (["-Xtileiras", "-O1,--lineinfo"], "--tileiras-options", ["-O1", "--lineinfo"]),
        (["-Xtileiras=-O1", "--tileiras-options=--lineinfo"], "--tileiras-options", ["-O1", "--lineinfo"]),
        (["-Xcompiler", '"-Wl,a",-b'], "--compiler-options", ["-Wl,a", "-b"]),
        (["-Xcompiler", "-Wl\\,a,-b"], "--compiler-options", ["-Wl,a", "-b"]),
        (["-DEBUG"], "--define-macro", ["EBUG"]),
        (["-gencode", "arch=compute_90,code=[sm_90,compute_90]"], "--generate-code",
         ["arch=compute_90,code=[sm_90,compute_90]"]),
        (["-t4"], "--threads", ["4"]),
        (["-O", "2"], "--optimize", ["2"]),
    ],
)  # fmt: skip
def test_values(words: list[str], long: str, expected: list[str]) -> None:
    assert values([*words, "k.tileir"], long) == expected


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["-o"], "argument expected after '-o'"),
        (["-w=1"], "no argument expected after '-w'"),
        (["-x", "foo"], "Value 'foo' is not defined for option 'x'"),
        (["-rdc", "maybe"], "'maybe': expected true or false"),
        (["-optf", "no-such-file"], "Could not open options file 'no-such-file'"),
        (["-std=c++99"], "Value 'c++99' is not defined for option 'std'"),
    ],
)
def test_messages_are_nvccs_own(words: list[str], message: str) -> None:
    with pytest.raises(argv.Usage) as caught:
        argv.parse_line(words, {})
    assert str(caught.value) == message
    nvcc = peers.require("nvcc", "13.4")
    done = subprocess.run([nvcc, "--dryrun", *words], capture_output=True, text=True)
    assert done.stderr.splitlines()[-1] == f"nvcc fatal   : {message}"
    assert done.returncode == 1


def test_unknown_options_stay_whole_words() -> None:
    line = argv.parse_line(["-Wall", "--tile_only", "-ox", "-m32x", "k.tileir"], {})
    assert line.unknown() == ["-Wall", "--tile_only", "-ox", "-m32x"]


def test_an_old_nvcc_must_not_read_tilebc_as_threads() -> None:
    line = argv.parse_line(["-tilebc", "k.tileir"], {})
    assert line.has("--tilebc") and not line.has("--threads")


def test_environment_flags_come_before_and_after_without_quotes() -> None:
    line = argv.parse_line(["k.tileir"], {"NVCC_PREPEND_FLAGS": '-DA="x y"', "NVCC_APPEND_FLAGS": "-O2"})
    assert [item.words[0] for item in line.items] == ['-DA="x', 'y"', "k.tileir", "-O2"]


def test_options_files_nest_and_honour_quotes() -> None:
    files = {"a": '-I "x y" -optf b\n', "b": '-D"Q R" k\\ l.tileir # no comment\n'}
    line = argv.parse_line(["-optf=a"], {}, read=files.__getitem__)
    assert line.all("--include-path") == ["x y"]
    assert line.all("--define-macro") == ["Q R"]
    assert [item.values[0] for item in line.inputs()] == ["k l.tileir", "#", "no", "comment"]


def test_a_single_quote_is_a_letter_in_an_options_file() -> None:
    """As nvcc reads it: `-DX='a b'` are two words there."""
    assert argv.split_file("-DX='a b' -DY=it's -DZ=\"c'd e\"") == ["-DX='a", "b'", "-DY=it's", "-DZ=c'd e"]
    with pytest.raises(argv.Usage, match="Stray"):
        argv.split_file('-DX="a')


def test_a_level_that_is_no_number_is_nobodys_option() -> None:
    with pytest.raises(argv.Usage, match="'s': expected a number"):
        argv.parse_line(["-forward-unknown-to-host-compiler", "-Os", "-c", "k.tileir"], {})


def test_an_options_file_that_includes_itself_is_an_error() -> None:
    with pytest.raises(argv.Usage, match="includes itself"):
        argv.parse_line(["-optf", "a"], {}, read=lambda name: "-optf a")


def test_the_value_of_an_option_is_never_an_options_file() -> None:
    line = argv.parse_line(["-o", "-optf", "k.tileir"], {})
    assert line.one("--output-file") == "-optf"


def test_redefinition_warns_once_and_the_last_counts() -> None:
    line = argv.parse_line(["-o", "a", "-o", "b", "-o", "b"], {})
    assert line.one("--output-file") == "b"
    assert line.warnings == [
        "incompatible redefinition for option 'output-file', the last value of this option was used"
    ]


@pytest.mark.parametrize(
    ("name", "head", "expected"),
    [
        ("k.tileir", b"", True),
        ("k.cu", b"\x7fTileIR\x00\x0d", True),
        ("noext", b"\x7fTileIR\x00\x0d", True),
        ("k.mlir", b"cuda_tile.module @m {", True),
        ("k.mlir", b"// comment\n\n#alias = 3\ncuda_tile.module @m {", True),
        ("k.mlir", b"module {\n  cuda_tile.module @m {", True),
        ("k.cu", b"// cuda_tile.module\n__global__ void k() {}", False),
        ("k.cu", b"#include <x>\ncuda_tile.module", False),
        ("k.cu", b"#define A = cuda_tile\nint x;", False),
        ("k.o", b"\x7fTileIR\x00", False),
        ("-", b"\x7fTileIR\x00", False),
        ("mod.cu", b"module export;", False),
    ],
)
def test_content_decides(name: str, head: bytes, expected: bool) -> None:
    assert argv.is_tile_input(name, lambda path: head) is expected
