"""The catalogue against the tests: every rule is proved by one, or listed as open; the page in docs/ is up to date."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest
from contract import reach
from contract.rules import CATALOGUE, HERE, catalogue, covered, known, open_rules, rule

REPOSITORY = HERE.parents[1]


def test_the_catalogue_is_whole() -> None:
    rows = catalogue()
    assert len(rows) == len(known()) == 369
    assert sum("text" in row for row in rows) == 104


def test_every_rule_has_a_test_or_is_listed_as_open() -> None:
    missing = known() - set(covered()) - set(open_rules())
    assert not missing, f"no test names {sorted(missing)}"


def test_no_open_rule_is_covered() -> None:
    done = set(open_rules()) & set(covered())
    assert not done, f"proved by now, take them out of open_rules.txt: {sorted(done)}"


def test_open_rules_are_rules_of_the_catalogue() -> None:
    listed = open_rules()
    assert len(listed) == len(set(listed)) and set(listed) <= known()


def test_every_rule_says_how_it_is_reached() -> None:
    """A rule whose tests run passes on text and nothing that a user starts is not reached from the command."""
    listed = [name for group in reach.groups() for name in group["rules"]]
    assert len(listed) == len(set(listed)) and set(listed) <= known()
    assert all(group["by"] in ("", "tileiras-opt") and group["because"] for group in reach.groups())
    silent = {n for n, tests in covered().items() if all(map(reach.runs_passes_only, tests))}
    assert not silent - set(listed), (
        "tests of these never compile anything: one through the command, or a line in reach.toml"
    )


def test_what_a_test_goes_through_is_read_from_its_source() -> None:
    place = "tests/contract/test_passes.py::"
    assert reach.runs_passes_only(place + "test_two_instructions_on_one_pipeline")
    assert not reach.runs_passes_only(place + "test_the_record_decides_reqntid")
    assert not reach.runs_passes_only("tests/contract/test_handshake.py::test_the_kernel_still_compiles")
    assert reach.runs_passes_only("tests/contract/test_nvvm.py::test_a_plain_function_cannot_be_launched")


def test_unknown_ids_are_refused() -> None:
    assert set(covered()) <= known()
    with pytest.raises(ValueError, match="no-such-rule"):
        rule("no-such-rule")
    with pytest.raises(ValueError):
        rule()


def test_the_page_is_up_to_date() -> None:
    script = REPOSITORY / "scripts" / "contract_page.py"
    done = subprocess.run(
        [sys.executable, str(script), "--stdout"], capture_output=True, text=True, check=True
    )
    page = (REPOSITORY / "docs" / "reference" / "contract-rules.md").read_text(encoding="utf-8")
    assert page == done.stdout, "run scripts/contract_page.py"


def strings_of(path: Path) -> set[str]:
    """Every string of a source file, what is substituted written as <>."""
    found: set[str] = set()
    tree = ast.parse(path.read_text(encoding="utf-8"))
    joined = [node for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)]
    inside = {id(part) for node in joined for part in ast.walk(node) if part is not node}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            parts = [p.value if isinstance(p, ast.Constant) else "<>" for p in node.values]
            found.add("".join(map(str, parts)))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inside:
            found.add(re.sub(r"\{[a-z_0-9]*\}", "<>", node.value))
    return found


# A text that is no message of its own, or that a settled reading replaces.
NOT_ONE_MESSAGE = {
    "'<op>' op <message>": "a form, see test_op_prefix",
    "note: <message>": "a form", "warning: <message>": "a form", "error: <message>": "a form", "remark: <message>": "a form",
    "unsupported Tile version <...>": "the beginning of one, see test_versions",
    "view-typed result rejected": "describes the symptom; the verifier has a text for if and one for for",
    "unsupported GPU target": "ends with the name", "invalid optimization level": "ends with the level",
    "unsupported host operating system": "ends with the name",
    "input does not correspond to Tile IR bytecode": "one template with the hint",
    "input does not correspond to Tile IR bytecode (it looks like MLIR bytecode instead)": "one template with the hint",
    "invalid magic number at position 7": "one template with the position",
}  # fmt: skip


@rule("diag-wording-frozen")
def test_every_text_of_the_catalogue_is_in_the_sources_letter_by_letter() -> None:
    # That each is also said, on real input, is what the rule's own test shows.
    written: set[str] = set()
    for path in (REPOSITORY / "tileiras" / "compiler").rglob("*.py"):
        written |= strings_of(path)
    for name in ("diags.py", "diag.py"):
        written |= strings_of(REPOSITORY / "tileiras" / name)
    open_now = set(open_rules())
    for row in catalogue():
        text = row.get("text")
        if text is None or text in NOT_ONE_MESSAGE or text.startswith(".") or row["id"] in open_now:
            continue
        wanted = re.sub(
            r"^'[a-z_.]+' op ", "", re.sub(r"<[^>]*>", "<>", text)
        )  # the op is put in front when it is rendered
        assert wanted in written, f"{row['id']}: {text!r}"


def test_the_tests_of_a_text_say_it_letter_by_letter() -> None:
    """What the sources hold is not yet said: each text stands in the file of a test that proves its rule."""
    tests, strings = covered(), dict[Path, set[str]]()
    for row in catalogue():
        text = row.get("text")
        if text is None or text in NOT_ONE_MESSAGE or text.startswith("."):
            continue
        wanted = re.sub(r"^'[a-z_.]+' op ", "", text)
        parts = [part for part in re.split(r"<[^>]*>", wanted) if part.strip()]
        files = {REPOSITORY / test.partition("::")[0] for test in tests[row["id"]]}
        for path in files - strings.keys():
            strings[path] = strings_of(path)
        said = [s for path in files for s in strings[path]]
        assert all(any(part.strip() in s for s in said) for part in parts), f"{row['id']}: {text!r}"


def test_every_rule_has_a_topic() -> None:
    topics = {row["source"] for row in catalogue()}
    assert topics == {"diagnostics", "handshake", "layers", "verifiers", "frontend"}, CATALOGUE
