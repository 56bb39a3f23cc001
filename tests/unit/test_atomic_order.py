"""Atomics of tiles with several elements a thread: relaxed ones between fences order as the tile's order says."""

import re

import numpy as np
import pytest

import tileiras
from tileiras import LaunchError

N = 512

# Block 0 writes data and raises N flags at once; the others wait for all flags and read the data.
MESSAGE = """
cuda_tile.module @m {{
  entry @k(%data: tile<ptr<i32>>, %flags: tile<ptr<i32>>, %out: tile<ptr<i32>>) {{
    %x, %y, %z = get_tile_block_id : tile<i32>
    %at = iota : {t}
    %zeros = constant <i32: 0> : {t}
    %ones = constant <i32: 1> : {t}
    %none = constant <i32: 0> : tile<i32>
    %size = constant <i32: {n}> : tile<i32>
    %d0 = reshape %data : tile<ptr<i32>> -> tile<1xptr<i32>>
    %d1 = broadcast %d0 : tile<1xptr<i32>> -> {p}
    %d = offset %d1, %at : {p}, {t} -> {p}
    %f0 = reshape %flags : tile<ptr<i32>> -> tile<1xptr<i32>>
    %f1 = broadcast %f0 : tile<1xptr<i32>> -> {p}
    %f = offset %f1, %at : {p}, {t} -> {p}
    %mine = muli %x, %size : tile<i32>
    %o0 = offset %out, %mine : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
    %o1 = reshape %o0 : tile<ptr<i32>> -> tile<1xptr<i32>>
    %o2 = broadcast %o1 : tile<1xptr<i32>> -> {p}
    %o = offset %o2, %at : {p}, {t} -> {p}
    %writes = cmpi equal %x, %none, signed : tile<i32> -> tile<i1>
    if %writes {{
      %t0 = store_ptr_tko weak %d, %at : {p}, {t} -> token
      %was, %t1 = atomic_rmw_tko {release} device %f, xchg, %ones token=%t0 : {p}, {t} -> {t}, token
    }} else {{
      loop {{
        %got, %t2 = atomic_rmw_tko {acquire} device %f, add, %zeros : {p}, {t} -> {t}, token
        %least = reduce %got dim=0 identities=[1 : i32] : {t} -> tile<i32>
        (%a: tile<i32>, %b: tile<i32>) {{
          %s = mini %a, %b signed : tile<i32>
          yield %s : tile<i32>
        }}
        %ready = trunci %least : tile<i32> -> tile<i1>
        if %ready {{
          %v, %t3 = load_ptr_tko weak %d token=%t2 : {p} -> {t}, token
          %t4 = store_ptr_tko weak %o, %v : {p}, {t} -> token
          break
        }}
        continue
      }}
    }}
    return
  }}
}}
"""


def ptx_of(release: str, acquire: str, gpu: str, n: int = N):
    tile, pointers = f"tile<{n}xi32>", f"tile<{n}xptr<i32>>"
    text = MESSAGE.format(n=n, t=tile, p=pointers, release=release, acquire=acquire)
    return tileiras.compile(text, gpu_name=gpu, emit="ptx")


def races(program) -> bool:
    """Whether some schedule shows a race; the data arrive in any case, the emulator's memory being coherent."""
    for seed in range(3):
        data, flags, out = (np.zeros(n, np.int32) for n in (N, N, 3 * N))
        try:
            tileiras.launch(program, "k", 3, (data, flags, out), "emulator", check=True, seed=seed)
        except LaunchError as error:
            assert "race" in str(error)
            return True
        assert (out[N:].reshape(2, N) == np.arange(N)).all()
    return False


@pytest.mark.parametrize("gpu", ["sm_75", "sm_90"])
@pytest.mark.parametrize(
    "release,acquire,wrong",
    [
        ("release", "acquire", False),
        ("acq_rel", "acq_rel", False),
        ("relaxed", "acquire", True),
        ("release", "relaxed", True),
    ],
)
def test_a_tile_is_released_and_acquired_as_a_whole(
    release: str, acquire: str, wrong: bool, gpu: str
) -> None:
    program = ptx_of(release, acquire, gpu)
    assert re.search(r"atom\.(acquire|release|acq_rel)", program.ptx) is None, "an order on each element"
    want = (release != "relaxed") + (release == "acq_rel") + (acquire != "relaxed") + (acquire == "acq_rel")
    assert program.ptx.count("fence.acq_rel.gpu;") == want
    assert races(program) is wrong


def test_an_element_a_thread_has_its_order_on_the_instruction() -> None:
    text = ptx_of("release", "acquire", "sm_90", 128).ptx
    assert "fence" not in text and "atom.release.gpu" in text and "atom.acquire.gpu" in text
