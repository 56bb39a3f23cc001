"""MMA shapes of text are those of the target's table, and ptxas agrees with the first target of each."""

from __future__ import annotations

from tileiras.compiler.target import mma, sm

# (M, N, K, operands, sums) -> first target: PTX ISA, "Target ISA Notes" of mma
DOCUMENTED = {
    (16, 8, 8, "f16", "f16"): 75, (16, 8, 8, "f16", "f32"): 75, (8, 8, 16, "i8", "i32"): 75,
    (16, 8, 16, "f16", "f16"): 80, (16, 8, 16, "f16", "f32"): 80, (16, 8, 16, "bf16", "f32"): 80,
    (16, 8, 8, "tf32", "f32"): 80, (8, 8, 4, "f64", "f64"): 80, (16, 8, 32, "i8", "i32"): 80,
    (16, 8, 32, "f8E4M3FN", "f32"): 89, (16, 8, 32, "f8E5M2", "f32"): 89,
}  # fmt: skip


def test_one_table_of_shapes() -> None:
    assert mma.shapes() == DOCUMENTED


def test_what_a_target_is_given_is_there_on_it() -> None:
    for number in (75, 80, 86, 89, 90, 100, 120):
        for elem in ("f16", "bf16", "tf32", "f64", "i8", "f8E4M3FN", "f8E5M2", "f32"):
            atom = mma.find_atom(sm.ROWS[number], elem)
            assert atom is None or atom.first_sm <= number
