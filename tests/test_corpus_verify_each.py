"""Layer 2 over everything: the IR is well formed behind every pass, for every bytecode file and every op, at every level."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tileiras.compiler import pipeline
from tileiras.compiler.ir.passes import Context, PassManager
from tileiras.compiler.ir.verify import verify
from tileiras.compiler.source import load, load_text
from tileiras.compiler.target import sm
from tileiras.diag import ERROR, CompileError, Sink

sys.path.insert(0, str(Path(__file__).parent))
from op_zoo import SNIPPETS, module_text

from tests.fixtures import BYTECODE

FILES = sorted(BYTECODE.rglob("*.tilebc"))
LEVELS = (("sm_80", 3), ("sm_90", 3), ("sm_100", 3), ("sm_90", 0))


def broken(module: object, sink: Sink, gpu_name: str, opt_level: int) -> str:
    """What is wrong behind the first pass that leaves something wrong; empty when nothing is."""
    context = Context(module, sm.find(gpu_name), sink, opt_level)
    passes = [row.load() for row in pipeline.rows_of(opt_level, "nvvm")]
    if PassManager(passes, context, verify_each=True).run():
        return ""
    return "; ".join(e.render() for e in sink.emitted if e.severity == ERROR) or "failed without a word"


@pytest.mark.full
@pytest.mark.parametrize(("gpu_name", "opt_level"), LEVELS)
def test_every_file_of_the_corpus(gpu_name: str, opt_level: int) -> None:
    assert len(FILES) > 1000
    wrong = []
    for path in FILES:
        sink = Sink()
        try:
            said = broken(load(path, sink), sink, gpu_name, opt_level)
        except CompileError as error:
            said = str(error)
        if said:
            wrong.append(f"{path.name}: {said}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("gpu_name", ["sm_80", "sm_100"])
def test_every_op(gpu_name: str) -> None:
    wrong = []
    for op, _, lines in SNIPPETS:
        sink = Sink()
        module = load_text(module_text(lines), sink, "zoo.mlir")
        assert verify(module, sink)
        said = broken(module, sink, gpu_name, 3)
        if op.startswith("multimem"):  # well formed up to the lowering that says so
            assert "has no lowering" in said and "after the pass" not in said, said
        elif said:
            wrong.append(f"{op}: {said}")
    assert not wrong, "\n".join(wrong)
