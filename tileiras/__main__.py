"""`python -m tileiras`: the assembler, and `--cmake-dir` for CMake projects."""

import sys

if sys.argv[1:] == ["--cmake-dir"]:
    from tileiras.cmake_dir import cmake_dir

    print(cmake_dir())
else:
    from tileiras.cli import main

    sys.exit(main(sys.argv[1:]))
