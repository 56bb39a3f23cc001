"""Access records, packed one to an integer: who was at a place last, in which of its intervals, how strongly."""

from __future__ import annotations

import numpy as np

# Strength of an access: weak, or strong in a scope. Two strong accesses whose scopes contain each other do not race.
WEAK, CTA_SCOPE, CLUSTER_SCOPE, GPU_SCOPE = 0, 1, 2, 3
SCOPES = {"cta": CTA_SCOPE, "cluster": CLUSTER_SCOPE, "gpu": GPU_SCOPE, "gl": GPU_SCOPE, "sys": GPU_SCOPE}

_CLOCK, _LANE, _WARP = 26, 6, 24
_LANE_AT, _WARP_AT, _SCOPE_AT = _CLOCK, _CLOCK + _LANE, _CLOCK + _LANE + _WARP
PENDING = (1 << _CLOCK) - 1  # clock of an access that is still under way: ordered before nothing
MANY = 32  # lane number of several lanes of one warp
ENGINE = 33  # lane number of asynchronous work: its warp is CHANNEL + a channel, its clock counts that channel's signals
CHANNEL = 1 << (_WARP - 1)
MOST_WARPS = CHANNEL


def pack(scope: int, warp: np.ndarray, lane: np.ndarray, clock: np.ndarray) -> np.ndarray:
    """Records of accesses: never negative, so that -1 can say that there was none."""
    return (np.int64(scope) << _SCOPE_AT) | (warp << _WARP_AT) | (lane << _LANE_AT) | clock


def signal(channel: int, clock: int) -> int:
    """The record of asynchronous work whose end a channel tells."""
    return CHANNEL + channel << _WARP_AT | ENGINE << _LANE_AT | clock


def channel_of(packed: int) -> int:
    return (packed >> _WARP_AT & (1 << _WARP) - 1) - CHANNEL


def with_clock(packed: np.ndarray, clock: np.ndarray) -> np.ndarray:
    return (packed & ~np.int64(PENDING)) | clock


def with_many_lanes(packed: np.ndarray) -> np.ndarray:
    return (packed & ~(np.int64((1 << _LANE) - 1) << _LANE_AT)) | (np.int64(MANY) << _LANE_AT)


class Records:
    """What packed records say, field by field; `there` where there is one."""

    __slots__ = ("clock", "lane", "scope", "there", "warp")

    def __init__(self, packed: np.ndarray) -> None:
        self.there = packed >= 0
        self.scope = packed >> _SCOPE_AT
        self.warp = packed >> _WARP_AT & ((1 << _WARP) - 1)
        self.lane = packed >> _LANE_AT & (1 << _LANE) - 1
        self.clock = packed & PENDING


class Shadow:
    """Access records of one range of memory, at a granularity that shrinks to the narrowest access seen."""

    FIELDS = ("read", "read2", "read2_line", "read_line", "write", "write_line")
    __slots__ = (*FIELDS, "granule", "start")

    def __init__(self, start: int, size: int, granule: int) -> None:
        self.start, self.granule = start & ~15, granule
        count = (size + 31) // granule
        self.write = np.full(count, -1, np.int64)
        self.read = np.full(count, -1, np.int64)  # the last reader, and the last one of another warp
        self.read2 = np.full(count, -1, np.int64)
        self.write_line = np.zeros(count, np.int32)
        self.read_line = np.zeros(count, np.int32)
        self.read2_line = np.zeros(count, np.int32)

    def refine(self, granule: int) -> None:
        k = self.granule // granule
        for name in self.FIELDS:
            setattr(self, name, np.repeat(getattr(self, name), k))
        self.granule = granule

    def slots(self, at: np.ndarray, width: int) -> list[np.ndarray]:
        """The places of an access of `width` bytes at each address: one array per granule."""
        first = (at - self.start) // self.granule
        return [first + k for k in range(max(1, width // self.granule))]

    def add_readers(self, i: np.ndarray, records: np.ndarray, line: int) -> None:
        """Notes one reader of each place, several of which may be the same place."""
        now, old = Records(records), Records(self.read[i])
        other = old.there & (old.warp != now.warp)
        self.read2[i[other]] = self.read[i[other]]
        self.read2_line[i[other]] = self.read_line[i[other]]
        same = old.there & ~other & (old.lane != now.lane) & (old.clock == now.clock)
        self.read[i] = np.where(same, with_many_lanes(records), records)
        if i.size > 1 and not (i[1:] > i[:-1]).all():
            order = np.argsort(i, kind="stable")
            ranked, warps, lanes = i[order], now.warp[order], now.lane[order]
            # one lane may read a place twice; asynchronous work does where both operands of a product are one tile
            again = ranked[1:][(ranked[1:] == ranked[:-1]) & (lanes[1:] != lanes[:-1])]
            self.read[again] = with_many_lanes(self.read[again])
            first = np.flatnonzero(np.append(True, ranked[1:] != ranked[:-1]))
            last = np.append(first[1:], ranked.size) - 1
            two = warps[first] != warps[last]  # keep one record of each of two warps
            self.read2[ranked[first[two]]] = records[order][first[two]]
            self.read2_line[ranked[first[two]]] = line
        self.read_line[i] = line

    def add_writers(self, i: np.ndarray, records: np.ndarray, line: int) -> None:
        self.write[i], self.write_line[i] = records, line
        self.read[i] = self.read2[i] = -1

    def settle(self, fields: tuple[str, ...], i: np.ndarray, warps: np.ndarray, clocks: np.ndarray) -> None:
        """Gives what these warps have pending at these places a clock."""
        for field in fields:
            packed = getattr(self, field)
            old = Records(packed[i])
            mine = old.there & (old.clock == PENDING) & (old.warp == warps)
            packed[i[mine]] = with_clock(packed[i[mine]], clocks[mine])
