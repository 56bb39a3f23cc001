"""The rules as a module, under Bazel 7: the same BUILD file as under 4.2.3 gives the same artefacts."""

from __future__ import annotations

import json
import shutil

import pytest
from integration import bazel_support as support

ARCH = "--@tileiras//tile:archs=90"

pytestmark = pytest.mark.full


@pytest.fixture(scope="module")
def ws():
    workspace = support.Bazel7Workspace("module")
    workspace.register()
    support.write_sample(workspace)
    yield workspace
    workspace.shutdown()


def test_everything_builds_and_runs(ws: support.Bazel7Workspace) -> None:
    ws.build("//k/...", ARCH)
    assert ws.build("//k/...", ARCH).ran() == 0
    done = ws.run("test", "//k:program_cxx", "//k:loads", "//k:transitive", ARCH, "--test_output=errors")
    assert "3 tests pass" in done.out
    done = ws.run("run", "//k:program", ARCH)
    assert done.out.startswith("axpy_f32 ")


def test_cc_shared_library(ws: support.Bazel7Workspace) -> None:
    ws.write("shared/BUILD", 'cc_shared_library(name = "kernels", deps = ["//k:axpy"])\n')
    ws.build("//shared:kernels", ARCH)
    library = next((ws.bin / "shared").glob("libkernels.so"))
    assert b"axpy_image" in library.read_bytes()


def test_same_bytes_as_under_bazel_4(
    ws: support.Bazel7Workspace, tmp_path_factory: pytest.TempPathFactory
) -> None:
    base = tmp_path_factory.mktemp("bazel4")
    old = support.Workspace(base / "ws", base / "out")
    old.register()
    support.write_sample(old)
    targets = ["//k:axpy", "//k:pair", "//k:bundle", "//k:table"]

    def ours(workspace: support.Workspace) -> dict[str, str]:
        found = workspace.digests("k")
        # Objects follow the C compiler; one.cubin is a link that leads nowhere outside a debootstrap folder.
        return {
            name: digest for name, digest in found.items() if not name.endswith((".o", ".a", "one.cubin"))
        }

    try:
        for workspace in (old, ws):
            workspace.run("clean")
            workspace.build(*targets, ARCH)
        assert len(ours(old)) > 10
        assert ours(ws) == ours(old)
    finally:
        old.shutdown()


def test_strategies(ws: support.Bazel7Workspace) -> None:
    seen = []
    for flags in (
        ["--spawn_strategy=local"],
        ["--spawn_strategy=sandboxed"],
        [
            "--strategy=TileCompile=worker",
            "--experimental_worker_multiplex_sandboxing",
            "--worker_sandboxing",
        ],
        ["--strategy=TileCompile=worker", "--noworker_multiplex", "--worker_verbose"],
    ):
        ws.run("clean")
        assert ws.build("//k:axpy", ARCH, *flags).ran() >= 3
        seen.append(ws.digests("k"))
    assert all(digests == seen[0] for digests in seen)


def test_two_toolkits_and_the_flag(ws: support.Bazel7Workspace) -> None:
    text = (ws.root / "MODULE.bazel").read_text()
    more = f'tile.toolkit(name = "20.0", path = "{ws.toolkit}", python = "{ws.python}")\n'
    try:
        (ws.root / "MODULE.bazel").write_text(
            text.replace("tile.toolkit(", 'tile.toolkit(name = "13.1", ') + more
        )

        def tool(*flags: str) -> str:
            ws.build("@tileiras//:toolchain_info", *flags)
            return json.loads(next(ws.bin.rglob("toolchain_info.json")).read_text())["tool"]

        assert "20_0" in tool(), "the highest is the default"
        assert "13_1" in tool("--@tileiras//tile:toolkit=13.1")
        done = ws.build("//k:axpy", ARCH, "--@tileiras//tile:toolkit=12.0", check=False)
        assert "toolchain" in done.err
    finally:
        (ws.root / "MODULE.bazel").write_text(text)


def test_lockfile_is_reproducible(ws: support.Bazel7Workspace) -> None:
    lock = ws.root / "MODULE.bazel.lock"
    ws.build("//k:axpy", ARCH, "--lockfile_mode=update")
    before = lock.read_text()
    lock.unlink()
    ws.run("shutdown")
    ws.build("//k:axpy", ARCH, "--lockfile_mode=update")
    assert lock.read_text() == before


def test_the_rules_own_workspace_loads(ws: support.Bazel7Workspace) -> None:
    done = ws.run("query", "@tileiras//...")
    assert "@tileiras//tile:archs" in done.out and "@tileiras//:runfiles" in done.out


def test_example_as_a_module() -> None:
    """examples/bazel by its MODULE.bazel; the numeric test needs NumPy, which the interpreter here may not have."""
    ws = support.Bazel7Workspace("example")
    try:
        ws.register()
        rc = (ws.root / ".bazelrc").read_text()
        shutil.copytree(support.REPOSITORY / "examples" / "bazel", ws.root, dirs_exist_ok=True)
        (ws.root / ".bazelrc").write_text(rc + (ws.root / ".bazelrc").read_text())
        module = (ws.root / "MODULE.bazel").read_text()
        use = 'tile = use_extension("@tileiras//:extensions.bzl", "tile")\n'
        assert '"../../bazel"' in module and use in module
        module = module.replace('"../../bazel"', f'"{ws.rules}"')
        tag = f'{use}tile.toolkit(path = "{ws.toolkit}", python = "{ws.python}")\n'
        (ws.root / "MODULE.bazel").write_text(module.replace(use, tag))
        ws.build("//...")
        done = ws.run("run", "//app")
        assert done.out.startswith("vector_add: 4 parameters") and "compute_90" in done.out
        ws.run("test", "//app/...", "--test_output=errors")
    finally:
        ws.shutdown()
