"""The page of a report in a real browser: no errors, every control does something, keys, hostile input, what a stranger reads."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import peers
import pytest
from browser import Browser

from tileiras import cli
from tileiras.report import collect, html
from tileiras.tools import report as command

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import gallery  # noqa: E402

IMAGES = ROOT / "docs" / "images"
MATMUL = ROOT / "examples/cmake/kernels/matmul.tileir"
HOSTILE = "</script><script>document.title='taken'</script><img src=x onerror=\"document.title='taken'\">"
STRIDED = """
cuda_tile.module @m {
  entry @k(%p: tile<ptr<f32>>, %q: tile<ptr<f32>>) {
    %v = make_tensor_view %p, shape = [64, 64], strides = [1, 64] : tensor_view<64x64xf32, strides=[1,64]>
    %w = make_tensor_view %q, shape = [64, 64], strides = [128, 2] : tensor_view<64x64xf32, strides=[128,2]>
    %a = make_partition_view %v : partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[1,64]>>
    %b = make_partition_view %w : partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[128,2]>>
    %c = constant <i32: 0> : tile<i32>
    %x, %t = load_view_tko weak %a[%c, %c] : partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[1,64]>>, tile<i32> -> tile<64x64xf32>, token
    %u = store_view_tko weak %x, %b[%c, %c] : tile<64x64xf32>, partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[128,2]>>, tile<i32> -> token
    return
  }
}
"""  # noqa: E501


CONTRAST = """
const part = (x) => (x / 255 <= 0.03928 ? x / 255 / 12.92 : ((x / 255 + 0.055) / 1.055) ** 2.4);
const lum = (c) => 0.2126 * part(c[0]) + 0.7152 * part(c[1]) + 0.0722 * part(c[2]);
const rgb = (t) => t.match(/[\\d.]+/g).map(Number);
const back = (e) => {
  for (; e; e = e.parentElement) {
    const c = rgb(getComputedStyle(e).backgroundColor);
    if (c.length < 4 || c[3] > 0.5) return c;
  }
  return [255, 255, 255];
};
const bad = new Set();
const all = 'h1, h2, h3, p, td, th, a, button, label, .ref, .model, .card b, .card span, .soft, .note, summary';
for (const e of document.querySelectorAll(all)) {
  if (!e.textContent.trim() || !e.offsetWidth) continue;
  const a = lum(rgb(getComputedStyle(e).color)), b = lum(back(e));
  const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  if (ratio < 4.5) bad.add(`${e.tagName}.${e.className} ${ratio.toFixed(1)}`);
}
return [...bad];
"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    made = Browser()
    yield made
    made.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pages")


def page_of(folder: Path, name: str, source: Path | str, *options: str, code: int = 0) -> Path:
    """The page of a compile."""
    if isinstance(source, str):
        path = folder / f"{name}.tileir"
        path.write_text(source)
        source = path
    page = folder / f"{name}.html"
    line = [str(source), f"-o{folder / 'out'}", f"--report={page}", "--launch-abi=simt", *options]
    assert cli.main(line) == code
    return page


@pytest.fixture(scope="module")
def matmul(folder: Path) -> Path:
    peers.require("ptxas")
    return page_of(folder, "matmul", MATMUL, "--gpu-name=sm_90")


def data_of(page: Path) -> dict[str, Any]:
    found: dict[str, Any] = html.read(page.read_bytes(), "page", collect.SCHEMA)["modules"][0]
    return found


def opened(browser: Browser, page: Path) -> None:
    """The page is open, and its console silent."""
    browser.open(page)
    assert browser.count("section") >= 1
    assert browser.console() == []


def lines_of(browser: Browser, kind: str) -> dict[str, list[int]]:
    """level -> numbers of the lines in sight that are of a kind."""
    found: dict[str, list[int]] = browser.js(
        "const out = {}; for (const p of document.querySelectorAll('.pane')) out[p.dataset.level] ="
        "[...p.querySelectorAll('.ln.' + arguments[0])].map((l) => Number(l.dataset.row)); return out", kind,
    )  # fmt: skip
    return found


def test_all_sections_and_no_message(browser: Browser, matmul: Path) -> None:
    opened(browser, matmul)
    wanted = [
        "overview",
        "code",
        "loops",
        "accesses",
        "shared",
        "layouts",
        "registers",
        "barriers",
        "roofline",
        "remarks",
        "emulator",
    ]
    assert browser.js("return [...document.querySelectorAll('section')].map((s) => s.id)") == wanted
    assert (
        browser.js(
            "return [...document.querySelectorAll('nav a')].map((a) => a.getAttribute('href').slice(1))"
        )
        == wanted
    )
    for name in wanted:
        browser.click(f"nav a[href='#{name}']")
        assert browser.js(
            "return Math.abs(document.getElementById(arguments[0]).getBoundingClientRect().top) < innerHeight",
            name,
        )
    assert matmul.stat().st_size < 1_000_000
    assert browser.console() == []
    assert browser.js("return performance.getEntriesByType('resource').length") == 0, (
        "it asks for nothing else"
    )


def test_hover_lights_up_all_levels(browser: Browser, matmul: Path) -> None:
    opened(browser, matmul)
    module = data_of(matmul)
    line = next(i for i, t in enumerate(module["levels"]["source"]["lines"]) if "mmaf" in t)
    browser.js("document.getElementById('code').scrollIntoView()")
    browser.point(f".pane[data-level=source] .ln[data-row='{line}'] i")
    lit = lines_of(browser, "hl")
    assert lit["source"] == [line] and len(lit["cuda_tile"]) == 1
    browser.click(f".pane[data-level=source] .ln[data-row='{line}'] i")
    chosen = lines_of(browser, "sel")
    for level in ("source", "cuda_tile", "nv_tileas", "ptx", "sass"):
        assert chosen.get(level), f"{level} shows nothing of the line"
    texts = [
        module["levels"]["sass"]["lines"][i] for i in browser.js("return [...state.selected.lines.sass]")
    ]
    assert any("MMA" in text for text in texts)
    browser.click("nav a[href='#overview']")
    browser.press("escape")
    assert not any(lines_of(browser, "sel").values())


def test_every_reference_goes_to_its_line(browser: Browser, matmul: Path) -> None:
    opened(browser, matmul)
    module = data_of(matmul)
    wrong = browser.js("""
        const bad = [], all = [...document.querySelectorAll('.ref')];
        for (const r of all.filter((_, i) => i % Math.ceil(all.length / 80) === 0)) {
          r.click();
          const s = state.selected;
          if (!s || s.level !== r.dataset.level || s.line !== Number(r.dataset.line)) bad.push(r.textContent);
          if (!document.querySelector(`.pane[data-level=${s.level}] .ln.at`)) bad.push('not in sight ' + r.textContent);
        }
        return bad""")
    assert wrong == [] and browser.count(".ref") > 40
    for level in ("source", "nv_tileas", "ptx", "sass"):
        assert level in module["levels"] and browser.count(f".ref[data-level={level}]") > 0, level
    assert browser.console() == []


def test_keys(browser: Browser, matmul: Path) -> None:
    opened(browser, matmul)
    browser.press("2")
    assert browser.js("return document.activeElement.getAttribute('aria-label')") == "source lines"
    browser.press("down", "down", "down")
    assert browser.js("return [state.selected.level, state.selected.line]") == ["source", 3]
    browser.press("right")
    assert browser.js("return state.selected.level") == "cuda_tile"
    browser.press("end")
    assert (
        browser.js("return state.selected.line") == len(data_of(matmul)["levels"]["cuda_tile"]["lines"]) - 1
    )
    browser.press("home", "pagedown", "up", "left")
    browser.press("escape")
    assert browser.js("return state.selected") is None
    before = browser.js("return document.documentElement.classList.contains('dark')")
    browser.press("t")
    assert browser.js("return document.documentElement.classList.contains('dark')") != before
    browser.press("t", "?")
    assert browser.js("return document.getElementById('help').open")
    browser.press("escape")
    assert not browser.js("return document.getElementById('help').open")
    browser.press("/")
    assert browser.js("return document.activeElement.id") == "find"
    browser.press(*"wgmma.mma", "enter")
    assert "of" in browser.text("#code [aria-live]") and browser.js("return state.selected.level") == "ptx"
    browser.press("enter", "escape")
    for number, name in zip(
        "1234567890-", ("overview", "code", "loops", "accesses", "shared", "layouts", "registers")
    ):
        browser.press(number)
        top = browser.js("return document.getElementById(arguments[0]).getBoundingClientRect().top", name)
        assert -5 < top < 400, (number, name, top)
    assert browser.console() == []


def test_all_controls_are_named_and_reached_by_tab(browser: Browser, matmul: Path) -> None:
    opened(browser, matmul)
    nameless = browser.js("""
        const named = (e) => e.textContent.trim() || e.getAttribute('aria-label') || e.closest('label') || e.title;
        return [...document.querySelectorAll('button, select, input, canvas, [role=listbox]')].filter((e) => !named(e))
          .map((e) => e.outerHTML.slice(0, 80))""")
    assert nameless == []
    assert browser.js(
        "return [...document.querySelectorAll('button, select, input, canvas, .body')].every((e) => e.tabIndex >= 0)"
    )


def test_controls_of_code(browser: Browser, matmul: Path) -> None:
    opened(browser, matmul)
    for level in data_of(matmul)["levels"]:
        browser.click(f"input[data-pane='{level}']")
        assert (
            browser.js(
                "return document.querySelector(arguments[0]).offsetWidth", f".pane[data-level={level}]"
            )
            == 0
        )
        browser.click(f"input[data-pane='{level}']")
    browser.fill("#find", "no such text anywhere")
    browser.js("[...document.querySelectorAll('#code button')].find((b) => b.textContent === 'next').click()")
    assert browser.text("#code [aria-live]") == "not found"
    browser.js(
        "[...document.querySelectorAll('#code button')].find((b) => b.textContent === 'clear').click()"
    )
    assert browser.text("#code [aria-live]") == ""


def test_layouts_say_what_the_data_says(browser: Browser, matmul: Path) -> None:
    opened(browser, matmul)
    module = data_of(matmul)
    for number, value in list(enumerate(module["values"]))[:: max(1, len(module["values"]) // 12)]:
        layout = module["layouts"][value["layout"]]
        browser.fill("#value", str(number))
        lane, warp = 13, (1 << len(layout["warp"])) - 1
        browser.fill("#lane", str(lane))
        browser.fill("#warp", str(warp))
        rows = browser.js(
            "return [...document.querySelectorAll('#lane-registers tbody tr')].map((r) => r.textContent)"
        )
        assert len(rows) == 1 << len(layout["reg"])
        place = 0
        for columns, where in (
            (layout["reg"], len(rows) - 1),
            (layout["lane"], lane),
            (layout["warp"], warp),
        ):
            for bit, column in enumerate(columns):
                place ^= column if where >> bit & 1 else 0
        place &= ~layout["inv"]
        index = []
        for extent in reversed(value["shape"]):
            index.insert(0, place % extent)
            place //= extent
        assert rows[-1] == f"{len(rows) - 1}[{', '.join(map(str, index))}]"
    for choice in ("lane", "warp", "register", "thread"):
        browser.fill("#colour", choice)
    full = next(
        i
        for i, v in enumerate(module["values"])
        if v["op"] == "store_view_tko" or not module["layouts"][v["layout"]]["inv"]
    )
    browser.fill("#value", str(full))
    before = browser.text("#picked")
    browser.js("document.querySelector('canvas').focus()")
    browser.press("down", "down", "right")
    assert browser.text("#picked") != before and "[2, 1]" in browser.text("#picked")
    browser.click("canvas")
    assert "[2, 1]" not in browser.text("#picked")
    assert browser.count("#row-lanes tbody tr") > 0 and browser.console() == []


def test_charts_lead_to_lines(browser: Browser, matmul: Path) -> None:
    opened(browser, matmul)
    browser.js("document.querySelector('[data-buffer]').dispatchEvent(new MouseEvent('click'))")
    assert browser.js("return state.selected.level") == "nv_tileas"
    browser.press("escape")
    browser.point("#registers svg")
    assert browser.js("return state.hovered && state.hovered.level") == "ptx"
    browser.click("#registers svg")
    assert browser.js("return state.selected.level") == "ptx"
    browser.fill("#severity", "remark")
    assert browser.count("#remarks tbody tr") == sum(
        r["severity"] == "remark" for r in data_of(matmul)["remarks"]
    )
    assert browser.console() == []


def test_a_stranger_reads_what_limits_the_loop_and_who_waits(browser: Browser, matmul: Path) -> None:
    opened(browser, matmul)
    loop = next(x for x in data_of(matmul)["loops"] if x["fed"])
    card = browser.text(f".loop[data-loop='{loop['line']}']")
    assert f"The bound is {loop['machine']['bound']}" in card and "a model, not a measurement" in card
    assert f"Ring of {loop['ring']['stages']} stages" in card
    assert f"Schedule of the {loop['machine']['blocks']} blocks of an SM together" in card, (
        "the bars are of all blocks that the terms are of"
    )
    assert f"{loop['bytes']:,} bytes".replace(",", "") in browser.text("#roofline").replace(",", "")
    rows = barrier_rows(browser)
    assert any(
        "bytes of its stage have landed" in row and "async.copy_view" in row and "wgmma" in row
        for row in rows
    )
    assert any(
        "have released it" in row and "bulk.release" in row and "async.copy_view" in row for row in rows
    )
    assert any("bar.sync" in row and "every warp" in row for row in rows)


def test_a_stranger_reads_which_warps_wait(browser: Browser, folder: Path) -> None:
    opened(browser, page_of_case(folder, "staged_bf16_nn_128", "--gpu-name=sm_90"))
    rows = barrier_rows(browser)
    assert any("bar.sync" in row and "warps of this agent" in row for row in rows)
    assert any(
        "have released it" in row and "bulk.release" in row and "async.copy_view" in row for row in rows
    )


def test_a_stranger_reads_where_all_warps_wait(browser: Browser, folder: Path) -> None:
    options = ("--gpu-name=sm_90", "--emit=ptx", "--disable=arrivals")
    opened(browser, page_of(folder, "all_copy", MATMUL, *options))
    rows = barrier_rows(browser)
    assert any(
        "cp.async.wait_group" in row and "async.copy_view" in row and "in a loop" in row for row in rows
    )
    assert any("bar.sync" in row and "every warp" in row and "wgmma" in row for row in rows)


def barrier_rows(browser: Browser) -> list[str]:
    rows: list[str] = browser.js(
        "return [...document.querySelectorAll('#barriers tbody tr')].map((r) => r.textContent)"
    )
    return rows


def test_a_stranger_reads_what_is_not_coalesced(browser: Browser, folder: Path) -> None:
    opened(browser, page_of(folder, "strided", STRIDED, "--gpu-name=sm_90", "--emit=ptx"))
    found = browser.js(
        "return [...document.querySelectorAll('.finding[data-kind=coalescing]')].map((f) => f.textContent)"
    )
    assert any("store" in text and "no dimension of the tile is known to have stride 1" in text and "strides = [.., 1]" in text
               for text in found), found  # fmt: skip
    rows = browser.js("return [...document.querySelectorAll('#accesses tbody tr')].map((r) => r.textContent)")
    assert any("not coalesced" in row for row in rows)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", gallery.REPORTS)
def test_the_gallery(browser: Browser, folder: Path, name: str) -> None:
    """Every report of the site's gallery opens in silence and answers what the gallery says it does."""
    peers.require("ptxas")
    page = folder / f"gallery-{name}.html"
    page.write_bytes(gallery.report(name))
    opened(browser, page)
    assert browser.count("section") == 11 and len(page.read_bytes()) < 1_000_000
    shown = browser.js("return document.body.textContent")
    for word in {
        "vector-add": ["global memory"], "softmax": ["reduce", "bar.sync", "every warp", "reduction"],
        "matmul": ["Ring of", "The bound is", "wgmma"], "attention": ["exp", "The bound is"],
        "blend": ["spills", "occupancy = 8", "64x128 f32"],
    }[name]:  # fmt: skip
        assert word in shown, word


def test_a_kernel_of_the_gallery_is_right() -> None:
    np = pytest.importorskip("numpy")
    import tileiras

    x = np.random.default_rng(1).standard_normal((3, 1024)).astype(np.float32)
    want = np.exp(x - x.max(1, keepdims=True), dtype=np.float64)
    want /= want.sum(1, keepdims=True)
    for target in ("reference", "emulator"):
        y = np.zeros_like(x)
        tileiras.launch(gallery.source("softmax")[1], "softmax", 3, [x, y, 3], target=target)
        assert np.abs(y - want).max() < 1e-6


def test_a_failed_compile(browser: Browser, folder: Path) -> None:
    text = STRIDED.replace("return\n", "%z = addf %x, %y : tile<64x64xf32>\n    return\n")
    opened(browser, page_of(folder, "failed", text, "--gpu-name=sm_90", code=5))
    assert "exit code 5" in browser.text("[role=alert]")
    assert browser.count(".pane[data-level=source] .ln") > 5
    assert "%y" in browser.text("#overview") or "undeclared" in browser.text("#overview")


def test_hostile_names_and_sources(browser: Browser, folder: Path) -> None:
    text = STRIDED.replace("@m {", '@"' + HOSTILE.replace('"', "\\22") + '" {').replace(
        "  entry", f"  // {HOSTILE}\n  entry", 1
    )
    source = folder / "<img src=x onerror=alert(1)>.tileir"
    source.write_text(text)
    page = page_of(folder, "hostile", source, "--gpu-name=sm_90", "--emit=ptx")
    opened(browser, page)
    assert browser.js("return document.title").startswith("<img src=x") and browser.count("img") == 0
    assert browser.count("script") == 2
    assert HOSTILE in browser.js("return document.querySelector('.pane[data-level=source]').textContent")
    assert browser.console() == []
    kernel = STRIDED.replace("entry @k", 'entry @"</script>"')
    opened(browser, page_of(folder, "kernel", kernel, "--gpu-name=sm_90", code=5))
    assert "</script>" in browser.text("#overview") and browser.count("script") == 2
    # a document that was made by hand runs nothing either
    data = json.loads(json.dumps(html.read(page.read_bytes(), "page", collect.SCHEMA)))

    def spoil(x: Any) -> Any:
        if isinstance(x, dict):
            return {key: spoil(value) for key, value in x.items()}
        if isinstance(x, list):
            return [spoil(value) for value in x]
        return (
            HOSTILE + x
            if isinstance(x, str) and x not in ("nv_tileas", "ptx", "sass", "source", "cuda_tile")
            else x
        )

    module = data["modules"][0]
    for field in ("remarks", "findings", "accesses", "values"):
        module[field] = spoil(module[field])
    module["name"] = HOSTILE
    spoiled = folder / "spoiled.html"
    spoiled.write_bytes(html.to_html(data))
    opened(browser, spoiled)
    assert (
        "taken" not in browser.js("return document.title").replace(HOSTILE, "") and browser.count("img") == 0
    )


def test_several_modules_in_one_page(browser: Browser, folder: Path, matmul: Path) -> None:
    modules = [
        data_of(matmul),
        data_of(page_of(folder, "strided2", STRIDED, "--gpu-name=sm_80", "--emit=ptx")),
    ]
    page = folder / "both.html"
    page.write_bytes(html.to_html(collect.document(modules)))
    opened(browser, page)
    browser.fill("#module", "1")
    assert browser.count(".pane[data-level=sass]") == 0 and "strided2" in browser.text("#overview")
    browser.fill("#module", "0")
    assert browser.count(".pane[data-level=sass]") == 1 and browser.console() == []
    page.write_bytes(html.to_html(collect.document([])))
    opened(browser, page)


def test_twenty_thousand_lines(browser: Browser, folder: Path, matmul: Path) -> None:
    module = data_of(matmul)
    level = module["levels"]["ptx"]
    level["lines"] = [f"add.s32 %r{i}, %r{i}, 1;" for i in range(20_000)]
    level["up"] = [10] * 20_000
    module["levels"]["sass"]["up"] = [i % 20_000 for i in range(len(module["levels"]["sass"]["lines"]))]
    page = folder / "long.html"
    page.write_bytes(html.to_html(collect.document([module])))
    opened(browser, page)
    assert browser.count(".pane[data-level=ptx] .ln") < 200
    browser.js("select('ptx', 19999, true)")
    assert browser.count(".pane[data-level=ptx] .ln[data-row='19999'].at") == 1


def test_both_themes_can_be_read(browser: Browser, matmul: Path) -> None:
    """Contrast of at least 4.5 between text and what is behind it, in both themes."""
    opened(browser, matmul)
    for _ in range(2):
        assert browser.js(CONTRAST) == []
        browser.click("#theme")


def test_pictures_of_the_docs(browser: Browser, matmul: Path, bless: bool) -> None:
    """What docs/report.md shows is taken here; `--bless` takes them anew."""
    opened(browser, matmul)
    module = data_of(matmul)
    line = next(i for i, t in enumerate(module["levels"]["source"]["lines"]) if "mmaf" in t)
    named = re.findall(r"images/(report-[\w-]+)\.png", (ROOT / "docs" / "report.md").read_text())
    assert named and sorted(named) == sorted(path.stem for path in IMAGES.glob("report-*.png")) or bless
    browser.js(
        "if (document.documentElement.classList.contains('dark')) document.getElementById('theme').click()"
    )
    browser.js("select('source', arguments[0], true)", line)
    for name in named:
        dark = name.endswith("-dark")
        if dark:
            browser.click("#theme")
        place = name.removeprefix("report-").removesuffix("-dark")
        picture = browser.picture({"loops": ".loop"}.get(place, f"#{place}"))
        if dark:
            browser.click("#theme")
        assert picture.startswith(b"\x89PNG") and len(picture) > 5_000
        if bless:
            IMAGES.mkdir(exist_ok=True)
            (IMAGES / f"{name}.png").write_bytes(picture)
    browser.size(1500, 950)
    assert browser.console() == []


def page_of_case(folder: Path, name: str, *options: str) -> Path:
    """The page of a kernel of the corpus."""
    from tests.corpus.export import bytecode_path
    from tests.corpus.registry import CASES

    return page_of(folder, name, Path(bytecode_path(CASES[name])), "--emit=ptx", *options)


def test_agents_are_lanes_of_one_chart(browser: Browser, folder: Path) -> None:
    page = page_of_case(folder, "staged_bf16_nn_128", "--gpu-name=sm_90", "--tensor-maps=launcher")
    opened(browser, page)
    reads, copies = data_of(page)["loops"]
    chart = f".loop[data-loop='{reads['line']}'] svg[aria-label^=schedule]"
    assert "agent 1: copies" in browser.text(chart) and "agent 0: products" in browser.text(chart)
    assert browser.count(f".loop[data-loop='{copies['line']}'] svg") == 0, (
        "its time is a lane of the other's chart"
    )
    assert "read by a product that is not done yet" in browser.text(f".loop[data-loop='{reads['line']}']")
    rows = browser.js("return [...document.querySelectorAll('#barriers tbody tr')].map((r) => r.innerText)")
    assert any("bytes of its stage have landed" in row and "bulk.load" in row for row in rows)
    assert any("readers of its stage have released it" in row and "bulk.release" in row for row in rows)
    assert any("the 8 warps of this agent" in row for row in rows)
    cards = browser.text("#overview .cards")
    assert "8, 240" in cards and "4, 24" in cards
    assert browser.console() == []


def test_tensor_memory_is_a_picture(browser: Browser, folder: Path) -> None:
    page = page_of_case(folder, "staged_attention_full_f16", "--gpu-name=sm_100")
    opened(browser, page)
    (memory,) = data_of(page)["shared"][0]["tensor_memory"]
    assert browser.count("[data-region]") == len(memory["regions"]) == 3
    boxes = browser.js(
        "return [...document.querySelectorAll('[data-region] rect')].map((r) => [r.y.baseVal.value, r.height.baseVal.value])"
    )
    (sum, left, other) = boxes
    assert left[0] == sum[0] and other[0] >= sum[0] + sum[1], (
        "the left operand lies over the scores, the sum behind"
    )
    browser.js("document.querySelectorAll('[data-region]')[1].focus()")
    browser.press("enter")
    assert browser.js("return [state.selected.level, state.selected.line]") == [
        "nv_tileas",
        memory["regions"][1]["line"],
    ]
    assert "One such block" in browser.text("#shared") or "one such block fits an SM" in browser.text(
        "#shared"
    )
    assert browser.console() == []


def test_a_narrow_window_scrolls_charts_alone(browser: Browser, folder: Path) -> None:
    page = page_of_case(folder, "staged_bf16_nn_128", "--gpu-name=sm_100")
    browser.size(480, 800)
    try:
        opened(browser, page)
        wide = browser.js("return [document.documentElement.scrollWidth, innerWidth]")
        assert wide[0] <= wide[1], "the page itself does not scroll sideways"
        assert browser.js(
            "return [...document.querySelectorAll('.wide > svg')].every((s) => s.getBoundingClientRect().width >= 500)"
        )
    finally:
        browser.size(1500, 950)


def test_source_lines_have_the_numbers_of_their_file(browser: Browser, folder: Path) -> None:
    """Where the text holds parts of files, an editor's numbers count."""
    kernel, data, page = folder / "placed.tileir", folder / "placed.json", folder / "placed.html"
    kernel.write_text(STRIDED)
    line = ["--gpu-name=sm_90", "--emit=ptx", f"-o{folder / 'out'}", f"--report={data}"]
    assert cli.main([str(kernel), *line]) == 0
    document = json.loads(data.read_text())
    document["modules"][0]["levels"]["source"]["places"] = [[0, "", 0], [1, "scaled.py", 42]]
    data.write_text(json.dumps(document))
    assert command.main(["html", str(data), "-o", str(page)]) == 0
    opened(browser, page)
    names = browser.js(
        "return [...document.querySelectorAll('.ref[data-level=source]')].map((r) => [r.textContent, Number(r.dataset.line)])"
    )
    assert names and all(name == f"scaled.py:{41 + row}" for name, row in names)
    browser.click(".ref[data-level=source]")
    (number,) = browser.js("return [document.querySelector('.pane[data-level=source] .ln.at i').textContent]")
    assert number == str(41 + names[0][1])
    head = browser.js(
        "return document.querySelector('.pane[data-level=source] .ln[data-row=\"0\"] i').textContent"
    )
    assert head == "", "a line that only names a file has no number"
