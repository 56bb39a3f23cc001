"""The options of a Tile source: keyword, pyproject key, type, and the words for `tileiras-build`, from `tileiras/settings.py`.

They feed the keywords of TileExtension and TileKernels, the keys of [tool.tileiras], the JSON schema and the
command lines, so that none of them can have an option that another lacks.
"""

from __future__ import annotations

from tileiras import settings
from tileiras.diag import Catalogue
from tileiras.settings import BUILD, MANY, SETUPTOOLS, SWITCH
from tileiras.terminal import told
from tileiras.tools.config import BYTECODE_VERSIONS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from tileiras.settings import Setting

diags = Catalogue(f"{__package__}.diags")

TEXT, NUMBER, FLAG, WORDS, SIZE = "string", "integer", "boolean", "array", "size"


class Option:
    """One row. `flag` is the word of `tileiras-build compile`, "" where another command takes the value."""

    __slots__ = ("choices", "flag", "help", "kind", "name")

    def __init__(self, name: str, kind: str, flag: str, help: str, choices: tuple[str, ...] = ()) -> None:
        self.name, self.kind, self.flag, self.help, self.choices = name, kind, flag, help, choices

    @property
    def key(self) -> str:
        """The name in pyproject.toml."""
        return self.name.replace("_", "-")


_KINDS = {SWITCH: FLAG, settings.NUMBER: NUMBER, settings.SIZE: SIZE, MANY: WORDS}


def _option(setting: Setting) -> Option:
    (name,) = setting.spellings(SETUPTOOLS)
    # Architectures are one command each.
    flag = "".join(f"--{spelling}" for spelling in setting.spellings(BUILD) if setting.name != "archs")
    choices = BYTECODE_VERSIONS if setting.name == "bytecode-version" else setting.values_at(SETUPTOOLS)
    return Option(
        name, _KINDS.get(setting.kind_at(SETUPTOOLS), TEXT), flag, setting.help_at(SETUPTOOLS), choices
    )


OPTIONS: tuple[Option, ...] = tuple(map(_option, settings.of(SETUPTOOLS)))
FORMATS = settings.BY_NAME["formats"].values_at(SETUPTOOLS)
BY_NAME = {option.name: option for option in OPTIONS}


class OptionError(Exception):
    """A value of the wrong kind; the text names keyword and value."""


def check_value(option: Option, value: Any, where: str) -> Any:
    """Returns the value in its canonical form. Errors: OptionError."""
    if value is None:
        return None
    what = f"{where}: {option.key if where.startswith('[') else option.name}"
    if option.kind == WORDS:
        if isinstance(value, str):
            value = [value]
        if not isinstance(value, (list, tuple)) or not all(isinstance(one, str) for one in value):
            raise OptionError(told(diags.LIST_OF_STRINGS, what=what, value=value))
        value = list(value)
    elif option.kind == FLAG:
        if not isinstance(value, bool):
            raise OptionError(told(diags.TRUE_OR_FALSE, what=what, value=value))
    elif option.kind == NUMBER:
        if isinstance(value, bool) or not isinstance(value, int):
            raise OptionError(told(diags.WHOLE_NUMBER, what=what, value=value))
    elif option.kind == SIZE:
        if isinstance(value, bool) or not isinstance(value, (int, str)):
            raise OptionError(told(diags.SIZE, what=what, value=value))
    elif not isinstance(value, str):
        raise OptionError(told(diags.STRING, what=what, value=value))
    for one in value if option.kind == WORDS else [value]:
        if option.choices and str(one) not in option.choices:
            raise OptionError(told(diags.CHOICE, what=what, value=one, known=", ".join(option.choices)))
    return value


def compile_words(values: Mapping[str, Any]) -> list[str]:
    """Returns the options of `tileiras-build compile` for these values, in the order of the table."""
    words: list[str] = []
    for option in OPTIONS:
        value = values.get(option.name)
        if not option.flag or value is None or value is False:
            continue
        if option.kind == FLAG:
            words.append(option.flag)
        else:
            # With `=`, because a value may begin with a dash.
            words += [f"{option.flag}={one}" for one in (value if option.kind == WORDS else [value])]
    return words


def schema_of(option: Option) -> dict[str, Any]:
    """Returns the JSON schema of one option."""
    one: dict[str, Any] = {"type": "string"}
    if option.choices:
        one["enum"] = list(option.choices)
    number: dict[str, Any] = {"type": "integer"}
    if option.kind == NUMBER and option.choices:
        number["enum"] = [*map(int, option.choices)]
    kinds: dict[str, dict[str, Any]] = {
        TEXT: one, NUMBER: number, FLAG: {"type": "boolean"},
        SIZE: {"anyOf": [{"type": "integer"}, {"type": "string", "pattern": "^[0-9]+[KkMm]?$"}]},
        WORDS: {"anyOf": [one, {"type": "array", "items": one}]},
    }  # fmt: skip
    return {"description": option.help, **kinds[option.kind]}


def pick(values: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    return {name: values[name] for name in names if values.get(name) is not None}
