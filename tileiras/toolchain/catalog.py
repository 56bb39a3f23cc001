"""The tools we know, where a toolkit keeps them, and what each release of ptxas can do.

Rows only.  A number below was read off the tool named in its comment, or is the release notes' number where
the tool is too old to be had; everything that searches or compares lives in ``locate`` and ``ptxas``.
"""

from __future__ import annotations

from tileiras.archs import PTXAS_SINCE

TYPE_CHECKING = False
if TYPE_CHECKING:
    Release = tuple[int, int]


class ToolSpec:
    """One tool: its file name, the wheel and the key of version.json that give its version, and its
    folders."""

    __slots__ = ("component", "folders", "name", "purpose", "wheel")

    def __init__(self, name: str, wheel: str, component: str, folders: tuple[str, ...], purpose: str) -> None:
        self.name = name
        self.wheel = wheel
        self.component = component
        self.folders = folders
        self.purpose = purpose


_BIN = ("bin", "bin/x64")  # bin/x64 is the Windows layout since CUDA 13

TOOLS: dict[str, ToolSpec] = {
    spec.name: spec
    for spec in (
        ToolSpec("ptxas", "nvidia-cuda-nvcc", "cuda_nvcc", _BIN, "assembles PTX"),
        ToolSpec("fatbinary", "nvidia-cuda-nvcc", "cuda_nvcc", _BIN, "bundles images of several targets"),
        ToolSpec("nvcc", "nvidia-cuda-nvcc", "cuda_nvcc", _BIN, "compiles CUDA C++"),
        ToolSpec("nvlink", "nvidia-cuda-nvcc", "cuda_nvcc", _BIN, "links device code"),
        ToolSpec("tileiras", "nvidia-cuda-tileiras", "cuda_tileiras", _BIN, "NVIDIA's own Tile IR assembler"),
        ToolSpec(
            "tileirdisasm", "nvidia-cuda-tileiras", "cuda_tileiras", _BIN, "NVIDIA's Tile IR disassembler"
        ),
        ToolSpec("cuobjdump", "nvidia-cuda-cuobjdump", "cuda_cuobjdump", _BIN, "lists the images in a file"),
        ToolSpec("nvdisasm", "nvidia-cuda-nvdisasm", "cuda_nvdisasm", _BIN, "disassembles a cubin"),
        ToolSpec("cicc", "nvidia-nvvm", "libnvvm", ("nvvm/bin",), "nvcc's device front end"),
    )
}

# A set of tools is checked for one release (B0.3): each of these must agree with ptxas in major.minor.
ONE_RELEASE = ("ptxas", "fatbinary", "nvcc", "tileiras", "cicc")

# `--enable-extended-smem` (static shared memory above 48 KB) is accepted by 13.0.88, the oldest release
# tried.
EXTENDED_SMEM_SINCE: Release = (13, 0)

# `.language` on an entry, the mark of a tile kernel, is part of PTX ISA 9.2.
LAUNCH_METADATA_SINCE: Release = (13, 2)

_PTX_ISA_BEFORE_13 = {
    (11, 8): (7, 8),
    (12, 0): (8, 0),
    (12, 1): (8, 1),
    (12, 2): (8, 2),
    (12, 3): (8, 3),
    (12, 4): (8, 4),
    (12, 5): (8, 5),
    (12, 6): (8, 5),
    (12, 7): (8, 6),
    (12, 8): (8, 7),
    (12, 9): (8, 8),
}


def ptx_isa_max(release: Release) -> Release:
    """The highest PTX ISA version that a release of ptxas reads; (13, 4) -> (9, 4).

    From 13.0 on the minor numbers agree (`ptxas --list-version` of 13.0, 13.1, 13.4 and 13.5).
    """
    if release >= (13, 0):
        return (release[0] - 4, release[1])
    return _PTX_ISA_BEFORE_13.get(release, (7, 8))


def ptxas_needed(target: str, ptx_isa: Release | None = None) -> Release:
    """The first release of ptxas that takes `target` and PTX of version `ptx_isa`."""
    needed = PTXAS_SINCE.get(target, (10, 0))
    if ptx_isa is not None and ptx_isa > (7, 8):
        if ptx_isa >= (9, 0):
            by_isa = (ptx_isa[0] + 4, ptx_isa[1])
        else:
            by_isa = min((rel for rel, isa in _PTX_ISA_BEFORE_13.items() if isa >= ptx_isa), default=(13, 0))
        needed = max(needed, by_isa)
    return needed
