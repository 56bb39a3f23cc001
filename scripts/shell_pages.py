#!/usr/bin/env python3
"""Writes share/: completion for bash, zsh and fish, and a manual page, of every command, from the commands' own tables.

`scripts/shell_pages.py` rewrites the folder; tests/unit/test_shell_pages.py compares it with the tables.
"""

from __future__ import annotations

import argparse
import importlib
import re
import sys
from pathlib import Path
from typing import NamedTuple

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY))

SUMMARIES = {
    "tileiras": "compile CUDA Tile IR bytecode or text for a GPU",
    "tileiras-build": "compile, bundle and embed tile kernels for build systems",
    "tileiras-config": "say which CUDA tools were found, where and why",
    "tileiras-cutile": "run a cuTile Python script without a GPU",
    "tileiras-nvcc": "an nvcc that also takes Tile IR",
    "tileiras-opt": "run named passes on Tile IR text",
    "tileiras-reduce": "make a failing kernel small",
    "tileiras-report": "compare reports of compiles, and make pages of them",
    "tileiras-run": "launch a tile kernel from the shell",
    "tileiras-translate": "convert Tile IR between bytecode and text",
    "tileirdisasm": "print Tile IR bytecode as text",
}
EXIT_CODES = ("0 done, 1 usage or unreadable input, 2 configuration, 3 damaged bytecode, 4 handle state, "
              "5 compilation or ptxas.")  # fmt: skip


COLOURS = ("auto", "always", "never")


class Option(NamedTuple):
    """One option: its spellings with dashes, the name of its value ("" for a switch), the values it allows."""

    names: tuple[str, ...]
    value: str = ""
    choices: tuple[str, ...] = ()
    help: str = ""
    is_joined: bool = False  # the value stands in the same word, behind "=" or at once, never in the next

    @property
    def words(self) -> list[str]:
        """A joined option with each of its values."""
        signs = {name: "=" if name.startswith("--") else "" for name in self.names}
        return [f"{name}{sign}{choice}" for name, sign in signs.items() for choice in self.choices]


class Command(NamedTuple):
    name: str
    synopsis: str
    options: list[Option]
    verbs: dict[str, tuple[str, list[Option]]] = {}
    notes: str = ""  # printed as it stands


def of_assembler() -> Command:
    from tileiras import options, settings

    allowed_by = {
        spelling: setting.values_at(settings.COMMAND)
        for setting in settings.of(settings.COMMAND)
        for spelling in setting.spellings(settings.COMMAND)
    }
    found = []
    for spelling, kind, _, text in options.FLAGS:
        allowed = allowed_by[spelling]
        name = ("-" if len(spelling) == 1 or spelling == "Werror" else "--") + spelling
        found.append(
            Option(
                (name,),
                "" if kind == "flag" else "VALUE",
                () if kind == "flag" else allowed,
                text,
                kind == "when" or name == "-O",
            )
        )
    return Command("tileiras", "[options] FILE", found)


def of_build() -> Command:
    from tileiras.tools.build import VERBS

    verbs = {}
    for verb, summary in VERBS.items():
        if verb == "test":
            text = str(importlib.import_module("tileiras.tools.kernel_test").__doc__).split("\n\n")[1]
            rows = re.findall(r"(--[a-z-]+)(?: ([\w|][^\s\]]*))?", text)
            verbs[verb] = (summary, [
                Option((name,), value and "VALUE", tuple(value.split("|")) if "|" in value else ()) for name, value in rows
            ])  # fmt: skip
            continue
        table = importlib.import_module(f"tileiras.tools.build.{verb}_verb").FLAGS
        verbs[verb] = (summary, [
            Option((flag.name,), "" if flag.kind == "switch" else flag.metavar or "VALUE", tuple(flag.choices), flag.help)
            for flag in table
        ])  # fmt: skip
    colour = Option(("--color",), "WHEN", COLOURS, "colour in messages", is_joined=True)
    shared = [Option(("--help",), help="the options"), Option(("--version",), help="the version"), colour]
    return Command("tileiras-build", "VERB [options]", shared, verbs)


def of_usage(name: str, module: str, attribute: str, synopsis: str) -> Command:
    """A command whose table is the text of its --help."""
    found = []
    for row in getattr(importlib.import_module(module), attribute).splitlines():
        if not row.startswith("  -"):
            continue
        left, _, text = row.strip().partition("  ")
        if not text:
            left, _, text = left.partition(" ")
        parts = [part.replace("[=", " ").rstrip("]").split() for part in left.strip().split(", ")]
        value = next((part[1] for part in parts if len(part) > 1), "")
        choices = tuple(value.split("|")) if "|" in value else ()
        text = text.strip().removeprefix("- ")
        if parts[0][0] == "--color":
            choices = COLOURS
        is_joined = "[=" in left
        found.append(Option(tuple(part[0] for part in parts), value, choices, text, is_joined))
    return Command(name, synopsis, found)


def of_parser(parser: argparse.ArgumentParser, synopsis: str) -> Command:
    found = []
    for action in parser._actions:
        if action.option_strings:
            value = "" if action.nargs == 0 else str(action.metavar or "VALUE").removeprefix("=")
            choices = tuple(str(choice) for choice in action.choices or ())
            is_joined = "--color" in action.option_strings
            if is_joined:
                choices = COLOURS
            found.append(Option(tuple(action.option_strings), value, choices, action.help or "", is_joined))
    return Command(parser.prog, synopsis, found, notes=parser.epilog or "")


def of_nvcc() -> Command:
    from nvcc_shim.flags import OURS, TABLE

    rows = [Option(tuple(dict.fromkeys(row[:2])), "VALUE" if row[2] else "", tuple(row[4] or ()),
                   "an option of this command" if row in OURS else "as nvcc has it") for row in (*OURS, *TABLE)]  # fmt: skip
    return Command("tileiras-nvcc", "[nvcc options] FILE...", rows)


def commands() -> list[Command]:
    """Every command of the package."""
    from tileiras.tools import cutile, run

    return [
        of_assembler(),
        of_build(),
        of_usage("tileiras-config", "tileiras.tools.config", "USAGE", "[--toolkit-root DIR] [ACTION]"),
        of_parser(cutile.build_parser(), "[options] SCRIPT [ARGUMENT ...]"),
        of_nvcc(),
        of_usage("tileiras-opt", "tileiras.tools.opt", "USAGE", "[INPUT] [-o OUTPUT] [options]"),
        of_usage("tileiras-reduce", "tileiras.tools.reduce", "USAGE", "INPUT [options] -- COMMAND... {}"),
        of_usage("tileiras-report", "tileiras.tools.report", "USAGE", "diff A B | html FILE -o FILE.html"),
        of_parser(run.build_parser(), "[options] INPUT"),
        of_usage("tileiras-translate", "tileiras.tools.translate", "USAGE", "[INPUT] [-o OUTPUT] [options]"),
        of_usage("tileirdisasm", "tileiras.tools.disasm", "OPTIONS", "[options] FILE"),
    ]


def bash(command: Command) -> str:
    def case(options: list[Option], indent: str) -> list[str]:
        lines = [f"{indent}case $option in"]
        for option in options:
            long = [name for name in option.names if name.startswith("--")]
            if option.choices and (long or not option.is_joined):
                test = "[[ -n $equals ]] && " if option.is_joined else ""
                names = long if option.is_joined else option.names
                lines.append(f"{indent}  {'|'.join(names)}) {test}words='{' '.join(option.choices)}' ;;")
        plain = [name for option in options if option.value and not option.choices for name in option.names]
        if plain:
            lines.append(f"{indent}  {'|'.join(plain)}) return ;;")
        every = [name for option in options for name in option.names]
        every += [word for option in options if option.is_joined for word in option.words if "=" not in word]
        all_names = " ".join(every)
        return [*lines, f"{indent}  *) [[ $word == -* ]] && words='{all_names}' ;;", f"{indent}esac"]

    function = "_" + command.name.replace("-", "_")
    lines = [
        f"# bash completion of {command.name}; written by scripts/shell_pages.py",
        f"{function}() {{",
        "  local word=${COMP_WORDS[COMP_CWORD]} option=${COMP_WORDS[COMP_CWORD-1]} words='' equals=''",
        "  COMPREPLY=()",
        "  if [[ $word == = ]]; then equals=1 word=''",
        "  elif [[ $option == = ]]; then equals=1 option=${COMP_WORDS[COMP_CWORD-2]}; fi",
    ]
    if command.verbs:
        lines += ["  if (( COMP_CWORD == 1 )); then",
                  f"    words='{' '.join([*command.verbs, *(name for row in command.options for name in row.names)])}'",
                  "  else", "    case ${COMP_WORDS[1]} in"]  # fmt: skip
        for verb, (_, options) in command.verbs.items():
            lines += [f"      {verb})", *case(options + command.options, " " * 8), "        ;;"]
        lines += ["    esac", "  fi"]
    else:
        lines += case(command.options, "  ")
    return "\n".join([
        *lines, "  [[ -n $words ]] && COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))", "  return 0", "}",
        f"complete -o default -F {function} {command.name}", "",
    ])  # fmt: skip


def zsh(command: Command) -> str:
    def quoted(text: str) -> str:
        return "'" + text.replace("'", "'\\''") + "'"

    def arguments(options: list[Option], indent: str) -> list[str]:
        rows = [f"{indent}_arguments \\"]
        for option in options:
            about = re.sub(r"([\[\]:\\])", r"\\\1", option.help)
            for name in option.names:
                tail = (
                    f":{option.value}:({' '.join(option.choices)})"
                    if option.choices
                    else f":{option.value}:_files"
                )
                equals = "=" if option.value and name.startswith("--") else ""
                if option.is_joined:
                    equals += "-"
                    tail = ":" * name.startswith("--") + tail  # of a long one the value may be left out
                rows.append(
                    f"{indent}  {quoted('*' + name + equals + f'[{about}]' + (tail if option.value else ''))} \\"
                )
        return [*rows, f"{indent}  '*:file:_files'"]

    lines = [f"#compdef {command.name}", "# Written by scripts/shell_pages.py."]
    if not command.verbs:
        return "\n".join([*lines, *arguments(command.options, ""), ""])
    lines += ["if (( CURRENT == 2 )); then", "  local -a verbs=("]
    lines += [
        f"    {quoted(verb + ':' + summary.replace(':', ' -'))}"
        for verb, (summary, _) in command.verbs.items()
    ]
    lines += [
        "  )",
        "  _describe verb verbs",
        "  return",
        "fi",
        "local verb=$words[2]",
        "shift words",
        "(( CURRENT-- ))",
    ]
    lines.append("case $verb in")
    for verb, (_, options) in command.verbs.items():
        lines += [f"  {verb})", *arguments(options + command.options, "    "), "    ;;"]
    return "\n".join([*lines, "esac", ""])


def fish(command: Command) -> str:
    def quoted(text: str) -> str:
        return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"

    def when(*tests: str) -> str:
        return f" -n {quoted('; and '.join(tests))}" if any(tests) else ""

    def values(option: Option, *tests: str) -> str:
        """Where the word begins with the option: with each of its values."""
        begins = f"string match -q -- {option.names[0]}'*' (commandline -ct)"
        tests = (*filter(None, tests), begins)
        return f"complete -c {command.name}{when(*tests)} -f -a {quoted(' '.join(option.words))}"

    def row(option: Option, test: str = "") -> str:
        words = [f"complete -c {command.name}{when(test)}"]
        for name in option.names:
            kind = (
                "-l" if name.startswith("--") else "-s" if len(name) == 2 and not option.is_joined else "-o"
            )
            words.append(f"{kind} {name.lstrip('-')}")
        if option.value and not option.is_joined:
            words.append(f"-x -a {quoted(' '.join(option.choices))}" if option.choices else "-r")
        text = " ".join([*words, *([f"-d {quoted(option.help)}"] if option.help else [])])
        return f"{text}\n{values(option, test)}" if option.is_joined else text

    lines = [f"# fish completion of {command.name}; written by scripts/shell_pages.py"]
    for verb, (summary, options) in command.verbs.items():
        lines.append(f"complete -c {command.name} -f -n __fish_use_subcommand -a {verb} -d {quoted(summary)}")
        lines += [row(option, f"__fish_seen_subcommand_from {verb}") for option in options]
    return "\n".join([*lines, *map(row, command.options), ""])


def roff(text: str) -> str:
    """Text for a line of a manual page."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return "\n".join("\\&" + line if line[:1] in (".", "'") else line for line in text.split("\n"))


def manual(command: Command) -> str:
    def rows(options: list[Option]) -> list[str]:
        lines = []
        for option in options:
            names = ", ".join(f"\\fB{roff(name)}\\fR" for name in option.names)
            value = (
                f"\\fI{roff('|'.join(option.choices) if 0 < len(option.choices) < 6 else option.value)}\\fR"
            )
            if not option.is_joined:
                value = " " + value
            elif names.startswith("\\fB" + roff("--")):
                value = f"[={value}]"
            lines += [".TP", names + (value if option.value else ""), roff(option.help) or "\\&"]
            if option.value and len(option.choices) >= 6:
                lines.append(roff(f"One of {', '.join(option.choices)}."))
        return lines

    lines = [
        f'.TH {roff(command.name.upper())} 1 "" "tileiras" "User Commands"', ".SH NAME",
        f"{roff(command.name)} \\- {roff(SUMMARIES[command.name])}", ".SH SYNOPSIS",
        f".B {roff(command.name)}", roff(command.synopsis),
    ]  # fmt: skip
    if command.name == "tileiras-nvcc":
        lines += [
            ".SH DESCRIPTION",
            roff("Takes the command line of nvcc; Tile IR files stand beside CUDA C++ among its inputs."),
        ]
    for verb, (summary, options) in command.verbs.items():
        lines += [
            f".SH {roff(verb.upper())}",
            f"\\fB{roff(command.name)} {verb}\\fR: {roff(summary)}.",
            *rows(options),
        ]
    lines += [".SH OPTIONS", *rows(command.options)]
    if command.notes:
        lines += [".SH NOTES", ".nf", roff(command.notes.rstrip()), ".fi"]
    if "exit codes" not in command.notes:
        lines += [".SH EXIT STATUS", EXIT_CODES]
    others = ", ".join(f"\\fB{roff(name)}\\fR(1)" for name in SUMMARIES if name != command.name)
    return "\n".join([*lines, ".SH SEE ALSO", others, ""])


def pages() -> dict[str, str]:
    """Path below share/ -> text, of every file."""
    found = {}
    for command in commands():
        found[f"bash-completion/completions/{command.name}"] = bash(command)
        found[f"zsh/site-functions/_{command.name}"] = zsh(command)
        found[f"fish/vendor_completions.d/{command.name}.fish"] = fish(command)
        found[f"man/man1/{command.name}.1"] = manual(command)
    return found


def main() -> int:
    for name, text in pages().items():
        path = REPOSITORY / "share" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
