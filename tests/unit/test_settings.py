"""The table of options: what is written from it is up to date, and every front takes what it says, and nothing else."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from tileiras.setuptools_ext import options as setuptools_options

from tests.unit.test_opt import NOOP
from tileiras import cli, settings
from tileiras.options import FLAGS, Options
from tileiras.settings import (
    BAZEL,
    BUILD,
    CMAKE,
    COMMAND,
    FRONTS,
    MANY,
    SETTINGS,
    SETUPTOOLS,
    SWITCH,
    Setting,
    of,
)
from tileiras.tools.build import compile_verb
from tileiras.tools.build.arguments import UsageError, parse

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "scripts"))
import option_pages  # noqa: E402

ODD = "no-such-value"


def with_values(front: str) -> list[Any]:
    """The options of a front that take some values only, each once."""
    found = [setting for setting in of(front) if setting.values_at(front)]
    return [pytest.param(setting, id=setting.name) for setting in found]


@pytest.mark.parametrize("name", option_pages.pages())
def test_what_is_written_from_the_table_is_up_to_date(name: str) -> None:
    text = option_pages.pages()[name]
    assert (REPOSITORY / name).read_text() == text, "write it again: scripts/option_pages.py"


def test_rows_make_sense() -> None:
    assert len({setting.name for setting in SETTINGS}) == len(SETTINGS)
    for front in FRONTS:
        spelled = [spelling for setting in of(front) for spelling in setting.spellings(front)]
        assert len(set(spelled)) == len(spelled), front
    for setting in SETTINGS:
        assert set(setting.spelled) <= set(FRONTS) and setting.spelled and setting.help
        fronts = {*setting.kinds, *setting.taken, *setting.defaults, *setting.said} - {""}
        assert fronts <= set(setting.spelled), setting.name
        for front in setting.spelled:
            values, default = setting.values_at(front), setting.default_at(front)
            words = default.split(", ") if setting.kind_at(front) == MANY else [default]
            assert not default or not values or set(words) <= set(values), (setting.name, front)


# ---- the command


def test_the_command_has_the_options_of_the_table() -> None:
    rows = [row[0] for row in FLAGS]
    assert rows == [spelling for setting in of(COMMAND) for spelling in setting.spellings(COMMAND)]
    text = cli.help_text()
    for spelling in rows:
        assert re.search(rf"^  -{{1,2}}{re.escape(spelling)}[=\[ ]", text, re.M), spelling


def test_defaults_of_a_compile_are_those_of_the_table() -> None:
    made = Options()
    for setting in of(COMMAND):
        default = setting.default_at(COMMAND)
        if default and hasattr(made, setting.field):
            assert str(getattr(made, setting.field)) == default, setting.name


@pytest.mark.parametrize("setting", with_values(COMMAND))
def test_the_command_takes_the_values_of_the_table(setting: Setting, tmp_path: Path) -> None:
    source = tmp_path / "k.mlir"
    source.write_text(NOOP.replace("module attributes {nv_tileaa.compute_capability = 90 : i32}", "module"))
    outputs = ["-o", str(tmp_path / "k.out"), "--remarks-output-file", str(tmp_path / "remarks.yaml")]
    for spelling in setting.spellings(COMMAND):
        for value in (*setting.values_at(COMMAND), ODD):
            words = [] if setting.name == "gpu-name" else ["--gpu-name=sm_90"]
            words += [] if setting.name == "emit" or value == "memcheck" else ["--emit=ptx"]
            words += ["--launch-abi=simt"] if setting.name == "tensor-maps" else []
            dashes = "-" if len(spelling) == 1 else "--"
            code = cli.main([str(source), *words, *outputs, f"{dashes}{spelling}={value}"])
            assert (code == 0) == (value != ODD), (spelling, value)


# ---- tileiras-build


def test_the_build_command_has_the_options_of_the_table() -> None:
    named = [name.lstrip("-") for name in (flag.name for flag in compile_verb.FLAGS)]
    assert named == [spelling for setting in of(BUILD) for spelling in setting.spellings(BUILD)]


@pytest.mark.parametrize("setting", with_values(BUILD))
def test_the_build_command_takes_the_values_of_the_table(setting: Setting) -> None:
    (spelling,) = setting.spellings(BUILD)
    key = spelling.replace("-", "_")
    for value in setting.values_at(BUILD):
        assert getattr(parse(compile_verb.FLAGS, [f"--{spelling}={value}"]), key) == value
    with pytest.raises(UsageError, match=ODD):
        parse(compile_verb.FLAGS, [f"--{spelling}={ODD}"])


# ---- setuptools


def test_setuptools_has_the_options_of_the_table() -> None:
    assert [option.name for option in setuptools_options.OPTIONS] == [
        row.spelled[SETUPTOOLS] for row in of(SETUPTOOLS)
    ]
    schema = json.loads((REPOSITORY / "setuptools_ext" / "tileiras.schema.json").read_text())
    for row in of(SETUPTOOLS):
        assert f'"{row.spelled[SETUPTOOLS].replace("_", "-")}"' in json.dumps(schema)
    flags = {option.name: option.flag for option in setuptools_options.OPTIONS if option.flag}
    known = {f"--{spelling}" for setting in of(BUILD) for spelling in setting.spellings(BUILD)}
    assert set(flags.values()) <= known


@pytest.mark.parametrize("setting", with_values(SETUPTOOLS))
def test_setuptools_takes_the_values_of_the_table(setting: Setting) -> None:
    option = setuptools_options.BY_NAME[setting.spelled[SETUPTOOLS]]
    is_number, is_list = option.kind == setuptools_options.NUMBER, option.kind == setuptools_options.WORDS
    for value in setting.values_at(SETUPTOOLS):
        given: Any = int(value) if is_number else [value] if is_list else value
        assert setuptools_options.check_value(option, given, "TileExtension") == given
    with pytest.raises(setuptools_options.OptionError):
        setuptools_options.check_value(
            option, 99 if is_number else [ODD] if is_list else ODD, "TileExtension"
        )


# ---- Bazel


class Attributes:
    """attr.* of Starlark: remembers what it was called with."""

    def __getattr__(self, kind: str) -> Any:
        return lambda **fields: (kind, fields)


def test_bazel_has_the_options_and_values_of_the_table() -> None:
    names: dict[str, Any] = {"attr": Attributes()}
    exec((REPOSITORY / "bazel" / "private" / "options.bzl").read_text(), names)
    attributes = {**names["CODE_OPTIONS"], **names["LIBRARY_OPTIONS"]}
    assert sorted(attributes) == sorted(row.spelled[BAZEL] for row in of(BAZEL))
    for row in of(BAZEL):
        kind, fields = attributes[row.spelled[BAZEL]]
        if kind == "string_list":
            assert row.kind_at(BAZEL) == MANY
            continue
        assert (kind == "bool") == (row.kind_at(BAZEL) == SWITCH)
        taken = [str(value) for value in fields.get("values", []) if value not in ("", -1)]
        assert taken == list(row.values_at(BAZEL)), row.name
    assert names["FORMATS"] == list(settings.BY_NAME["formats"].values_at(BAZEL))


# ---- what people read


def documented(path: str, words: list[str]) -> list[str]:
    text = (REPOSITORY / path).read_text()
    return [word for word in words if not re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", text)]


def test_every_front_documents_its_options() -> None:
    assert not documented("cmake/add_tile_kernel.cmake", [row.spelled[CMAKE] for row in of(CMAKE)])
    assert not documented("docs/setuptools.md", [row.spelled[SETUPTOOLS] for row in of(SETUPTOOLS)])
    assert not documented("docs/bazel.md", [row.spelled[BAZEL] for row in of(BAZEL)])
    assert not documented(
        "docs/build-command.md", [f"--{row.spelled[BUILD]}" for row in of(BUILD) if row.name != "output"]
    )
