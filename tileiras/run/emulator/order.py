"""A perturbed order of CTAs, warps and branches: any order that the ISA allows may happen, so some are tried by seed."""

from __future__ import annotations

import numpy as np


class Order:
    """One per launch that has a seed or checks."""

    def __init__(self, cluster_size: int, seed: int | None) -> None:
        self.cluster_size = cluster_size
        self.rng = np.random.default_rng(seed)
        self.left = 0  # choices until another favourite is drawn
        self.favourite = min
        self.engine = float(self.rng.choice((0.05, 0.3, 0.8)))  # how soon copies and products in flight go on

    def shuffle(self, ctas: np.ndarray) -> np.ndarray:
        groups = ctas.reshape(-1, self.cluster_size, 3)
        return groups[self.rng.permutation(len(groups))].reshape(-1, 3)

    def choose(self, ready: list[int]) -> int:
        """Mostly the piece that comes first, or for a while the last: roles lie behind each other, and each must get ahead."""
        if len(ready) == 1:
            return ready[0]
        if not self.left:
            self.left = int(self.rng.integers(50, 400))
            self.favourite = max if self.rng.random() < 0.4 else min
        self.left -= 1
        if self.rng.random() < 0.7:
            return self.favourite(ready)
        return ready[int(self.rng.integers(len(ready)))]

    def subset(self, batch, pc: int, lanes: np.ndarray) -> np.ndarray:
        """Some of the warps at a piece; the others stay for later."""
        if self.rng.random() < 0.5:
            return lanes
        warps = np.unique(lanes >> 5)
        if warps.size == 1:
            return lanes
        chosen = self.rng.random(warps.size) < self.rng.random()
        if not chosen.any() or chosen.all():
            return lanes
        take = np.zeros(batch.L // 32, bool)
        take[warps[chosen]] = True
        part = take[lanes >> 5]
        batch.push(pc, lanes[~part])
        return lanes[part]
