"""Products in text: attributes as keywords or as a dictionary, the same for both."""

from __future__ import annotations

import pytest
from op_zoo import module_text

from tileiras.compiler.source import load_text
from tileiras.diag import Sink

TYPES = {
    "mmaf": "tile<2x2xf16>, tile<2x2xf16>, tile<2x2xf32>",
    "mmai": "tile<2x2xi8>, tile<2x2xi8>, tile<2x2xi32>",
}
CONSTANTS = {"mmaf": ("<f16: 1.0>", "<f16: 1.0>", "<f32: 1.0>"), "mmai": ("<i8: 1>", "<i8: 1>", "<i32: 1>")}


@pytest.mark.parametrize(
    ("name", "written", "want"),
    [
        ("mmaf", "fast_acc", {"fast_acc": True}),
        ("mmaf", "{fast_acc}", {"fast_acc": True}),
        ("mmaf", "", {}),
        ("mmai", "signed unsigned", {"signedness_lhs": "signed", "signedness_rhs": "unsigned"}),
        (
            "mmai",
            "{signedness_lhs = #cuda_tile.signedness<signed>, signedness_rhs = #cuda_tile.signedness<unsigned>}",
            {"signedness_lhs": "signed", "signedness_rhs": "unsigned"},
        ),
        (
            "mmai",
            'signed signed {note = "x"}',
            {"signedness_lhs": "signed", "signedness_rhs": "signed", "note": "x"},
        ),
    ],
)
def test_attributes_of_a_product(name: str, written: str, want: dict[str, object]) -> None:
    lines = [
        f"%term{i} = constant {value} : {type}"
        for i, (value, type) in enumerate(zip(CONSTANTS[name], TYPES[name].split(", ")))
    ]
    lines.append(f"%product = {name} %term0, %term1, %term2 {written} : {TYPES[name]}")
    (op,) = [
        op for op in load_text(module_text("\n".join(lines)), Sink(), "t").walk() if op.spec.name == name
    ]
    assert {k: getattr(v, "value", v) for k, v in op.attrs.items()} == want
