"""Kernels that examples of diagnostics stand in (`explain.py`), so that an example shows what it is about.

An example that begins with `in: NAME(PARAMETERS) KEY=VALUE ...` stands where its frame has `...`: what the frame has there by
itself gives way to it. `KEY=OLD|NEW` has one value in what is refused and another one in what takes its place. In a script,
lines that are indented belong to the kernel, and the others stand behind it.
"""

from __future__ import annotations

import re
from string import Template

FRAMES = {
    "kernel": """\
cuda_tile.module @m {
  entry @k($parameters) {
...
    return
  }
}
""",
    "script": """\
$$ python k.py
import numpy as np
import tileiras

kernel = '''
cuda_tile.module {
  entry @k($parameters) {
...
    return
  }
}
'''
...
""",
    "function": """\
#s = #linear<0, lane = [0, 0, 0, 0, 0], warp = [0, 0]>
#b = #linear<7, lane = [1, 2, 4, 8, 16], warp = [32, 64]>
nv_tileas.module {sym_name = "m", nv_tileaa.compute_capability = 90 : i32} {
  nv_tileas.func {sym_name = "k", nv_tileaa.kernel_spec = {num_warps = 4}, function_type = () -> ()} {
  ^bb0($parameters):
...
    nv_tileas.return
  }
}
""",
    "bulk": """\
#s = #linear<0, lane = [0, 0, 0, 0, 0], warp = [0, 0]>
nv_tileas.module {sym_name = "m", nv_tileaa.compute_capability = 90 : i32} {
  nv_tileas.func {sym_name = "k", nv_tileaa.kernel_spec = {num_warps = 4}, function_type = () -> (), nv_tileas.tensor_maps = [{array = 0, box = [64, 64], element = "f16", extents = [{param = 1}, {const = 64}], fill = "zeros", strides = [{const = 64}, {const = 1}], swizzle = "128B"}]} {
  ^bb0(%a: tensor<ptr<f16>, #s>, %rows: tensor<i32, #s>, %runs: tensor<i1, #s>):
    %ring = nv_tileas.alloc_shared {bytes = 17408 : i64, offset = 0 : i64} : () -> !nv_tileas.shared
...
    nv_tileas.bulk.wait %ring, %rows, %rows {barriers = 16384 : i64, stage_bytes = 8192 : i64} : !nv_tileas.shared, tensor<i32, #s>, tensor<i32, #s>
    nv_tileas.free_shared %ring : !nv_tileas.shared
    nv_tileas.return
  }
}
""",  # noqa: E501
    "agents": """\
nv_tileaa.module {sym_name = "m"} {
  nv_tileaa.func {sym_name = "k", function_type = () -> (), nv_tileaa.kernel_spec = {num_warps = $warps}} {
...
    nv_tileaa.return
  }
}
""",
    "tensors": """\
nv_tileaa.module {sym_name = "m"} {
  nv_tileaa.func {sym_name = "k", function_type = () -> ()} {
...
    nv_tileaa.return
  }
}
""",
    "matmul": """\
cuda_tile.module @kernels {
  entry @matmul(%a: tile<ptr<f16>>, %b: tile<ptr<f16>>, %c: tile<ptr<f32>>, %k: tile<i32>, %n: tile<ptr<i32>>) {
    %depth = assume bounded<0, ?>, %k : tile<i32>
    %width = assume div_by<$width>, %depth : tile<i32>
    %pa = assume div_by<16>, %a : tile<ptr<f16>>
    %pb = assume div_by<16>, %b : tile<ptr<f16>>
    %av = make_tensor_view %pa, shape = [128, %width], strides = [%width, 1] : tile<i32> -> tensor_view<128x?xf16, strides=[?,1]>
    %bv = make_tensor_view %pb, shape = [%width, 64], strides = [64, 1] : tile<i32> -> tensor_view<?x64xf16, strides=[64,1]>
    %cv = make_tensor_view %c, shape = [128, 64], strides = [64, 1] : tensor_view<128x64xf32, strides=[64,1]>
    %at = make_partition_view %av : partition_view<tile=(${rows}x32), tensor_view<128x?xf16, strides=[?,1]>>
    %bt = make_partition_view %bv : partition_view<tile=(32x$rows), tensor_view<?x64xf16, strides=[64,1]>>
    %ct = make_partition_view %cv : partition_view<tile=(${rows}x$rows), tensor_view<128x64xf32, strides=[64,1]>>
    %rows, %steps = get_index_space_shape %at : partition_view<tile=(${rows}x32), tensor_view<128x?xf16, strides=[?,1]>> -> tile<i32>
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
...
    %none = constant <f32: 0.0> : tile<${rows}x${rows}xf32>
    %t = make_token : token
    %sum = for %j in (%zero to %steps, step %one) : tile<i32> iter_values(%acc = %none) -> (tile<${rows}x${rows}xf32>) {
      %x, %t1 = load_view_tko weak %at[%i, %j] token = %t : partition_view<tile=(${rows}x32), tensor_view<128x?xf16, strides=[?,1]>>, tile<i32> -> tile<${rows}x32xf16>, token
      %y, %t2 = load_view_tko weak %bt[%j, %zero] token = %t : partition_view<tile=(32x$rows), tensor_view<?x64xf16, strides=[64,1]>>, tile<i32> -> tile<32x${rows}xf16>, token
      %next = mmaf %x, %y, %acc : tile<${rows}x32xf16>, tile<32x${rows}xf16>, tile<${rows}x${rows}xf32>
      continue %next : tile<${rows}x${rows}xf32>
    }
    %t3 = store_view_tko weak %sum, %ct[%i, %zero] token = %t : tile<${rows}x${rows}xf32>, partition_view<tile=(${rows}x$rows), tensor_view<128x64xf32, strides=[64,1]>>, tile<i32> -> token
    return
  }
}
""",  # noqa: E501
    "left": """\
cuda_tile.module @m {
  entry @k(%a: tile<ptr<f16>>, %b: tile<ptr<f16>>, %c: tile<ptr<f32>>, %n: tile<i32>, %limit: tile<i32>) {
    %pa = assume div_by<16>, %a : tile<ptr<f16>>
    %pb = assume div_by<16>, %b : tile<ptr<f16>>
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %no = constant <i1: false> : tile<i1>
    %yes = constant <i1: true> : tile<i1>
    %av = make_tensor_view %pa, shape = [64, 1024], strides = [1024, 1] : tensor_view<64x1024xf16, strides=[1024,1]>
    %bv = make_tensor_view %pb, shape = [1024, 64], strides = [64, 1] : tensor_view<1024x64xf16, strides=[64,1]>
    %cv = make_tensor_view %c, shape = [64, 64], strides = [64, 1] : tensor_view<64x64xf32, strides=[64,1]>
    %at = make_partition_view %av : partition_view<tile=(64x32), tensor_view<64x1024xf16, strides=[1024,1]>>
    %bt = make_partition_view %bv : partition_view<tile=(32x64), tensor_view<1024x64xf16, strides=[64,1]>>
    %ct = make_partition_view %cv : partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>
    %none = constant <f32: 0.0> : tile<64x64xf32>
    %t = make_token : token
    %all:2 = for %j in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %none, %left = %no) -> (tile<64x64xf32>, tile<i1>) {
      if %left {
        continue %acc, %left : tile<64x64xf32>, tile<i1>
      }
...
      if %ends {
        continue %acc, %yes : tile<64x64xf32>, tile<i1>
      }
      %x, %t1 = load_view_tko weak %at[%zero, %j] token = %t : partition_view<tile=(64x32), tensor_view<64x1024xf16, strides=[1024,1]>>, tile<i32> -> tile<64x32xf16>, token
      %y, %t2 = load_view_tko weak %bt[%j, %zero] token = %t : partition_view<tile=(32x64), tensor_view<1024x64xf16, strides=[64,1]>>, tile<i32> -> tile<32x64xf16>, token
      %next = mmaf %x, %y, %acc : tile<64x32xf16>, tile<32x64xf16>, tile<64x64xf32>
      continue %next, %left : tile<64x64xf32>, tile<i1>
    }
    %t3 = store_view_tko weak %all#0, %ct[%zero, %zero] token = %t : tile<64x64xf32>, partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>, tile<i32> -> token
    return
  }
}
""",  # noqa: E501
    "asks": """\
cuda_tile.module @m {
  entry @k(%a: tile<ptr<f16>>, %b: tile<ptr<f16>>, %c: tile<ptr<f32>>, %n: tile<i32>, %mode: tile<i32>) {
    %pa = assume div_by<16>, %a : tile<ptr<f16>>
    %pb = assume div_by<16>, %b : tile<ptr<f16>>
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %av = make_tensor_view %pa, shape = [64, 1024], strides = [1024, 1] : tensor_view<64x1024xf16, strides=[1024,1]>
    %bv = make_tensor_view %pb, shape = [1024, 64], strides = [64, 1] : tensor_view<1024x64xf16, strides=[64,1]>
    %cv = make_tensor_view %c, shape = [64, 64], strides = [64, 1] : tensor_view<64x64xf32, strides=[64,1]>
    %at = make_partition_view %av : partition_view<tile=(64x32), tensor_view<64x1024xf16, strides=[1024,1]>>
    %bt = make_partition_view %bv : partition_view<tile=(32x64), tensor_view<1024x64xf16, strides=[64,1]>>
    %ct = make_partition_view %cv : partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>
    %none = constant <f32: 0.0> : tile<64x64xf32>
    %t = make_token : token
    %all = for %j in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %none) -> (tile<64x64xf32>) {
      %x, %t1 = load_view_tko weak %at[%zero, %j] token = %t : partition_view<tile=(64x32), tensor_view<64x1024xf16, strides=[1024,1]>>, tile<i32> -> tile<64x32xf16>, token
      %y, %t2 = load_view_tko weak %bt[%j, %zero] token = %t : partition_view<tile=(32x64), tensor_view<1024x64xf16, strides=[64,1]>>, tile<i32> -> tile<32x64xf16>, token
...
      continue %next : tile<64x64xf32>
    }
    %t3 = store_view_tko weak %all, %ct[%zero, %zero] token = %t : tile<64x64xf32>, partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>, tile<i32> -> token
    return
  }
}
""",  # noqa: E501
    "attend": """\
cuda_tile.module @kernels {
  entry @attend(%q: tile<ptr<f16>>, %k: tile<ptr<f16>>, %v: tile<ptr<f16>>, %o: tile<ptr<f32>>, %n: tile<i32>) {
    %size = assume bounded<0, ?>, %n : tile<i32>
    %qa = assume div_by<16>, %q : tile<ptr<f16>>
    %ka = assume div_by<16>, %k : tile<ptr<f16>>
    %va = assume div_by<16>, %v : tile<ptr<f16>>
    %qv = make_tensor_view %qa, shape = [%size, $heads], strides = [$heads, 1] : tile<i32> -> tensor_view<?x${heads}xf16, strides=[$heads,1]>
    %kv = make_tensor_view %ka, shape = [%size, $heads], strides = [$heads, 1] : tile<i32> -> tensor_view<?x${heads}xf16, strides=[$heads,1]>
    %vv = make_tensor_view %va, shape = [%size, $heads], strides = [$heads, 1] : tile<i32> -> tensor_view<?x${heads}xf16, strides=[$heads,1]>
    %ov = make_tensor_view %o, shape = [%size, $heads], strides = [$heads, 1] : tile<i32> -> tensor_view<?x${heads}xf32, strides=[$heads,1]>
    %qt = make_partition_view %qv : partition_view<tile=(${rows}x$heads), tensor_view<?x${heads}xf16, strides=[$heads,1]>>
    %kt = make_partition_view %kv : partition_view<tile=(${keys}x$heads), tensor_view<?x${heads}xf16, strides=[$heads,1]>>
    %vt = make_partition_view %vv : partition_view<tile=(${keys}x$heads), tensor_view<?x${heads}xf16, strides=[$heads,1]>>
    %ot = make_partition_view %ov : partition_view<tile=(${rows}x$heads), tensor_view<?x${heads}xf32, strides=[$heads,1]>>
    %b, %by, %bz = get_tile_block_id : tile<i32>
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %t = make_token : token
    %x, %t0 = load_view_tko weak %qt[%b, %zero] token = %t : partition_view<tile=(${rows}x$heads), tensor_view<?x${heads}xf16, strides=[$heads,1]>>, tile<i32> -> tile<${rows}x${heads}xf16>, token
    %steps, %width = get_index_space_shape %kt : partition_view<tile=(${keys}x$heads), tensor_view<?x${heads}xf16, strides=[$heads,1]>> -> tile<i32>
    %none = constant <f32: 0.0> : tile<${rows}x${heads}xf32>
    %blank = constant <f32: 0.0> : tile<${rows}x${keys}xf32>
    %low = constant <f32: 0xff800000> : tile<${rows}xf32>
    %empty = constant <f32: 0.0> : tile<${rows}xf32>
    %sum, %top, %norm = for %i in (%zero to %steps, step %one) : tile<i32> iter_values(%acc = %none, %m = %low, %l = %empty) -> (tile<${rows}x${heads}xf32>, tile<${rows}xf32>, tile<${rows}xf32>) {
      %y, %t1 = load_view_tko weak %kt[%i, %zero] token = %t : partition_view<tile=(${keys}x$heads), tensor_view<?x${heads}xf16, strides=[$heads,1]>>, tile<i32> -> tile<${keys}x${heads}xf16>, token
      %z, %t2 = load_view_tko weak %vt[%i, %zero] token = %t : partition_view<tile=(${keys}x$heads), tensor_view<?x${heads}xf16, strides=[$heads,1]>>, tile<i32> -> tile<${keys}x${heads}xf16>, token
      %yt = permute %y [1, 0] : tile<${keys}x${heads}xf16> -> tile<${heads}x${keys}xf16>
      %s = mmaf %x, %yt, %blank : tile<${rows}x${heads}xf16>, tile<${heads}x${keys}xf16>, tile<${rows}x${keys}xf32>
      %r = reduce %s dim=1 identities=[0xff800000 : f32] : tile<${rows}x${keys}xf32> -> tile<${rows}xf32>
        (%e: tile<f32>, %f: tile<f32>) {
          %g = maxf %e, %f : tile<f32>
          yield %g : tile<f32>
        }
      %m1 = maxf %m, %r : tile<${rows}xf32>
      %m2 = reshape %m1 : tile<${rows}xf32> -> tile<${rows}x1xf32>
      %m3 = broadcast %m2 : tile<${rows}x1xf32> -> tile<${rows}x${keys}xf32>
      %d = subf %s, %m3 : tile<${rows}x${keys}xf32>
      %p = exp %d : tile<${rows}x${keys}xf32>
      %dm = subf %m, %m1 : tile<${rows}xf32>
      %shrink = exp %dm : tile<${rows}xf32>
      %row = reduce %p dim=1 identities=[0.0 : f32] : tile<${rows}x${keys}xf32> -> tile<${rows}xf32>
        (%e: tile<f32>, %f: tile<f32>) {
          %g = addf %e, %f : tile<f32>
          yield %g : tile<f32>
        }
      %l1 = fma %l, %shrink, %row : tile<${rows}xf32>
      %s1 = reshape %shrink : tile<${rows}xf32> -> tile<${rows}x1xf32>
      %s2 = broadcast %s1 : tile<${rows}x1xf32> -> tile<${rows}x${heads}xf32>
      %a1 = mulf %acc, %s2 : tile<${rows}x${heads}xf32>
      %ph = ftof %p : tile<${rows}x${keys}xf32> -> tile<${rows}x${keys}xf16>
      %a2 = mmaf %ph, %z, %a1 : tile<${rows}x${keys}xf16>, tile<${keys}x${heads}xf16>, tile<${rows}x${heads}xf32>
      continue %a2, %m1, %l1 : tile<${rows}x${heads}xf32>, tile<${rows}xf32>, tile<${rows}xf32>
    }
    %n1 = reshape %norm : tile<${rows}xf32> -> tile<${rows}x1xf32>
    %n2 = broadcast %n1 : tile<${rows}x1xf32> -> tile<${rows}x${heads}xf32>
    %out = divf %sum, %n2 : tile<${rows}x${heads}xf32>
    %t3 = store_view_tko weak %out, %ot[%b, %zero] token = %t : tile<${rows}x${heads}xf32>, partition_view<tile=(${rows}x$heads), tensor_view<?x${heads}xf32, strides=[$heads,1]>>, tile<i32> -> token
    return
  }
}
""",  # noqa: E501
}
# values of keys that an example does not give
USUAL = {
    "kernel": {},
    "script": {},
    "function": {},
    "bulk": {},
    "agents": {"warps": "4"},
    "tensors": {},
    "matmul": {"rows": "64", "width": "16", "lines": "    %i, %by, %bz = get_tile_block_id : tile<i32>"},
    "left": {},
    "asks": {},
    "attend": {"rows": "128", "keys": "128", "heads": "128"},
}


def framed(example: str) -> str:
    """An example with its frame around it; as it is, where it names none."""
    first, _, rest = example.partition("\n")
    if not first.startswith("in: "):
        return example
    found = re.fullmatch(r"in: (\w+)(?:\((.*)\))?((?: \w+=\S+)*)", first)
    if found is None:
        raise ValueError(first)
    name, parameters, keys = found[1], found[2] or "", dict(key.split("=") for key in found[3].split())
    sides = []
    for side in (0, -1):
        chosen = {key: value.split("|")[side] for key, value in keys.items()}
        text = Template(FRAMES[name]).substitute(USUAL[name], parameters=parameters, **chosen)
        sides.append(text.rstrip("\n").replace("  ^bb0():\n", "").split("\n"))
    lines = rest.split("\n") if rest else []
    commands = [line for line in lines if line[2:].startswith("$ ")]
    lines = [line for line in lines if line not in commands]
    holes = sides[0].count("...")
    filling = (
        [lines] if holes == 1 else [[x for x in lines if x[2:3] == " "], [x for x in lines if x[2:3] != " "]]
    )
    if not lines and "lines" in USUAL[name]:
        filling = [["  " + USUAL[name]["lines"]]]
    out = commands
    for old, new in zip(*sides):
        if old == "...":
            out += filling.pop(0)
        else:
            out += ["  " + old if old else ""] if old == new else ["- " + old, "+ " + new]
    return "\n".join(out)
