"""Runs a few PTX instructions over arrays on the emulator: one thread per element."""

import numpy as np

from tileiras.run.emulator import launch

BITS = {"pred": 1, "b8": 8, "b16": 16, "b32": 32, "b64": 64, "f32": 32, "f64": 64}
HEAD = ".version 9.2\n.target sm_100a\n.address_size 64\n"


def apply(code, inputs, outs, *, extra=""):
    """Results of PTX lines on arrays. %a0, %a1.. hold the inputs (by width), %d0.. the results; %p0..%p9 are free.

    inputs: arrays. outs: NumPy dtypes; a bool result is what the code leaves in %q0, %q1...
    """
    inputs = [np.ascontiguousarray(a) for a in inputs]
    n = inputs[0].size if inputs else 32
    results = [np.zeros(n, np.uint32 if np.dtype(t) == bool else t) for t in outs]
    params = ", ".join(f".param .u64 p{i}" for i in range(len(inputs) + len(results)))
    lines = [f"{HEAD}{extra}.visible .entry k({params}, .param .u32 n) {{"]
    lines.append(".reg .pred %p<10>; .reg .pred %q<4>; .reg .b32 %t<4>; .reg .b64 %ad<3>; .reg .pred %in;")
    lines.append(
        ".reg .b16 %h<10>; .reg .b32 %r<20>; .reg .b64 %rd<10>; .reg .f32 %f<8>; .reg .f64 %fd<8>; .reg .b128 %x<4>;"
    )
    for i, a in enumerate(inputs):
        lines.append(f".reg .b{max(16, a.dtype.itemsize * 8)} %a{i};")
    for i, r in enumerate(results):
        lines.append(f".reg .b{max(16, r.dtype.itemsize * 8)} %d{i};")
    lines.append(
        "mov.u32 %t0, %tid.x; mov.u32 %t1, %ctaid.x; mad.lo.u32 %t0, %t1, 128, %t0; ld.param.u32 %t2, [n];"
    )
    lines.append("setp.ge.u32 %in, %t0, %t2; @%in exit;")
    for i, a in enumerate(inputs):
        size = a.dtype.itemsize
        lines.append(
            f"ld.param.u64 %ad0, [p{i}]; mad.wide.u32 %ad0, %t0, {size}, %ad0; ld.global.b{size * 8} %a{i}, [%ad0];"
        )
    lines.append(code)
    for i, (r, t) in enumerate(zip(results, outs)):
        size = r.dtype.itemsize
        if np.dtype(t) == bool:
            lines.append(f"selp.b32 %d{i}, 1, 0, %q{sum(np.dtype(o) == bool for o in outs[:i])};")
        lines.append(f"ld.param.u64 %ad0, [p{len(inputs) + i}]; mad.wide.u32 %ad0, %t0, {size}, %ad0;")
        lines.append(f"st.global.b{size * 8} [%ad0], %d{i};")
    lines.append("ret; }")
    launch("\n".join(lines), "k", -(-n // 128), 128, [*inputs, *results, n])
    results = [r.astype(bool) if np.dtype(t) == bool else r for r, t in zip(results, outs)]
    return results[0] if len(results) == 1 else results


def entry(body, params="", *, directives="", before=""):
    """A module with one entry `k`."""
    return f"{HEAD}{before}.visible .entry k({params}) {directives} {{ {body} }}"
