"""Names that mean something else in PTX are refused in words of ours, and only those."""

from __future__ import annotations

import pytest
from contract.kit import NOOP

import tileiras
from tileiras.diag import CompileError

NOOP_NAMED = NOOP.replace("@noop", "@{name}")


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("WARP_SZ", "the number of lanes in a warp"),
        ("vprintf", "the function behind print_tko"),
        ("__assertfail", "the function behind assert"),
        ("___NV_TILE_LAUNCH_META_DATA___", "the mark of tile kernels"),
        ("$smem", "the shared memory of a kernel"),
        ("$L12", "a label of generated code"),
    ],
)
def test_a_taken_name(name: str, what: str) -> None:
    with pytest.raises(CompileError) as caught:
        tileiras.compile(NOOP_NAMED.replace("{name}", f'"{name}"'), gpu_name="sm_90")
    assert caught.value.exit_code == 5
    said = caught.value.diagnostics
    assert said[0].text == f"name '{name}' is taken in PTX: it is {what}; choose another name"
    assert said[0].loc is not None and said[0].loc.line == 3
    assert [one.text for one in said[1:]] == ["failed to compile Tile IR program"]


def test_names_that_another_kernel_brings() -> None:
    from tileiras.driver import taken_by

    assert taken_by("k$str0", {"k"}) == "a string of kernel 'k'"
    assert taken_by("k_param_3", {"k"}) == "a parameter of kernel 'k'"
    assert (
        not taken_by("k_param_x", {"k"}) and not taken_by("k_param_3", {"j"}) and not taken_by("$Lx", set())
    )


@pytest.mark.parametrize("name", ["warp_sz", "add", "entry", "tid", "f32", "_a", "a$b"])
def test_words_of_ptx_that_may_be_names(name: str) -> None:
    program = tileiras.compile(NOOP_NAMED.replace("{name}", f'"{name}"'), gpu_name="sm_90")
    assert list(program.kernels) == [name] and program.cubin[:4] == b"\x7fELF"
