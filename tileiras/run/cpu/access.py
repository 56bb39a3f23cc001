"""Elements at a vector of addresses: gathered and scattered by the CPU where it can, else lane by lane in a loop."""

from __future__ import annotations

from .code import BITS, MEMORY, Code, const, const_vector, mangled, vec
from .tiles import GATHERED, as_memory, gather


def lane_addresses(c: Code, n: int, address: str, lanes: list[list[int]], steps: list[str]) -> str:
    """The address of each lane: of lane 0, plus its coordinates times the steps in bytes."""
    out = c.splat("i64", n, address)
    for coordinates, step in zip(lanes, steps):
        if any(coordinates):
            by = c.bin("mul", "i64", n, const_vector("i64", coordinates), c.splat("i64", n, step))
            out = c.bin("add", "i64", n, out, by)
    return out


def load_lanes(c: Code, n: int, addresses: str, name: str, mask: str | None, other: str) -> str:
    """Elements at n addresses; `other` where the mask is off."""
    type = MEMORY[name]
    if n == 1:
        return load_one(c, addresses, name, mask, other)
    if type in GATHERED and "gather" in c.features:
        pointers = c.op(f"inttoptr <{n} x i64> {addresses} to <{n} x ptr>")
        return gather(c, n, pointers, type, mask, other)
    if name == "i1":
        other = c.cast("zext", "i1", "i8", n, other)
    t = vec(type, n)
    function = f"load.lanes.{mangled(type, n)}"
    if function not in c.module.functions:
        c.module.functions[function] = lane_loop(c, n, type, function, load=True)
    args = [(f"<{n} x i64>", addresses), (f"<{n} x i1>", mask or const("i1", n, 1)), (t, other)]
    out = c.call(function, t, args)
    return c.cmp("ne", "i8", n, out, "zeroinitializer") if name == "i1" else out


def load_one(c: Code, address: str, name: str, mask: str | None, other: str) -> str:
    from .tiles import load_elements

    if mask is None:
        return load_elements(c, 1, c.pointer(address), name)
    zeros = c.module.constant(bytes(64))
    pointer = c.op(f"select i1 {mask}, ptr {c.pointer(address)}, ptr {zeros}")
    value = load_elements(c, 1, pointer, name)
    from .code import REGISTER

    return c.select(REGISTER[name], 1, mask, value, other)


def store_lanes(c: Code, n: int, addresses: str, name: str, mask: str | None, value: str) -> None:
    """Elements to n addresses where the mask is on, in the order of the lanes."""
    type = MEMORY[name]
    value = as_memory(c, n, value, name)
    if n == 1:
        if mask is None:
            c.store(type, 1, value, c.pointer(addresses), BITS[type] // 8)
            return
        with c.when(mask):
            c.store(type, 1, value, c.pointer(addresses), BITS[type] // 8)
        return
    t = vec(type, n)
    mask = mask or const("i1", n, 1)
    if type in GATHERED and "scatter" in c.features:
        pointers = c.op(f"inttoptr <{n} x i64> {addresses} to <{n} x ptr>")
        function = f"llvm.masked.scatter.{mangled(type, n)}.v{n}p0"
        c.module.declare(function, f"declare void @{function}({t}, <{n} x ptr>, i32, <{n} x i1>)")
        c.do(
            f"call void @{function}({t} {value}, <{n} x ptr> {pointers}, i32 {BITS[type] // 8}, <{n} x i1> {mask})"
        )
        return
    function = f"store.lanes.{mangled(type, n)}"
    if function not in c.module.functions:
        c.module.functions[function] = lane_loop(c, n, type, function, load=False)
    c.call(function, "void", [(f"<{n} x i64>", addresses), (f"<{n} x i1>", mask), (t, value)])


def store_nibbles(c: Code, n: int, addresses: str, half: str, mask: str, value: str) -> None:
    """4-bit elements, two of which share a byte, in the order of the lanes."""
    for lane in range(n):

        def pick(type: str, x: str, lane: int = lane) -> str:
            return x if n == 1 else c.op(f"extractelement <{n} x {type}> {x}, i64 {lane}")

        with c.when(pick("i1", mask)):
            pointer = c.pointer(pick("i64", addresses))
            by = c.op(f"shl i64 {pick('i64', half)}, 2")
            by = c.op(f"trunc i64 {by} to i8")
            old = c.load("i8", 1, pointer, 1)
            others = c.op(f"lshr i8 -16, {by}")
            kept = c.op(f"and i8 {old}, {others}")
            code = c.op(f"and i8 {pick('i8', value)}, 15")
            code = c.op(f"shl i8 {code}, {by}")
            c.store("i8", 1, c.op(f"or i8 {kept}, {code}"), pointer, 1)


def lane_loop(c: Code, n: int, type: str, name: str, load: bool) -> str:
    """A function that loads or stores lanes one by one."""
    t, size = vec(type, n), BITS[type] // 8
    f = Code(c.module, c.features)
    places = f.alloca(f"[{n} x i64]")
    flags = f.alloca(f"[{n} x i8]")
    values = f.alloca(f"[{n} x {type}]")
    f.store("i64", n, "%addresses", places, 64)
    f.store("i8", n, f.cast("zext", "i1", "i8", n, "%mask"), flags, 64)
    f.store(type, n, "%values", values, 64)
    with f.loop(str(n)) as i:
        on = f.op(f"icmp ne i8 {f.load('i8', 1, f.gep(flags, i), 1)}, 0")
        with f.when(on):
            pointer = f.pointer(f.load("i64", 1, f.gep(places, i, "i64"), 8))
            slot = f.gep(values, i, type)
            if load:
                f.store(type, 1, f.load(type, 1, pointer, size), slot, size)
            else:
                f.store(type, 1, f.load(type, 1, slot, size), pointer, size)
    if load:
        f.do(f"ret {t} {f.load(type, n, values, 64)}")
    else:
        f.do("ret void")
    result = t if load else "void"
    return f.text(
        f"define internal {result} @{name}(<{n} x i64> %addresses, <{n} x i1> %mask, {t} %values) noinline"
    )
