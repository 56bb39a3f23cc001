"""The extension lists a C source and a Tile IR source; the kernel's header is there when the C source is compiled."""

from setuptools import setup
from tileiras.setuptools_ext import TileExtension

setup(
    packages=["tile_add"],
    package_dir={"": "src"},
    package_data={"tile_add": ["kernels/*.tileir"]},  # for the run on the CPU in __main__.py
    ext_modules=[
        TileExtension(
            "tile_add._add",
            ["src/tile_add/_add.c", "src/tile_add/kernels/vector_add.tileir"],
            # One image for each of these GPUs and PTX for later ones. Without `archs` the environment decides:
            # TILEIRAS_CUDA_ARCHS, TORCH_CUDA_ARCH_LIST or CUDAARCHS; never the GPU that happens to be in this machine.
            archs=["sm_80", "sm_90", "120"],
            max_registers=128,  # more registers than this per thread: the build fails and says in which kernel
        )
    ],
)
