"""Views of f16 in blocks along K, of which loops add up products of 64x64, as text.

What tests of loops start from that leave steps out or are split: `VIEWS` stands at the begin of an entry with the parameters
%a: 64x256, %b: 256x64 and %c: 64x64.
"""

from __future__ import annotations

from typing import Any

import numpy as np

BLOCKS = 8
F32 = "tile<64x64xf32>"
AT = "partition_view<tile=(64x32), tensor_view<64x?xf16, strides=[256,1]>>"
BT = "partition_view<tile=(32x64), tensor_view<?x64xf16, strides=[64,1]>>"
CT = "partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>"
VIEWS = f"""%pa = assume div_by<16>, %a : tile<ptr<f16>>
    %pb = assume div_by<16>, %b : tile<ptr<f16>>
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %extent = constant <i32: {32 * BLOCKS}> : tile<i32>
    %av = make_tensor_view %pa, shape = [64, %extent], strides = [256, 1] : tile<i32> -> tensor_view<64x?xf16, strides=[256,1]>
    %bv = make_tensor_view %pb, shape = [%extent, 64], strides = [64, 1] : tile<i32> -> tensor_view<?x64xf16, strides=[64,1]>
    %cv = make_tensor_view %c, shape = [64, 64], strides = [64, 1] : tensor_view<64x64xf32, strides=[64,1]>
    %at = make_partition_view %av : {AT}
    %bt = make_partition_view %bv : {BT}
    %ct = make_partition_view %cv : {CT}
    %none = constant <f32: 0.0> : {F32}"""


def factors(seed: int) -> list[Any]:
    """%a and %b: small integers, whose sums are exact."""
    rng = np.random.default_rng(seed)
    shapes = ((64, 32 * BLOCKS), (32 * BLOCKS, 64))
    return [rng.integers(-2, 3, shape).astype(np.float16) for shape in shapes]
