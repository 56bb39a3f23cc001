"""The document as one page: data, style and script in a single file that needs nothing else.

Everything that comes from the input travels as JSON in a block that no browser runs, with `<`, `>` and `&` spelled as
escapes, and reaches the page as text only. A content policy allows this file's own style and script, by their hashes.
"""

from __future__ import annotations

import json
import os

from tileiras.diag import ERROR, Diag, Refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "page")
SCRIPTS = ("base.js", "code.js", "layouts.js", "schedule.js", "charts.js", "page.js")
OPEN = '<script type="application/json" id="data">'
CLOSE = "</script>"


NO_REPORT = Diag("REP-0005", ERROR, "'{name}' is no report of tileiras", exit_code=2)
"""
cause: The file is none that `--report` wrote, or was cut off.
remedy: Write it again with `tileiras --report=FILE.json` of this release; docs/report.md describes the schema.

  $ tileiras k.tileir --gpu-name=sm_90 --emit=ptx --report=a.json
- $ tileiras-report diff a.json k.tileir
+ $ tileiras-report diff a.json a.json
  cuda_tile.module @m { entry @k() { return } }
"""

OTHER_SCHEMA = Diag(
    "REP-0006",
    ERROR,
    "'{name}' has schema {found} of tileiras {release}, this version reads schema {schema}: make the report anew",
    exit_code=2,
)
"""
cause: The report was written by another release, whose data have another form.
remedy: Compile again with --report, or read the report with the release that wrote it.

  $ printf '{"format": "tileiras-report", "schema": 0, "tileiras": "0.1"}' > old.json
  $ tileiras k.tileir --gpu-name=sm_90 --emit=ptx --report=a.json
- $ tileiras-report diff a.json old.json
+ $ tileiras-report diff a.json a.json
  cuda_tile.module @m { entry @k() { return } }
"""


class NoReport(Refusal):
    """A file is no report, or of another schema; the text says which."""


def to_json(document: dict[str, Any]) -> bytes:
    """The document as JSON text; the same document, the same bytes."""
    return (json.dumps(document, ensure_ascii=True, separators=(",", ":")) + "\n").encode("ascii")


def to_html(document: dict[str, Any]) -> bytes:
    """The page."""
    style, script = _asset("report.css"), "".join(_asset(name) for name in SCRIPTS)
    names = ", ".join(module["name"] for module in document["modules"]) or "report"
    policy = f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; base-uri 'none'; form-action 'none'"
    page = f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<title>{escaped(names)} - tileiras report</title>
<style>{style}</style>
</head>
<body>
<noscript>This report draws itself with JavaScript; the same data as text: --report=FILE.json.</noscript>
<div id="app"></div>
{OPEN}{inert(to_json(document).decode().rstrip())}{CLOSE}
<script>{script}</script>
</body>
</html>
"""
    return page.encode("utf-8", "replace")


def escaped(text: str) -> str:
    """Text between tags."""
    for char, name in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ('"', "&quot;"), ("'", "&#39;")):
        text = text.replace(char, name)
    return text.encode("utf-8", "replace").decode()


def inert(text: str) -> str:
    """JSON that holds nothing an HTML parser looks for."""
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def read(data: bytes, name: str, schema: int) -> dict[str, Any]:
    """The document in a report, page or JSON. Errors: NoReport."""
    text = data.decode("utf-8", "replace")
    at = text.find(OPEN)
    if at >= 0:
        end = text.find(CLOSE, at)
        text = text[at + len(OPEN) : end]
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        raise NoReport(NO_REPORT, name=name) from None
    if not isinstance(document, dict) or document.get("format") != "tileiras-report":
        raise NoReport(NO_REPORT, name=name)
    if document.get("schema") != schema:
        found, release = document.get("schema"), document.get("tileiras")
        raise NoReport(OTHER_SCHEMA, name=name, found=found, release=release, schema=schema)
    return document


def _asset(name: str) -> str:
    with open(os.path.join(_PAGE, name), encoding="utf-8") as stream:
        return stream.read()


def _hash(text: str) -> str:
    from base64 import b64encode
    from hashlib import sha256

    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"
