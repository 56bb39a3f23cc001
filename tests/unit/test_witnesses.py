"""What both witnesses must say of one kernel: prints, blocks that wait for ever, orders that nothing promises."""

from __future__ import annotations

import io
import re

import numpy as np
import pytest
from unit.reference_kit import Kernel, tile

from tileiras.compiler.ir import types as T
from tileiras.run import LaunchError, launch

I32 = tile("i32")
WITNESSES = ("reference", "emulator")


def both(k: Kernel, *args, grid=1, **more) -> list[str]:
    """What the kernel prints on each witness."""
    outs = []
    for target in WITNESSES:
        outs.append(io.StringIO())
        launch(k.module(), "k", grid, args, target, out=outs[-1], **more)
    return [o.getvalue() for o in outs]


def test_prints_of_blocks_do_not_interleave_inside_one_print() -> None:
    k = Kernel("*i32")
    x = k.op("get_tile_block_id", (), [I32] * 3)[0]
    k.op("print_tko", [[x, k.load(k.args[0], 4)], None], [T.TOKEN], str="block %d:\n%d;")
    k.op("print_tko", [[x], None], [T.TOKEN], str=" end %d\n")
    for seed in (None, 1, 2):
        a, b = both(k, np.arange(4, dtype=np.int32), grid=5, seed=seed)
        blocks = re.findall(r"block (\d):(?:(?!block).)*? end \1\n", b, re.S)
        assert sorted(blocks) == list("01234") and len(a) == len(b)
        assert sorted(a.split("\n")) == sorted(b.split("\n"))


@pytest.mark.parametrize("check", [False, True])
@pytest.mark.parametrize("target", WITNESSES)
def test_a_flag_that_nobody_sets_is_reported_with_kernel_and_line(target: str, check: bool) -> None:
    k = Kernel("*i32")
    loop = k.region()
    with k.inside(loop):
        flag, _ = k.op(
            "load_ptr_tko", [k.args[0], None, None, None], [I32, T.TOKEN],
            memory_ordering_semantics="acquire", memory_scope="device",
        )  # fmt: skip
        ready = k.op(
            "cmpi",
            [flag, k.const(0, "i32")],
            [tile("i1")],
            comparison_predicate="not_equal",
            signedness="signed",
        )
        leave, stay = k.region(), k.region()
        with k.inside(leave):
            k.op("break", [[]])
        with k.inside(stay):
            k.op("yield", [[]])
        k.op("if", [ready], [], [leave, stay])
        k.op("continue", [[]])
    k.op("loop", [[]], [], [loop])
    with pytest.raises(LaunchError) as error:
        launch(k.module(), "k", 3, [np.zeros(1, np.int32)], target, check=check)
    (found,) = error.value.diagnostics
    assert "kernel 'k'" in found.text and found.loc.file.endswith("k.py") and found.loc.line == 1
    assert "load_ptr_tko" in str(found.op) or "ld.acquire" in found.text
