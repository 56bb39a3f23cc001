"""`python -m tileiras`: the assembler, and `--cmake-dir` for CMake projects."""

import gc
import sys

gc.set_threshold(100_000)  # what a command makes stays in use for most of its time
if sys.argv[1:] == ["--cmake-dir"]:
    from tileiras.cmake_dir import cmake_dir

    print(cmake_dir())
else:
    from tileiras.cli import main

    status = main(sys.argv[1:])
    gc.freeze()  # the process ends: looking for circles among all that it made would take longer than leaving it
    sys.exit(status)
