"""The GPU architectures: one row each, read by the compiler, the tools, the build integrations and their tests.

A new GPU is a row here (and, for instructions that came with it, a word in `compiler/target/sm.py`). Bazel reads
`bazel/private/arch_table.bzl`, which `python -m tileiras.archs --bzl` writes and a test compares; CMake asks
`tileiras-config`.

Row: number, shared memory of one block in KiB (opt-in; ptxas gives 327 on sm_107, where no buffer is laid out for more
than sm_100 has), threads of an SM, first release of NVIDIA's tileiras that takes it
(`tileiras --help` of 13.1 to 13.5; None: none does), and its spellings: (suffix, first PTX ISA version, first CUDA
release whose ptxas takes it). An image for NN runs on later GPUs of its
generation, one for NNf on those of its family (equal major number), one for NNa on that GPU alone.
Sources: PTX ISA manual, release notes and `.target`; CUDA C++ programming guide, compute capability tables; release
notes of the toolkits 10.0 to 12.9. 13.x was tried with ptxas 13.0.88, 13.1.115, 13.4.92 and 13.5.37.
"""

from __future__ import annotations

ROWS = (
    (75, 64, 1024, None, (("", (6, 3), (10, 0)),)),
    (80, 163, 2048, (13, 2), (("", (7, 0), (11, 0)),)),
    (86, 99, 1536, (13, 2), (("", (7, 1), (11, 1)),)),
    (87, 163, 1536, (13, 2), (("", (7, 4), (11, 4)),)),
    (88, 99, 1536, (13, 2), (("", (9, 0), (13, 0)),)),
    (89, 99, 1536, (13, 2), (("", (7, 8), (11, 8)),)),
    (90, 227, 2048, (13, 3), (("", (7, 8), (11, 8)), ("a", (8, 0), (12, 0)))),
    (100, 227, 2048, (13, 1), (("", (8, 6), (12, 7)), ("a", (8, 6), (12, 7)), ("f", (8, 8), (12, 9)))),
    (103, 227, 2048, (13, 1), (("", (8, 8), (12, 9)), ("a", (8, 8), (12, 9)), ("f", (8, 8), (12, 9)))),
    (107, 227, 2048, (13, 4), (("", (9, 4), (13, 4)), ("a", (9, 4), (13, 4)), ("f", (9, 4), (13, 4)))),
    (110, 227, 1536, (13, 1), (("", (9, 0), (13, 0)), ("a", (9, 0), (13, 0)), ("f", (9, 0), (13, 0)))),
    (120, 99, 1536, (13, 1), (("", (8, 7), (12, 8)), ("a", (8, 7), (12, 8)), ("f", (8, 8), (12, 9)))),
    (121, 99, 1536, (13, 1), (("", (8, 8), (12, 9)), ("a", (8, 8), (12, 9)), ("f", (8, 8), (12, 9)))),
)  # fmt: skip

NUMBERS = tuple(row[0] for row in ROWS)
NAMES = tuple(f"sm_{number}" for number in NUMBERS)
# What NVIDIA's assembler takes, and since when.
NVIDIA_SINCE = {row[0]: row[3] for row in ROWS if row[3] is not None}
NVIDIA_NUMBERS = tuple(NVIDIA_SINCE)
# First release of ptxas that assembles for a spelled target.
PTXAS_SINCE = {f"sm_{row[0]}{suffix}": release for row in ROWS for suffix, _, release in row[4]}
# First of each generation: what nvcc's all-major stands for.
MAJOR_NUMBERS = tuple(n for n in NUMBERS if n == min(m for m in NUMBERS if m // 10 == n // 10))
# The suffixes came with these numbers; an earlier architecture has none.
FIRST_WITH_SUFFIX = {
    suffix: min(row[0] for row in ROWS if any(spelling[0] == suffix for spelling in row[4]))
    for suffix in "af"
}
# GPUs that exist and that no Tile IR compiler serves, or some do not (75): dropped from a list of architectures with a
# warning, where any other number is a typing error.
WITHOUT_TILE = (20, 21, 30, 32, 35, 37, 50, 52, 53, 60, 61, 62, 70, 72, 75, 101)


def bzl() -> str:
    """The text of bazel/private/arch_table.bzl."""

    def numbers(values: tuple[int, ...]) -> str:
        return "[" + ", ".join(f'"{value}"' for value in values) + "]"

    return "\n".join(
        (
            '"""The GPU architectures. Written by `python -m tileiras.archs --bzl`; do not edit."""',
            "",
            "# What the built-in compiler targets.",
            f"BUILTIN_ARCHS = {numbers(NUMBERS)}",
            "",
            "# What NVIDIA's assembler targets.",
            f"NVIDIA_ARCHS = {numbers(NVIDIA_NUMBERS)}",
            "",
            "# GPUs that exist but that some Tile IR compiler does not serve: dropped with a warning. Others are typing errors.",
            f"WITHOUT_TILE = [{', '.join(map(str, WITHOUT_TILE))}]",
            "",
            "# First architectures with the suffixes `a` and `f`.",
            f"FIRST_A = {FIRST_WITH_SUFFIX['a']}",
            f"FIRST_F = {FIRST_WITH_SUFFIX['f']}",
            "",
        )
    )


if __name__ == "__main__":
    import sys

    if sys.argv[1:] != ["--bzl"]:
        sys.stderr.write("usage: python -m tileiras.archs --bzl\n")
        raise SystemExit(1)
    sys.stdout.write(bzl())
