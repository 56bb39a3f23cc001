"""The documents: links lead somewhere, nothing cites a document that is not here, and the site builds without a warning."""

from __future__ import annotations

import html
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import unquote

import peers
import pytest

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY / "scripts"))
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


def test_a_page_has_one_title_and_its_tables_have_as_many_cells_in_each_row() -> None:
    """A stroke inside of code parts cells, too, unless a backslash stands before it."""
    odd, tables = [], 0
    for page in (path for path in tracked() if path.suffix == ".md"):
        name, cells = page.relative_to(REPOSITORY), 0
        lines = without_code(page.read_text(encoding="utf-8")).splitlines()
        if sum(line.startswith("# ") for line in lines) > 1:
            odd.append(f"{name}: several titles")
        for line in lines:
            found = len(re.findall(r"(?<!\\)\|", line)) if line.startswith("|") else 0
            tables += bool(found) and not cells
            if found and cells and found != cells:
                odd.append(f"{name}: {line[:60]}")
            cells = found
    assert tables > 50 and odd == []


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


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built without a warning."""
    folder = tmp_path_factory.mktemp("site") / "site"
    line = [str(peers.mkdocs()), "build", "--strict", "--site-dir", str(folder)]
    env = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(line, cwd=REPOSITORY, env=env, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.full
def test_the_site_needs_no_network(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 20
    loaded = re.compile(
        r'<(?:script|img|iframe)[^>]*src="https?://|<link[^>]*rel="(?:stylesheet|preload)"[^>]*href="https?://'
    )
    assert not [page.name for page in pages if loaded.search(page.read_text(encoding="utf-8"))]


@pytest.mark.full
def test_every_link_of_the_site_leads_to_a_place_in_it(site: Path) -> None:
    texts = {page.resolve(): page.read_text(encoding="utf-8") for page in site.rglob("*.html")}
    named = {page: set(re.findall(r'\s(?:id|name)="?([^"\s>]+)', text)) for page, text in texts.items()}
    seen, broken = 0, []
    for page, text in texts.items():
        if (
            page.parent.name == "gallery" or page.name == "404.html"
        ):  # a report is one page; that of errors is served
            continue
        for target in re.findall(r'<(?:a|img|link|script)\s[^>]*?(?:href|src)="([^"]+)"', text):
            if re.match(r"[a-z]+:", target):
                continue
            seen += 1
            name, _, anchor = html.unescape(target).partition("#")
            path = (page.parent / unquote(name)).resolve() if name else page
            path = path / "index.html" if path.is_dir() else path
            if not path.exists() or (anchor and path in named and unquote(anchor) not in named[path]):
                broken.append(f"{page.relative_to(site.resolve())}: {target}")
    assert seen > 1000 and not broken, broken[:20]


@pytest.mark.full
def test_the_search_works_from_a_disk(site: Path) -> None:
    from browser import Browser

    browser = Browser()
    try:
        for page in (site / "index.html", site / "tutorial" / "matmul.html"):
            browser.open(page)
            found = browser.js(SEARCH, "roofline")
            for _ in range(50):
                found = browser.js(
                    "return [...document.querySelectorAll('.md-search-result__link')].map((a) => a.href)"
                )
                if found:
                    break
                time.sleep(0.2)
            assert any(link.split("#")[0].endswith("/report.html") for link in found), found
            assert browser.console() == []
    finally:
        browser.close()


SEARCH = """
document.querySelector('label[for=__search]').click();
const input = document.querySelector('.md-search__input');
input.focus();
input.value = arguments[0];
input.dispatchEvent(new KeyboardEvent('keyup', { bubbles: true, key: arguments[0].at(-1) }));
input.dispatchEvent(new Event('input', { bubbles: true }));
"""


@pytest.mark.full
def test_the_gallery_is_built_and_linked(site: Path) -> None:
    import gallery

    page = (site / "gallery.html").read_text(encoding="utf-8")
    assert 'href="gallery.html"' in (site / "report.html").read_text(encoding="utf-8")
    for name in gallery.REPORTS:
        assert (
            f'href="gallery/{name}.html"' in page
            and b"tileiras-report" in (site / "gallery" / f"{name}.html").read_bytes()
        )
