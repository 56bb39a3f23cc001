"""What tests ask about processes that they started."""

from __future__ import annotations

from pathlib import Path


def holds_a_leash(pid: int) -> bool:
    """Whether a descriptor of the process signals its owner when it closes (O_ASYNC)."""
    for info in Path(f"/proc/{pid}/fdinfo").iterdir():
        try:
            flags = next(line for line in info.read_text().splitlines() if line.startswith("flags:"))
        except FileNotFoundError:  # closed meanwhile
            continue
        if int(flags.split()[1], 8) & 0o20000:
            return True
    return False
