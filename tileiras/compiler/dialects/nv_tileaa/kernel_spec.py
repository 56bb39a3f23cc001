"""KernelSpec: what is decided about a kernel as a whole, the attribute `nv_tileaa.kernel_spec` of its function.

Text form: `{cluster_dim = [1, 1, 1], num_ctas = 1, num_warps = 4}`, only entries that say something.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

KEY = "nv_tileaa.kernel_spec"


class KernelSpec:
    """Warps of a block, CTAs of a cluster and its extents, blocks an SM should hold, stages a loop should run ahead.

    An entry that is None was neither given nor chosen. `num_cta_in_cga` is a hint; where it is followed, `tile_ctas` CTAs
    share a tile block, and a launch counts clusters.
    """

    __slots__ = (
        "cluster_dim", "is_persistent", "num_cta_in_cga", "num_ctas", "num_stages", "num_warps", "occupancy", "scheduler",
        "tile_ctas",
    )  # fmt: skip

    def __init__(
        self,
        num_warps: int,
        num_ctas: int | None = None,
        cluster_dim: tuple[int, int, int] | None = None,
        occupancy: int | None = None,
        num_stages: int | None = None,
        num_cta_in_cga: int | None = None,
        is_persistent: bool | None = None,
        scheduler: str | None = None,
        tile_ctas: int | None = None,
    ) -> None:
        self.num_warps = num_warps
        self.num_ctas = num_ctas
        self.cluster_dim = cluster_dim
        self.occupancy = occupancy
        self.num_stages = num_stages
        self.num_cta_in_cga = num_cta_in_cga
        self.is_persistent = is_persistent
        self.scheduler = scheduler
        self.tile_ctas = tile_ctas

    def entries(self) -> dict[str, Any]:
        """The entries that say something, by name."""
        return {name: value for name in self.__slots__ if (value := getattr(self, name)) is not None}

    @property
    def block(self) -> tuple[int, int, int]:
        """Threads of a block."""
        return 32 * self.num_warps, 1, 1

    def __eq__(self, other: object) -> bool:
        return isinstance(other, KernelSpec) and self.entries() == other.entries()

    __hash__ = None  # type: ignore[assignment]  # fields may change

    def __repr__(self) -> str:
        return f"KernelSpec({self.entries()})"


def read(entries: Any) -> Any:
    """A KernelSpec from the dictionary of a text; what is none comes back as it is, for the verifier."""
    if isinstance(entries, dict) and "num_warps" in entries and entries.keys() <= set(KernelSpec.__slots__):
        return KernelSpec(**entries)
    return entries
