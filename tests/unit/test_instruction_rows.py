"""The instruction table against ptxas: every row assembles on the targets that its feature names, and on no other."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests import peers
from tileiras import archs
from tileiras.compiler.nvvm.inst import PSEUDO, Resolved, matches, resolve
from tileiras.compiler.nvvm.rows import ROWS
from tileiras.compiler.target import sm

PTX = (9, 4)  # what ptxas of the main release reads


def spellings(modifiers: str) -> list[str]:
    """A few opcodes of a row: each choice of its last type, with the other slots at their first choice."""
    slots = [slot for slot in modifiers.split(".") if slot]
    first = [(slot.rstrip("?").split("|")[0].replace("*", "64"), slot.endswith("?")) for slot in slots]
    short = [word for word, optional in first if not optional]
    long = [word for word, _ in first]
    out = {".".join(short): None, ".".join(long): None}
    for at, slot in enumerate(slots):  # every choice once, with what must be there
        for choice in slot.rstrip("?").split("|"):
            words = [
                choice.replace("*", "64") if i == at else word
                for i, (word, optional) in enumerate(first)
                if i == at or not optional
            ]
            out[".".join(words)] = None
    return list(out)


def operand(place: str, opcode: str, at: int) -> str:
    place = place.rstrip("?").removeprefix("M").rstrip("w")
    cls, digits = place[0], place[1:]
    if place == "A":
        wide = ".global" in opcode or "generic" in opcode or opcode.startswith("prefetch")
        return "[%r1]" if "replace" in opcode and "shared" in opcode or not wide else "[%d1]"
    if digits.isdecimal():
        return "{" + ", ".join(f"%{cls}{i + 1}" for i in range(int(digits))) + "}"
    if place == "r|p":
        return "%r1|%p1"
    if place == "m":
        dims = next(int(word[0]) for word in opcode.split(".") if re.fullmatch("[1-5]d", word))
        return "[%d1, {" + ", ".join(["%r1"] * dims) + "}]"
    if place == "i":
        known = {"cp.async.c": "16", "setmaxnreg": "24", "tensormap.cp": "128", "fence.proxy": "128"}
        return next((value for head, value in known.items() if opcode.startswith(head)), "1")
    if place in "phrd":
        return f"%{place}{at + 2}"
    return {"L": "done", "N": "_", "t": "{0, 0}"}[place]


def instruction(opcode: str, info: Resolved) -> str:
    words = [operand(places[0], opcode, at) for at, places in enumerate([place for side in info.places for place in side])
             if not places[0].endswith("?") or opcode.startswith("wgmma")]  # fmt: skip
    return f"{opcode} {', '.join(words)};"


def cases() -> list[tuple[str, str, str | None]]:
    """(opcode, instruction, feature) of every row in a few spellings."""
    found = {}
    for name, rows in ROWS.items():
        for modifiers, *_ in rows:
            for words in spellings(modifiers):
                opcode = f"{name}.{words}" if words else name
                if opcode not in PSEUDO:
                    info = resolve(opcode)
                    found[opcode] = (opcode, instruction(opcode, info), info.need)
    return list(found.values())


def refused(ptxas: Path, target: str, texts: list[str], folder: Path) -> dict[int, str]:
    """index of an instruction -> what ptxas says against it."""
    head = [f".version {PTX[0]}.{PTX[1]}", f".target {target}", ".address_size 64", ".visible .entry k() {"]
    head += [
        f".reg .{kind} %{cls}<140>;"
        for cls, kind in (("p", "pred"), ("h", "b16"), ("r", "b32"), ("d", "b64"))
    ]
    file = folder / f"{target}.ptx"
    file.write_text("\n".join([*head, *texts, "done:", "ret;", "}"]) + "\n")
    done = subprocess.run(
        [ptxas, f"-arch={target}", "-O0", file, "-o", folder / "k.cubin"], capture_output=True, text=True
    )
    out: dict[int, str] = {}
    for line, said in re.findall(r"line (\d+); error\s*: (.*)", done.stdout + done.stderr):
        out.setdefault(int(line) - len(head) - 1, said)
    assert out or done.returncode == 0, done.stderr
    return out


@pytest.mark.parametrize("target", ["sm_75", "sm_80", "sm_89", "sm_90", "sm_90a", "sm_100", "sm_100f", "sm_100a",
                                    "sm_103a", "sm_107a", "sm_110f", "sm_110a", "sm_120", "sm_120f", "sm_121a"])  # fmt: skip
def test_rows_are_what_ptxas_takes(target: str, tmp_path: Path) -> None:
    ptxas = peers.require("ptxas")
    every = cases()
    said = refused(ptxas, target, [text for _, text, _ in every], tmp_path)
    machine = sm.find(target)
    assert machine is not None
    level = {"": 0, "f": 1, "a": 2}[machine.suffix]
    wrong = []
    for index, (_, text, feature) in enumerate(every):
        has = feature is None or machine.level(feature) <= level
        if has == (index in said):
            wrong.append(f"{text} # {feature}: {said.get(index, 'taken')}")
    assert not wrong, "\n".join(wrong)


def test_every_feature_has_a_row_that_needs_it() -> None:
    used = {row[3] for rows in ROWS.values() for row in rows} - {None}
    # a directive, a limit, and orders of what other rows say
    orders = {sm.ARRIVALS, sm.PAIRS, sm.TURNS, sm.MINMAX_64}
    assert set(sm.FEATURES) - used == {sm.BLOCKS_ARE_CLUSTERS, sm.LARGE_PARAMETERS} | orders


def test_an_opcode_has_its_words_in_order() -> None:
    assert resolve("fma.rn.ftz.f32").cls == "r" and resolve("mul.wide.u32").cls == "d"
    for wrong in (
        "fma.f32",
        "fma.ftz.rn.f32",
        "fma.rn.f32.f32",
        "frobnicate",
        "add",
        "wgmma.mma_async.sync.aligned.m64n12k16",
    ):
        with pytest.raises(ValueError, match="no instruction row"):
            resolve(wrong)
    assert len(resolve("wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16").places[0][0][0]) == len(
        "r128"
    )
    assert not matches([(("a",), True)], [])


@pytest.mark.parametrize(
    ("target", "features", "spelled"),
    [
        ("sm_90", set(), "sm_90"),
        ("sm_90", {sm.TMA}, "sm_90"),
        ("sm_90", {sm.WGMMA, sm.TMA}, "sm_90a"),
        ("sm_100", {sm.TCGEN05}, "sm_100f"),
        ("sm_100", {sm.TCGEN05, sm.TCGEN05_I8}, "sm_100a"),
        ("sm_103", {sm.TCGEN05}, "sm_103f"),
        ("sm_120", {sm.MMA_F8F6F4}, "sm_120f"),
        ("sm_120a", {sm.MMA_F8F6F4}, "sm_120a"),
        ("sm_90a", set(), "sm_90a"),
    ],
)
def test_the_least_specific_spelling(target: str, features: set[str], spelled: str) -> None:
    machine = sm.find(target)
    assert machine is not None and machine.spelling(features) == spelled
    assert all(machine.has(feature) for feature in features)
    assert machine.number == int(re.findall(r"\d+", target)[0])


def test_what_a_spelling_does_not_have() -> None:
    has = {name: sm.find(name) for name in archs.PTXAS_SINCE}
    assert not has["sm_100f"].has(sm.TCGEN05_I8) and has["sm_100a"].has(sm.TCGEN05_I8)  # type: ignore[union-attr]
    assert has["sm_103f"].has(sm.TCGEN05) and not has["sm_103"].has(sm.WGMMA)  # type: ignore[union-attr]
    base = sm.portable(has["sm_90"])  # type: ignore[arg-type]
    assert base.has(sm.TMA) and not base.has(sm.WGMMA) and base.name == "sm_90"
    assert sm.portable(has["sm_90a"]).has(sm.WGMMA)  # type: ignore[arg-type]
    assert sm.find("sm_80a") is None and sm.find("sm_90f") is None and sm.find("sm_101") is None
