"""What mkdocs does to pages of docs/: links out of the folder lead to the repository, codes of diagnostics and the gallery of
reports are filled in."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[1]
BLOB = "https://github.com/tileiras/tileiras/blob/main"
LINK = re.compile(r"\]\(((?:\.\./)+[^)#\s]*)(#[^)\s]*)?\)")


def outside(page: Path, target: str) -> str:
    """The path in the repository that a relative link of a page leads to, or nothing when it stays inside docs/."""
    path = (REPOSITORY / "docs" / page.parent / target).resolve()
    docs = REPOSITORY / "docs"
    return "" if path == docs or docs in path.parents else path.relative_to(REPOSITORY).as_posix()


def diagnostics() -> str:
    """The codes with cause and remedy, by group."""
    sys.path.insert(0, str(REPOSITORY))
    from tileiras.explain import UNREACHED, examples, table

    groups: dict[str, list[str]] = {}
    for code, text in table().items():
        groups.setdefault(text, []).append(code)
    shown = examples()
    out = []
    for text, codes in groups.items():
        cause, remedy = text.split("\n")[:2]
        out += [
            f"## {', '.join(codes)}",
            "",
            cause.removeprefix("cause: "),
            "",
            f"**Remedy.** {remedy.removeprefix('remedy: ')}",
            "",
        ]
        for code in codes:
            if code not in shown:
                continue
            if shown[code].startswith(UNREACHED):
                out += [f"`{code}` has no example: {shown[code].removeprefix(UNREACHED)}", ""]
            else:
                out += [f"`{code}`:", "", "```diff", shown[code], "```", ""]
    return "\n".join(out)


def gallery() -> Any:
    sys.path.insert(0, str(REPOSITORY / "scripts"))
    import gallery

    return gallery


def on_files(files: Any, *, config: Any, **_: Any) -> Any:
    """The reports of the gallery are files of the site, made here."""
    from mkdocs.structure.files import File

    made = gallery()
    for name in made.REPORTS:
        files.append(File.generated(config, f"gallery/{name}.html", content=made.report(name)))
    return files


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    name = Path(page.file.src_uri)

    def link(found: re.Match[str]) -> str:
        path = outside(name, found[1])
        return f"]({BLOB}/{path}{found[2] or ''})" if path else found[0]

    if name.as_posix() == "reference/diagnostics.md":
        markdown += diagnostics()
    elif name.as_posix() == "gallery.md":
        markdown += "\n" + gallery().links() + "\n"
    return LINK.sub(link, markdown)


SHIM = re.compile(r'src="https://unpkg\.com/iframe-worker/shim"')


def on_post_page(output: str, *, page: Any, **_: Any) -> str:
    """The stand-in for a worker, which the search needs where a page is opened from a disk, is ours instead of a server's."""
    up = "../" * page.url.count("/")
    return SHIM.sub(f'src="{up}assets/frame_worker.js"', output)


def on_post_template(output_content: str, *, template_name: str, **_: Any) -> str:
    return SHIM.sub('src="assets/frame_worker.js"', output_content)
