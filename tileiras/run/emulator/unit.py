"""A loaded program: symbols placed in memory, functions cut into pieces, generated code kept for reuse."""

from __future__ import annotations

import struct

import numpy as np

from . import (
    blocks,
    memory,
    ops_bulk,
    ops_cvt,
    ops_float,
    ops_int,
    ops_memory,
    ops_sync,
    ops_tcgen05,
    ops_wgmma,
    ops_wmma,
)
from .gen import MISREAD, RUNTIME, BlockGen, zero_of
from .parse import parse
from .syntax import EmulatorError, Func, Inst, Reg, Var, misunderstood

_HANDLER_MODULES = (
    ops_int,
    ops_float,
    ops_cvt,
    ops_memory,
    ops_bulk,
    ops_sync,
    ops_tcgen05,
    ops_wgmma,
    ops_wmma,
)
_FUNC_TAG = 1 << 62
_NO_FUNC = 1 << 40
MOST_SHARED, MOST_GLOBAL = 1 << 20, 1 << 34  # bytes of a CTA, and of one variable


class Unit:
    """One entry of one module, for one block size."""

    def __init__(
        self,
        source: str,
        entry: str,
        block: tuple[int, int, int] | None,
        mem: memory.Memory,
        dynamic_shared_bytes: int,
    ) -> None:
        self.module = parse(source)
        func = self.module.funcs.get(entry)
        if func is None or not func.is_entry:
            names = ", ".join(f.name for f in self.module.funcs.values() if f.is_entry)
            raise EmulatorError(f"no entry named {entry}; the module has {names or 'none'}")
        self.entry = func
        self.block = self.choose_block(func, block)
        self.memory = mem
        self.dynamic_shared_bytes = dynamic_shared_bytes
        self.namespace = dict(RUNTIME, SHARED_WINDOW=memory.SHARED_WINDOW, LOCAL_WINDOW=memory.LOCAL_WINDOW)
        self.ordered = False  # the launch perturbs the order: asynchronous instructions stay in flight
        self.cancels = "clusterlaunchcontrol" in source  # clusters may take the work of others
        self.loaded: dict[str, set[int]] = {}  # function -> registers of tcgen05.ld and copies
        self.error_end = 0  # -1, 1: approximate instructions at the ends of their error
        self.cluster_size = 1
        self.held: dict[
            str, tuple[set[int], set[int], set[int]]
        ] = {}  # function -> registers that wgmma may hold
        self.constants: dict = {}
        self.objects: dict[int, str] = {}
        self.sources: dict[str, tuple[str, list]] = {}
        self.code: dict = {}
        self.pieces: list[blocks.Piece] = []
        self.first: dict[str, int] = {}
        self.reg_base: dict[str, int] = {}
        self.ccs: dict[str, Reg] = {}
        self.address: dict[str, int] = {}
        self.zeros: list[np.ndarray] = []
        self.place_globals()
        self.place_shared()
        self.load_functions()

    @staticmethod
    def choose_block(func: Func, block) -> tuple[int, int, int]:
        words = func.directives.get(".reqntid")
        required = triple(words) if words else None
        if block is None:
            if not required:
                raise EmulatorError(f"{func.name} has no .reqntid: give block")
            return required
        block = triple(block)
        if required and block != required:
            raise EmulatorError(f"{func.name} requires block {required} (.reqntid), launched with {block}")
        limit = func.directives.get(".maxntid")
        if limit and np.prod(block) > np.prod([int(x) for x in limit]):
            raise EmulatorError(f"{func.name} allows {limit} threads (.maxntid), launched with {block}")
        if np.prod(block) > 1024 or np.prod(block) < 1:
            raise EmulatorError(f"a block has 1 to 1024 threads, not {block}")
        return block

    # symbols
    def place_globals(self) -> None:
        pending = []
        for var in self.module.vars.values():
            if var.space in ("global", "const"):
                if var.extern and var.init is None and var.size == 0:
                    continue
                if var.size > MOST_GLOBAL:
                    raise EmulatorError(
                        f"{var.name} has {var.size} bytes; the emulator has room for {MOST_GLOBAL}"
                    )
                at = self.memory.allocate(max(var.size, 1), var.name, max(var.align, 16))
                self.address[var.name] = at
                pending.append(var)
        self.globals = pending

    def fill_globals(self) -> None:
        """Give every global its initial value, as the start of each launch does."""
        for var in self.globals:
            at = self.address[var.name]
            data = np.zeros(max(var.size, 1), np.uint8)
            if var.init:
                data[: len(var.init)] = np.frombuffer(var.init, np.uint8)
            memory.VIEW[1][at - 1 : at - 1 + data.size] = data
            self.relocate(var)

    def relocate(self, var: Var) -> None:
        """Parts of an initialiser that hold addresses, known once functions have theirs."""
        base = self.address[var.name]
        for offset, width, name, addend, shift in var.relocs or ():
            value = self.address.get(name)
            if value is None and name in self.module.funcs:
                value = self.function_address(name)
            if value is None:
                raise EmulatorError(f"initialiser of {var.name} names unknown {name}")
            value += addend
            if shift is not None:
                value = value >> shift & 0xFF
            data = np.frombuffer((value & (1 << 8 * width) - 1).to_bytes(width, "little"), np.uint8)
            memory.VIEW[1][base + offset - 1 : base + offset - 1 + width] = data

    def place_shared(self) -> None:
        """Variables of this entry and of what it calls: other entries of the module have shared memory of their own."""
        at = 0
        dynamic = []
        funcs, names = self.reached()
        shared = [v for v in self.module.vars.values() if v.space == "shared" and v.name in names]
        for func in funcs:
            shared += [v for v in func.vars if v.space == "shared"]
        for var in shared:
            if var.size == 0:
                dynamic.append(var)
                continue
            at = -(-at // var.align) * var.align
            var.offset = at
            at += var.size
        top = at
        for var in dynamic:
            align = max(16, var.align)
            var.offset = -(-at // align) * align
            top = max(top, var.offset + self.dynamic_shared_bytes)
        if self.dynamic_shared_bytes and not dynamic:
            top += self.dynamic_shared_bytes
        if top > MOST_SHARED:
            raise EmulatorError(
                f"{self.entry.name} takes {top} bytes of shared memory; the emulator has at most {MOST_SHARED}"
            )
        self.shared_bytes = top

    def reached(self) -> tuple[list[Func], set[str]]:
        """The entry, the functions that it may call, and all names that they use."""
        funcs, names, left = {self.entry.name: self.entry}, set(), [self.entry]
        while left:
            func = left.pop()
            for item in func.body:
                if isinstance(item, Inst) and not blocks.readable(item, func):
                    raise misunderstood(item)
            used = symbols(func)
            names |= used
            if INDIRECT in used:  # whose address is taken, or lies in memory
                used = used | {f.name for f in self.module.funcs.values() if not f.is_entry}
            for name in used & self.module.funcs.keys() - funcs.keys():
                funcs[name] = self.module.funcs[name]
                left.append(funcs[name])
        return list(funcs.values()), names

    def symbol_address(self, g: BlockGen, op) -> int:
        """The value of a symbol as an operand: an offset in a window, or a real address."""
        var = op[3] if len(op) > 3 else None
        name, addend = op[1], op[2] if len(op) > 2 else 0
        if var is None:
            var = self.module.vars.get(name)
        if var is not None and var.space in ("shared", "local"):
            return var.offset + addend
        if var is not None and var.space == "param":
            return var.offset + addend
        if name in self.address:
            return self.address[name] + addend
        if name in self.module.funcs:
            return self.function_address(name)
        g.fail(f"unknown name {name}")
        return 0

    def is_shared(self, op) -> bool:
        """Whether a symbol operand names a variable of shared memory."""
        var = op[3] if len(op) > 3 and op[3] is not None else self.module.vars.get(op[1])
        return var is not None and var.space == "shared"

    def param_is_local(self, op) -> bool:
        """Whether a .param address lies in a call frame (not the kernel's parameters)."""
        if op[0] == "sym" and op[3] is not None:
            return op[3] not in self.entry.params
        return False

    def function_address(self, name: str) -> int:
        return _FUNC_TAG | self.first.get(name, _NO_FUNC)  # not loaded: nothing here can call it

    def entry_pc(self, g: BlockGen, name: str) -> int:
        if name not in self.first:
            g.fail(f"no body for function {name}")
        return self.first[name]

    def abi(self, variables: list) -> list[tuple]:
        """(variable, offset) in the area through which calls pass arguments and results."""
        out, at = [], 0
        for v in variables:
            size, align = (
                (v.width // 8, v.width // 8) if isinstance(v, Reg) else (v.size, min(max(v.align, 1), 16))
            )
            at = -(-at // align) * align
            out.append((v, at))
            at += size
        return out

    # functions
    def reachable(self) -> list[Func]:
        """The entry and the functions it may call, callees first."""
        order: list[Func] = []
        state: dict[str, int] = {}
        indirect = [f for f in self.module.funcs.values() if not f.is_entry and not f.is_declaration]

        def visit(func: Func) -> None:
            state[func.name] = 1
            for inst in func.body:
                if isinstance(inst, tuple) or inst.op != "call" or blocks.is_builtin(inst):
                    continue
                target = blocks.call_target(inst)
                if target[0] == "sym":
                    callees = [self.module.funcs[target[1]]] if target[1] in self.module.funcs else []
                    if not callees or callees[0].is_declaration:
                        continue  # reported when it is executed
                else:
                    callees = indirect
                for callee in callees:
                    if state.get(callee.name) == 1:
                        if target[0] == "sym":
                            raise EmulatorError(
                                f"PTX line {inst.line}: recursive calls are not supported by the "
                                f"emulator: `{inst.text}`"
                            )
                    elif callee.name not in state:
                        visit(callee)
            state[func.name] = 2
            order.append(func)

        visit(self.entry)
        return order

    def load_functions(self) -> None:
        funcs = self.reachable()
        threads = int(np.prod(self.block))
        area = 256
        for func in funcs:
            for item in func.body:
                if not isinstance(item, tuple) and item.op == "call":
                    area = max(area, 16 * 64)
        local = area
        for func in funcs:
            variables = [v for v in func.vars if v.space in ("local", "param")]
            if not func.is_entry:
                variables += [p for p in (*func.params, *func.returns) if isinstance(p, Var)]
                formals = [("reg", p) for p in func.params if isinstance(p, Reg)]
                func.body.insert(
                    0, Inst("$params", (), [("vec", formals)], None, func.line, f".func {func.name}")
                )
            for var in variables:
                local = -(-local // max(var.align, 1)) * max(var.align, 1)
                var.offset = local
                local += max(var.size, 1)
        self.local_bytes = -(-local // 256) * 256
        at = 0
        for var in self.entry.params:
            at = -(-at // var.align) * var.align
            var.offset = at
            at += var.size
        self.param_bytes = at
        self.param_base = self.memory.allocate(max(at, 1), "kernel parameters", 256)
        for var in self.entry.params:
            var.offset += self.param_base
        for func in funcs:
            base = len(self.zeros)
            self.reg_base[func.name] = base
            cc = Reg(len(func.regs), "CC", "pred")
            self.ccs[func.name] = cc
            self.zeros += [zero_of(r) for r in (*func.regs, cc)]
            pieces = blocks.build(func, threads, cc)
            self.first[func.name] = len(self.pieces) + pieces.index(
                min(pieces, key=lambda p: (p.block, p.index))
            )
            for piece in pieces:
                piece.pc = len(self.pieces)
                self.pieces.append(piece)
        for piece in self.pieces:  # pieces after a piece in its block that wait
            chain: list[blocks.Piece] = []
            q: blocks.Piece | None = piece
            while q is not None and q.block == piece.block and q.func is piece.func:
                chain.append(q)
                q = q.next
            piece.masked = any(p.wait for p in chain)

    def encode_params(self, params: list, mem: memory.Memory) -> None:
        """Writes kernel parameters in their declared types; arrays among them become part of `mem`."""
        want = self.entry.params
        if len(params) != len(want):
            raise EmulatorError(f"{self.entry.name} takes {len(want)} parameters, got {len(params)}")
        for var, value in zip(want, params):
            data = encode_param(var, value, mem)
            memory.VIEW[1][var.offset - 1 : var.offset - 1 + len(data)] = np.frombuffer(data, np.uint8)

    # code
    def constant(self, array: np.ndarray) -> str:
        key = (array.dtype.str, array.tobytes())
        name = self.constants.get(key)
        if name is None:
            name = self.constants[key] = f"K{len(self.constants)}"
            array.flags.writeable = False
            self.namespace[name] = array
        return name

    def object(self, value) -> str:
        """The name of any record in generated code."""
        name = self.objects.get(id(value))
        if name is None:
            name = self.objects[id(value)] = f"O{len(self.objects)}"
            self.namespace[name] = value  # keeps its id unique
        return name

    def register_name(self, k: int) -> str:
        """The PTX name of a register by its place in the register file."""
        func = max((base, name) for name, base in self.reg_base.items() if base <= k)
        return self.module.funcs[func[1]].regs[k - func[0]].name

    def cc(self, g: BlockGen):
        return ("reg", self.ccs[g.func.name])

    def generator(self, piece: blocks.Piece, partial: bool) -> BlockGen:
        g = BlockGen(self, partial)
        g.func = piece.func
        g.piece = piece
        g.base = self.reg_base[piece.func.name]
        g.result = None
        return g

    def run_of(self, pc: int, level: int) -> list[blocks.Piece]:
        """The pieces that lanes of a completeness level pass in one go, starting at pc."""
        first = self.pieces[pc]
        run = [first]
        q = first.next
        while q is not None and q.block == first.block and q.func is first.func and q.wait <= level:
            run.append(q)
            q = q.next
        return run

    def function(self, pc: int, level: int, partial: bool):
        """The generated function for lanes at pc."""
        key = (pc, level, partial, self.ordered, self.error_end)
        fn = self.code.get(key)
        if fn is None:
            run = self.run_of(pc, level)
            g = self.generator(run[0], partial)
            for piece in run:
                g.piece = piece
                g.add_piece(piece)
            last = run[-1]
            result = g.result
            if result is None:
                if last.next is None:
                    raise EmulatorError(f"PTX line {last.insts[-1].line}: control runs off the end")
                result = str(last.next.pc)
            name = g.tmp(result) if not result.lstrip("-").isdigit() else result
            g.write_back(last.live_out)
            g.emit(f"return {name}")
            fn = self.code[key] = g.compile(f"piece_{pc}_{level}_{'p' if partial else 'f'}")
        return fn

    def expression(self, pc: int, what: str, partial: bool):
        """A function that evaluates the barrier arrival or the member mask at the head of a piece."""
        key = (pc, what, partial)
        fn = self.code.get(key)
        if fn is None:
            piece = self.pieces[pc]
            g = self.generator(piece, partial)
            write = ops_sync.barrier_call if what == "barrier" else ops_sync.member_mask
            try:
                g.emit(f"return {write(g, piece.insts[0])}")
            except MISREAD as error:
                raise misunderstood(piece.insts[0]) from error
            fn = self.code[key] = g.compile(f"{what}_{pc}_{'p' if partial else 'f'}")
        return fn


INDIRECT = ""  # among the names that a function uses: it calls through a register


def symbols(func: Func) -> set[str]:
    """The names that a function's instructions use."""
    found = set()
    insts = [item for item in func.body if not isinstance(item, tuple)]
    left = [op for inst in insts for op in inst.ops if op[0] not in ("reg", "imm")]
    while left:
        op = left.pop()
        if op[0] == "sym":
            found.add(op[1])
        for part in op[1:]:
            if isinstance(part, list):
                left += part
            elif isinstance(part, tuple) and part:
                left += [part] if isinstance(part[0], str) else part
    if any(inst.op == "call" and blocks.call_target(inst)[0] == "reg" for inst in insts):
        found.add(INDIRECT)
    return found


def triple(values) -> tuple[int, int, int]:
    """One to three extents, the missing ones 1."""
    x, y, z = (int(v) for v in (*values, 1, 1)[:3])
    return x, y, z


_PACK = {
    "u8": "<B",
    "s8": "<b",
    "u16": "<H",
    "s16": "<h",
    "u32": "<I",
    "s32": "<i",
    "u64": "<Q",
    "s64": "<q",
    "f32": "<f",
    "f64": "<d",
    "f16": "<e",
}


def encode_param(var: Var, value, mem: memory.Memory) -> bytes:
    """The bytes of one kernel parameter: arrays become addresses; scalars follow the declared type."""
    if isinstance(value, (bytes, bytearray)):
        if len(value) != var.size:
            raise EmulatorError(f"parameter {var.name} has {var.size} bytes, got {len(value)}")
        return bytes(value)
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    if isinstance(value, np.ndarray):
        return struct.pack("<Q", mem.add(value, var.name))
    if isinstance(value, np.generic) and value.dtype.itemsize == var.size:
        return value.tobytes()
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool):
        value = int(value)
    if var.type in _PACK and var.size == struct.calcsize(_PACK[var.type]):
        code = _PACK[var.type]
        if code[1] in "fde":
            return struct.pack(code, float(value))
        if isinstance(value, float) and not value.is_integer():
            raise EmulatorError(f"parameter {var.name} is {var.type}, got {value!r}")
        return (int(value) & (1 << 8 * var.size) - 1).to_bytes(var.size, "little")
    if isinstance(value, float):
        form = {2: "<e", 4: "<f", 8: "<d"}.get(var.size)
        if form is None:
            raise EmulatorError(f"parameter {var.name} has {var.size} bytes, got a float")
        return struct.pack(form, value)
    return (int(value) & (1 << 8 * var.size) - 1).to_bytes(var.size, "little")
