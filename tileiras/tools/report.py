"""``tileiras-report``: compares reports, and makes pages of their data.

    tileiras-report diff before.html after.html
    tileiras-report html report.json -o report.html

Reports are what `--report=FILE` of the other commands writes; either form will do.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

NAME = "tileiras-report"
USAGE = """\
usage: tileiras-report diff A B [--json]
       tileiras-report html FILE -o FILE.html

  diff                what changed from report A to report B: resources, loops, accesses, the model, findings
  html                the page of a report that was written as data
  -o, --output FILE   what to write
  --json              differences as JSON
  --color[=WHEN]      colour in messages: auto, always, never
  --version           print the version of this program
  --help              print this text

Reports are written by --report=FILE.html or FILE.json. Exit codes: 0 done, with or without differences, 1 usage or an
unreadable file, 2 a report of another schema, or an output that cannot be written."""
EXIT_USAGE, EXIT_CONFIGURATION = 1, 2


class UsageError(Exception):
    """A command line that means nothing: exit code 1."""


def main(argv: Sequence[str] | None = None) -> int:
    """The exit status."""
    from tileiras.outputs import OutputError
    from tileiras.report.html import NoReport
    from tileiras.terminal import fail, take_colour

    try:
        return run(take_colour(sys.argv[1:] if argv is None else argv, NAME))
    except UsageError as error:
        fail(NAME, f"{error}\n{USAGE}")
        return EXIT_USAGE
    except (NoReport, OutputError) as error:
        fail(NAME, str(error))
        return EXIT_CONFIGURATION
    except BrokenPipeError:
        sys.stdout = None  # type: ignore[assignment]
        return EXIT_CONFIGURATION


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
            raise UsageError("diff takes two reports")
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
            raise UsageError("html takes one report, and -o with the page to write")
        from tileiras.report import html
        from tileiras.report.write import put

        put(output, html.to_html(_read(files[0])))
        return 0
    raise UsageError(f"unknown verb '{verb}'" if verb else "no verb: diff or html")


def _parse(words: list[str]) -> tuple[str, list[str], str, bool]:
    files: list[str] = []
    output, as_json = "", False
    items = iter(words)
    for word in items:
        name, equals, value = word.partition("=")
        if name in ("-o", "--output"):
            output = value if equals else next(items, "")
            if not output:
                raise UsageError(f"option '{name}' needs a value")
        elif word == "--json":
            as_json = True
        elif word == "--":
            files += items
        elif word.startswith("-") and word != "-":
            raise UsageError(f"unknown option '{word}'")
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
        raise UsageError(f"cannot read '{path}': {getattr(error, 'strerror', None) or error}") from None
    return html.read(data, path, SCHEMA)


if __name__ == "__main__":
    sys.exit(main())
