"""Math functions as instruction sequences, in f32 and f64; f16 and bf16 are computed in f32 and rounded once.

There is no libdevice: every function is its own argument reduction and polynomial (`tables.py`, fitted by
scripts/fit_polynomials.py). Maximum errors in units of the last place: docs/accuracy.md.
"""
