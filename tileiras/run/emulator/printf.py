"""Calls that the CUDA runtime answers: vprintf, __assertfail, malloc, free."""

from __future__ import annotations

import re
import struct

import numpy as np

from .access import Fault
from .memory import WINDOW_SHIFT, gather, read_string, scatter

_SPEC = re.compile(r"%([-+ #0]*)(\*|\d+)?(?:\.(\*|\d+)?)?(hh|h|ll|l|j|z|t|L)?([diouxXeEfFgGaAcsp%])")


def format_c(text: str, fetch, string_at) -> str:
    """C printf. fetch(size, kind) yields the next argument, kind 'i', 'u' or 'f'; string_at(address) the characters."""

    def one(m: re.Match) -> str:
        flags, width, precision, length, conv = m.groups()
        if conv == "%":
            return "%"
        if width == "*":
            width = fetch(4, "i")
            if width < 0:
                flags, width = flags + "-", -width
        dot = "." in m.group(0)
        if precision == "*":
            precision = fetch(4, "i")
            dot = precision >= 0
        spec = f"%{flags}{width if width is not None else ''}{f'.{precision or 0}' if dot else ''}"
        if conv in "di":
            value = fetch(8 if length in ("l", "ll", "j", "z", "t") else 4, "i")
            if length in ("h", "hh"):
                bits = 16 if length == "h" else 8
                value = (value + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)
            return c_integer(value, conv, flags, int(width or 0), int(precision or 0) if dot else None)
        if conv in "ouxX":
            value = fetch(8 if length in ("l", "ll", "j", "z", "t") else 4, "u")
            if length in ("h", "hh"):
                value &= 0xFFFF if length == "h" else 0xFF
            return c_integer(value, conv, flags, int(width or 0), int(precision or 0) if dot else None)
        if conv == "c":
            return (spec.partition(".")[0] + "s") % chr(fetch(4, "u") & 0xFF)
        if conv == "s":
            address = fetch(8, "u")
            return (spec + "s") % ("(null)" if address == 0 else string_at(address))
        if conv == "p":
            address = fetch(8, "u")
            return (spec.partition(".")[0] + "s") % (f"{address:#x}" if address else "(nil)")
        value = fetch(8, "f")
        if conv in "aA":
            out = c_hex(value, int(precision or 0) if dot else None)
            return (spec.partition(".")[0] + "s") % (out.upper() if conv == "A" else out)
        if value != value or value in (float("inf"), float("-inf")):
            name = "nan" if value != value else "inf" if value > 0 else "-inf"
            if value == value and value > 0 and "+" in flags:
                name = "+inf"
            spec = spec.partition(".")[0].replace("0", "", flags.count("0"))
            return (spec.replace("+", "") + "s") % (name.upper() if conv.isupper() else name)
        return (spec + conv) % value

    return _SPEC.sub(one, text)


def c_integer(value: int, conv: str, flags: str, width: int, digits: int | None) -> str:
    """%d %i %u %o %x %X of an integer, with at least `digits` digits."""
    body = {"o": "{:o}", "x": "{:x}", "X": "{:X}"}.get(conv, "{}").format(abs(value))
    if digits is not None:
        body = body.rjust(digits, "0") if value or digits else ""
    sign = "-" if value < 0 else ""
    if conv in "di" and value >= 0:
        sign = "+" if "+" in flags else " " if " " in flags else ""
    if "#" in flags and conv in "xX" and value:
        sign = "0" + conv
    if "#" in flags and conv == "o" and body[:1] != "0":
        body = "0" + body
    blanks = width - len(sign) - len(body)
    if "-" in flags:
        return sign + body + " " * blanks
    return sign + "0" * blanks + body if "0" in flags and digits is None else " " * blanks + sign + body


def c_hex(value: float, digits: int | None) -> str:
    """%a of a double."""
    if value != value or value in (float("inf"), float("-inf")):
        return str(value)
    text = value.hex()
    if digits is None:
        head, exp = text.split("p")
        head = head.rstrip("0").rstrip(".") if "." in head else head
        return f"{head}p{exp}"
    m, e = text.split("p")
    sign, m = ("-", m[1:]) if m[0] == "-" else ("", m)
    lead, _, frac = m[2:].partition(".")
    scaled = int(lead + frac.ljust(13, "0"), 16)
    drop = 4 * (13 - digits)
    if drop > 0:
        unit = 1 << drop
        low, scaled = scaled % unit, scaled // unit
        scaled += low * 2 > unit or (low * 2 == unit and scaled & 1)
    whole, part = scaled >> 4 * min(digits, 13), scaled & (1 << 4 * min(digits, 13)) - 1
    body = f"{whole:x}" + (f".{part:0{min(digits, 13)}x}{'0' * max(0, digits - 13)}" if digits else "")
    return f"{sign}0x{body}p{e}"


class PrintOps:
    """Mixed into Batch."""

    def builtin(self, name: str, offsets: tuple, sizes: tuple, out: int, mask, idx, n: int) -> None:
        sel = self.select(mask, n)
        lanes = self.lanes(idx, n, sel)
        if not lanes.size:
            return
        self.progress.changed(self.launch.steps)
        base = self.local_base[lanes]
        args = [gather(base + o, min(s, 8)).astype(np.int64).tolist() for o, s in zip(offsets, sizes)]
        results = []
        for k, lane in enumerate(lanes.tolist()):
            values = [a[k] for a in args]
            results.append(getattr(self, f"call_{name.strip('_')}")(lane, *values))
        if out >= 0:
            width = 8 if name == "malloc" else 4
            data = np.array(results, np.int64)
            scatter(base + out, width, data.view(np.uint64) if width == 8 else data.astype(np.uint32))

    def real_address(self, lane: int, address: int) -> int:
        """A generic address of one lane as a real one."""
        window, offset = address >> WINDOW_SHIFT, address & ((1 << WINDOW_SHIFT) - 1)
        if window == 2:
            return int(self.local_base[lane]) + offset
        if window == 1:
            return int(self.shared_base[lane if self.shared_base.size > 1 else 0]) + offset
        return address

    def string(self, lane: int, address: int) -> str:
        real = self.real_address(lane, address)
        if address >> WINDOW_SHIFT:
            raw = bytearray()
            while len(raw) < 4096 and (c := int(gather(np.array([real + len(raw)]), 1)[0])):
                raw.append(c)
            return raw.decode("utf-8", "replace")
        return read_string(self.memory, real).decode("utf-8", "replace")

    def call_vprintf(self, lane: int, fmt: int, args: int) -> int:
        text = self.string(lane, fmt)
        at = [self.real_address(lane, args)]

        def fetch(size: int, kind: str):
            at[0] = -(-at[0] // size) * size
            raw = gather(np.array([at[0]]), size).tobytes()
            at[0] += size
            return struct.unpack(
                {(4, "i"): "<i", (4, "u"): "<I", (8, "i"): "<q", (8, "u"): "<Q", (8, "f"): "<d"}[size, kind],
                raw,
            )[0]

        count = len([m for m in _SPEC.finditer(text) if m.group(5) != "%"])
        line = format_c(text, fetch, lambda address: self.string(lane, address))
        self.lines.setdefault(int(self.cta_of[lane]), []).append(line)
        return count

    def flush_prints(self, ctas=None) -> None:
        """Writes what CTAs have printed; None: all of them. A CTA's lines stay together up to where another may see that
        it came so far (a strong access) or it ends: one print of a kernel is several calls."""
        for cta in sorted(self.lines) if ctas is None else ctas:
            for line in self.lines.pop(cta, ()):
                self.launch.report.printed.append(line)
                self.launch.out.write(line)

    def flush_prints_of(self, lanes: np.ndarray) -> None:
        """The same for the CTAs of some lanes."""
        self.flush_prints(np.unique(self.cta_of[lanes]).tolist())

    def call_assertfail(
        self, lane: int, message: int, file: int, line: int, function: int, char_size: int
    ) -> int:
        text = (
            f"{self.string(lane, file)}:{line & 0xFFFFFFFF}: {self.string(lane, function)}: "
            f"Assertion `{self.string(lane, message)}` failed"
        )
        raise Fault("assert", text, lane)

    def call_malloc(self, lane: int, size: int) -> int:
        return self.memory.allocate(max(size, 1), "device malloc", 16)

    def call_free(self, lane: int, address: int) -> int:
        if address and not self.memory.release(address):
            raise Fault("free", f"free of {address:#x}, which malloc did not return", lane)
        return 0
