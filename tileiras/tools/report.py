"""``tileiras-report``: compares reports, and makes pages of their data.

    tileiras-report diff before.html after.html
    tileiras-report html report.json -o report.html

Reports are what `--report=FILE` of the other commands writes; either form will do.
"""

from __future__ import annotations

import sys

from tileiras.diag import Catalogue, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

diags = Catalogue("tileiras.tools.diags")

NAME = "tileiras-report"
USAGE = """\
usage: tileiras-report diff A B [--json]
       tileiras-report html FILE -o FILE.html

  diff                what changed from report A to report B: resources, loops, accesses, the model, findings
  html                the page of a report that was written as data
  -o, --output FILE   what to write
  --json              differences as JSON
  --color[=WHEN]      colour in messages: auto, always, never
  --diagnostic-codes  name the code of an error in a last note; a terminal always has it
  --version           print the version of this program
  --help              print this text

Reports are written by --report=FILE.html or FILE.json. Exit codes: 0 done, with or without differences, 1 usage or an
unreadable file, 2 a report of another schema, or an output that cannot be written."""
EXIT_USAGE = 1


def main(argv: Sequence[str] | None = None) -> int:
    """The exit status."""
    from tileiras.terminal import until_broken_pipe

    return until_broken_pipe(_main, argv)


def _main(argv: Sequence[str] | None) -> int:
    from tileiras.outputs import OutputError
    from tileiras.report.html import NoReport
    from tileiras.terminal import refuse, take_words

    try:
        return run(take_words(sys.argv[1:] if argv is None else argv, NAME))
    except UsageError as error:
        return refuse(error, NAME, f"\n{USAGE}")
    except (NoReport, OutputError) as error:
        return refuse(error, NAME)


def run(words: list[str]) -> int:
    if "--help" in words or "-h" in words:
        sys.stdout.write(USAGE + "\n")
        return 0
    if "--version" in words:
        from tileiras.version import __version__

        sys.stdout.write(f"{NAME} {__version__}\n")
        return 0
    verb, files, output, as_json = _parse(words)
    if verb == "diff":
        if len(files) != 2 or output:
            raise UsageError(diags.REP_DIFF_TWO)
        from tileiras.report import diff

        changes = diff.compare(_read(files[0]), _read(files[1]))
        if as_json:
            import json

            sys.stdout.write(json.dumps([change.data() for change in changes], indent=1) + "\n")
        else:
            sys.stdout.write(diff.as_text(changes))
        sys.stdout.flush()
        return 0
    if verb == "html":
        if len(files) != 1 or not output or as_json:
            raise UsageError(diags.REP_HTML_ONE)
        from tileiras.report import html
        from tileiras.report.write import put

        put(output, html.to_html(_read(files[0])))
        return 0
    raise UsageError(diags.REP_UNKNOWN_VERB, verb=verb) if verb else UsageError(diags.REP_NO_VERB)


def _parse(words: list[str]) -> tuple[str, list[str], str, bool]:
    files: list[str] = []
    output, as_json = "", False
    items = iter(words)
    for word in items:
        name, equals, value = word.partition("=")
        if name in ("-o", "--output"):
            output = value if equals else next(items, "")
            if not output:
                raise UsageError(diags.NEEDS_VALUE, option=name)
        elif word == "--json":
            as_json = True
        elif word == "--":
            files += items
        elif word.startswith("-") and word != "-":
            raise diags.unknown_option(word, USAGE)
        else:
            files.append(word)
    return (files[0] if files else ""), files[1:], output, as_json


def _read(path: str) -> dict[str, Any]:
    from tileiras.report import html
    from tileiras.report.collect import SCHEMA

    try:
        with open(path, "rb") as stream:
            data = stream.read()
    except (OSError, ValueError) as error:
        raise UsageError(
            diags.CANNOT_READ, path=path, why=getattr(error, "strerror", None) or error
        ) from None
    return html.read(data, path, SCHEMA)


if __name__ == "__main__":
    sys.exit(main())
