"""Finds the container of the kernels among the runfiles, as a program that loads images itself would."""

from tileiras_bazel import locate  # with tileiras installed: from tileiras.bazel import locate

FATBIN_MAGIC = bytes.fromhex("50ed55ba")

with open(locate("tile_example/kernels/vector_add.fatbin"), "rb") as file:
    magic = file.read(4)
assert magic == FATBIN_MAGIC, magic
print("found the container")
