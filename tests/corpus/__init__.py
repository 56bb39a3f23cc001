"""The kernel corpus: real frontends' kernels with NumPy formulas, which judge the compiler.

`python/` and `cpp/` hold the kernel sources, `cases/` the formulas and inputs (NumPy only, so that they load
without any frontend), `registry.py` the list of all cases, `export.py` the way from source to bytecode,
`check.py` one case on one target, and `run.py` the command `python -m tests.corpus.run`.
"""
