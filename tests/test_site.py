"""The documents: links lead somewhere, nothing cites a document that is not here, and the site builds without a warning."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import peers
import pytest

REPOSITORY = Path(__file__).resolve().parents[1]
LINK = re.compile(r"(?<!!)\[[^\]\n]*\]\(([^)\s]+)\)")
TEXTS = (
    ".md",
    ".py",
    ".toml",
    ".txt",
    ".cmake",
    ".bzl",
    ".bazel",
    ".c",
    ".h",
    ".cpp",
    ".cu",
    ".yml",
    ".tileir",
    ".in",
)
DOCUMENT = re.compile(r"[\w./-]*\b[\w-]+\.md\b")
# Documents of a specification that is not part of this repository, also where they are named without an ending.
FOREIGN = re.compile(
    r"spec-vs-real|contract-notes|tileir-format|tileir-ops|\bnotes [AB]\d+|\barchitecture\.md|\bcodegen\.md"
)


def tracked() -> list[Path]:
    """Files of the checkout; without git, those of its folders."""
    done = subprocess.run(["git", "ls-files"], cwd=REPOSITORY, capture_output=True, text=True)
    if done.returncode:
        pytest.skip("not a checkout of git")
    return [path for name in done.stdout.splitlines() if (path := REPOSITORY / name).is_file()]


def without_code(text: str) -> str:
    return re.sub(r"^(```|~~~).*?^\1\s*$", "", text, flags=re.M | re.S)


def anchors(page: Path) -> set[str]:
    """The headings of a page as links name them."""
    heads = re.findall(r"^#+ (.*)$", without_code(page.read_text(encoding="utf-8")), re.M)
    explicit = re.findall(r'<a (?:id|name)="([^"]+)"', page.read_text(encoding="utf-8"))
    plain = [
        re.sub(r"[^\w\- ]", "", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", head)).strip().lower()
        for head in heads
    ]
    return (
        {head.replace(" ", "-") for head in plain}
        | {re.sub(r"[-\s]+", "-", head) for head in plain}
        | set(explicit)
    )


def test_links_between_documents_lead_somewhere() -> None:
    broken, seen = [], 0
    for page in (path for path in tracked() if path.suffix == ".md"):
        for target in LINK.findall(without_code(page.read_text(encoding="utf-8"))):
            if re.match(r"[a-z]+:", target):
                continue
            seen += 1
            name, _, anchor = target.partition("#")
            path = (page.parent / name).resolve() if name else page
            if not path.exists() or (anchor and path.suffix == ".md" and anchor not in anchors(path)):
                broken.append(f"{page.relative_to(REPOSITORY)}: {target}")
    assert seen > 50 and not broken


def test_no_file_cites_a_document_that_is_not_here() -> None:
    names = {path.name for path in tracked() if path.suffix == ".md"}
    cited = []
    for path in tracked():
        if path.suffix not in TEXTS or path == Path(__file__).resolve():
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        found = [word for word in DOCUMENT.findall(text) if word.rpartition("/")[2] not in names]
        found += FOREIGN.findall(text)
        cited += [f"{path.relative_to(REPOSITORY)}: {word}" for word in found]
    assert not cited


def test_every_page_is_in_the_table_of_contents() -> None:
    listed = set(re.findall(r"([\w/-]+\.md)\s*$", (REPOSITORY / "mkdocs.yml").read_text(), re.M))
    pages = {path.relative_to(REPOSITORY / "docs").as_posix() for path in (REPOSITORY / "docs").rglob("*.md")}
    assert listed == pages


@pytest.mark.full
def test_the_site_builds_without_a_warning_and_needs_no_network(tmp_path: Path) -> None:
    tool = peers.mkdocs()
    line = [str(tool), "build", "--strict", "--site-dir", str(tmp_path / "site")]
    env = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(line, cwd=REPOSITORY, env=env, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr
    pages = list((tmp_path / "site").rglob("*.html"))
    assert len(pages) > 20
    loaded = re.compile(
        r'<(?:script|img|iframe)[^>]*src="https?://|<link[^>]*rel="(?:stylesheet|preload)"[^>]*href="https?://'
    )
    assert not [page.name for page in pages if loaded.search(page.read_text(encoding="utf-8"))]
