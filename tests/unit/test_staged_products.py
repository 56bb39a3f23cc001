"""Products whose operands run ahead through shared memory: the rung of each target, and no race under any order.

The corpus family `staged` holds the numbers against formulas on every target; here the emulator watches every access,
lets copies and products land at any moment, and each target is held to its own tensor instruction.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytest.importorskip("numpy")
pytest.importorskip("ml_dtypes")

import numpy as np

import tileiras
from tests.corpus.case import Case
from tests.corpus.check import arch_number
from tests.corpus.export import bytecode_path
from tests.corpus.registry import CASES
from tests.ptx_loops import loops_of, loops_that_arrive
from tileiras.tools import opt

CHECKED = (
    "staged_bf16_nn_128",
    "staged_f16_nt",
    "staged_e4m3_nt",
    "staged_persistent",
    "staged_persistent_128",
    "staged_dequantized",
    "staged_attention_causal_bf16",
    "staged_flash_bwd_f16_64",
    "staged_converted_tf32_tn",
    "staged_converted_i8_tn",
    "staged_converted_w8a16_nn",
    "staged_scaled_sums_e4m3",
    "staged_packed_weights_f16",
    "staged_linear_attention_d64",
    "staged_linear_attention_d128",
    "staged_faded_state_64",
    "staged_faded_state_128",
    "staged_gated_state",
    "staged_retained_128",
    "staged_latent_512",
    "staged_i8_nn",
    "staged_f32_nn",
    "staged_f32_nt",
    "staged_f32_tn",
    "staged_f32_deep",
    "staged_attention_e4m3",
    "staged_flash_bwd_dq_bf16_128",
    "staged_biased_attention",
    "staged_converted_positive_part",
    "pointers_f16_narrow",
    "pointers_gathered_rows",
    "cpp_pointers_two_walks",
    "windows_f16_4_16",
    "pointers_begun_again_f16_1_16",
    "cpp_every_share_3",
)
# tiles that overlap, columns that begin again, a step that only the run knows, scalars that meet operands of long steps
CALLED_FED = (
    "windows_bf16_32_16",
    "windows_f16_8_16",
    "pointers_begun_again_f16_1_16",
    "cpp_every_share_3",
    "staged_converted_positive_part_deep",
)
TENSOR = {"sm_80": "mma.sync", "sm_90": "wgmma.mma_async", "sm_100": "tcgen05.mma", "sm_120": "mma.sync"}


def ptx(name: str, gpu_name: str) -> str:
    return tileiras.compile(bytecode_path(CASES[name]), gpu_name=gpu_name).ptx


@pytest.mark.parametrize("gpu_name", TENSOR)
def test_each_target_uses_its_own_tensor_instruction_fed_by_asynchronous_copies(gpu_name: str) -> None:
    text = ptx("staged_bf16_nn_128", gpu_name)
    assert text.count(TENSOR[gpu_name]) >= 4 and text.count("cp.async.cg") >= 8
    if gpu_name == "sm_100":  # test_arrivals.py
        return
    if gpu_name == "sm_90":
        copies, works = loops_that_arrive(text)
        assert "bar.sync" not in copies + works and "st.shared" not in copies + works
        assert "wgmma.wait_group.sync.aligned 0" not in works  # a product stays under way, too
        return
    loop = text[text.index("cp.async.wait_group") :]
    assert "cp.async.wait_group 0" not in loop  # something stays in flight
    assert "ldmatrix" in loop and "st.shared" not in loop[: loop.index("cp.async.commit_group")]


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", CALLED_FED)
@pytest.mark.parametrize("gpu_name", TENSOR)
def test_loops_that_were_once_unfed_are_fed(name: str, gpu_name: str) -> None:
    text = ptx(name, gpu_name)
    assert TENSOR[gpu_name] in text and text.count("cp.async.cg") >= 4


@pytest.mark.parametrize("gpu_name", ["sm_90", "sm_100"])
def test_packed_weights_are_unpacked_on_their_way_to_the_tensor_core(gpu_name: str) -> None:
    text = ptx("staged_packed_weights_f16_wide", gpu_name)
    loop = text[text.index("cp.async.wait_group") : text.rindex(TENSOR[gpu_name])]
    assert TENSOR[gpu_name] in loop and "mma.sync" not in text
    # the stage has landed; the unpacked operand lies there. For tensor memory one warp waits, and threads unpack their copies
    assert loop.count("bar.sync") == (2 if gpu_name == "sm_90" else 0)
    assert "ld.shared.b8" not in text and "ld.shared.u8" not in text  # packed bytes travel by words


@pytest.mark.parametrize("gpu_name", ["sm_90", "sm_100"])
def test_what_is_added_to_scores_keeps_no_product_from_its_instruction(gpu_name: str) -> None:
    """A bias that no copy can bring (its padding is not zero) joins the scores in registers."""
    text = ptx("staged_biased_attention_128", gpu_name)
    assert TENSOR[gpu_name] in text and "mma.sync" not in text


@pytest.mark.parametrize("gpu_name", ["sm_80", "sm_120"])
def test_operands_meet_one_number_in_their_fragments(gpu_name: str) -> None:
    """A constant and a parameter: no buffer for what comes of it, which would leave room for two stages only."""
    text = ptx("staged_converted_positive_part", gpu_name)
    loop = text[text.index("cp.async.wait_group") : text.rindex("mma.sync")]
    assert "st.shared" not in loop and loop.count("bar.sync") == 1 and "cp.async.wait_group 0" not in loop


@pytest.mark.parametrize("name", ["staged_converted_where_positive", "staged_converted_where_positive_tn"])
def test_a_left_operand_of_two_loads_goes_to_wgmma_from_registers(name: str) -> None:
    """Back in shared memory it would need a place of its own, and a barrier in each step."""
    copies, works = loops_that_arrive(ptx(name, "sm_90"))
    assert "wgmma.mma_async" in works
    assert "bar.sync" not in copies + works and "st.shared" not in copies + works


def test_sums_that_are_read_back_together_take_as_many_warps_as_one_of_their_size() -> None:
    """Two of 128x64 from tensor memory, beside two loaded tiles: four warps spilled 200 bytes a thread."""
    text = ptx("staged_rotated_bf16", "sm_100")
    assert "tcgen05.mma" in text and ".reqntid 256" in text
    assert ".reqntid 128" in ptx("staged_rotated_f16_64", "sm_100")


def test_warpgroups_share_out_the_columns_of_a_latent() -> None:
    """64 heads of 512 columns: sums of 64x256 a warpgroup."""
    text = ptx("staged_latent_attention_64", "sm_90")
    assert "wgmma.mma_async.sync.aligned.m64n256k16" in text and "mma.sync" not in text


@pytest.mark.parametrize("gpu_name", ["sm_80", "sm_90", "sm_120"])
def test_masks_are_made_of_rows_and_columns_where_they_are_wanted(gpu_name: str) -> None:
    """What changes its layout is the number of a row, not a predicate an element."""
    text = ptx("staged_documents_attention", gpu_name)
    loop = text[text.index("cp.async.wait_group") : text.rindex(TENSOR[gpu_name])]
    assert loop.count("st.shared") <= 2


def test_rows_that_addresses_and_masks_name_change_their_layout_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """As numbers of 32 bits: two exchanges of 64 bits for 64 rows a thread, a barrier between them, spilled."""
    path = str(bytecode_path(CASES["pointers_listed_rows_f32"]))
    assert opt.main([path, "--pipeline-to", "tileas", "--gpu-name", "sm_80"]) == 0
    found = re.findall(r"convert_layout (%\S+) .*: (tensor<\S+, #\w+> -> .*)", capsys.readouterr().out)
    assert found and len(found) == len(set(found)) and not any("i64" in type for _, type in found)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("seed", range(3))
def test_two_stages_leave_one_under_way(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The copies of the next iteration are issued before the wait, behind a barrier of their own."""
    text = ptx("staged_latent_attention_64", "sm_90")
    steps = re.findall(r"cp\.async\.wait_group \d|cp\.async\.commit_group|bar\.sync", text)
    at = steps.index("cp.async.wait_group 1")
    assert steps[at - 2 : at + 2] == [
        "bar.sync",
        "cp.async.commit_group",
        "cp.async.wait_group 1",
        "bar.sync",
    ]
    assert "cp.async.wait_group 0" not in text
    check(CASES["staged_latent_attention_64"], "sm_90", seed, monkeypatch)


def test_operands_that_are_not_loaded_do_not_end_the_search_for_a_load() -> None:
    """An internal error: scales that were made of numbers alone."""
    assert ".entry" in ptx("op_mmaf_scaled_f4_e4m3_16", "sm_80")


@pytest.mark.parametrize("gpu_name", ["sm_80", "sm_90", "sm_120"])
def test_what_is_added_to_a_product_changes_its_layout_before_it_is_widened(gpu_name: str) -> None:
    """As bf16, it reaches the accumulator's fragments by ldmatrix, in half the bytes."""
    text = ptx("matmul_residual", gpu_name)
    epilogue = text[text.rindex(TENSOR[gpu_name]) :]
    assert "ldmatrix" in epilogue and "add.rn.f32" in epilogue[epilogue.index("ldmatrix") :]
    if gpu_name == "sm_90":  # the mbarriers of the loop end behind a barrier of their own
        end, epilogue = epilogue.split("mbarrier.inval", 1)
        assert end.count("bar.sync") == 1 and "shared.b16" not in end
    assert epilogue.count("bar.sync") <= 4  # one exchange in, one out


def test_operands_of_several_products_stay_where_they_were_loaded() -> None:
    text = ptx("staged_linear_attention_d128", "sm_90")
    assert "wgmma.mma_async" in text and "mma.sync" not in text


@pytest.mark.parametrize("gpu_name", ["sm_80", "sm_86", "sm_120"])
def test_operands_that_products_share_are_loaded_for_each_where_two_stages_leave_nothing_under_way(
    gpu_name: str,
) -> None:
    text = ptx("staged_linear_attention_d128", gpu_name)
    loop = text[text.index("cp.async.wait_group") :]
    assert "cp.async.cg" in loop and "cp.async.wait_group 0" not in loop and "ld.global" not in text


@pytest.mark.parametrize("gpu_name", ["sm_80", "sm_86", "sm_120"])
def test_what_factors_of_rows_multiply_is_copied_as_it_was_loaded(gpu_name: str) -> None:
    """Keys that each row's decay scales, and that are transposed then: no stage of all three operands fits twice, their queue
    does."""
    text = ptx("staged_retained_128", gpu_name)
    (loop,) = [each for each in loops_of(text) if "mma.sync" in each]
    assert "cp.async.cg" in loop and "cp.async.wait_group 0" not in loop and "ld.global" not in loop


@pytest.mark.parametrize("gpu_name", ["sm_90", "sm_120"])
def test_sums_carried_beside_a_product_get_warps_and_leave_room_for_stages(gpu_name: str) -> None:
    text = ptx("staged_scaled_sums_e4m3", gpu_name)
    if gpu_name == "sm_90":  # four warps more issue the copies
        copies, works = loops_that_arrive(text)
        assert ".reqntid 384, 1, 1" in text  # the scales of columns are loaded by the threads that want them
        assert "bar.sync" not in works and "bar.sync" not in copies
        return
    assert ".reqntid 256, 1, 1" in text
    loop = text[text.index("cp.async.wait_group") :]
    assert "cp.async.cg" in loop and "cp.async.wait_group 0" not in loop


@pytest.mark.usefixtures("undivided")
@pytest.mark.parametrize("gpu_name", ["sm_80", "sm_90"])
def test_attention_moves_neither_scores_nor_probabilities_through_shared_memory(gpu_name: str) -> None:
    text = ptx("staged_attention_causal_bf16", gpu_name)
    if gpu_name == "sm_90":  # its instructions take longer than its products: groups of copies
        (loop,) = [each for each in loops_of(text) if "wgmma.mma_async" in each]
        assert "cp.async.wait_group" in loop and "mbarrier" not in loop and loop.count("bar.sync") == 1
        assert not any(word in loop for word in ("st.shared", "stmatrix", "ld.shared", "ldmatrix"))
        return
    loop = text[text.index("cp.async.wait_group") : text.rindex("cp.async.commit_group")]
    assert "st.shared" not in loop and loop.count("bar.sync") == 1


@pytest.mark.sampled(8)
@pytest.mark.parametrize(
    "name",
    [
        "staged_attention_causal_bf16", "staged_flash_bwd_bf16_128", "staged_tf32_nn_128", "staged_dequantized",
        "staged_attention_rows_e4m3", "staged_attention_e5m2", "staged_quantized_attention_128", "staged_converted_w4a16",
        "staged_linear_attention_d128", "staged_complex_product_f16", "staged_running_states_11", "staged_faded_state_64",
        "staged_latent_512", "staged_faded_state_128", "staged_gated_state", "staged_retained_128",
        "staged_wide_heads_512", "staged_delta_rule_bf16",
        "staged_gated_delta_rule_64x128", "staged_gated_delta_rule_64x64", "staged_gated_delta_rule_128x128",
    ],
)  # fmt: skip
def test_products_of_computed_operands_add_up_in_tensor_memory(name: str) -> None:
    text = ptx(name, "sm_100")
    assert "tcgen05.mma" in text and "mma.sync" not in text
    assert text.count("tcgen05.alloc") == text.count("tcgen05.relinquish_alloc_permit") == 1
    disabled = tileiras.compile(bytecode_path(CASES[name]), gpu_name="sm_100", disable=["tcgen05"]).ptx
    assert "tcgen05" not in disabled and "mma.sync" in disabled


@pytest.mark.parametrize(
    ("name", "columns"), [("staged_attention_rows_e4m3", 16), ("staged_attention_full_f16", 64)]
)
def test_probabilities_are_packed_into_the_columns_of_a_left_operand(name: str, columns: int) -> None:
    text = ptx(name, "sm_100")
    loop = text[text.index("cp.async.wait_group") : text.rindex("tcgen05.mma")]
    assert f"tcgen05.st.sync.aligned.32x32b.x{columns}.b32" in loop and "st.shared" not in loop
    left = [line.split(", ")[1] for line in text.splitlines() if "tcgen05.mma" in line]
    assert any(operand.startswith("[") for operand in left) and any(operand[0] == "%" for operand in left)


def test_what_is_computed_from_rows_and_columns_to_meet_scores_lies_as_they_do() -> None:
    """Factors that fade, an exponential an element, do not cross shared memory: 128 x 128 in f32 would take 64 stores."""
    text = ptx("staged_faded_state_128", "sm_100")
    loop = text[text.index("cp.async.wait_group") : text.rindex("tcgen05.commit")]
    assert loop.count("st.shared") < 64 and loop.count("bar.sync") == 10


def test_a_mask_that_waits_through_a_loop_asks_for_warps_and_two_stages_leave_stores_no_room_to_turn() -> (
    None
):
    """128 x 128 numbers of the mask and of the scores are 64 registers each of 256 threads; the mask is converted once."""
    text = ptx("staged_retained_128", "sm_100")
    assert ".reqntid 256" in text and text.count("tcgen05.mma") == 4 * 128 // 16
    loop = text[text.index("cp.async.wait_group") : text.rindex("tcgen05.commit")]
    assert (
        loop.count("ld.shared.v4") <= 16 and loop.count("st.global.v4") == 8
    )  # the keys, to fade; rows as they lie
    (size,) = re.findall(r"\.b8 \$smem\[(\d+)\]", text)
    assert 7 * 128 * 128 * 2 < int(size) < 7 * 128 * 128 * 2 + 4096


def test_a_left_operand_computed_from_a_stage_that_others_read_goes_to_wgmma_from_registers() -> None:
    """Keys that fade and are turned take no buffer, the sums leave as fragments do: two stages fit beside the state alone."""
    text = ptx("staged_retained_128", "sm_90")
    assert text.count("wgmma.mma_async") == 4 * 128 // 16 and "mma.sync" not in text
    loop = text[text.index("cp.async.wait_group") : text.rindex("wgmma.wait_group")]
    assert "ldmatrix.sync.aligned.m8n8.x4.trans" in loop and loop.count("st.global.b32") == 32
    (size,) = re.findall(r"\.b8 \$smem\[(\d+)\]", text)
    assert 7 * 128 * 128 * 2 < int(size) < 7 * 128 * 128 * 2 + 4096


def test_operands_of_tensor_memory_queue_where_no_two_stages_fit() -> None:
    """Keys and values have a slot each; what comes next into one is copied as soon as its product has ended, before the wait for
    the other."""
    text = ptx("staged_wide_heads_512", "sm_100")
    (size,) = re.findall(r"\.b8 \$smem\[(\d+)\]", text)
    assert 2 * 64 * 512 * 2 < int(size) - 64 * 512 * 2 < 3 * 64 * 512 * 2  # a slot each beside the queries
    found = re.findall(r"cp\.async\.(?:commit|wait)_group(?: \d)?|tcgen05\.(?:mma|ld)\b", text)
    order = [name for name, before in zip(found[1:], found) if name != before]
    assert order[:7] == [
        "cp.async.wait_group 1", "tcgen05.mma", "tcgen05.ld",
        "cp.async.commit_group", "cp.async.wait_group 1", "tcgen05.ld", "tcgen05.mma",
    ]  # fmt: skip


def test_a_chain_of_products_reads_one_stage_where_no_two_fit() -> None:
    """What comes next is copied when the last product has read the stage, with its wait and a barrier in front."""
    text = ptx("staged_delta_rule_bf16", "sm_100")
    (size,) = re.findall(r"\.b8 \$smem\[(\d+)\]", text)
    assert 6 * 128 * 128 * 2 < int(size) <= 7 * 128 * 128 * 2 + 2048
    found = re.findall(r"cp\.async\.(?:commit|wait)_group(?: \d)?|tcgen05\.(?:mma|ld)\b|bar\.sync", text)
    loop = found[
        found.index("cp.async.wait_group 0") : found.index(
            "cp.async.commit_group", 1 + found.index("tcgen05.mma")
        )
    ]
    assert loop.count("tcgen05.mma") == 5 * 128 // 16 and loop[-1] == "bar.sync"
    assert loop[:2] == ["cp.async.wait_group 0", "bar.sync"]


def test_warpgroups_multiply_from_one_stage_where_no_two_fit() -> None:
    """mma.sync multiplied from registers that spilled; tiles are filled again behind barriers, while others are on their way."""
    text = ptx("staged_delta_rule_bf16", "sm_90")
    assert text.count("wgmma.mma_async") == 5 * 128 // 16 and "mma.sync" not in text
    (size,) = re.findall(r"\.b8 \$smem\[(\d+)\]", text)
    # a stage of four tiles, the state and what it is corrected by, and an exchange of the output
    assert int(size) == 7 * 128 * 128 * 2
    found = re.findall(r"cp\.async\.(?:commit|wait)_group(?: \d)?|wgmma\.wait_group|bar\.sync", text)
    loop = found[found.index("cp.async.wait_group 3") :]
    assert "cp.async.wait_group 0" not in loop
    assert loop.count("wgmma.wait_group") == 5 and loop.count("cp.async.commit_group") == 4
    assert loop[-3:] == ["wgmma.wait_group", "bar.sync", "cp.async.commit_group"]


def test_what_waits_for_a_later_product_of_warpgroups_is_stored_where_it_is_made() -> None:
    """The corrections wait in shared memory while scores are computed, not in 32 registers; no barrier is theirs alone."""
    _, corrections, scores, reads, *_ = ptx("staged_delta_rule_bf16", "sm_90").split("wgmma.wait_group")
    assert "stmatrix" in corrections.split("wgmma.mma_async")[0]
    assert "stmatrix" not in scores + reads
    assert reads.count("bar.sync") == 1  # the queries have been read


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("name", "seed"),
    [
        ("staged_delta_rule_f16", 2),
        ("staged_gated_delta_rule_128x128", 3),
        ("staged_gated_delta_rule_64x128", 4),
    ],
)
def test_what_warpgroups_read_of_one_stage_is_not_filled_meanwhile(
    name: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    check(CASES[name], "sm_90", seed, monkeypatch)


def test_what_is_made_of_a_result_is_stored_before_other_products_run() -> None:
    """The corrections wait in shared memory while scores are computed, not in 64 registers beside them."""
    _, corrections, scores, *_ = ptx("staged_delta_rule_bf16", "sm_100").split("tcgen05.commit")
    assert "st.shared" in corrections.split("tcgen05.mma")[0]
    assert (
        "st.shared" not in scores.split("tcgen05.mma")[0] and "tcgen05.st" in scores.split("tcgen05.mma")[0]
    )


def test_operands_that_are_stored_share_places_and_one_that_two_products_read_is_stored_once() -> None:
    text = ptx("staged_gated_state", "sm_100")
    (size,) = re.findall(r"\.b8 \$smem\[(\d+)\]", text)
    stages = 2 * (3 * 64 * 128 * 2 + 64 * 128 * 4)
    places = 2 * (64 * 128 + 64 * 128 + 128 * 128)  # queries, keys or scores, the state; apart, 40 KB more
    assert int(size) < stages + places + 4096


@pytest.mark.usefixtures("undivided")
def test_two_accumulators_of_64_rows_share_columns_where_they_do_not_fit_side_by_side() -> None:
    text = ptx("staged_latent_512", "sm_100")
    places = re.findall(r"tcgen05\.mma\S+ \[%r\d+(\+\d+)?\]", text)
    steps = {
        "": 4,
        "+256": 4,
        f"+{16 << 16}": (512 + 64) // 16,
    }  # scores in the upper half of each warp's lanes
    assert {place: places.count(place) for place in places} == steps


def test_products_that_go_on_with_a_sum_share_its_accumulator_and_its_barrier() -> None:
    text = ptx("staged_complex_product_f16", "sm_100")
    products = [line.split("[")[1].split("]")[0] for line in text.splitlines() if "tcgen05.mma" in line]
    assert len(products) == 8 and len(set(products)) == 2  # two steps of K, two products, two sums
    assert text.count("tcgen05.commit") == 2


@pytest.mark.parametrize(("name", "loads"), [("10", 1), ("01", 1), ("11", 4)])
def test_a_sum_is_loaded_where_an_iteration_looks_at_it(name: str, loads: int) -> None:
    text = ptx(f"staged_running_states_{name}", "sm_100")
    assert len({line for line in text.splitlines() if "tcgen05.ld" in line}) == loads
    loop = text[text.index("cp.async.wait_group") : text.rindex("tcgen05.commit")]
    between = loop[loop.index("tcgen05.ld") :] if name[0] == "1" else "bar.sync"
    assert "bar.sync" in between  # who looks has looked before the product changes it


@pytest.mark.usefixtures("undivided")
@pytest.mark.parametrize("name", ["staged_distance_attention_128", "staged_distance_attention_d256"])
def test_a_bias_that_is_computed_from_places_is_computed_where_scores_lie(name: str) -> None:
    text = ptx(name, "sm_100")
    assert "tcgen05.mma" in text and "mma.sync" not in text
    loop = text[text.index("cp.async.wait_group") : text.rindex("tcgen05.commit")]
    assert loop.count("bar.sync") == (2 if name.endswith("128") else 5)  # two warpgroups reduce rows together


def test_results_beside_sums_that_a_loop_carries_come_in_parts() -> None:
    text = ptx("staged_scaled_sums_e4m3", "sm_100")
    parts = [line for line in text.splitlines() if "tcgen05.ld" in line]
    assert len(parts) == text.count("tcgen05.wait::ld") == 4 and all(".x32." in line for line in parts)


def test_each_operand_from_outside_of_the_loop_is_loaded_when_the_one_before_it_is_stored() -> None:
    text = ptx("staged_flash_bwd_bf16_128", "sm_100")
    moves = re.findall(r"\b(ld\.global|st\.shared)\.", text[: text.index("tcgen05.mma")])
    runs = [move for i, move in enumerate(moves) if move != moves[i - 1] or i == 0]
    assert runs == ["ld.global", "st.shared"] * 2


@pytest.mark.parametrize("gpu_name", ["sm_90", "sm_100", "sm_120"])
def test_conversions_to_8_bits_make_two_elements_an_instruction(gpu_name: str) -> None:
    text = ptx("staged_attention_rows_e4m3", gpu_name)
    made = [line for line in text.splitlines() if "cvt.rn.satfinite.e4m3x2.f32" in line]
    assert made and not any("0f00000000" in line for line in made)


WRITTEN_BACK = {  # left and right operand, as the remark says
    "staged_tf32_nn": ("in registers", "written back to 2 buffers of its own"),
    "staged_tf32_nn_128": ("in registers", "written back to 2 buffers of its own"),
    "staged_converted_tf32_tt": ("in registers", "written back to 2 buffers of its own"),
    "staged_converted_i8_tn": ("written back to where it was loaded",) * 2,
    "staged_e4m3_nn": ("where it was loaded", "written back to where it was loaded"),
    "staged_converted_w8a16_nt": ("where it was loaded", "written back to 2 buffers of its own"),
    "staged_converted_a8w16": ("in registers", "where it was loaded"),
    "staged_converted_rounded_left": ("in registers", "where it was loaded"),
    "staged_converted_w4a16": ("where it was loaded", "written back to a buffer of its own"),
}


@pytest.mark.parametrize("name", WRITTEN_BACK)
def test_operands_that_wgmma_does_not_read_as_loaded_are_written_back(name: str) -> None:
    program = tileiras.compile(bytecode_path(CASES[name]), gpu_name="sm_90", remarks={"passed": "tensorcore"})
    assert "wgmma.mma_async" in program.ptx and " mma.sync" not in program.ptx
    left, right = WRITTEN_BACK[name]
    said = [d.message for d in program.diagnostics if d.diag.code == "AS-0308"]
    assert said and all(f"left operand {left}, " in m and m.endswith(f"right operand {right}") for m in said)


def test_words_that_are_turned_are_read_as_fragments_from_where_they_were_copied_to() -> None:
    (loop,) = [each for each in loops_of(ptx("staged_converted_turned_tf32", "sm_90")) if "wgmma" in each]
    assert "ld.shared.b32" in loop
    assert loop.count("st.shared.v4") == 32 * 64 * 4 // 16 // 256  # the right operand alone


@pytest.mark.parametrize("name", WRITTEN_BACK)
def test_without_wgmma_the_same_kernels_take_mma_sync(name: str) -> None:
    text = tileiras.compile(bytecode_path(CASES[name]), gpu_name="sm_90", disable=("wgmma",)).ptx
    assert "wgmma" not in text and "mma.sync" in text


@pytest.mark.parametrize("name", ["staged_converted_w8a16_nn", "staged_converted_i8_tn"])
def test_what_is_written_back_without_a_proxy_fence_is_found(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    launch = tileiras.launch

    def without_fences(source: str, *args: object, **options: object) -> None:
        program = tileiras.compile(source, gpu_name="sm_90", launch_abi="simt", emit="ptx")
        assert "fence.proxy.async.shared::cta;" in program.ptx
        program.ptx = program.ptx.replace("fence.proxy.async.shared::cta;", "")
        launch(program, *args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(tileiras, "launch", without_fences)
    with pytest.raises(AssertionError, match="proxy"):
        check(CASES[name], "sm_90", 1, monkeypatch)


@pytest.mark.usefixtures("undivided")
@pytest.mark.parametrize("gpu_name", ["sm_80", "sm_90", "sm_120"])
def test_the_backward_pass_multiplies_what_it_computed_from_registers(gpu_name: str) -> None:
    text = ptx("staged_flash_bwd_f16_64", gpu_name)
    if gpu_name == "sm_90":
        (loop,) = [each for each in loops_of(text) if "wgmma.mma_async" in each]
        assert "cp.async.wait_group" in loop  # its instructions take longer than its products
    else:
        loop = text[text.index("cp.async.wait_group") : text.rindex("cp.async.commit_group")]
    assert "st.shared" not in loop and "stmatrix" not in loop
    assert loop.count("bar.sync") == loop.count("cp.async.wait_group")


@pytest.mark.parametrize(
    "name", ["staged_i8_nn", "staged_converted_i8_tn", "staged_e4m3_nn", "staged_converted_w8a16_nn"]
)
def test_bytes_that_lie_along_rows_or_columns_are_transposed_in_pairs(name: str) -> None:
    text = ptx(name, "sm_120")
    loop = text[text.index("cp.async.wait_group") :]
    assert "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16" in loop
    assert "ld.shared" not in loop and "st.shared" not in loop


@pytest.mark.parametrize("name", ["staged_attention_e4m3", "staged_attention_e4m3_causal"])
def test_scores_of_bytes_stay_in_registers_and_queries_wait_where_they_fit(name: str) -> None:
    text = ptx(name, "sm_120")
    loop = text[text.index("cp.async.wait_group") : text.rindex("cp.async.commit_group")]
    assert "st.shared" not in loop and "ld.shared" not in loop
    assert loop.count("bar.sync") == loop.count("cp.async.wait_group")


@pytest.mark.parametrize(("gpu_name", "stages"), [("sm_80", 3), ("sm_120", 3)])
def test_operands_of_the_whole_loop_stay_in_registers_that_scores_leave(gpu_name: str, stages: int) -> None:
    """Scores, their gradients and the sum are not alive at once with slices of every operand: both left operands fit."""
    path = bytecode_path(CASES["staged_flash_bwd_dq_bf16_128"])
    program = tileiras.compile(path, gpu_name=gpu_name, remarks={"passed": "memory"})
    rings = [str(d) for d in program.diagnostics if "stages" in str(d)]
    assert any(f"{stages} stages" in text for text in rings), program.diagnostics
    kernel = next(iter(program.kernels.values()))
    assert not kernel.spill_bytes


@pytest.mark.sampled(5)
@pytest.mark.parametrize("gpu_name", ["sm_80", "sm_90", "sm_120"])
def test_a_loop_that_cannot_be_pipelined_reads_each_operand_behind_its_own_copies(
    gpu_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tileiras.compiler.passes.tileas import pipeline_loop

    monkeypatch.setenv("TILEIRAS_CACHE", "0")
    monkeypatch.setattr(pipeline_loop, "expand", lambda loop: "the test says so")
    check(CASES["staged_attention_causal_bf16"], gpu_name, 1, monkeypatch)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("gpu_name", TENSOR)
def test_pages_are_named_an_iteration_before_they_are_copied(
    gpu_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = CASES["staged_paged_attention"]
    text = ptx(case.name, gpu_name)
    loop = text[text.index("cp.async.wait_group") :]
    assert (
        "cp.async.cg" in loop and "cp.async.wait_group 0" not in loop[: loop.index("cp.async.commit_group")]
    )
    for seed in (1, 2):
        check(case, gpu_name, seed, monkeypatch)


@pytest.mark.usefixtures("undivided")
@pytest.mark.parametrize("gpu_name", ["sm_80", "sm_120"])
def test_masks_are_computed_in_fragments(gpu_name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = ptx("staged_masked_triangle_bf16", gpu_name)
    loop = text[text.index("cp.async.wait_group") :]
    assert "st.shared" not in loop and loop.count("bar.sync") == 1 and "ldmatrix" in loop
    check(CASES["staged_masked_triangle_bf16"], gpu_name, 1, monkeypatch)


def loads_stored_in_front_of_loops(name: str, gpu_name: str) -> list[list[str]]:
    """For each tile that is loaded and waits in shared memory, the names of the ops from its load to its store."""
    from tileiras.compiler import pipeline
    from tileiras.compiler.passes.tileas.again import chain_of
    from tileiras.compiler.source import load
    from tileiras.compiler.target import sm
    from tileiras.diag import Sink

    sink = Sink()
    module = load(bytecode_path(CASES[name]).read_bytes(), sink, file="k.tilebc")
    tileas = pipeline.compile_module(module, sm.find(gpu_name), sink).tileas
    found = []
    for op in tileas.walk():
        chain = chain_of(op.operands[2]) if op.spec.name == "store_shared" else []
        if chain and chain[-1].block is op.block:
            ops = op.block.ops
            found.append([o.spec.name for o in ops[ops.index(chain[-1]) : ops.index(op)]])
    return found


def test_what_waits_in_shared_memory_is_loaded_next_to_its_store(monkeypatch: pytest.MonkeyPatch) -> None:
    from tileiras.compiler.passes.tileas import again

    found = loads_stored_in_front_of_loops("staged_attention_causal_bf16", "sm_100")
    assert found and not any("async.commit_group" in names for names in found)
    monkeypatch.setattr(
        again, "writes", lambda op: op.spec.name == "constant"
    )  # something is written in between
    found = loads_stored_in_front_of_loops("staged_attention_causal_bf16", "sm_100")
    assert found and all("async.commit_group" in names for names in found)


@pytest.mark.usefixtures("undivided")
@pytest.mark.parametrize("gpu_name", ["sm_80", "sm_120"])
def test_what_products_take_in_both_orientations_waits_once(gpu_name: str) -> None:
    """Keys of the backward pass are a right operand of two products, along their columns and along their rows."""
    assert len(loads_stored_in_front_of_loops("staged_flash_bwd_fused_whole_128", gpu_name)) == 2
    text = ptx("staged_flash_bwd_fused_whole_128", gpu_name)
    (loop,) = [each for each in loops_of(text) if "mma.sync" in each]
    assert loop.count("ld.shared") == 1 and ".trans." in loop  # two numbers of rows; keys come by ldmatrix
    assert "st.shared.v" in text[: text.index(loop)] and "st.shared.b16" not in text  # as threads hold it


@pytest.mark.usefixtures("undivided")
def test_what_changes_its_layout_in_two_rounds_leaves_room_for_a_queue() -> None:
    """Keys and values, 32 KiB each, and 16 of weights, which go in two rounds: three slots of 8 beside them, not two of 16."""
    path = bytecode_path(CASES["staged_flash_bwd_fused_wide"])
    program = tileiras.compile(path, gpu_name="sm_120", remarks={"passed": "memory"})
    assert any("in 2 parts of K each: 3 slots of 8192 bytes" in str(d) for d in program.diagnostics)
    (loop,) = [each for each in loops_of(program.ptx) if "mma.sync" in each]
    assert "cp.async.wait_group 1;" in loop and "cp.async.wait_group 0;" not in loop


@pytest.mark.parametrize(
    ("name", "threads"),
    [("staged_wide_heads_512", 256), ("staged_retained_128", 256), ("staged_attention_full_f16", 512)],
)
def test_sixteen_warps_only_where_eight_do_not_hold_what_is_alive(name: str, threads: int) -> None:
    """Eight warps of 255 registers hold as much as sixteen of 128, and read operands half as often."""
    assert f".reqntid {threads}" in ptx(name, "sm_80")


@pytest.mark.parametrize("gpu_name", ["sm_80", "sm_120"])
def test_sums_that_a_loop_carries_around_another_get_warps(gpu_name: str) -> None:
    """128x128 of both: four warps would hold 256 registers a thread."""
    assert ".reqntid 256" in ptx("staged_converted_groups_of_steps", gpu_name)


def test_a_sum_in_tensor_memory_is_read_back_by_two_warpgroups() -> None:
    assert ".reqntid 256" in ptx("staged_bf16_nn_128", "sm_100")


def small_shared_memory(kilobytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """From here on blocks have as much shared memory, as the cost model sees it."""
    from tileiras.compiler.target.cost import CostModel

    first = CostModel.__init__

    def less(self: CostModel, target: object) -> None:
        first(self, target)
        self.shared_bytes = kilobytes << 10

    monkeypatch.setenv("TILEIRAS_CACHE", "0")
    monkeypatch.setattr(CostModel, "__init__", less)


# what attention holds of the slots of its queue: how many of how many parts of a product's K
QUEUES = (
    ("staged_attention_causal_bf16", "sm_80", 32, 4, 1),
    ("staged_attention_causal_bf16", "sm_80", 24, 3, 1),
    ("staged_attention_causal_bf16", "sm_120", 20, 5, 2),
    ("flash_d256", "sm_80", 32, 3, 2),
    ("flash_mqa_d128", "sm_80", 40, 5, 2),
    ("flash_window", "sm_120", 10, 4, 1),
    ("staged_attention_causal_bf16", "sm_90", 32, 4, 1),
    ("staged_attention_causal_bf16", "sm_90", 24, 3, 1),
    ("staged_latent_attention_64", "sm_80", 163, 5, 4),
    ("flash_d256", "sm_90", 96, 4, 1),
    ("flash_mqa_d128", "sm_90", 48, 3, 1),
    ("staged_flash_bwd_fused_relaxed", "sm_80", 56, 3, 1),  # the gradient of queries takes no load
    ("staged_flash_bwd_fused_relaxed", "sm_120", 52, 5, 2),
)


@pytest.mark.sampled(9)
@pytest.mark.parametrize(("name", "gpu_name", "kilobytes", "slots", "parts"), QUEUES)
def test_products_one_behind_the_other_queue_where_a_ring_would_leave_nothing_under_way(
    name: str, gpu_name: str, kilobytes: int, slots: int, parts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_shared_memory(kilobytes, monkeypatch)
    program = tileiras.compile(
        bytecode_path(CASES[name]), gpu_name=gpu_name, emit="ptx", remarks={"passed": "memory"}
    )
    said = [str(d) for d in program.diagnostics if "queue in shared memory" in str(d)]
    assert said and all(f"{slots} slots" in text for text in said), program.diagnostics
    assert all((f"in {parts} parts" in text) == (parts > 1) for text in said)
    assert f"cp.async.wait_group {slots - 2};" in program.ptx and "cp.async.wait_group 0" not in program.ptx
    for seed in (1, 2):
        check(CASES[name], gpu_name, seed, monkeypatch)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("name", "gpu_name", "read"),
    [
        ("staged_latent_attention_64", "sm_80", 2 * 64 * 512),
        ("staged_latent_attention_64", "sm_120", 4 * 64 * 512),  # products take longer than reads
        ("staged_attention_d256_bf16", "sm_80", 4 * 2 * 64 * 256),  # registers hold queries of 16 rows
    ],
)
def test_fewer_warps_read_the_same_values_where_products_would_wait_for_shared_memory(
    name: str, gpu_name: str, read: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of eight warps, four read the same columns, or two, beside queries that no registers hold: they are read again then."""
    loads = [line for line in ptx(name, gpu_name).splitlines() if "ldmatrix" in line and ".trans" in line]
    assert len(loads) * 8 * 4 * 64 == read  # by eight warps, four matrices of 64 elements an instruction
    check(CASES[name], gpu_name, 1, monkeypatch)


# attention beside which not even a queue of products fits: slots, and steps of an iteration
STEPS = (
    ("staged_latent_attention_64", "sm_120", None, 3, 17),
    ("staged_latent_512", "sm_86", None, 3, 17),
    ("staged_attention_causal_bf16", "sm_80", 6, 3, 8),
    ("staged_attention_causal_bf16", "sm_120", 10, 5, 8),
    ("flash_d256", "sm_80", 10, 3, 16),
    ("flash_d256", "sm_120", 20, 4, 8),
    ("staged_flash_bwd_f16_64", "sm_80", 8, 4, 16),
    ("staged_packed_attention", "sm_80", 16, 5, 8),  # scores, which begin with one zero for all, by columns
    ("pointers_listed_rows", "sm_80", 24, 3, 4),
)


@pytest.mark.sampled(9)
@pytest.mark.parametrize(("name", "gpu_name", "kilobytes", "slots", "steps"), STEPS)
def test_products_are_taken_in_steps_where_shared_memory_holds_no_queue_of_them(
    name: str, gpu_name: str, kilobytes: int | None, slots: int, steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kilobytes is not None:
        small_shared_memory(kilobytes, monkeypatch)
    program = tileiras.compile(
        bytecode_path(CASES[name]), gpu_name=gpu_name, emit="ptx", remarks={"passed": "memory"}
    )
    said = [str(d) for d in program.diagnostics if "queue in shared memory" in str(d)]
    assert said and all(f"in {steps} steps: {slots} slots" in text for text in said), program.diagnostics
    loop = program.ptx[program.ptx.index("cp.async.wait_group") : program.ptx.rindex("mma.sync")]
    assert "cp.async.wait_group 0;" not in loop and f"cp.async.wait_group {slots - 2};" in loop
    for seed in (1, 2):
        check(CASES[name], gpu_name, seed, monkeypatch)


@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    ("gpu_name", "kilobytes", "written", "planted"),
    [
        ("sm_80", 24, "cp.async.wait_group 1;", "cp.async.wait_group 2;"),
        ("sm_80", 6, "cp.async.wait_group 1;", "cp.async.wait_group 2;"),
        ("sm_90", 24, "cp.async.wait_group 1;", "cp.async.wait_group 2;"),
        ("sm_90", 24, "wgmma.wait_group.sync.aligned 0;", ""),
    ],
)
def test_a_queue_that_waits_for_too_little_is_found(
    gpu_name: str, kilobytes: int, written: str, planted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_shared_memory(kilobytes, monkeypatch)
    launch = tileiras.launch

    def impatient(source: str, *args: object, **options: object) -> None:
        program = tileiras.compile(source, gpu_name=gpu_name, launch_abi="simt", emit="ptx")
        assert program.ptx.count(written) >= 2
        program.ptx = program.ptx.replace(written, planted)
        launch(program, *args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(tileiras, "launch", impatient)
    with pytest.raises(AssertionError, match=r"race|wgmma|fence|proxy"):
        check(CASES["staged_attention_causal_bf16"], gpu_name, 1, monkeypatch)


def test_an_operand_waits_in_shared_memory_that_the_loop_cannot_use_otherwise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Queries of 64 KB beside keys of 72: neither ring nor queue of whole products fits 98 KB. They are stored in front of the
    loop, once."""
    case = CASES["staged_latent_attention_64"]
    loop = re.split(r"^\$L\d+:$", ptx(case.name, "sm_120"), flags=re.M)[1]
    monkeypatch.setattr("tileiras.compiler.schedule.scratch.fits_shared", lambda *given: False)
    without = re.split(r"^\$L\d+:$", ptx(case.name, "sm_120"), flags=re.M)[1]
    assert loop.count("st.shared") < without.count("st.shared")
    assert loop.count("bar.sync") < without.count("bar.sync")
    monkeypatch.undo()
    for seed in (1, 2):
        check(case, "sm_120", seed, monkeypatch)


def test_probabilities_are_a_left_operand_in_tensor_memory() -> None:
    text = ptx("staged_attention_full_f16", "sm_100")
    products = [line for line in text.splitlines() if "tcgen05.mma" in line]
    assert sum("], [" in line for line in products) * 2 == len(products)  # the second product of each step


def test_terms_beside_the_maximum_flush_and_pairs_share_instructions() -> None:
    attention, softmax = "staged_attention_f16", "softmax_row_bf16"
    assert "ex2.approx.ftz.f32" in ptx(attention, "sm_80")
    for pair in ("add.rn.f32x2", "mul.rn.f32x2"):
        assert pair in ptx(attention, "sm_100") and pair not in ptx(attention, "sm_90")
    backward = ptx("staged_flash_bwd_f16_64", "sm_100")
    assert "ex2.approx.ftz.f32" in backward and "stmatrix" in backward
    assert "ex2.approx.f32" in ptx(softmax, "sm_80") and "ex2.approx.ftz" not in ptx(softmax, "sm_80")


@pytest.mark.usefixtures("undivided")
def test_scores_flush_where_their_sums_are_kept_in_f32() -> None:
    """exp2 of attention whose sums of exponentials are stored beside the result: before, three instructions more for each."""
    text = ptx("staged_attention_kept_sums", "sm_90")
    assert (
        text.count("ex2.approx.ftz.f32") >= 32 and text.count("ex2.approx.f32") <= 2
    )  # of a score; of a row


def test_what_all_registers_of_a_copy_share_is_compared_once() -> None:
    """Of a tile of four dimensions only one differs between a thread's copies: a condition each, not four."""
    text = ptx("staged_attention_kept_sums", "sm_90")
    copies = [part for part in re.split(r"^\$L\d+:$", text, flags=re.M) if "cp.async.cg" in part]
    assert copies and all(part.count("and.pred") < part.count("cp.async.cg") for part in copies)


def test_what_is_not_proven_is_tested_at_run_time() -> None:
    text = ptx("matmul_f16_128", "sm_80")
    assert "cp.async.cg" in text and text.count("mma.sync") > ptx("staged_bf16_nn", "sm_80").count("mma.sync")


PRODUCT = Path(__file__).resolve().parents[1] / "data" / "text" / "product_loop.tileir"


def hinted(entry: str = "", load: str = "") -> tileiras.Program:
    text = PRODUCT.read_text().replace("%n: tile<i32>)", f"%n: tile<i32>){entry}")
    return tileiras.compile(
        text.replace("[%zero, %i] token = %t", f"[%zero, %i] token = %t{load}"), gpu_name="sm_80"
    )


def test_latency_hints_scale_how_far_loads_run_ahead() -> None:
    def stages(latency: int) -> int:
        text = hinted(load=f" optimization_hints = <sm_80 = {{latency = {latency}}}>").ptx
        return text.count("cp.async.commit_group")  # one for each stage ahead, and one in the loop

    assert 3 == stages(1) < stages(5) == 5 < stages(10)
    # the usual five without a hint, but for the stage that costs a block
    assert hinted().ptx.count("cp.async.commit_group") == 4


def test_a_strong_load_stays_where_it_is() -> None:
    """Relaxed, it has to see what others store meanwhile; the weak one beside it travels."""
    text = PRODUCT.read_text().replace("load_view_tko weak %tb", "load_view_tko relaxed device %tb")
    loop = re.split(r"^\$L\d+:$", tileiras.compile(text, gpu_name="sm_80").ptx, flags=re.M)[1]
    weak = re.split(r"^\$L\d+:$", tileiras.compile(PRODUCT.read_text(), gpu_name="sm_80").ptx, flags=re.M)[1]
    assert "ld.relaxed" in loop and 0 < loop.count("cp.async.cg") < weak.count("cp.async.cg")


def test_the_largest_latency_hint_of_a_loop_counts() -> None:
    def hint(latency: int) -> str:
        return f" optimization_hints = <sm_80 = {{latency = {latency}}}>"

    for left, right in ((2, 10), (10, 2)):
        text = PRODUCT.read_text().replace("[%zero, %i] token = %t", f"[%zero, %i] token = %t{hint(left)}")
        text = text.replace("[%i, %zero] token = %t", f"[%i, %zero] token = %t{hint(right)}")
        assert text.count("latency") == 2
        counted = tileiras.compile(text, gpu_name="sm_80").ptx.count("cp.async.commit_group")
        assert counted == hinted(load=hint(10)).ptx.count("cp.async.commit_group")


def test_a_stage_that_costs_a_block_is_left_out() -> None:
    """sm_120: three stages of 16 KiB in each of two blocks have as much under way as five in one."""
    text = (
        PRODUCT.read_text()
        .replace("64x32", "64x64")
        .replace("1024x32", "1024x64")
        .replace("[1024, 32]", "[1024, 64]")
    )
    text = text.replace("[64, 32]", "[64, 64]").replace("[32, 1]", "[64, 1]").replace("[32,1]", "[64,1]")
    program = tileiras.compile(text, gpu_name="sm_120", emit="ptx", remarks={"passed": "all"})
    said = [e.message for e in program.diagnostics if "run ahead" in e.message]
    assert said and "; 4 were wanted, which fewer blocks have room for" in said[0]


def test_an_occupancy_hint_is_a_wish_that_does_not_spill() -> None:
    text = hinted(entry=" optimization_hints=<sm_80 = {occupancy = 16}>").ptx
    assert int(text.split(".maxnreg ")[1].split()[0]) >= 64


def sized(rows: int, columns: int, target: str, hint: str) -> str:
    """The product with another tile, and a hint on its entry."""
    text = PRODUCT.read_text().replace(
        "%n: tile<i32>)", f"%n: tile<i32>) optimization_hints=<{target} = {{{hint}}}>"
    )
    for small, large in (
        ("64x32xf32", f"{rows}x{columns}xf32"), ("64x64xf16", f"{rows}x64xf16"), ("64x32xf16", f"64x{columns}xf16"),
        ("1024x32x", f"1024x{columns}x"), ("64x1024", f"{rows}x1024"), ("[64, 1024]", f"[{rows}, 1024]"),
        ("[1024, 32]", f"[1024, {columns}]"), ("[64, 32]", f"[{rows}, {columns}]"), ("[32, 1]", f"[{columns}, 1]"),
        ("[32,1]", f"[{columns},1]"), ("(64x64)", f"({rows}x64)"),
        ("(64x32), tensor_view<1024", f"(64x{columns}), tensor_view<1024"), ("(64x32)", f"({rows}x{columns})"),
    ):  # fmt: skip
        text = text.replace(small, large)
    return text


def test_an_occupancy_hint_leaves_the_registers_of_one_move_to_tensor_memory() -> None:
    """Two blocks of eight warps leave 128 registers a thread, and a sum of 128x256 is as many, of which 64 move at once."""
    program = tileiras.compile(sized(128, 256, "sm_100", "occupancy = 2"), gpu_name="sm_100")
    assert "tcgen05.st.sync.aligned.32x32b.x64" in program.ptx
    assert program.cubin


@pytest.mark.parametrize(
    ("rows", "columns", "warps", "width"), [(256, 128, 16, 128), (128, 256, 16, 128), (64, 512, 8, 256)]
)
def test_warpgroups_share_out_rows_then_columns(rows: int, columns: int, warps: int, width: int) -> None:
    """Four groups took their rows in another order than their sums had; 64 rows had one group at most."""
    text = sized(rows, columns, "sm_90", f"num_worker_warps_per_cta = {warps}")
    assert (
        f"wgmma.mma_async.sync.aligned.m64n{width}k16"
        in tileiras.compile(text, gpu_name="sm_90", emit="ptx").ptx
    )
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, shape).astype("f2") for shape in ((rows, 1024), (1024, columns)))
    out = np.zeros((rows, columns), "f4")
    tileiras.launch(
        text,
        "k",
        grid=(1, 1, 1),
        args=[a, b, out, np.int32(3)],
        target="emulator",
        gpu_name="sm_90",
        check=True,
    )
    assert (out == a[:, :192].astype("f4") @ b[:192].astype("f4")).all()


def test_a_product_outside_of_loops_gets_the_registers_that_it_needs() -> None:
    case = """cuda_tile.module @m { entry @k(%p: tile<ptr<f16>>, %q: tile<ptr<f32>>)
      optimization_hints=<sm_80 = {occupancy = 32}> {
      %n = iota : tile<1024xi32>
      %a1 = reshape %p : tile<ptr<f16>> -> tile<1xptr<f16>>
      %a2 = broadcast %a1 : tile<1xptr<f16>> -> tile<1024xptr<f16>>
      %a3 = offset %a2, %n : tile<1024xptr<f16>>, tile<1024xi32> -> tile<1024xptr<f16>>
      %a, %t = load_ptr_tko weak %a3 : tile<1024xptr<f16>> -> tile<1024xf16>, token
      %x = reshape %a : tile<1024xf16> -> tile<32x32xf16>
      %z = constant <f32: 0.0> : tile<32x32xf32>
      %y = mmaf %x, %x, %z : tile<32x32xf16>, tile<32x32xf16>, tile<32x32xf32>
      %r = reshape %y : tile<32x32xf32> -> tile<1024xf32>
      %c1 = reshape %q : tile<ptr<f32>> -> tile<1xptr<f32>>
      %c2 = broadcast %c1 : tile<1xptr<f32>> -> tile<1024xptr<f32>>
      %c3 = offset %c2, %n : tile<1024xptr<f32>>, tile<1024xi32> -> tile<1024xptr<f32>>
      %u = store_ptr_tko weak %c3, %r : tile<1024xptr<f32>>, tile<1024xf32> -> token
      return } }"""
    text = tileiras.compile(case, gpu_name="sm_80").ptx
    assert int(text.split(".maxnreg ")[1].split()[0]) >= 64


def check(case: Case, gpu_name: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.corpus import check as corpus

    launch = tileiras.launch

    def watched(*args: object, **options: object) -> None:
        if options.get("target") == "emulator":
            options.update(check=True, seed=seed)
            seen.append(True)
        launch(*args, **options)  # type: ignore[arg-type]

    seen: list[bool] = []
    monkeypatch.setattr(tileiras, "launch", watched)
    outcome = corpus.launch_case(case, "emulator", gpu_name, 200)
    assert seen and outcome.word == corpus.PASS, outcome.reason


@pytest.mark.sampled(40)
@pytest.mark.parametrize("gpu_name", TENSOR)
@pytest.mark.parametrize("name", CHECKED)
def test_no_access_races(name: str, gpu_name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case = CASES[name]
    if arch_number(gpu_name) >= case.min_arch:
        check(case, gpu_name, 1, monkeypatch)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("gpu_name", TENSOR)
@pytest.mark.parametrize(
    "name", [name for name in CASES if name.startswith(("staged", "pointers", "cpp_pointers"))]
)
def test_no_access_races_in_any_order(
    name: str, gpu_name: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = CASES[name]
    if arch_number(gpu_name) >= case.min_arch:
        check(case, gpu_name, seed, monkeypatch)
