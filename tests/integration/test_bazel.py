"""The Bazel rules under Debian's Bazel 4.2.3: one workspace, built again and again (the quick slice)."""

from __future__ import annotations

import json
import os
import stat
import subprocess
from pathlib import Path

import numpy as np
import pytest
from integration import bazel_support as support

ARCH = "--@tileiras//tile:archs=90"


@pytest.fixture(scope="module")
def ws(tmp_path_factory: pytest.TempPathFactory):
    base = tmp_path_factory.mktemp("bazel")
    workspace = support.Workspace(base / "ws", base / "out")
    workspace.register()
    support.write_sample(workspace)
    yield workspace
    workspace.shutdown()


def elf_machine(path: Path) -> int:
    data = path.read_bytes()
    assert data[:4] == b"\x7fELF"
    return int.from_bytes(data[18:20], "little")


def entries(fatbin: Path) -> list[str]:
    """Returns the entries of a container, such as 'elf sm_90', as cuobjdump lists them."""
    import peers

    tool = peers.require("cuobjdump")
    done = subprocess.run([tool, "-all", "-lelf", "-lptx", fatbin], capture_output=True, text=True)
    return [line.split()[-1] for line in done.stdout.splitlines() if line.strip()]


def test_library_and_program(ws: support.Workspace) -> None:
    ws.build("//k:axpy", "//k:program", ARCH)
    assert elf_machine(ws.bin / "k/_tile/axpy/axpy.sm_90.cubin") == 190  # EM_CUDA
    assert (ws.bin / "k/axpy.fatbin").read_bytes()[:4] == bytes.fromhex("50ed55ba")
    table = json.loads((ws.bin / "k/_tile/axpy/axpy.sm_90.kernels.json").read_text())
    assert [kernel["symbol"] for kernel in table["kernels"]] == ["axpy_f32"]
    size = (ws.bin / "k/axpy.fatbin").stat().st_size
    done = subprocess.run([ws.bin / "k/program"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, f"axpy_f32 {size} 1\n")


def test_consumers_in_c_cxx_and_python(ws: support.Workspace) -> None:
    # Debian's py_test looks for an interpreter on the test's PATH.
    path = f"--test_env=PATH={Path(ws.python).parent}:/usr/bin:/bin"
    targets = ["//k:program_cxx", "//k:loads", "//k:transitive", "//k:libshared.so"]
    done = ws.run("test", *targets, ARCH, path, "--test_output=errors")
    assert "3 tests pass" in done.out


def test_sources_with_one_name_and_three_archs(ws: support.Workspace) -> None:
    ws.build("//k:pair", ARCH)
    base = ws.bin / "k/_tile/pair"
    names = sorted(str(path.relative_to(base)) for path in base.rglob("*.cubin"))
    assert names == ["0/axpy.sm_80.cubin", "0/axpy.sm_90a.cubin", "1/axpy.sm_80.cubin", "1/axpy.sm_90a.cubin"]
    fatbins = sorted(base.rglob("*.fatbin"))
    assert len(fatbins) == 2 and fatbins[0].read_bytes() != fatbins[1].read_bytes()


def test_null_build_does_nothing(ws: support.Workspace) -> None:
    ws.build("//k/...", ARCH)
    assert ws.build("//k/...", ARCH).ran() == 0


def test_one_source_rebuilds_only_what_follows_from_it(ws: support.Workspace) -> None:
    ws.build("//k:axpy", "//k:pair_single", "//k:program", ARCH)
    source = ws.root / "k/axpy.tilebc"
    before = source.read_bytes()
    kept = (ws.bin / "k/pair_single.fatbin").stat().st_mtime_ns
    try:
        source.write_bytes(support.bytecode("axpy_f64").read_bytes())
        ws.build("//k:axpy", "//k:pair_single", ARCH)
        table = json.loads((ws.bin / "k/_tile/axpy/axpy.sm_90.kernels.json").read_text())
        assert table["kernels"][0]["symbol"] == "axpy_f64"
        assert "axpy_f64" in (ws.bin / "k/axpy_tile.c").read_text()
        assert (ws.bin / "k/pair_single.fatbin").stat().st_mtime_ns == kept
    finally:
        source.write_bytes(before)


def test_failure_keeps_the_code_says_it_once_and_leaves_nothing(ws: support.Workspace) -> None:
    ws.build("//k:one", ARCH)
    cubin = ws.bin / "k/one.cubin"
    assert cubin.exists()
    source = ws.root / "k/axpy.tilebc"
    before = source.read_bytes()
    try:
        source.write_bytes(before[: len(before) // 2])
        for strategy in ("worker", "sandboxed", "local"):
            done = ws.build("//k:one", ARCH, f"--strategy=TileCompile={strategy}", check=False)
            assert "(Exit 3)" in done.err, done.err
            assert done.err.count("axpy.tilebc: error") + done.err.count("error: ") >= 1
            message = next(
                line for line in done.err.splitlines() if "error: " in line and "ERROR" not in line
            )
            assert done.err.count(message) == 1, done.err
            images = list((ws.bin / "k").glob("**/one*/*.cubin")) + [p for p in [cubin] if p.exists()]
            assert images == [], "a stale image is left"
    finally:
        source.write_bytes(before)
    ws.build("//k:one", ARCH)
    assert cubin.exists()


@pytest.mark.full
def test_archs_by_flag_attribute_and_parent(ws: support.Workspace) -> None:
    """Two configurations of one target in one build, beside a third by the flag."""
    targets = ["//k:axpy", "//k:axpy_for_86", "//k:axpy_for_100", "//k:pair_single", "//k:parent"]
    ws.build(*targets, "--@tileiras//tile:archs=sm_87;sm_90")

    def archs(target: str) -> list[str]:
        paths = ws.outputs(target, "--@tileiras//tile:archs=sm_87;sm_90")
        assert all(path.exists() for path in paths)
        return sorted(path.name.split(".")[1] for path in paths if path.suffix == ".cubin")

    assert archs("//k:axpy") == ["sm_87", "sm_90"]
    assert archs("//k:axpy_for_86") == ["sm_86"]
    assert archs("//k:axpy_for_100") == ["sm_100", "sm_103"]
    assert archs("//k:pair_single") == ["sm_120"]
    assert archs("//k:parent") == ["sm_88"]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("", "no architecture is set"),
        ("native", "one machine"),
        ("sm_91", "sm_91"),
        ("75", "none of 75 can be targeted"),
    ],
)
def test_archs_that_cannot_be_built(ws: support.Workspace, value: str, message: str) -> None:
    done = ws.build("//k:axpy", f"--@tileiras//tile:archs={value}", "--nobuild", check=False)
    assert message in done.err


def test_unsupported_archs_are_dropped_with_one_warning(ws: support.Workspace) -> None:
    done = ws.build("//k:axpy", "--@tileiras//tile:archs=75;90", "--nobuild")
    assert done.err.count("dropped") == 1


@pytest.mark.full
def test_same_bytes_by_every_strategy(ws: support.Workspace) -> None:
    seen = {}
    for flags in (
        ["--spawn_strategy=local"],
        ["--spawn_strategy=sandboxed"],
        ["--strategy=TileCompile=worker", "--experimental_worker_multiplex"],
        ["--strategy=TileCompile=worker", "--noexperimental_worker_multiplex", "--worker_sandboxing"],
    ):
        # A marker in every action's key, so that each strategy compiles and none takes the other's result.
        marker = f"--action_env=MARK={len(seen)}"
        ws.run("clean")
        done = ws.build("//k:axpy", ARCH, marker, *flags)
        assert done.ran() >= 3
        if "TileCompile=worker" in flags[0]:
            assert any("worker" in kind for kind in done.processes()), done.processes()
        seen[" ".join(flags)] = ws.digests("k")
    first = next(iter(seen.values()))
    assert len(first) >= 5
    for name, digests in seen.items():
        assert digests == first, name


def test_actions_hold_relative_paths_only(ws: support.Workspace) -> None:
    done = ws.run("aquery", ARCH, "--include_param_files", 'mnemonic("Tile.*", //k:all)')
    assert "Mnemonic: TileCompile" in done.out and "Mnemonic: TileHeader" in done.out
    lines = [
        line
        for line in done.out.splitlines()
        if not line.strip().startswith(("Environment", "ExecutionInfo"))
    ]
    assert not [line for line in lines if str(ws.root) in line or "/tmp/" in line or "/home/" in line]
    environments = {line.strip() for line in done.out.splitlines() if line.strip().startswith("Environment")}
    assert len(environments) == 1 and "PATH" not in environments.pop()


def test_tile_info_by_cquery(ws: support.Workspace) -> None:
    assert "//k:axpy.tilebc" in ws.run("query", "deps(//k:axpy, 1)").out
    expression = (
        "[(c.arch, c.host, c.file.basename) "
        "for c in providers(target)['@tileiras//:providers.bzl%TileInfo'].cubins.to_list()]"
    )
    done = ws.run(
        "cquery", ARCH, "--output=starlark", f"--starlark:expr={expression}", "config(//k:axpy, target)"
    )
    assert done.out.strip() == '[("sm_90", "x86_64-linux", "axpy.sm_90.cubin")]'


@pytest.mark.full
def test_output_groups_and_aspects(ws: support.Workspace) -> None:
    ws.build(
        "//k:program",
        ARCH,
        "--aspects=@tileiras//:defs.bzl%tile_compdb_aspect",
        "--output_groups=+tile_compdb",
    )
    commands = json.loads((ws.bin / "k/axpy.tile_compile_commands.json").read_text())
    assert [c["file"] for c in commands] == ["k/axpy.tilebc"]
    assert (
        commands[0]["output"].endswith("_tile/axpy/axpy.sm_90.cubin") and "sm_90" in commands[0]["arguments"]
    )
    ws.build(
        "//k:program", ARCH, "--aspects=@tileiras//:defs.bzl%tile_size_aspect", "--output_groups=tile_sizes"
    )
    sizes = json.loads((ws.bin / "k/program.tile_sizes.json").read_text())
    names = {Path(image["file"]).name: image["bytes"] for image in sizes["images"]}
    assert names["axpy.fatbin"] == (ws.bin / "k/axpy.fatbin").stat().st_size
    assert {kernel["name"] for kernel in sizes["kernels"]} == {"axpy_f32"}
    ws.run("clean")
    ws.build(
        "//k:program",
        ARCH,
        "--aspects=@tileiras//:defs.bzl%tile_collect_aspect",
        "--output_groups=tile_images",
    )
    assert (ws.bin / "k/axpy.fatbin").exists() and not (ws.bin / "k/program").exists()


def test_fatbin_of_several_libraries(ws: support.Workspace) -> None:
    ws.build("//k:bundle", ARCH)
    assert entries(ws.bin / "k/bundle.fatbin") == ["bundle.1.sm_89.cubin", "bundle.2.sm_120a.cubin"]
    ws.write(
        "clash/BUILD",
        'load("@tileiras//:defs.bzl", "tile_fatbin")\ntile_fatbin(name = "c", deps = ["//k:one", "//k:two"])\n',
    )
    build = ws.root / "k/BUILD"
    before = build.read_text()
    try:
        build.write_text(
            before
            + 'tile_cubin(name = "two", srcs = ["sub/axpy.tilebc"], arch = "sm_89", compiler = "nvidia")\n'
        )
        done = ws.build("//clash:c", "--nobuild", check=False)
        assert "both images for sm_89" in done.err
    finally:
        build.write_text(before)


@pytest.mark.full
def test_budgets_fail_the_build(ws: support.Workspace) -> None:
    ws.write("budget/k.tilebc", support.bytecode("axpy_f32").read_bytes())
    text = 'load("@tileiras//:defs.bzl", "tile_library")\n'
    for name, budget in (
        ("small", "max_registers = 2"),
        ("large", 'max_registers = 255, no_spills = True, max_shared = "100K"'),
    ):
        text += f'tile_library(name = "{name}", srcs = ["k.tilebc"], archs = ["90"], compiler = "nvidia", {budget})\n'
    ws.write("budget/BUILD", text)
    done = ws.build("//budget:small", check=False)
    assert "(Exit 5)" in done.err and "registers, more than the 2 allowed" in done.err
    ws.build("//budget:large")


@pytest.mark.full
def test_entries_are_verified(ws: support.Workspace) -> None:
    ws.write("entry/k.tilebc", support.bytecode("axpy_f32").read_bytes())
    ws.write(
        "entry/BUILD",
        'load("@tileiras//:defs.bzl", "tile_library")\n'
        'tile_library(name = "no", srcs = ["k.tilebc"], archs = ["90"], compiler = "nvidia", entries = ["nowhere"])\n'
        'tile_library(name = "yes", srcs = ["k.tilebc"], archs = ["90"], compiler = "nvidia", entries = ["axpy_f32"])\n',
    )
    done = ws.build("//entry:no", check=False)
    assert "nowhere" in done.err and "axpy_f32" in done.err
    ws.build("//entry:yes")


WRONG = [
    ('prefix = "1a-b"', "prefix = '1a-b' is no C identifier"),
    ('namespace = "a b"', "namespace = 'a b' is no C++ namespace"),
    ('max_shared = "12Q"', "max_shared = '12Q' is no size"),
    ("max_registers = -5", "max_registers = -5 is negative"),
    ('archs = ["90-virtual"], no_spills = True', "need a real architecture"),
    ("debug = True, opt_level = 3", "debug needs opt_level = 0"),
    ('host_constraint = "@platforms//cpu:ppc"', "is neither @platforms//cpu:x86_64 nor"),
    ('formats = ["exe"]', "'exe' is not one of"),
    ('compiler = "nvidia", launch_abi = "simt"', "writes tile images only"),
    ('remarks = "everything"', "contains errors"),  # by Bazel itself, with the values there are
    ("srcs = []", "srcs"),
]


def test_wrong_attributes_stop_the_analysis(ws: support.Workspace) -> None:
    for index, (words, message) in enumerate(WRONG):
        ws.write(f"wrong{index}/k.tilebc", support.bytecode("axpy_f32").read_bytes())
        sources = "" if words.startswith("srcs") else ', srcs = ["k.tilebc"]'
        rule = f'tile_library(name = "k"{sources}, {words})'
        ws.write(f"wrong{index}/BUILD", f'load("@tileiras//:defs.bzl", "tile_library")\n{rule}\n')
        done = ws.build(f"//wrong{index}:k", "--nobuild", ARCH, check=False)
        assert message in done.err, (words, done.err)
    test = 'tile_test(name = "t", data = "d.npz", entry = "axpy_f32", kernel = "//k:axpy", {})'
    for index, (words, message) in enumerate(
        [("grid = [1, 2, 3, 4]", "not one to three positive numbers"), ('arch = "moon"', "names no GPU")]
    ):
        ws.write(f"wrong_test{index}/d.npz", "")
        ws.write(
            f"wrong_test{index}/BUILD", f'load("@tileiras//:defs.bzl", "tile_test")\n{test.format(words)}\n'
        )
        done = ws.build(f"//wrong_test{index}:t", "--nobuild", ARCH, check=False)
        assert message in done.err, (words, done.err)


@pytest.mark.full
def test_files_that_are_one_c_identifier(ws: support.Workspace) -> None:
    """Each has an image of its own: a linker would silently take the first of two that have one name."""
    names = ("a-b", "a_b", "K", "k")
    for name, kernel in zip(names, ("axpy_f32", "axpy_f16", "axpy_f32", "axpy_f16")):
        ws.write(f"same/{name}.tilebc", support.bytecode(kernel).read_bytes())
    sources = ", ".join(f'"{name}.tilebc"' for name in names)
    ws.write(
        "same/BUILD",
        'load("@tileiras//:compat.bzl", "cc_binary")\nload("@tileiras//:defs.bzl", "tile_library")\n'
        f'tile_library(name = "lib", srcs = [{sources}], compiler = "nvidia")\n'
        'cc_binary(name = "app", srcs = ["main.cc"], deps = [":lib"])\n',
    )
    prefixes = ("lib_a_b", "lib_a_b_2", "lib_K", "lib_k")
    rows = " ".join(f'std::printf("%s\\n", {prefix}_kernels[0].name);' for prefix in prefixes)
    ws.write(
        "same/main.cc", f'#include <cstdio>\n#include "same/lib_tile.h"\nint main() {{ {rows} return 0; }}\n'
    )
    ws.build("//same:app", ARCH)
    done = subprocess.run([ws.bin / "same/app"], capture_output=True, text=True)
    assert done.stdout.split() == ["axpy_f32", "axpy_f16", "axpy_f32", "axpy_f16"]


KERNEL_PY = """import cuda.tile as ct
from shared.scale import scaled


@ct.kernel
def twice(a, b, n: ct.Constant[int]):
    i = ct.bid(0)
    ct.store(b, index=(i,), tile=scaled(ct.load(a, index=(i,), shape=(n,))))
"""

SCALE_PY = """import cuda.tile as ct


@ct.function
def scaled(x):
    return x + x
"""


def test_cutile_python_sources(ws: support.Workspace) -> None:
    """Exported by cuTile Python; an import that the rule does not list is named, in a sandbox and outside."""
    ws.write("py/k.py", KERNEL_PY)
    ws.write("py/shared/scale.py", SCALE_PY)
    ws.write("py/shared/__init__.py", "")
    rule = (
        'tile_library(name = "{name}", srcs = ["k.py"], archs = ["90"], compiler = "nvidia", entries = ["twice"], '
        'signature = "f32[1],f32[1],=128"{more})\n'
    )
    text = 'load("@tileiras//:defs.bzl", "tile_library")\n' + rule.format(name="bare", more="")
    text += rule.format(name="full", more=', hdrs = ["shared/__init__.py", "shared/scale.py"]')
    text += (
        'load("@tileiras//:compat.bzl", "py_library")\n'
        'py_library(name = "lib", srcs = ["lib/shared/__init__.py", "lib/shared/scale.py"], imports = ["lib"])\n'
        'tile_library(name = "matrix", srcs = ["k.py"], archs = ["90"], compiler = "nvidia", '
        'matrices = {"m.json": "twice"}, py_deps = [":lib"])\n'
    )
    ws.write("py/lib/shared/scale.py", SCALE_PY)
    ws.write("py/lib/shared/__init__.py", "")
    matrix = {
        "values": {"n": [64, 128], "t": ["f32", "f16"]},
        "signature": "{t}[1],{t}[1],={n}",
        "symbol": "twice_{t}_{n}",
    }
    ws.write("py/m.json", json.dumps(matrix))
    ws.write("py/BUILD", text)
    done = ws.build("//py:bare", "--strategy=TileExport=sandboxed", check=False)
    assert "No module named 'shared'" in done.err and "`hdrs`" in done.err
    done = ws.build("//py:bare", "--strategy=TileExport=local", check=False)
    assert "py/shared/scale.py" in done.err and "`hdrs`" in done.err
    ws.build("//py:full")
    ws.build("//py:matrix")
    table = json.loads((ws.bin / "py/_tile/matrix/k.sm_90.kernels.json").read_text())
    symbols = sorted(kernel["symbol"] for kernel in table["kernels"])
    assert symbols == ["twice_f16_128", "twice_f16_64", "twice_f32_128", "twice_f32_64"]
    before = (ws.bin / "py/_tile/full/k.tilebc").read_bytes()
    # The source locations name files as the workspace does, never a sandbox or an output base.
    assert (
        b"py/k.py" in before and b"py/shared/scale.py" in before and str(ws.execroot).encode() not in before
    )
    table = json.loads((ws.bin / "py/_tile/full/k.sm_90.kernels.json").read_text())
    assert len(table["kernels"]) == 1 and "twice" in table["kernels"][0]["symbol"]
    ws.write("py/shared/scale.py", SCALE_PY.replace("x + x", "x * x"))
    ws.build("//py:full")
    assert (ws.bin / "py/_tile/full/k.tilebc").read_bytes() != before


def test_names_that_shells_and_makefiles_trip_over(ws: support.Workspace) -> None:
    name = "a b#c$d"
    ws.write(f"odd/{name}.tilebc", support.bytecode("axpy_f32").read_bytes())
    ws.write(
        "odd/BUILD",
        'load("@tileiras//:defs.bzl", "tile_library")\n'
        f'tile_library(name = "odd", srcs = ["{name}.tilebc"], archs = ["90"], compiler = "nvidia")\n',
    )
    ws.build("//odd")
    assert (ws.bin / f"odd/_tile/odd/{name}.sm_90.cubin").exists()


def test_toolchain_info(ws: support.Workspace) -> None:
    ws.build("@tileiras//:toolchain_info")
    info = json.loads((ws.bin / "external/tileiras/toolchain_info.json").read_text())
    assert info["version"] == "13.4" and info["hermetic"] is False
    assert info["ptxas"].startswith("external/") and info["supported_archs"]["nvidia"][0] == "80"


def test_the_generated_files_are_plain(ws: support.Workspace) -> None:
    """No output is a link out of the output folder, and none is left half-written."""
    ws.build("//k:axpy", ARCH)
    for path in (ws.bin / "k").resolve().rglob("*"):
        assert not path.name.endswith((".tmp", ".partial")), path
    assert stat.S_ISREG(os.lstat(ws.bin / "k/_tile/axpy/axpy.sm_90.cubin").st_mode)


TEXT_BUILD = """
load("@tileiras//:defs.bzl", "tile_golden_test", "tile_library", "tile_test")

tile_library(
    name = "add",
    srcs = ["vector_add.tileir"],
    archs = ["80", "sm_90"],
    formats = ["fatbin", "ptx", "tilebc"],
)

tile_golden_test(name = "ptx", arch = "sm_80", golden = "add.ptx", kernel = ":add")

tile_golden_test(name = "tileir", golden = "add.tileir", kernel = ":add", kind = "tileir")

tile_golden_test(name = "sass", arch = "sm_90", golden = "add.sass", kernel = ":add", kind = "sass")

tile_test(name = "right", data = "right.npz", entry = "vector_add", kernel = ":add", target = "reference")

tile_test(name = "wrong", data = "wrong.npz", entry = "vector_add", kernel = ":add", target = "reference")
"""


@pytest.mark.full
def test_text_source_built_in_compiler_and_tests_of_kernels(ws: support.Workspace) -> None:
    """From Tile IR text: PTX and bytecode as artefacts, golden files that can be blessed, numeric tests."""
    text = (support.REPOSITORY / "examples/bazel/kernels/vector_add.tileir").read_text()
    ws.write("text/vector_add.tileir", text)
    ws.write("text/BUILD", TEXT_BUILD)
    for name in ("add.ptx", "add.tileir", "add.sass"):
        ws.write(f"text/{name}", "to be blessed\n")
    a = np.arange(300, dtype=np.float32)
    arrays = {"arg0": a, "arg1": a / 4, "arg2": np.zeros_like(a), "arg3": np.int32(300)}
    np.savez(ws.root / "text/right.npz", **arrays, expected2=a + a / 4)
    np.savez(ws.root / "text/wrong.npz", **arrays, expected2=a)
    ws.build("//text:add")
    names = {path.name for path in (ws.bin / "text/_tile/add").iterdir()}
    assert {"vector_add.sm_80.ptx", "vector_add.compute_80.ptx", "vector_add.tilebc"} <= names
    assert (ws.bin / "text/_tile/add/vector_add.tilebc").read_bytes()[:8] == b"\x7fTileIR\0"
    assert sorted(e.rpartition(".sm_")[2] for e in entries(ws.bin / "text/add.fatbin")) == [
        "80.cubin",
        "80.ptx",
        "90.cubin",
    ]
    done = ws.run(
        "test", "//text:ptx", "//text:tileir", "//text:sass", "//text:right", "--test_output=all", check=False
    )
    assert "3 fail" in done.out and "--bless" in done.out and "PASSED: vector_add on reference" in done.out
    for name in ("ptx", "tileir", "sass"):
        ws.run("run", f"//text:{name}", "--", "--bless")
    assert ".visible .entry vector_add(" in (ws.root / "text/add.ptx").read_text()
    assert "FADD" in (ws.root / "text/add.sass").read_text()
    ws.run("test", "//text:ptx", "//text:tileir", "//text:sass", "//text:right")
    done = ws.run("test", "//text:wrong", "--test_output=all", check=False)
    assert "argument 2 is wrong: 299 of 300 elements" in done.out
    ws.write("text/vector_add.tileir", text.replace("addf %x, %y", "subf %x, %y"))
    done = ws.run("test", "//text:ptx", "//text:tileir", "//text:sass", "//text:right", check=False)
    assert "4 fail" in done.out
