"""What a launch on the reference interpreter can report. Codes are stable; texts give facts."""

from __future__ import annotations

from tileiras.diag import ERROR, NOTE, Diag

SRC = "reference interpreter"

OUT_OF_BOUNDS = Diag(
    "RUN-0001", ERROR,
    "{verb} {size} bytes at {address} outside of all memory passed to the launch "
    "(tile block {block}, element {element})",
    SRC,
)  # fmt: skip
NEAREST = Diag("RUN-0002", NOTE, "nearest memory: {label}, {distance}", SRC)
MISALIGNED = Diag(
    "RUN-0003", ERROR,
    "{verb} {size} bytes at misaligned address {address} (tile block {block}, element {element})", SRC,
)  # fmt: skip
READ_ONLY = Diag("RUN-0004", ERROR, "writes to read-only memory: {label} (tile block {block})", SRC)
ASSERT_FAILED = Diag("RUN-0005", ERROR, "assertion failed: {message} (tile block {block}, {where})", SRC)
ASSUME_FALSE = Diag(
    "RUN-0006",
    ERROR,
    "the assumption {predicate} does not hold: {what} (tile block {block}, element {element})",
    SRC,
)
UNDEFINED = Diag(
    "RUN-0007", ERROR, "undefined behaviour: {what} (tile block {block}, element {element})", SRC
)
DEADLOCK = Diag(
    "RUN-0008",
    ERROR,
    "no tile block of kernel '{kernel}' makes progress: {count} of {total} tile blocks wait here or elsewhere for a change",
    SRC,
)
RACE_TOKENS = Diag(
    "RUN-0013", ERROR,
    "data race in tile block {block}: no token orders this {kind} after an earlier {other} of address {address} "
    "(element {element})",
    SRC,
)  # fmt: skip
RACE_BLOCKS = Diag(
    "RUN-0014", ERROR,
    "data race between tile blocks: nothing orders this {kind} in tile block {block} and a {other} of address {address} "
    "in another one (element {element})",
    SRC,
)  # fmt: skip
RACE_ELEMENTS = Diag(
    "RUN-0016", ERROR,
    "data race in tile block {block}: elements {other} and {element} of this store both write address {address}", SRC,
)  # fmt: skip
UNSPECIFIED = Diag(
    "RUN-0015", ERROR, "{what} a value that was never specified (tile block {block}, element {element})", SRC
)
MORE = Diag("RUN-0011", NOTE, "{count} more of these", SRC)
UNSUPPORTED = Diag("RUN-0012", ERROR, "has no meaning in the reference interpreter: {why}", SRC)
