"""The GPU architectures. Written by `python -m tileiras.archs --bzl`; do not edit."""

# What the built-in compiler targets.
BUILTIN_ARCHS = ["75", "80", "86", "87", "88", "89", "90", "100", "103", "107", "110", "120", "121"]

# What NVIDIA's assembler targets.
NVIDIA_ARCHS = ["80", "86", "87", "88", "89", "90", "100", "103", "107", "110", "120", "121"]

# GPUs that exist but that some Tile IR compiler does not serve: dropped with a warning. Others are typing errors.
WITHOUT_TILE = [20, 21, 30, 32, 35, 37, 50, 52, 53, 60, 61, 62, 70, 72, 75, 101]

# First architectures with the suffixes `a` and `f`.
FIRST_A = 90
FIRST_F = 100
