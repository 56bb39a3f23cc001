"""Every way to register a toolchain, the flag mirror of rules_cuda, the host platform; under Bazel 4.2.3."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import peers
import pytest
from integration import bazel_support as support

ARCH = "--@tileiras//tile:archs=90"
BUILD = """
load("@tileiras//:defs.bzl", "tile_cubin", "tile_library")

tile_library(name = "axpy", srcs = ["axpy.tilebc"], compiler = "nvidia")

tile_cubin(name = "cubin", srcs = ["axpy.tilebc"], arch = "90", compiler = "nvidia")
"""


def workspace(tmp_path: Path) -> support.Workspace:
    ws = support.Workspace(tmp_path / "ws", tmp_path / "out")
    ws.write("k/BUILD", BUILD)
    ws.write("k/axpy.tilebc", support.bytecode("axpy_f32").read_bytes())
    return ws


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def zipped(target: Path, root: Path, files: dict[str, Path]) -> Path:
    """Returns a zip without permissions, as wheels are when a zip tool unpacks them."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(target, "w") as archive:
        for name, source in files.items():
            archive.writestr(zipfile.ZipInfo(name), source.read_bytes())
    return target


def wheels(folder: Path) -> dict[str, Path]:
    """Returns small wheels with the files of NVIDIA's, by distribution name."""
    real = peers.require_toolkit()
    parts = {
        "nvidia-cuda-nvcc": ["bin/ptxas", "bin/fatbinary"],
        "nvidia-cuda-tileiras": ["bin/tileiras"],
        "nvidia-nvvm": ["lib/libnvvm.so.4"],
    }
    made = {}
    for name, paths in parts.items():
        file = folder / f"{name.replace('-', '_')}-13.4.92-py3-none-linux_x86_64.whl"
        made[name] = zipped(file, real, {f"nvidia/cu13/{path}": real / path for path in paths})
    return made


@pytest.mark.full
def test_wheels_are_a_hermetic_toolchain(tmp_path: Path) -> None:
    ws = workspace(tmp_path)
    made = wheels(tmp_path / "wheels")
    package = {
        str(path.relative_to(support.package_snapshot().parent)): path
        for path in support.package_snapshot().rglob("*")
        if path.is_file()
    }
    own = zipped(tmp_path / "wheels" / "tileiras-0.1.0-py3-none-any.whl", tmp_path, package)
    urls = {name: path.as_uri() for name, path in made.items()}
    digests = {name: sha256(path) for name, path in made.items()}
    text = (
        f'tile_register_toolchains(mode = "wheels", version = "13.4.92", urls = {json.dumps(urls)}, '
        f"sha256s = {json.dumps(digests)}, "
        f'tileiras_url = "{own.as_uri()}", tileiras_sha256 = "{sha256(own)}", python = "{sys.executable}")\n'
    )
    ws.register()
    path = ws.root / "WORKSPACE"
    head = path.read_text()[: path.read_text().rindex("tile_register_toolchains(")]
    path.write_text(head + text)
    try:
        # Lazily fetched: a build without a Tile target downloads and unpacks nothing.
        ws.write("plain/BUILD", 'genrule(name = "plain", outs = ["x"], cmd = "echo > $@")\n')
        ws.build("//plain")
        tools = Path(ws.run("info", "output_base").out.strip()) / "external" / "tile_toolchains_tools"
        assert not tools.exists()
        ws.build("//k:axpy", "@tileiras//:toolchain_info", ARCH)
        info = json.loads((ws.bin / "external/tileiras/toolchain_info.json").read_text())
        assert info["hermetic"] is True and info["version"] == "13.4"
        assert "cuda_nvcc-13.4.92" in info["fingerprint"]
        links = [p for p in tools.rglob("*") if p.is_symlink()]
        assert links == [], "a hermetic toolchain leads out of itself"
        # A wrong digest stops the build.
        path.write_text(path.read_text().replace(digests["nvidia-cuda-nvcc"], "0" * 64))
        done = ws.build("//k:axpy", ARCH, check=False)
        assert "hecksum" in done.err
    finally:
        ws.shutdown()


@pytest.mark.full
def test_installed_package(tmp_path: Path) -> None:
    """Rules and package where a wheel puts them; nothing but the folder is named, the resolver finds the toolkit."""
    site = tmp_path / "env" / "lib" / "site-packages"
    support.copy_package(site / "tileiras")
    shutil.copytree(support.RULES, site / "tileiras" / "bazel", ignore=shutil.ignore_patterns("__pycache__"))
    ws = workspace(tmp_path)
    ws.rules = str(site / "tileiras" / "bazel")
    ws.register()
    path = ws.root / "WORKSPACE"
    head = path.read_text()[: path.read_text().rindex("tile_register_toolchains(")]
    path.write_text(head + "tile_register_toolchains()\n")
    env = {"TILEIRAS_PYTHON": ws.python}
    try:
        # NVIDIA's wheels lie beside that interpreter.
        ws.build("//k:axpy", "@tileiras//:toolchain_info", ARCH, env=env)
        info = json.loads((ws.bin / "external/tileiras/toolchain_info.json").read_text())
        assert info["version"] == "13.4"
        done = ws.build("//k:axpy", ARCH, env={"TILEIRAS_PYTHON": "/nowhere/python"}, check=False)
        assert "/nowhere/python" in done.err
        done = ws.build("//k:axpy", ARCH, env={**env, "TILEIRAS_TOOLKIT_ROOT": str(tmp_path)}, check=False)
        assert str(tmp_path) in done.err and "ptxas" in done.err
    finally:
        ws.shutdown()


@pytest.mark.full
def test_redistributable_archives(tmp_path: Path) -> None:
    ws = workspace(tmp_path)
    real = peers.require_toolkit()
    site = tmp_path / "redist"
    index = {"release_date": "2026-01-01"}
    for name, paths in {
        "cuda_nvcc": ["bin/ptxas", "bin/fatbinary"],
        "cuda_tileiras": ["bin/tileiras"],
        "libnvvm": ["nvvm/lib64/libnvvm.so.4"],
    }.items():
        stem = f"{name}-linux-x86_64-13.4.92-archive"
        relative = f"{name}/linux-x86_64/{stem}.tar.xz"
        (site / relative).parent.mkdir(parents=True)
        with tarfile.open(site / relative, "w:xz", preset=0) as archive:
            for path in paths:
                archive.add(real / path.replace("nvvm/lib64", "lib"), f"{stem}/{path}")
                if path.endswith(".so.4"):
                    link = tarfile.TarInfo(f"{stem}/{path.removesuffix('.4')}")
                    link.type, link.linkname = tarfile.SYMTYPE, Path(path).name
                    archive.addfile(link)
        entry = {"relative_path": relative, "sha256": sha256(site / relative)}
        index[name] = {"name": name, "version": "13.4.92", "linux-x86_64": entry}
    (site / "redistrib_13.4.0.json").write_text(json.dumps(index))
    ws.register()
    path = ws.root / "WORKSPACE"
    head = path.read_text()[: path.read_text().rindex("tile_register_toolchains(")]
    path.write_text(
        head
        + f'tile_register_toolchains(mode = "redist", version = "13.4.0", python = "{sys.executable}", '
        + f'package = "{support.package_snapshot()}", json_url = "{(site / "redistrib_13.4.0.json").as_uri()}", '
        + f'sha256s = {{"redistrib.json": "{sha256(site / "redistrib_13.4.0.json")}"}})\n'
    )
    try:
        ws.build("//k:axpy", "@tileiras//:toolchain_info", ARCH)
        info = json.loads((ws.bin / "external/tileiras/toolchain_info.json").read_text())
        assert info["libnvvm"].endswith("nvvm/lib64/libnvvm.so") and info["hermetic"] is True
    finally:
        ws.shutdown()


@pytest.mark.full
def test_versions_by_flag_and_without_a_toolkit(tmp_path: Path) -> None:
    """Two toolchains: the highest version wins, a flag chooses the other; a wrong folder is named."""
    old = tmp_path / "old"
    shutil.copytree(peers.require_toolkit() / "bin", old / "bin", symlinks=True)
    ws = workspace(tmp_path)
    ws.register(version="13.4")
    path = ws.root / "WORKSPACE"
    more = (
        f'tile_register_toolchains(name = "tile_old", version = "13.1", path = "{old}", python = "{ws.python}", '
        f'package = "{ws.package}")\n'
    )
    path.write_text(path.read_text() + more)
    try:

        def root(*flags: str) -> str:
            ws.build("@tileiras//:toolchain_info", *flags)
            return json.loads((ws.bin / "external/tileiras/toolchain_info.json").read_text())["toolkit_root"]

        assert "tile_toolchains_tools" in root()
        assert "tile_old_tools" in root("--@tileiras//tile:toolkit=13.1")
        assert "tile_toolchains_tools" in root("--@tileiras//tile:toolkit=13.4")
        done = ws.build("//k:axpy", ARCH, "--@tileiras//tile:toolkit=12.0", "--nobuild", check=False)
        assert "toolchain" in done.err.lower()
        path.write_text(path.read_text().replace(str(old), str(tmp_path / "nowhere")))
        done = ws.build("@tileiras//:toolchain_info", "--@tileiras//tile:toolkit=13.1", check=False)
        assert "nowhere" in done.err
    finally:
        ws.shutdown()


@pytest.mark.full
def test_rules_cuda_flag_and_host_platform(tmp_path: Path) -> None:
    ws = workspace(tmp_path)
    fake = tmp_path / "rules_cuda"
    (fake / "cuda").mkdir(parents=True)
    (fake / "WORKSPACE").write_text('workspace(name = "rules_cuda")\n')
    (fake / "cuda" / "BUILD").write_text(
        'load(":flag.bzl", "flag")\nflag(name = "archs", build_setting_default = "", visibility = ["//visibility:public"])\n'
    )
    (fake / "cuda" / "flag.bzl").write_text(
        "def _impl(ctx):\n    return []\n\nflag = rule(implementation = _impl, build_setting = config.string(flag = True))\n"
    )
    ws.register(before=f'local_repository(name = "rules_cuda", path = "{fake}")\n\n')
    path = ws.root / "WORKSPACE"
    path.write_text(
        path.read_text().replace(
            "tile_dependencies()\n", 'tile_dependencies(cuda_archs_flag = "@rules_cuda//cuda:archs")\n'
        )
    )
    ws.write(
        "arm/BUILD",
        'platform(name = "arm", constraint_values = ["@platforms//cpu:aarch64", "@platforms//os:linux"])\n'
        'load("@tileiras//:defs.bzl", "tile_cubin")\n'
        'tile_cubin(name = "c", srcs = ["//k:axpy.tilebc"], arch = "90", compiler = "nvidia")\n'
        'tile_cubin(name = "d", srcs = ["//k:axpy.tilebc"], arch = "90", compiler = "nvidia", '
        'host_constraint = "@platforms//cpu:aarch64")\n',
    )
    ws.write("k/BUILD", BUILD + 'exports_files(["axpy.tilebc"])\n')
    try:
        flag = "--@rules_cuda//cuda:archs=compute_80:sm_80,sm_86;compute_90:sm_90"
        ws.build("//k:axpy", flag)
        names = sorted(p.name for p in ws.outputs("//k:axpy", flag) if p.suffix == ".cubin")
        assert names == ["axpy.sm_80.cubin", "axpy.sm_86.cubin", "axpy.sm_90.cubin"]
        names = sorted(p.name for p in ws.outputs("//k:axpy", flag, ARCH) if p.suffix == ".cubin")
        assert names == ["axpy.sm_90.cubin"]
        # The host code inside an image follows the target platform, or the attribute.
        ws.build("//arm:c")
        x86 = host_machine(ws.bin / "arm/c.cubin")
        assert x86 == 62
        ws.build("//arm:c", "--platforms=//arm")
        assert host_machine(next(iter(ws.outputs("//arm:c", "--platforms=//arm")))) == 183
        ws.build("//arm:d")
        assert host_machine(ws.bin / "arm/d.cubin") == 183
    finally:
        ws.shutdown()


@pytest.mark.full
def test_a_toolchain_by_hand_with_an_interpreter_of_the_build(tmp_path: Path) -> None:
    """tile_toolchain(python = ...): actions and tests run the labelled interpreter, which is part of their inputs."""
    ws = workspace(tmp_path)
    ws.register(
        extra='register_toolchains("//hand:registered")\n', version="1.0", python=ws.python
    )  # the flag below selects neither of its versions
    ws.write("hand/python.sh", f'#!/bin/sh\nexec "{ws.python}" "$@"\n').chmod(0o755)
    ws.write(
        "hand/BUILD",
        'load("@tileiras//:toolchain.bzl", "tile_toolchain")\n'
        'exports_files(["python.sh"])\n'
        "tile_toolchain(\n"
        '    name = "tools",\n'
        '    all_files = ["@tile_toolchains_tools//:compiler_files", "@tile_toolchains_tools//:toolkit_files"],\n'
        '    fatbinary = "@tile_toolchains_tools//:toolkit/bin/fatbinary",\n'
        '    fingerprint = "by hand",\n'
        '    nvidia_compiler = "@tile_toolchains_tools//:toolkit/bin/tileiras",\n'
        '    ptxas = "@tile_toolchains_tools//:toolkit/bin/ptxas",\n'
        '    python = "python.sh",\n'
        '    tool = "@tile_toolchains_tools//:bin/tile-build",\n'
        ")\n"
        'toolchain(name = "registered", toolchain = ":tools", toolchain_type = "@tileiras//tile:toolchain_type")\n',
    )
    example = support.REPOSITORY / "examples" / "bazel" / "kernels"
    for name in ("BUILD.bazel", "vector_add.tileir", "vector_add.npz"):
        ws.write(f"kernels/{name}", (example / name).read_bytes())
    flags = [ARCH, "--@tileiras//tile:toolkit=by-hand"]
    try:
        ws.build("//kernels/...", "@tileiras//:toolchain_info", *flags)
        info = json.loads((ws.bin / "external/tileiras/toolchain_info.json").read_text())
        assert info["fingerprint"] == "by hand" and info["env"]["TILEIRAS_PYTHON"] == "hand/python.sh"
        done = ws.run("test", "//kernels:vector_add_test", *flags, "--test_output=all")
        assert "PASSED: vector_add on emulator" in done.out
        ws.write("hand/python.sh", "#!/bin/sh\necho no interpreter >&2\nexit 9\n").chmod(0o755)
        done = ws.build("//kernels/...", *flags, "--spawn_strategy=sandboxed", check=False)
        assert "no interpreter" in done.err and "(Exit 9)" in done.err
    finally:
        ws.shutdown()


def host_machine(cubin: Path) -> int:
    """Returns e_machine of the host ELF in section .nv.host: 62 x86-64, 183 AArch64."""
    data = cubin.read_bytes()
    at = data.find(b"\x7fELF", 4)
    assert at > 0, "no host code in the image"
    return int.from_bytes(data[at + 18 : at + 20], "little")


def test_buildifier_is_content(repository: Path) -> None:
    """Formatting and lint of every Starlark file of ours, where buildifier is installed."""
    tool = peers.buildifier()
    if tool is None:
        pytest.skip("needs buildifier (npm: @bazel/buildifier), which set-up brings where there is npm")
    files = [
        p for folder in ("bazel", "examples/bazel") for p in (repository / folder).rglob("*") if p.is_file()
    ]
    names = {"BUILD", "BUILD.bazel", "WORKSPACE", "WORKSPACE.bazel", "MODULE.bazel"}
    chosen = [str(p) for p in files if p.suffix == ".bzl" or p.name in names]
    assert len(chosen) > 15
    done = subprocess.run([tool, "-mode=check", "-lint=warn", *chosen], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
