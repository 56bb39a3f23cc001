"""What a Bazel action adds around the build command: declared inputs, private TMPDIR, the small verbs."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tileiras.tools import bazel_actions, bazel_golden


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("TMPDIR", "TMP", "TEMP", "PYTHONPATH"):
        monkeypatch.setenv(name, str(tmp_path))
    return tmp_path


def test_undeclared_workspace_files_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # An execution root as Bazel makes it: its folders are links to the workspace.
    workspace, execroot = tmp_path / "workspace", tmp_path / "execroot"
    (workspace / "pkg").mkdir(parents=True)
    (execroot / "external" / "lib").mkdir(parents=True)
    (execroot / "pkg").symlink_to(workspace / "pkg")
    for name in ("k.py", "a.py", "b.py"):
        (workspace / "pkg" / name).touch()
    (execroot / "external" / "lib" / "x.py").touch()
    monkeypatch.chdir(execroot)
    read = [
        str(execroot / "pkg/k.py"),
        str(workspace / "pkg/a.py"),
        str(workspace / "pkg/b.py"),
        str(execroot / "pkg/b.py"),
        str(execroot / "external/lib/x.py"),
        os.__file__,
        bazel_actions.__file__,
    ]
    assert bazel_actions.undeclared_inputs(read, ["pkg/k.py", "pkg/a.py"]) == ["pkg/b.py"]
    assert bazel_actions.undeclared_inputs(read, ["pkg/k.py", "pkg/a.py", "pkg/b.py"]) == []


def fake_build(monkeypatch: pytest.MonkeyPatch, action) -> list[list[str]]:  # type: ignore[no-untyped-def]
    calls: list[list[str]] = []

    def run(words: list[str]) -> int:
        calls.append(words)
        return action(words)

    monkeypatch.setattr(bazel_actions, "_run_build", run)
    return calls


def test_an_undeclared_input_fails_the_action(root: Path, monkeypatch: pytest.MonkeyPatch, capfd) -> None:  # type: ignore[no-untyped-def]
    (root / "k.py").touch()
    (root / "helper #1.py").touch()

    def export(words: list[str]) -> int:
        Path("k.tilebc").write_text("made")
        depfile = words[words.index("--depfile") + 1]
        Path(depfile).write_text(f"out: {root}/k.py \\\n  {root}/helper\\ \\#1.py\n")
        return 0

    calls = fake_build(monkeypatch, export)
    code = bazel_actions.run_action(["export", "--declared=k.py", "k.py", "-o", "k.tilebc"])
    said = capfd.readouterr().err
    assert code == 1 and "'hdrs'" in said.replace("`", "'") and "helper #1.py" in said
    assert not (root / "k.tilebc").exists()
    assert "--declared=k.py" not in calls[0]
    assert (
        bazel_actions.run_action(
            ["export", "--declared=k.py", "--declared=helper #1.py", "k.py", "-o", "k.tilebc"]
        )
        == 0
    )


def test_a_missing_module_names_hdrs(root: Path, monkeypatch: pytest.MonkeyPatch, capfd) -> None:  # type: ignore[no-untyped-def]
    def export(words: list[str]) -> int:
        os.write(2, b"ModuleNotFoundError: No module named 'shared.blocks' (py/k.py, line 2)\n")
        return 1

    fake_build(monkeypatch, export)
    assert bazel_actions.run_action(["export", "--declared=k.py", "k.py", "-o", "k.tilebc"]) == 1
    said = capfd.readouterr().err
    assert said.count("No module named") == 1
    assert "shared/blocks.py" in said and "hdrs" in said


def test_temporary_files_lie_beside_the_output_and_go(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = {}

    def compile_(words: list[str]) -> int:
        import tempfile

        seen["folder"] = os.environ["TMPDIR"]
        seen["file"] = tempfile.mkstemp()[1]
        return 5

    fake_build(monkeypatch, compile_)
    (root / "out").mkdir()
    assert bazel_actions.run_action(["compile", "--declared=k", "k", "-o", "out/k.cubin"]) == 5
    assert seen["folder"] == str(root / "out" / "k.cubin.tmp")
    assert seen["file"].startswith(seen["folder"])
    assert list((root / "out").iterdir()) == []


def table(path: Path, symbol: str, size: int) -> str:
    kernel = {
        "name": symbol,
        "symbol": symbol,
        "params": [{"type": "f32", "size": size, "offset": 0}],
        "registers": 9,
    }
    path.write_text(json.dumps({"version": 1, "arch": "sm_90", "kernels": [kernel]}))
    return str(path)


def test_validation(root: Path, capfd) -> None:  # type: ignore[no-untyped-def]
    one = table(root / "k.sm_80.kernels.json", "f", 4)
    two = table(root / "k.sm_90.kernels.json", "f", 4)
    assert bazel_actions.run_action(["bazel-validate", "-o", "ok", "--label", "//:k", one, two]) == 0
    assert (root / "ok").exists()
    two = table(root / "k.sm_90.kernels.json", "f", 8)
    assert bazel_actions.run_action(["bazel-validate", "-o", "bad", "--label", "//:k", one, two]) == 5
    assert not (root / "bad").exists()
    assert "//:k: f: parameters differ" in capfd.readouterr().err


def test_kernel_list_and_sizes(root: Path) -> None:
    one = table(root / "b.sm_90.kernels.json", "g", 4)
    two = table(root / "a.sm_90.kernels.json", "f", 4)
    (root / "a.sm_90.cubin").write_bytes(bytes(100))
    assert bazel_actions.run_action(["bazel-kernels", "-o", "all.json", one, two]) == 0
    listed = json.loads((root / "all.json").read_text())
    assert [image["image"] for image in listed["images"]] == ["a.sm_90.cubin", "b.sm_90.cubin"]
    assert bazel_actions.run_action(["bazel-sizes", "-o", "sizes.json", "a.sm_90.cubin", two]) == 0
    sizes = json.loads((root / "sizes.json").read_text())
    assert sizes["total_bytes"] == 100 and sizes["kernels"][0]["registers"] == 9


def test_bad_tables_are_usage_errors(root: Path, capfd) -> None:  # type: ignore[no-untyped-def]
    (root / "x.json").write_text("{")
    assert bazel_actions.run_action(["bazel-kernels", "-o", "o", "x.json"]) == 1
    assert bazel_actions.run_action(["bazel-kernels", "-o", "o", "none.json"]) == 1
    assert bazel_actions.run_action(["bazel-kernels", "x.json"]) == 1
    assert bazel_actions.run_action([]) == 1
    assert not (root / "o").exists()
    assert "not JSON" in capfd.readouterr().err


def golden(root: Path, *words: str) -> int:
    return bazel_golden.main(
        ["--kind", "ptx", "--golden", "k.golden", "--golden-source", "k.golden", *words, "k.ptx"]
    )


def test_golden_comparison(root: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:  # type: ignore[no-untyped-def]
    (root / "k.ptx").write_text("// producer 1\n\n.visible .entry f()\n{\n\tret;\n}\n\n\n")
    monkeypatch.setenv("BUILD_WORKSPACE_DIRECTORY", str(root))
    (root / "k.golden").write_text("something else\n")
    assert golden(root) == bazel_golden.DIFFERENT
    assert "+\tret;" in capsys.readouterr().out
    assert golden(root, "--bless") == 0
    assert golden(root) == 0
    (root / "k.ptx").write_text("// producer 2\n.visible .entry f()\n{\n\tret;\n}\n")
    assert golden(root) == 0
    (root / "k.ptx").write_text(".visible .entry f()\n{\n\texit;\n}\n")
    assert golden(root) == bazel_golden.DIFFERENT
