"""The nvcc shim: `tileiras-nvcc` takes nvcc's command line, compiles Tile IR inputs itself and hands on the rest.

delegate.sh (the fast route, no interpreter) -> main.py (start) -> argv.py (words to options and inputs)
-> plan.py (what to run, pure) -> steps.py (runs it); flags.py is the table that all of them read, home.py makes the
private directory through which the real nvcc finds our assembler.
"""
