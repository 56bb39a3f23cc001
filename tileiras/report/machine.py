"""Machine code for a report: the image's instructions, their PTX lines, and which registers are live at each.

nvdisasm reads the image; where it is missing there is no machine code. PTX lines come from the tables of an image that was
asked for any (--lineinfo, -g), else from a second image of the same PTX with line tables, which is believed only where its
instructions are those of the first.
"""

from __future__ import annotations

import re
import threading

from .sass import Code, read_sass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .watch import Watch

MOST_PTX_LINES = 8_000  # assembled a second time, for line tables
MOST_LIVE_BYTES = (
    400_000  # of an image whose live registers are read: nvdisasm takes 12 s of a core for a megabyte
)
_FROM = re.compile(r'//## File "\.nv_debug_ptx_txt", line (\d+)')
_AT = re.compile(r"^\s*/\*([0-9a-f]{4,})\*/\s+\S")
_WGMMA = re.compile(r"\twgmma\.mma_async\S*\.m(\d+)n(\d+)k(\d+)\.")
_SECTION = re.compile(r"^\s*\.section\s+\.text\.([^,\s]+)")


class Live:
    """Live registers of a function, by instruction: how many, and which of them were written there (number -> here)."""

    def __init__(self) -> None:
        self.count: dict[int, int] = {}  # address -> live registers
        self.rows: dict[int, str] = {}  # address -> one mark a register: ^ written, v read, x both, : alive
        self.columns: list[tuple[int, int]] = []  # (register, place of its mark)


class Machine:
    """`codes`: name -> Code; `ptx`: name -> address -> PTX line from 0; `live`: name -> Live. `why`: what is missing."""

    def __init__(self) -> None:
        self.codes: dict[str, Code] = {}
        self.ptx: dict[str, dict[int, int]] = {}
        self.live: dict[str, Live] = {}
        self.why = ""


class Reading:
    """Runs nvdisasm, and ptxas for line tables, while the rest of the report is made; `machine()` waits for them."""

    def __init__(self, watch: Watch) -> None:
        self.watch = watch
        self.why = self.text = self.lined = ""
        self.same = False  # the table of lines is that of the image itself
        self.problem: BaseException | None = None
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            self._ask()
        except BaseException as problem:
            self.problem = problem

    def _ask(self) -> None:
        from tileiras.toolchain.locate import find_tool, find_tool_beside

        watch = self.watch
        program = watch.program
        if program is None or not program.cubin:
            self.why = "there is no image: the compile stopped before ptxas, or was asked for PTX"
            return
        tool = watch.tool and find_tool_beside("nvdisasm", watch.tool)
        tool = tool or find_tool("nvdisasm", program.options.toolkit_root)
        if tool is None:
            self.why = "nvdisasm was not found: pip install 'tileiras[toolkit]' brings it"
            return
        options = ("-c",) if len(program.cubin) > MOST_LIVE_BYTES else ("-c", "-plr")
        text = _disassemble(tool.path, program.cubin, *options)
        if text is None:
            self.why = f"nvdisasm {tool.version} could not read the image"
            return
        self.text = text
        lined = _with_lines(watch)
        if lined is not None:
            self.same = lined is program.cubin
            self.lined = _disassemble(tool.path, lined, "-c", "-gp") or ""

    def _text_of(self, name: str) -> list[str]:
        """The lines of PTX; those of other functions are empty."""
        rows: list[str] = self.watch.ptx.split("\n")
        own = False
        for at, row in enumerate(rows):
            if row.startswith(".visible .entry "):
                own = row.startswith(f".visible .entry {name}(")
            if not own:
                rows[at] = ""
        return rows

    def machine(self) -> Machine:
        """What the image of a compile says; empty, with a reason, where there is none or no nvdisasm."""
        self.thread.join()
        if self.problem is not None:
            raise self.problem
        found = Machine()
        found.why = self.why
        if not self.text:
            return found
        found.codes = read_sass(
            "\n".join(row.partition("// |")[0].rstrip() for row in self.text.splitlines())
        )
        found.live = _lives(self.text)
        if self.lined:
            again = read_sass(self.lined)
            lines = _lines(self.lined)
            for name, code in found.codes.items():
                # the table of live registers leaves out what is behind the code
                if name not in again:
                    continue
                if self.same or again[name].instructions[: len(code.instructions)] == code.instructions:
                    found.codes[name] = again[name]
                    found.ptx[name] = _of_products(lines.get(name, {}), code, self._text_of(name))
        return found


def _disassemble(tool: str, image: bytes, *options: str) -> str | None:
    from tileiras.toolchain.run import run_on

    done = run_on([tool, *options], image)
    return done.stdout.decode("utf-8", "replace") if done.status == 0 else None


def _with_lines(watch: Watch) -> bytes | None:
    """The image once more, with line tables; None where that is not to be had."""
    from tileiras.compiler.ptx.text import spell_target
    from tileiras.diag import CompileError
    from tileiras.driver import STATIC_SHARED_BYTES
    from tileiras.toolchain import ptxas

    options = watch.program.options
    if watch.code is None or options.sanitize:
        return None
    if options.lineinfo or options.device_debug:
        image: bytes = watch.program.cubin  # its own tables lead to PTX as well as to the source
        return image
    if watch.ptx.count("\n") > MOST_PTX_LINES:
        return None
    try:
        cubin: bytes = ptxas.assemble(
            watch.ptx,
            target=spell_target(watch.code),
            ptxas=watch.tool,
            options=options.ptxas_options,
            lineinfo=True,
            opt_level=options.opt_level,
            extended_smem=any(
                fn.shared_bytes > STATIC_SHARED_BYTES and not fn.dynamic_shared_bytes
                for fn in watch.code.functions
            ),
        ).cubin
        return cubin
    except CompileError:
        return None


def _lines(text: str) -> dict[str, dict[int, int]]:
    """name -> address -> PTX line (from 0) of `nvdisasm -gp`."""
    out: dict[str, dict[int, int]] = {}
    now: dict[int, int] = {}
    line = -1
    for row in text.splitlines():
        section = _SECTION.match(row)
        if section:
            now, line = out.setdefault(section.group(1), {}), -1
        elif place := _FROM.search(row):
            line = int(place.group(1)) - 1
        elif (at := _AT.match(row)) and line >= 0:
            now[int(at.group(1), 16)] = line
    return out


def _of_products(lines: dict[int, int], code: Code, ptx: list[str]) -> dict[int, int]:
    """The table, with warpgroups' products where they belong: ptxas gives them lines of a fence, or of moves and sums, near the
    product. It keeps their order; where it made copies of some, the nearest of the same shape is taken."""
    shapes: dict[str, list[int]] = {}
    for at, row in enumerate(ptx):
        if shape := _WGMMA.search(row):
            shapes.setdefault("x".join(shape.groups()), []).append(at)
    made: dict[str, list[int]] = {}  # addresses
    for i in code.instructions:
        if i.base.endswith("GMMA") and i.modifiers and i.address in lines:
            made.setdefault(i.modifiers[0], []).append(i.address)
    for size, addresses in made.items():
        places = shapes.get(size, [])
        if len(places) == len(addresses):
            lines.update(zip(addresses, places))
        elif places:
            for address in addresses:
                line = lines[address]
                lines[address] = min(places, key=lambda at: abs(at - line))
    return lines


def _lives(text: str) -> dict[str, Live]:
    """name -> Live of `nvdisasm -plr`."""
    out: dict[str, Live] = {}
    now: Live | None = None
    header: list[tuple[int, int]] = []
    for row in text.splitlines():
        section = _SECTION.match(row)
        code, bar, marks = row.partition("// |")
        if section:
            now = out.setdefault(section.group(1), Live())
            header = []
        if not bar or now is None:
            continue
        marks = marks.partition("|")[0]
        if not header and "#" in marks and re.search(r"#\s+\d", marks):
            words = list(re.finditer(r"\d+", marks))
            header = now.columns = [
                (int(word.group()), word.end() - 1) for word in words
            ]  # marks stand to the right
            continue
        at = _AT.match(code)
        if at and header:
            address = int(at.group(1), 16)
            count = marks[: header[0][1]].strip()
            now.count[address] = int(count) if count.isdigit() else 0
            now.rows[address] = marks.rstrip()
    return out


def listing(machine: Machine, watch: Watch) -> tuple[list[str], list[int], dict[tuple[str, int], int]]:
    """(lines, their PTX lines, line of (kernel, address)) of the level SASS."""
    lines: list[str] = []
    up: list[int] = []
    where: dict[tuple[str, int], int] = {}
    for name, code in machine.codes.items():
        labels: dict[int, list[str]] = {}
        for label, at in code.labels.items():
            labels.setdefault(at, []).append(label)
        lines.append(f"// {name}")
        up.append(-1)
        places = machine.ptx.get(name, {})
        for index, i in enumerate(code.instructions):
            for label in labels.get(index, ()):
                lines.append(f"{label}:")
                up.append(-1)
            where[name, i.address] = len(lines)
            guard = f"{i.guard} " if i.guard else ""
            lines.append(f"/*{i.address:04x}*/  {guard}{i.opcode} {i.operands}".rstrip())
            up.append(places.get(i.address, -1))
    return lines, up, where
