"""Registers that the code of one thread needs at least: words that are alive at once, at most, in its records as they stand.

What costs nothing to have again does not count: constants, special registers, parameters, and the halves of a word that is
counted itself. ptxas moves instructions and takes other registers than these; the number tells codes apart, it is no forecast.
"""

from __future__ import annotations

from .code import Addr, Label, Reg, TensorAddr

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

WORDS = {"p": 0, "h": 1, "r": 1, "d": 2}


def pressure(code: list[Any]) -> int:
    """Words that are alive at once, at most. Backwards over the records, again until nothing is new at a label."""
    steps = _steps(code)
    at_label: dict[int, set[str]] = {}
    most = 0
    changed = True
    while changed:
        changed = False
        alive: set[str] = set()
        held = 0
        for label, jump, leaves, kept, made, used in reversed(steps):
            if label is not None:
                if alive != at_label.get(label):
                    at_label[label] = set(alive)
                    changed = True
                continue
            if leaves:
                alive = set()
                held = 0
            if jump is not None:
                used = at_label.get(jump, ())
            if not kept:
                for reg in made:
                    if reg in alive:
                        alive.remove(reg)
                        held -= WORDS[reg[1]]
            for reg in used:
                if reg not in alive:
                    alive.add(reg)
                    held += WORDS[reg[1]]
            most = max(most, held)
    return most


def _steps(code: list[Any]) -> list[tuple[Any, ...]]:
    """(label, label that is jumped to, whether nothing goes on behind, whether old values are kept, written, read) a record."""
    rows = [(record, *_registers(record)) for record in code]
    writes: dict[str, int] = {}
    for _, made, _ in rows:
        for reg in made:
            writes[reg] = writes.get(reg, 0) + 1
    free: set[str] = set()
    word: dict[str, str] = {}
    for record, made, used in rows:
        if record.__class__ is Label or record[3] is not None or any(writes[reg] > 1 for reg in made):
            continue
        opcode = record[0]
        if opcode.startswith(("mov.", "ld.param", "cvta.")) and all(reg in free for reg in used):
            free.update(made)
        elif opcode == "mov.b32":
            counted = {word.get(reg, reg) for reg in used if reg not in free}
            if len(counted) == 1 and (whole := counted.pop())[1] == "r":
                for reg in made:
                    word[reg] = whole
    steps: list[tuple[Any, ...]] = []
    for record, made, used in rows:
        if record.__class__ is Label:
            steps.append((record.id, None, False, False, (), ()))
            continue
        opcode, _, srcs, guard = record
        guarded = guard is not None
        read = {word.get(reg, reg) for reg in used if reg not in free}
        if guarded:
            read |= {word.get(reg, reg) for reg in made}
        jump = next((x.id for x in srcs if x.__class__ is Label), None)
        ends = not guarded and opcode.startswith(("bra", "ret", "exit"))
        steps.append((None, jump, ends, guarded, [reg for reg in made if reg not in word], read))
    return steps


def _registers(record: Any) -> tuple[list[str], list[str]]:
    """Names of registers that a record writes, and of those that it reads."""
    if record.__class__ is Label:
        return [], []
    _, dst, srcs, guard = record
    made: list[str] = []
    used: list[str] = []
    for found, work in ((made, [dst]), (used, [*srcs, guard])):
        while work:
            x = work.pop()
            if x.__class__ is Reg:
                found.append(x.text)
            elif x.__class__ is tuple:
                work.extend(x)
            elif x.__class__ is Addr:
                work.append(x.base)
            elif x.__class__ is TensorAddr:
                work += [x.base, *x.coords]
    return made, used
