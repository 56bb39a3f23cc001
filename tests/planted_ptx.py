"""Bugs planted in the PTX of real kernels: text edits of what `tileiras` made of corpus kernels, by class of bug.

Each class has three kernels, of different targets or forms where it exists in more than one, and what a finding must say.
The kernels run on fewer blocks than in the corpus: the bugs are inside of blocks, or between two.
"""

from __future__ import annotations

import copy
import functools
import re
from collections.abc import Callable
from typing import Any

import numpy as np

import tileiras
from tests.corpus.export import bytecode_path
from tests.corpus.registry import CASES
from tileiras.run import LaunchError

Edit = Callable[[str], str]
TRY = r"mbarrier\.try_wait\.parity"


class NoPlace(Exception):
    """An edit found nothing to change: the kernel is not what the table takes it for."""


def changed(pattern: str, new: str | Callable[[re.Match[str]], str], which: int | None = None) -> Edit:
    """The edit that replaces instructions (lines) that match: all, or one by its number."""

    def edit(text: str) -> str:
        lines = text.split("\n")
        at = [i for i, line in enumerate(lines) if re.search(pattern, line)]
        if not at or which is not None and not -len(at) <= which < len(at):
            raise NoPlace(pattern)
        for i in at if which is None else [at[which]]:
            lines[i] = re.sub(pattern, new, lines[i], count=1)
        return "\n".join(lines)

    return edit


def without(pattern: str, which: int | None = None) -> Edit:
    return changed(rf"^.*{pattern}.*$", "", which)


def unwaited(which: int) -> Edit:
    """A wait on an mbarrier that is not there: neither the question nor the jump back to it."""

    def edit(text: str) -> str:
        lines = text.split("\n")
        at = [i for i, line in enumerate(lines) if re.search(TRY, line)]
        at = [i for i in at if re.search(r"@!%p\d+ bra", lines[i + 1])]
        if not at:
            raise NoPlace(TRY)
        lines[at[which]] = lines[at[which] + 1] = ""
        return "\n".join(lines)

    return edit


def ahead_of_loads(edit: Edit) -> Edit:
    """An edit of what comes before the last load from tensor memory: "the last wait" is that for the product, by whatever
    roles the rest of the kernel goes."""

    def both(text: str) -> str:
        at = text.rfind("tcgen05.ld")
        if at < 0:
            raise NoPlace("tcgen05.ld")
        return edit(text[:at]) + text[at:]

    return both


def behind(pattern: str, more: str | Callable[[re.Match[str]], str], which: int = 0) -> Edit:
    """Instructions added behind one; `more` may use what its pattern matched."""

    def edit(text: str) -> str:
        lines = text.split("\n")
        at = [i for i, line in enumerate(lines) if re.search(pattern, line)]
        if not at:
            raise NoPlace(pattern)
        i = at[which]
        match = re.search(pattern, lines[i])
        assert match is not None
        lines[i] += "\n" + (more(match) if callable(more) else match.expand(more))
        return "\n".join(lines)

    return edit


def deep_product(m: int, n: int, k: int, ctas: int) -> str:
    """One block, of a cluster of CTAs, that multiplies halves through a loop of 16 steps, more than any ring has stages."""
    hint = f"optimization_hints = <default = {{num_cta_in_cga = {ctas}}}>"
    a, b = (
        f"tensor_view<{m}x{16 * k}xf16, strides=[{16 * k},1]>",
        f"tensor_view<{16 * k}x{n}xf16, strides=[{n},1]>",
    )
    o = f"tensor_view<{m}x{n}xf32, strides=[{n},1]>"
    ta, tb, to = (f"partition_view<tile=({x}x{y}), {v}>" for x, y, v in ((m, k, a), (k, n, b), (m, n, o)))
    return f"""
cuda_tile.module @m {{
  entry @k(%p: tile<ptr<f16>>, %q: tile<ptr<f16>>, %o: tile<ptr<f32>>) {hint} {{
    %pa = assume div_by<16>, %p : tile<ptr<f16>>
    %qa = assume div_by<16>, %q : tile<ptr<f16>>
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %steps = constant <i32: 16> : tile<i32>
    %c = constant <f32: 0.0> : tile<{m}x{n}xf32>
    %va = make_tensor_view %pa, shape = [{m}, {16 * k}], strides = [{16 * k}, 1] : {a}
    %vb = make_tensor_view %qa, shape = [{16 * k}, {n}], strides = [{n}, 1] : {b}
    %vo = make_tensor_view %o, shape = [{m}, {n}], strides = [{n}, 1] : {o}
    %ta = make_partition_view %va : {ta}
    %tb = make_partition_view %vb : {tb}
    %to = make_partition_view %vo : {to}
    %d = for %i in (%zero to %steps, step %one) : tile<i32> iter_values(%acc = %c) -> (tile<{m}x{n}xf32>) {{
      %x, %u = load_view_tko weak %ta[%zero, %i] token = %t : {ta}, tile<i32> -> tile<{m}x{k}xf16>, token
      %y, %w = load_view_tko weak %tb[%i, %zero] token = %t : {tb}, tile<i32> -> tile<{k}x{n}xf16>, token
      %e = mmaf %x, %y, %acc : tile<{m}x{k}xf16>, tile<{k}x{n}xf16>, tile<{m}x{n}xf32>
      continue %e : tile<{m}x{n}xf32>
    }}
    %z = store_view_tko weak %d, %to[%zero, %zero] token = %t : tile<{m}x{n}xf32>, {to}, tile<i32> -> token
    return
  }}
}}
"""


def taken(name: str) -> tuple[Any, str, tuple[int, int, int], list[Any], list[Any]]:
    """Source, entry, grid, arguments and further memory of a kernel: a case of the corpus, `deep MxNxK`, or `deep MxNxK/CTAS`."""
    if name.startswith("deep "):
        shape, _, ctas = name[5:].partition("/")
        m, n, k = map(int, shape.split("x"))
        rng = np.random.default_rng(m + n + k)
        a, b = (rng.integers(-2, 3, shape).astype(np.float16) for shape in ((m, 16 * k), (16 * k, n)))
        return deep_product(m, n, k, int(ctas or 1)), "k", (1, 1, 1), [a, b, np.zeros((m, n), np.float32)], []
    case = CASES[name]
    flat, memory = case.flat(case.make_values())
    return bytecode_path(case), case.entry, case.grid, flat, memory


@functools.cache
def program(kernel: str) -> tileiras.Program:
    """`name:target`, with `:maps` for tensor maps made by the launcher."""
    name, gpu_name, *maps = kernel.split(":")
    options: dict[str, Any] = {"launch_abi": "simt", "tensor_maps": "launcher"} if maps else {}
    return tileiras.compile(taken(name)[0], gpu_name=gpu_name, emit="ptx", **options)


@functools.cache
def edited(kernel: str, edit: Edit) -> tileiras.Program:
    made = program(kernel)
    out = copy.copy(made)
    out.ptx = edit(made.ptx)
    out.translated = {}
    return out


def findings(kernel: str, edit: Edit, seed: int) -> str:
    """What a launch with checks finds, "" where that is nothing."""
    name, gpu_name, *_ = kernel.split(":")
    _, entry, grid, flat, memory = taken(name)
    if name in ONE_BLOCK:
        grid = (1, 1, 1)
    more: dict[str, Any] = {"memory": memory} if memory else {}
    try:
        tileiras.launch(
            edited(kernel, edit),
            entry,
            grid,
            flat,
            target="emulator",
            gpu_name=gpu_name,
            check=True,
            seed=seed,
            **more,
        )
    except LaunchError as error:
        return "\n".join(d.message for d in error.diagnostics)
    return ""


AMPERE = ("staged_bf16_nn_128:sm_80", "staged_f16_tn:sm_80", "staged_attention_causal_bf16:sm_80")
HOPPER = ("staged_bf16_nn_128:sm_90", "staged_f16_tn:sm_90", "staged_attention_causal_bf16:sm_90")
BOXES = (
    "staged_f16_tn:sm_90:maps",
    "staged_bf16_nn_128:sm_90:maps",
    "staged_attention_causal_bf16:sm_90:maps",
)
ROLES = ("deep 128x128x64:sm_90:maps", "staged_persistent:sm_90:maps", "deep 64x64x64:sm_90:maps")
CLUSTERS = ("deep 256x128x64/2:sm_90:maps", "deep 128x256x64/2:sm_90:maps", "deep 256x256x64/4:sm_90:maps")
WRITTEN = (
    "staged_converted_tf32_tn",
    "staged_dequantized",
    "staged_converted_w8a16_nn",
)  # operands stored by threads
BLOCKS = (
    "last_block_sums:sm_80",
    "mm_split_lock:sm_90",
    "cpp_chained_scan:sm_100",
)  # that hand data to each other
ONE_BLOCK = (
    "staged_bf16_nn_128",
    "staged_f16_tn",
    "staged_persistent",
    *WRITTEN,
)  # bugs inside of blocks need no more
STORING = (
    "staged_bf16_nn_128:sm_100",
    "staged_f16_tn:sm_100",
    "staged_attention_causal_bf16:sm_100",
)  # in tensor memory, what their products add to
HANDING = (
    *STORING[:2],
    "staged_persistent:sm_100:maps",
)  # tensor memory on to products, behind their first fence
BLACKWELL = ("staged_bf16_nn_128:sm_100", "staged_f16_tn:sm_100:maps", "staged_attention_causal_bf16:sm_100")

ASKED = rf"^(.*)({TRY}\S* %p\d+, \[[^]]+\], )(%r\d+|\d+);"
OTHER = r"\1{ .reg .b32 %odd; xor.b32 %odd, \3, 1; \2%odd; }"

INIT = r"(mbarrier\.init\.shared::cta\.b64 \[[^]]+\]), (%r\d+);"
COUNT = r"(wgmma\.wait_group\.sync\.aligned) \d+"
CLUSTER_SYNC = r"barrier\.cluster\.arrive\.release;\s*barrier\.cluster\.wait\.acquire;"
RELEASED = r"fence\.mbarrier_init\S+;|(?<=cluster\.arrive)\.release"
MULTICAST = r"cp\.async\.bulk\.tensor\.\S*multicast::cluster"
RACE = "race"
# class of bug: (edit, kernels, what a finding says)
BUGS: dict[str, tuple[Edit, tuple[str, ...], str]] = {
    "cp.async: no wait": (without(r"cp\.async\.wait_(group|all)"), AMPERE, RACE),
    "cp.async: a wait for one group too few": (
        changed(r"cp\.async\.wait_group (\d+)", lambda m: f"cp.async.wait_group {int(m[1]) + 1}", 0), AMPERE, RACE),
    "cp.async: no barrier behind the wait": (
        lambda t: re.sub(r"(cp\.async\.wait_group \d+;\n(?:[^\n]*\n){0,3}?)\s*bar\.sync 0;", r"\1", t), AMPERE, RACE),
    "cp.async: its source stored to": (
        behind(r"cp\.async\.c[ag]\.shared\.global\S* \[[^]]+\], \[(%\w+)(?:\+\d+)?\]", r"st.global.b32 [\1], 0;"), AMPERE, RACE),
    "cp.async: no commit": (without(r"cp\.async\.commit_group"), AMPERE, RACE),
    "wgmma: no wait": (without(r"wgmma\.wait_group"), HOPPER, "race|in flight"),
    "wgmma: a wait for fewer": (changed(COUNT, r"\1 7"), HOPPER, "race|in flight"),
    "wgmma: no fence": (without(r"wgmma\.fence"), HOPPER, "wgmma"),
    "wgmma: no proxy fence": (
        without(r"fence\.proxy\.async"), tuple(f"{name}:sm_90" for name in WRITTEN), "missing proxy fence"),
    "wgmma: no proxy fence behind cp.async": (without(r"fence\.proxy\.async"), HOPPER, "missing proxy fence"),
    "boxes: no wait": (unwaited(0), BOXES, "race|uninitialised"),
    "boxes: the other phase": (changed(ASKED, OTHER), BOXES, "race|deadlock|divergence|uninitialised"),
    "boxes: an mbarrier never initialised": (without(r"mbarrier\.init", 1), BOXES, "mbarrier.*initialised|initialised"),
    "boxes: no bytes expected": (
        changed(r"(mbarrier\.arrive)\.expect_tx(\.\S+ _, \[[^]]+\]), \d+;", r"\1\2;"), BOXES,
        "race|deadlock|divergence|expected"),
    "boxes: a count too high": (
        changed(INIT, r"{ .reg .b32 %more; add.u32 %more, \2, 1; \1, %more; }", 0),
        BOXES, "deadlock|divergence"),
    "boxes: operands overwritten under wgmma": (
        changed(COUNT, r"\1 7"), BOXES, "race|in flight"),
    "roles: a stage given back too early": (
        changed(rf"{COUNT};", r"", 0), ROLES, "race|in flight"),
    "roles: nobody waits for a free stage": (unwaited(-1), ROLES, RACE),
    "roles: free stages counted short": (
        lambda t: _counted_short(t), ROLES, "race|deadlock|divergence|count|arriv"),
    "roles: more registers than there are": (
        changed(r"setmaxnreg\.dec(\S+) 24", r"setmaxnreg.dec\1 160"), ROLES, "setmaxnreg"),
    "clusters: no barrier of theirs behind the initialisation": (
        lambda t: re.sub(CLUSTER_SYNC, "bar.sync 0;", t, count=1), CLUSTERS, "race|never initialised"),
    "clusters: a relaxed barrier behind the initialisation": (
        lambda t: re.sub(RELEASED, _relaxed, t, count=2), CLUSTERS, "initialisation"),
    "clusters: no barrier of theirs before the end": (
        lambda t: _all_but_first(CLUSTER_SYNC, t), CLUSTERS, "ended CTA|was invalidated"),
    "clusters: copies to one alone": (
        changed(rf"({MULTICAST}.*), %h\d+;", r"{ .reg .b16 %one; mov.b16 %one, 1; \1, %one; }"), CLUSTERS,
        "race|deadlock|uninitialised|no copy brings|divergence"),
    "clusters: copies to a CTA that is not there": (
        changed(rf"({MULTICAST}.*), %h\d+;", r"{ .reg .b16 %odd; mov.b16 %odd, 33; \1, %odd; }"), CLUSTERS, "names CTA 5"),
    "clusters: own bytes expected": (
        changed(r"(expect_tx\S+ _, \[[^]]+\]), (\d+);", lambda m: f"{m[1]}, {int(m[2]) // 2};"), CLUSTERS,
        "race|deadlock|divergence|uninitialised|nobody expected"),
    "clusters: no bytes expected": (
        changed(r"(mbarrier\.arrive)\.expect_tx(\.\S+ _, \[[^]]+\]), \d+;", r"\1\2;"), CLUSTERS,
        "race|deadlock|divergence|uninitialised|nobody expected"),
    "clusters: free stages told to themselves alone": (
        changed(r"mapa\.shared::cluster\.u32 (%r\d+), (%r\d+), %r\d+;", r"mov.u32 \1, \2;"), CLUSTERS,
        "race|deadlock|divergence|arrivals|in flight"),
    "clusters: nobody waits for a free stage": (unwaited(-1), CLUSTERS, "race|more arrivals|expected"),
    "clusters: no wait for a full stage": (unwaited(0), CLUSTERS, "race|uninitialised|in flight"),
    "tcgen05: no wait for the commit": (
        ahead_of_loads(unwaited(-1)), BLACKWELL, "race|deadlock|not allocated"),
    "tcgen05: the other phase": (
        ahead_of_loads(changed(ASKED, OTHER, -1)), BLACKWELL, "race|deadlock|divergence|not allocated"),
    "tcgen05: no commit": (without(r"tcgen05\.commit"), BLACKWELL, "race|deadlock|divergence"),
    "tcgen05: no wait for a load": (without(r"tcgen05\.wait::ld"), BLACKWELL, r"tcgen05\.ld in flight|race"),
    "tcgen05: no wait for a store": (without(r"tcgen05\.wait::st"), STORING, RACE),
    "tcgen05: no fence after": (
        ahead_of_loads(without(r"tcgen05\.fence::after_thread_sync", -1)), BLACKWELL, r"race.*tcgen05\.fence"),
    "tcgen05: no fence before": (without(r"tcgen05\.fence::before_thread_sync", 1), HANDING, r"race.*tcgen05\.fence"),
    "tcgen05: never freed": (without(r"tcgen05\.dealloc"), BLACKWELL, "tensor memory not freed"),
    "tcgen05: freed too early": (
        lambda t: _freed_early(t), BLACKWELL, "not allocated|tensor memory"),
    "tcgen05: no proxy fence": (
        without(r"fence\.proxy\.async"), tuple(f"{name}:sm_100" for name in WRITTEN), "missing proxy fence"),
    "tcgen05: no proxy fence behind cp.async": (without(r"fence\.proxy\.async"), STORING, "missing proxy fence"),
    "blocks: a scope too small": (changed(r"\.gpu\b", ".cta"), BLOCKS, RACE),
    "blocks: no acquire": (
        changed(r"^(.*(?:ld|atom)\.)(?:global\.)?(?:acquire|acq_rel)\b", r"\1relaxed"), BLOCKS, RACE),
}  # fmt: skip


def _relaxed(match: re.Match[str]) -> str:
    return ".relaxed" if match[0] == ".release" else ""


def _all_but_first(pattern: str, text: str) -> str:
    """All that matches goes, but for the first."""
    first = re.search(pattern, text)
    if first is None:
        raise NoPlace(pattern)
    return text[: first.end()] + re.sub(pattern, "", text[first.end() :])


def _counted_short(text: str) -> str:
    """The mbarriers of free stages, which are initialised last, expect one arrival too few."""
    count = re.findall(INIT, text)[-1][1]
    pattern = rf"(mbarrier\.init\.shared::cta\.b64 \[[^]]+\]), {count};"
    return changed(pattern, rf"{{ .reg .b32 %less; sub.u32 %less, {count}, 1; \1, %less; }}")(text)


def _freed_early(text: str) -> str:
    """dealloc stands before the loads of the result."""
    found = re.search(r"tcgen05\.dealloc\S* (%r\d+), (%r\d+);", text)
    if found is None:
        raise NoPlace("dealloc")
    early = f"{{ .reg .pred %first; .reg .b32 %who; mov.u32 %who, %tid.x; setp.lt.u32 %first, %who, 32; @%first {found[0]} }}"
    lines = text.replace(found[0], "").split("\n")
    at = max(i for i, line in enumerate(lines) if "tcgen05.ld" in line)
    lines.insert(at, early)
    return "\n".join(lines)
