"""What a frontend writes around its kernels: module shell, signature, target, launch attributes and their directives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from contract.handshake_kernels import LOADS_IN_LOOP
from contract.kit import NOOP, bytecode, compile_, entry, messages, module, ptx_of, run
from contract.rules import rule

from tests.fixtures import BYTECODE
from tileiras.compiler import pipeline
from tileiras.compiler.bytecode import reader, wire
from tileiras.compiler.bytecode.wire import put_varint
from tileiras.compiler.source import load, to_bytecode, to_text
from tileiras.compiler.target import sm
from tileiras.diag import Sink

CAPABILITY = "nv_tileaa.compute_capability = 90 : i32"


def directives(attrs: str = "", entry_attrs: str = "", capability: str = CAPABILITY) -> list[str]:
    """The directive lines of an empty kernel, from .entry on."""
    text = module(entry(name="noop", attrs=entry_attrs), attrs=", ".join(filter(None, (capability, attrs))))
    lines = [line.strip() for line in ptx_of(text).splitlines()]
    return [
        line for line in lines[lines.index(next(x for x in lines if ".entry" in x)) :] if line.startswith(".")
    ]


def refused(attrs: str = "", entry_attrs: str = "") -> list[str]:
    code, found, _ = compile_(
        module(entry(attrs=entry_attrs), attrs=", ".join(filter(None, (CAPABILITY, attrs))))
    )
    assert code == 5
    return messages(found)


def spec_of(attrs: str) -> dict[str, Any]:
    """The kernel_spec of the one entry, behind the step that attaches it."""
    sink = Sink()
    seen: list[Any] = []

    def after(name: str, ir: Any) -> None:
        if name == "attachKernelSpecAttributes":
            seen.extend(op.attrs["nv_tileaa.kernel_spec"] for op in ir.regions[0].block.ops)

    pipeline.compile_module(load(module(entry(), attrs=attrs), sink), sm.find("sm_90"), sink, after=after)
    (spec,) = seen
    return spec.entries()


# ---- producers


@rule("frontend-four-boundaries", "frontend-producer-cutlass-dsl")
@pytest.mark.parametrize("name", ["abs_f16", "axpy_f32", "cast_bf16_f32", "bisection"])
def test_what_real_frontends_write_compiles_in_silence(name: str) -> None:
    # A frontend that writes cuda_tile directly, through the public container (here: cuTile Python's files).
    assert compile_((BYTECODE / f"{name}.tilebc").read_bytes(), "sm_90")[:2] == (0, [])


def with_producer(data: bytes, name: bytes | None) -> bytes:
    """Bytecode whose producer section names `name`; None: it has no such section."""
    from contract.test_bytecode import assemble, sections

    parts = [part for part in sections(data) if part[0] != wire.PRODUCER]
    if name is not None:
        strings = reader.read(data, Sink())
        assert strings is not None
        index = bytearray()
        table = next(payload for number, _, payload in parts if number == wire.STRING)
        count = table[0]
        at = next(i for i, part in enumerate(parts) if part[0] == wire.STRING)
        old = table[4 + 4 * count :]
        offsets = table[4 : 4 + 4 * count] + len(old).to_bytes(4, "little")
        parts[at] = (wire.STRING, 4, bytes((count + 1,)) + b"\xcb" * 3 + offsets + old + name)
        put_varint(index, count)
        parts.append((wire.PRODUCER, 1, bytes(index)))
    made = assemble(parts, data[:12])
    assert reader.read(made, Sink()).attrs.get("producer") == (name.decode() if name is not None else None)
    return made


@rule("frontend-no-allowlist")
def test_no_producer_is_special() -> None:
    data = bytecode(NOOP.replace(", tt.num_warps = 4 : i32", ""), "13.3")
    alone = ptx_of(with_producer(data, None), "sm_90")
    assert alone == ptx_of(with_producer(data, b"nvcc"), "sm_90")
    assert alone == ptx_of(with_producer(data, b"my own frontend 0.1"), "sm_90")


@rule("frontend-producer-cutlass-dsl")
@pytest.mark.parametrize("producer", [b"CUTLASS DSL 4.3.0", b"cutlass"])
def test_a_module_in_the_style_of_the_cutlass_dsl(producer: bytes) -> None:
    """No file of that frontend is at hand: what it promises is the container, cuda_tile ops and these names."""
    text = LOADS_IN_LOOP.replace(
        "tt.num_warps = 4 : i32",
        "tt.num_warps = 8 : i32, tt.num_stages = 2 : i32, tt.cluster_dim = [2, 1, 1]",
    )
    data = with_producer(to_bytecode(load(text, Sink()), "13.3"), producer)
    made = ptx_of(data, "sm_90")
    assert made == ptx_of(text)
    assert ".reqntid 256, 1, 1" in made and ".reqnctapercluster 2, 1, 1" in made
    assert made.count("ld.global") == 2 * ptx_of(LOADS_IN_LOOP).count("ld.global")


@rule("frontend-producer-triton", "frontend-triton-convention")
def test_tt_attributes_reach_the_kernel() -> None:
    assert ".reqntid 256, 1, 1" in directives("tt.num_warps = 8 : i32, tt.num_stages = 3 : i32")
    assert ".reqntid 128, 1, 1" in directives(), "a frontend without them has the defaults"


@rule("frontend-producer-mlir-translate")
def test_text_through_the_writer(tmp_path: Path) -> None:
    import sys

    source = tmp_path / "k.tileir"
    source.write_text(NOOP)
    done = run([sys.executable, "-c", "from tileiras.tools.translate import main; import sys; sys.exit(main(sys.argv[1:]))",
                str(source), "-o", str(tmp_path / "k.tilebc")], tmp_path)  # fmt: skip
    assert done.status == 0, done.err
    assert ptx_of((tmp_path / "k.tilebc").read_bytes(), "sm_90") == ptx_of(NOOP)
    code, found, _ = compile_(b"ML\xefR\x01MLIR19.0.0git\0" + bytes(40), "sm_90")  # a stock writer
    assert code == 3 and messages(found)[-1].endswith("(it looks like MLIR bytecode instead)")


@rule("frontend-producer-hand-rolled", "frontend-three-conventions")
def test_hand_rolled_bytes() -> None:
    from contract.test_bytecode import assemble

    strings = b"\x01\xcb\xcb\xcb\0\0\0\0hand"
    types = b"\x01\xcb\xcb\xcb\0\0\0\0\x10\0\0"  # () -> ()
    functions = b"\x01\x00\x00\x02\x00\x03\x5c\0\0"  # one entry with a return
    parts = [(wire.FUNC, 8, functions), (wire.TYPE, 4, types), (wire.STRING, 4, strings)]
    assert ".entry hand()" in ptx_of(assemble(parts), "sm_90")
    # operations, launch metadata, numbering: what breaking each of the three conventions gives
    broken = [(wire.FUNC, 8, functions[:6] + b"\x5b" + functions[7:])] + parts[1:]
    assert compile_(assemble(broken), "sm_90")[0] == 3
    assert ".reqntid 128, 1, 1" in ptx_of(NOOP.replace("tt.num_warps = 4", "xx.num_warps = 8"))
    tagged = [(wire.FUNC, 8, b"\x01\x00\x00\x06\x00\x0e\x00\x03\x5c\0\0")] + parts[1:]
    assert messages(compile_(assemble(tagged), "sm_90")[1])[0] == "unknown attribute tag 14"


# ---- shell and signature


@rule("frontend-module-shell")
def test_module_shell() -> None:
    two = module(entry(name="a") + "\n" + entry(name="b"), attrs=CAPABILITY + ", tt.num_warps = 2 : i32")
    text = ptx_of(two)
    assert ".entry a()" in text and ".entry b()" in text and text.count(".reqntid 64, 1, 1") == 2
    # NVIDIA's form without the outer module is read as well.
    assert ".entry k()" in ptx_of("cuda_tile.module @m { entry @k() { return } }", "sm_90")
    assert ".entry k()" in ptx_of("module { cuda_tile.entry @k() { cuda_tile.return } }", "sm_90")
    assert compile_("module { cuda_tile.module { cuda_tile.module { } } }", "sm_90")[0] == 5


@rule("frontend-entry-op", "frontend-pitfall-kernel-marker")
def test_only_an_entry_is_a_kernel() -> None:
    # The documents let func.func compile into a cubin without a kernel. Only cuda_tile's
    # operations are read, so the mistake shows before anything is launched.
    code, found, _ = compile_(
        f"module attributes {{{CAPABILITY}}} {{ cuda_tile.module {{ func.func @k() {{ func.return }} }} }}"
    )
    assert code == 5 and messages(found)[0] == "unregistered dialect: func"
    assert ".entry k()" in ptx_of(module(entry()))


@rule("frontend-entry-terminator")
def test_the_body_ends_with_return() -> None:
    good = module("    cuda_tile.entry @k() {\n      cuda_tile.return\n    }")
    assert compile_(good)[:2] == (0, [])
    code, found, _ = compile_(good.replace("cuda_tile.return", "func.return"))
    assert code == 5 and messages(found)[0] == "unregistered dialect: func"
    assert found[0].loc is not None and (found[0].loc.line, found[0].loc.col) == (4, 7)
    code, found, _ = compile_(good.replace("cuda_tile.return", "cuda_tile.yield"))
    assert code == 5
    code, found, _ = compile_(
        good.replace("      cuda_tile.return\n", "      cuda_tile.return\n      cuda_tile.return\n")
    )
    assert code == 5, "nothing may follow the terminator"
    assert ptx_of(good.replace("      cuda_tile.return\n", "")) == ptx_of(good), "text may leave it out"


@rule("frontend-entry-arguments")
def test_entry_arguments() -> None:
    good = module(
        entry(args="%p: !cuda_tile.ptr<f32>, %q: i32, %r: f16, %s: !cuda_tile.tile<ptr<f64>>, %t: tile<i64>")
    )
    lines = [line.split() for line in ptx_of(good).splitlines() if line.strip().startswith(".param")]
    assert [line[1] for line in lines] == [".u64", ".u32", ".b16", ".u64", ".u64"]
    for kind, dialect in (("!llvm.ptr", "llvm"), ("!nvvm.x", "nvvm"), ("!foo.bar<3>", "foo")):
        code, found, _ = compile_(module(entry(args=f"%p: {kind}")))
        assert code == 5 and messages(found)[0] == f"unregistered dialect: {dialect}"
    # row 16: views pass the reader, and have no place among kernel parameters.
    view = "!cuda_tile.tensor_view<?xf32, strides=[1]>"
    code, found, _ = compile_(module(entry(args=f"%p: {view}")))
    assert code == 5 and "argument 0" in messages(found)[0]
    code, found, _ = compile_(module(entry(args="%p: !cuda_tile.tile<4xi32>")))
    assert code == 5


@rule("frontend-minimal-kernel")
def test_minimal_kernel() -> None:
    assert "\n.visible .entry noop()\n" in ptx_of(NOOP)


@rule("frontend-minimal-directives")
def test_minimal_directives() -> None:
    # .maxnreg only if set, so .entry, .reqntid and the parameter block.
    assert directives("tt.num_warps = 4 : i32") == [".visible .entry noop()", ".reqntid 128, 1, 1"]


# ---- the target


@rule("frontend-capability-encoding")
@pytest.mark.parametrize("number", [75, 80, 89, 90, 100, 103, 120])
def test_capability_is_major_times_ten_plus_minor(number: int) -> None:
    attrs = f"nv_tileaa.compute_capability = {number} : i32"
    assert f"\n.target sm_{number}" in ptx_of(module(entry(), attrs=attrs))
    code, found, _ = compile_(module(entry(), attrs=attrs.replace(str(number), "91")))
    assert (code, messages(found)) == (2, ["unsupported GPU target 'sm_91'"])
    # sm_70 of the documents' table: no ptxas of a release with Tile IR assembles for it.
    assert compile_(module(entry(), attrs=attrs.replace(str(number), "70")))[0] == 2


@rule("frontend-target-spec-fallback")
def test_target_spec() -> None:
    spec = 'nv_tileaa.target_spec = "sm_80"'
    assert "\n.target sm_80" in ptx_of(module(entry(), attrs=spec))
    assert "\n.target sm_90" in ptx_of(module(entry(), attrs=f"{CAPABILITY}, {spec}"))
    assert compile_(module(entry(), attrs='nv_tileaa.target_spec = "sm_8"'))[0] == 2


# ---- launch attributes


@rule("frontend-attr-num-warps", "frontend-ptx-reqntid")
def test_num_warps() -> None:
    assert ".reqntid 128, 1, 1" in directives()
    for warps in (1, 2, 4, 8):
        assert f".reqntid {32 * warps}, 1, 1" in directives(f"tt.num_warps = {warps} : i32")
    for warps in ("3", "0", "-4", "64"):
        assert any(
            "tt.num_warps" in said and warps in said for said in refused(f"tt.num_warps = {warps} : i32")
        )


@rule("frontend-attr-cluster-dim", "frontend-ptx-cluster")
@pytest.mark.parametrize("spelled", ["[2, 1, 1]", "array<i32: 2, 1, 1>", "[2 : i32, 1 : i32, 1 : i32]"])
def test_cluster_dim(spelled: str) -> None:
    line = ".reqnctapercluster 2, 1, 1"
    assert line in directives(f"tt.cluster_dim = {spelled}")
    assert not any(
        "cluster" in x
        for x in directives(f"tt.cluster_dim = {spelled.replace('[2', '[1').replace(': 2', ': 1')}")
    )
    assert not any("cluster" in x for x in directives())
    below = "nv_tileaa.compute_capability = 80 : i32"
    assert not any("cluster" in x for x in directives(f"tt.cluster_dim = {spelled}", capability=below))
    assert any("tt.cluster_dim" in said for said in refused("tt.cluster_dim = [2, 1]"))


@rule("frontend-attr-num-ctas")
def test_num_ctas() -> None:
    assert ".reqnctapercluster 2, 1, 1" in directives("tt.num_ctas = 2 : i32")
    assert not any("cluster" in x for x in directives("tt.num_ctas = 1 : i32"))


@rule("frontend-attr-num-stages", "frontend-triton-dump")
@pytest.mark.parametrize(
    "attrs", ["tt.num_stages = 3 : i32", "tt.dump_intermediate", "tt.dump_intermediate = true"]
)
def test_advisory_attributes(attrs: str) -> None:
    assert directives(attrs) == directives()
    assert ptx_of(module(entry(), attrs=f"{CAPABILITY}, {attrs}")) == ptx_of(
        module(entry(), attrs=CAPABILITY)
    )


@rule("frontend-triton-cluster-size")
def test_cluster_size() -> None:
    short = spec_of(f"{CAPABILITY}, tt.cluster_size = [2, 1, 1]")
    assert short == spec_of(f"{CAPABILITY}, tt.cluster_dim = [2, 1, 1], tt.num_ctas = 2 : i32")
    assert short != spec_of(CAPABILITY)
    assert tuple(short["cluster_dim"]) == (2, 1, 1) and short["num_ctas"] == 2


@rule("frontend-triton-persistent")
def test_persistent() -> None:
    spec = spec_of(f"{CAPABILITY}, tt.is_persistent")
    assert spec["is_persistent"] and spec["scheduler"] == "StaticPersistent"
    assert "is_persistent" not in spec_of(CAPABILITY)
    assert spec_of(f"{CAPABILITY}, tt.is_persistent = true") == spec
    for off in ("tt.is_persistent = false", "tt.is_persistent = 0 : i32"):
        assert spec_of(f"{CAPABILITY}, {off}") == spec_of(CAPABILITY)
    # a deviation: who launches decides on the grid, so no code depends on the choice
    for source in (NOOP, LOADS_IN_LOOP):
        assert ptx_of(source.replace("tt.num_warps", "tt.is_persistent, tt.num_warps")) == ptx_of(source)


@rule("frontend-attr-kernel-spec")
def test_kernel_spec_is_attached() -> None:
    sink = Sink()
    specs: dict[str, Any] = {}

    def after(name: str, ir: Any) -> None:
        if name in ("ConvertCudaTileToTileAA", "attachKernelSpecAttributes"):
            specs[name] = [
                spec.entries() if (spec := op.attrs.get("nv_tileaa.kernel_spec")) else {}
                for op in ir.regions[0].block.ops
            ]

    two = load(
        module(entry(name="a") + "\n" + entry(name="b"), attrs=f"{CAPABILITY}, tt.num_warps = 8 : i32"), sink
    )
    pipeline.compile_module(two, sm.find("sm_90"), sink, after=after)
    assert specs["ConvertCudaTileToTileAA"] == [{}, {}], "absent before the step"
    assert len(specs["attachKernelSpecAttributes"]) == 2
    for spec in specs["attachKernelSpecAttributes"]:
        assert spec["num_warps"] == 8 and spec["num_ctas"] == 1 and tuple(spec["cluster_dim"]) == (1, 1, 1)


@rule("frontend-nvvm-maxnreg")
def test_maxnreg() -> None:
    assert ".maxnreg 64" in directives(entry_attrs="nvvm.maxnreg = 64 : i32")
    assert not any("maxnreg" in x for x in directives())
    # it bypasses the kernel spec: what the spec would synthesise does not override it
    assert ".maxnreg 64" in directives(entry_attrs="nvvm.maxnreg = 64 : i32, nv_tileaa.occupancy = 4 : i32")


@rule("frontend-nvvm-minctasm")
def test_minctasm() -> None:
    assert ".minnctapersm 2" in directives(entry_attrs="nvvm.minctasm = 2 : i32")
    assert not any("ctapersm" in x for x in directives())


@rule("frontend-nvvm-maxclusterrank")
def test_maxclusterrank() -> None:
    assert ".maxclusterrank 8" in directives(entry_attrs="nvvm.maxclusterrank = 8 : i32")
    assert not any("maxclusterrank" in x for x in directives())


@rule("frontend-nvvm-blocksareclusters")
def test_blocksareclusters() -> None:
    assert ".blocksareclusters" in directives(entry_attrs="nvvm.blocksareclusters")
    assert not any("blocksareclusters" in x for x in directives())
    assert any(
        "blocksareclusters" in said
        for said in refused("tt.cluster_dim = [2, 1, 1]", "nvvm.blocksareclusters")
    )


@rule("frontend-attr-nvvm-kernel")
def test_nvvm_kernel_is_synthesised() -> None:
    assert ".visible .entry noop()" in directives(), "without nvvm.kernel in the input"
    _, _, made = compile_(NOOP)
    assert made is not None and "noop" in made.kernels
    assert "nvvm.kernel" not in to_text(load(NOOP, Sink()))


@rule("frontend-attr-occupancy")
def test_occupancy() -> None:
    # Floor(65536 / (occupancy * 32 * num_warps)), rounded down to a multiple of 8, at most 255
    assert not any("maxnreg" in x for x in directives())
    for occupancy, warps, registers in ((1, 4, 255), (4, 4, 128), (3, 4, 168), (2, 8, 128), (16, 4, 32)):
        found = directives(f"tt.num_warps = {warps} : i32", f"nv_tileaa.occupancy = {occupancy} : i32")
        assert f".maxnreg {registers}" in found


@rule("frontend-wrong-namespace-silent")
def test_another_namespace_is_ignored() -> None:
    assert ".reqntid 128, 1, 1" in directives(
        "myfrontend.num_warps = 8 : i32, myfrontend.cluster_dim = [2, 1, 1]"
    )
    assert directives("myfrontend.num_warps = 8 : i32") == directives()
    assert ".reqntid 256, 1, 1" in directives("tt.num_warps = 8 : i32")


@rule("frontend-foreign-attributes")
def test_foreign_attributes_change_nothing() -> None:
    tagged = module(
        entry(attrs="my.note = [1, 2]"), attrs=f'{CAPABILITY}, my.tag = "x", other.thing = {{a = 1 : i32}}'
    )
    assert ptx_of(tagged) == ptx_of(module(entry(), attrs=CAPABILITY))
    assert 'my.tag = "x"' in to_text(load(tagged, Sink())), "and survive as far as nobody rewrites them"
    kept: dict[str, tuple[Any, Any]] = {}

    def after(name: str, ir: Any) -> None:
        if hasattr(ir, "regions"):  # ops; behind them are functions of instructions
            (func,) = ir.regions[0].block.ops
            kept[name] = ir.attrs.get("my.tag"), func.attrs.get("my.note")

    pipeline.compile_module(load(tagged, Sink()), sm.find("sm_90"), Sink(), after=after)
    assert {"ConvertCudaTileToTileAA", "ConvertTileAAToTileAS", "ConvertTileFuncToLLVM"} <= set(kept)
    assert set(kept.values()) == {("x", (1, 2))}, kept


@pytest.mark.parametrize(
    "attrs", ["tt.num_warps = 8 : i32", "tt.cluster_dim = array<i32: 2, 1, 1>", "tt.num_stages = 2 : i32"]
)
def test_launch_attributes_survive_bytecode(attrs: str) -> None:
    text = module(entry(attrs="nvvm.maxnreg = 64 : i32"), attrs=f"{CAPABILITY}, {attrs}")
    data = to_bytecode(load(text, Sink()))
    assert ptx_of(data, "sm_90") == ptx_of(text)


def test_the_generic_form_carries_the_same() -> None:
    """What no field describes is the same in `attributes {...}` and between the `<{` and `}>` of the generic form."""
    own = "nvvm.maxnreg = 64 : i32, nvvm.minctasm = 2 : i64, nv_tileaa.occupancy = 2 : i32"
    text = module(entry(attrs=own), attrs=f"{CAPABILITY}, tt.num_warps = 8 : i32, tt.cluster_dim = [2, 1, 1]")
    generic = to_text(load(text, Sink()), generic=True)
    typed = generic.replace("nvvm.minctasm = 2 : i32", "nvvm.minctasm = 2 : i64")
    assert typed != generic and '"cuda_tile.entry"() <{' in typed
    assert ptx_of(typed) == ptx_of(text)
    assert to_text(load(typed, Sink())) == to_text(load(text, Sink()))
    behind = text.replace(f" attributes {{{own}}}", "").replace(
        "cuda_tile.return\n    }", f"cuda_tile.return\n    }} {{{own}}}"
    )
    assert behind.count(own) == 1 and ptx_of(behind) == ptx_of(text)


@pytest.mark.parametrize("version", [None, "13.1", "13.4", "13.5"])
def test_attributes_of_arguments_survive(version: str | None) -> None:
    args = '%a: tile<ptr<f32>> {tt.divisibility = 16 : i32, my.note = "x"}, %b: tile<i32>'
    module = load(NOOP.replace("@noop()", f"@noop({args})"), Sink())
    text = to_text(module)
    assert '%arg0: tile<ptr<f32>> {my.note = "x", tt.divisibility = 16}, %arg1: tile<i32>' in text
    assert to_text(load(text, Sink())) == text
    assert to_text(load(to_text(module, generic=True), Sink())) == text
    again = reader.read(to_bytecode(module, version), Sink())
    assert (
        again.regions[0].block.ops[0].attrs["arg_attrs"] == module.regions[0].block.ops[0].attrs["arg_attrs"]
    )


def hints_of(text: str) -> tuple[dict[str, Any], Any]:
    """(hints that any reader of the bytecode finds, the module as our reader has it)."""
    from tileiras.compiler.bytecode import launch_hints

    data = to_bytecode(load(text, Sink()))
    keep = launch_hints.take_out
    try:
        launch_hints.take_out = lambda hints, extra: None  # type: ignore[assignment]
        plain = reader.read(data, Sink())
    finally:
        launch_hints.take_out = keep  # type: ignore[assignment]
    found = plain.regions[0].block.ops[0].attrs.get("optimization_hints") or {}
    return found, reader.read(data, Sink())


@pytest.mark.parametrize(
    ("attrs", "own", "hints", "seen"),
    [
        ("tt.num_ctas = 2 : i32", "", "", {"num_cta_in_cga": 2}),
        ("tt.cluster_dim = array<i32: 4, 1, 1>", "", "", {"num_cta_in_cga": 4}),
        ("tt.cluster_size = [2, 1, 1], tt.num_ctas = 4 : i32", "", "", {"num_cta_in_cga": 2}),
        ("tt.num_ctas = 1 : i32, tt.num_warps = 4 : i32", "", "", {"num_worker_warps_per_cta": 4}),
        ("tt.num_ctas = 3 : i32", "", "", {}),
        ("tt.num_warps = 8 : i32", "tt.num_warps = 4 : i32", "", {"num_worker_warps_per_cta": 4}),
        ("my.tag = 1 : i32", "nv_tileaa.occupancy = 3 : i32", "", {"occupancy": 3}),
        ("tt.num_ctas = 2 : i32", "", "default = {num_cta_in_cga = 4}", {"num_cta_in_cga": 4}),
        ("tt.num_ctas = 2 : i32", "", "default = {latency = 3}", {"latency": 3, "num_cta_in_cga": 2}),
        ("", "", "default = {num_cta_in_cga = 4}", {"num_cta_in_cga": 4}),
    ],
)
def test_launch_attributes_are_hints_to_other_readers(
    attrs: str, own: str, hints: str, seen: dict[str, int]
) -> None:
    """What the real format has a hint for reaches real compilers; a hint is used as is."""
    text = module(entry(attrs=own), attrs=f"{CAPABILITY}, {attrs}" if attrs else CAPABILITY)
    if hints:
        text = text.replace("@k()", f"@k() optimization_hints=<{hints}>")
        assert hints in text
    found, again = hints_of(text)
    assert found.get("default", {}) == seen
    assert to_text(again).replace("@kernels", "") == to_text(load(text, Sink())).replace("@kernels", "")
