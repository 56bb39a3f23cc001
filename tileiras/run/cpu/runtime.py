"""What every compiled kernel brings along: the loop over tile blocks, faults, and waiting for other blocks.

A launch has a record of 64-bit words: 0..2 grid, 3 number of blocks, 4 the next block to take, 5 stop, 6 changes of
memory by a kernel whose blocks wait, 7 the print function; from 8 on arguments, then addresses of globals. Word -1
is the address of the fault list: a count, then entries of 6 words (site and kind << 32, x, y, z, element, value); word -2
that of the memory which was passed: a count, then start, end and whether it is read-only of each region.
A thread takes the part 1 / share of the blocks that are left, at least one: few at a time toward the end, so that blocks of
unequal length end together.
Each thread has a state: 0 site, 1 what it read there, 2 equal reads in a row, 3 whether it waits, 4 address, 5 block,
6 whether it is done.
"""

from __future__ import annotations

FIXED = 8  # words of a launch's record in front of the arguments
PATIENCE = 64  # equal reads in a row before a block is thought to wait
TOGETHER = 64  # tile blocks that a thread takes at once, at most
FAULTS = 64  # faults that are kept
FAULT_WORDS = 6
STATE_WORDS = 8
PLAIN, OUTSIDE, MISALIGNED, READ_ONLY, DIVISION = range(5)  # kinds of faults

COMMON = f"""
declare i32 @sched_yield()

define internal void @tile.fault(ptr %launch, i64 %site, i32 %x, i32 %y, i32 %z, i64 %element, i64 %value) noinline cold {{
  %where = getelementptr i64, ptr %launch, i64 -1
  %list = load ptr, ptr %where, align 8
  %n = atomicrmw add ptr %list, i64 1 monotonic, align 8
  %fits = icmp ult i64 %n, {FAULTS}
  br i1 %fits, label %keep, label %done
keep:
  %skip = mul i64 %n, {FAULT_WORDS}
  %first = add i64 %skip, 1
  %at = getelementptr i64, ptr %list, i64 %first
  store i64 %site, ptr %at, align 8
  %p1 = getelementptr i64, ptr %at, i64 1
  %x64 = zext i32 %x to i64
  store i64 %x64, ptr %p1, align 8
  %p2 = getelementptr i64, ptr %at, i64 2
  %y64 = zext i32 %y to i64
  store i64 %y64, ptr %p2, align 8
  %p3 = getelementptr i64, ptr %at, i64 3
  %z64 = zext i32 %z to i64
  store i64 %z64, ptr %p3, align 8
  %p4 = getelementptr i64, ptr %at, i64 4
  store i64 %element, ptr %p4, align 8
  %p5 = getelementptr i64, ptr %at, i64 5
  store i64 %value, ptr %p5, align 8
  br label %done
done:
  ret void
}}

define internal i1 @tile.check(ptr %launch, i64 %site, i32 %x, i32 %y, i32 %z, i64 %element, i64 %address, i64 %size,
                               i1 %write) noinline {{
entry:
  %where = getelementptr i64, ptr %launch, i64 -2
  %table = load ptr, ptr %where, align 8
  %count = load i64, ptr %table, align 8
  %end = add i64 %address, %size
  %low = sub i64 %size, 1
  %rest = and i64 %address, %low
  %crooked = icmp ne i64 %rest, 0
  br i1 %crooked, label %misaligned, label %look
look:
  %i = phi i64 [ 0, %entry ], [ %following, %next ]
  %more = icmp ult i64 %i, %count
  br i1 %more, label %region, label %outside
region:
  %skip = mul i64 %i, 3
  %first = add i64 %skip, 1
  %at = getelementptr i64, ptr %table, i64 %first
  %start = load i64, ptr %at, align 8
  %p1 = getelementptr i64, ptr %at, i64 1
  %stop = load i64, ptr %p1, align 8
  %p2 = getelementptr i64, ptr %at, i64 2
  %fixed = load i64, ptr %p2, align 8
  %above = icmp uge i64 %address, %start
  %below = icmp ule i64 %end, %stop
  %inside = and i1 %above, %below
  br i1 %inside, label %found, label %next
next:
  %following = add i64 %i, 1
  br label %look
found:
  %readonly = icmp ne i64 %fixed, 0
  %forbidden = and i1 %readonly, %write
  br i1 %forbidden, label %bad, label %fine
misaligned:
  br label %bad
outside:
  br label %bad
bad:
  %kind = phi i64 [ {MISALIGNED << 32}, %misaligned ], [ {OUTSIDE << 32}, %outside ], [ {READ_ONLY << 32}, %found ]
  %what = or i64 %kind, %site
  call void @tile.fault(ptr %launch, i64 %what, i32 %x, i32 %y, i32 %z, i64 %element, i64 %address)
  %pstop = getelementptr i64, ptr %launch, i64 5
  store atomic volatile i64 1, ptr %pstop monotonic, align 8
  ret i1 true
fine:
  ret i1 false
}}

define internal i1 @tile.watch(ptr %launch, ptr %state, i64 %site, i64 %value, i64 %address) noinline {{
  %p1 = getelementptr i64, ptr %state, i64 1
  %p2 = getelementptr i64, ptr %state, i64 2
  %p3 = getelementptr i64, ptr %state, i64 3
  %p4 = getelementptr i64, ptr %state, i64 4
  %oldsite = load i64, ptr %state, align 8
  %oldvalue = load i64, ptr %p1, align 8
  %samesite = icmp eq i64 %oldsite, %site
  %samevalue = icmp eq i64 %oldvalue, %value
  %same = and i1 %samesite, %samevalue
  store i64 %site, ptr %state, align 8
  store i64 %value, ptr %p1, align 8
  store i64 %address, ptr %p4, align 8
  %count = load i64, ptr %p2, align 8
  %more = add i64 %count, 1
  %now = select i1 %same, i64 %more, i64 0
  store i64 %now, ptr %p2, align 8
  %long = icmp ugt i64 %now, {PATIENCE}
  br i1 %long, label %wait, label %go
wait:
  store volatile i64 1, ptr %p3, align 8
  %ignored = call i32 @sched_yield()
  br label %look
go:
  store volatile i64 0, ptr %p3, align 8
  br label %look
look:
  %p5 = getelementptr i64, ptr %launch, i64 5
  %stop = load atomic volatile i64, ptr %p5 monotonic, align 8
  %out = icmp ne i64 %stop, 0
  ret i1 %out
}}

define internal void @tile.changed(ptr %launch, ptr %state) {{
  %p2 = getelementptr i64, ptr %state, i64 2
  %p3 = getelementptr i64, ptr %state, i64 3
  store i64 0, ptr %p2, align 8
  store volatile i64 0, ptr %p3, align 8
  %p6 = getelementptr i64, ptr %launch, i64 6
  %ignored = atomicrmw add ptr %p6, i64 1 monotonic, align 8
  ret void
}}

define void @tile_run(ptr %launch, ptr %arena, ptr %state, i64 %share) uwtable {{
entry:
  %px = getelementptr i64, ptr %launch, i64 0
  %py = getelementptr i64, ptr %launch, i64 1
  %gx = load i64, ptr %px, align 8
  %gy = load i64, ptr %py, align 8
  %ptotal = getelementptr i64, ptr %launch, i64 3
  %total = load i64, ptr %ptotal, align 8
  %pnext = getelementptr i64, ptr %launch, i64 4
  %pstop = getelementptr i64, ptr %launch, i64 5
  %pblock = getelementptr i64, ptr %state, i64 5
@SAVE@
  br label %take
take:
  %taken = load atomic i64, ptr %pnext monotonic, align 8
  %left = sub i64 %total, %taken
  %part.of = sdiv i64 %left, %share
  %small = icmp slt i64 %part.of, 1
  %least = select i1 %small, i64 1, i64 %part.of
  %large = icmp sgt i64 %least, {TOGETHER}
  %grain = select i1 %large, i64 {TOGETHER}, i64 %least
  %first = atomicrmw add ptr %pnext, i64 %grain monotonic, align 8
  %some = icmp ult i64 %first, %total
  br i1 %some, label %part, label %done
part:
  %end = add i64 %first, %grain
  %over = icmp ugt i64 %end, %total
  %last = select i1 %over, i64 %total, i64 %end
  br label %block
block:
  %i = phi i64 [ %first, %part ], [ %following, %went ]
  %stop = load atomic volatile i64, ptr %pstop monotonic, align 8
  %stopped = icmp ne i64 %stop, 0
  br i1 %stopped, label %done, label %go
go:
  store i64 %i, ptr %pblock, align 8
  %x = urem i64 %i, %gx
  %rows = udiv i64 %i, %gx
  %y = urem i64 %rows, %gy
  %z = udiv i64 %rows, %gy
  %x32 = trunc i64 %x to i32
  %y32 = trunc i64 %y to i32
  %z32 = trunc i64 %z to i32
  call void @kernel(ptr %launch, ptr %arena, ptr %state, i32 %x32, i32 %y32, i32 %z32)
  br label %went
went:
  %following = add i64 %i, 1
  %again = icmp ult i64 %following, %last
  br i1 %again, label %block, label %take
done:
@RESTORE@
  %pdone = getelementptr i64, ptr %state, i64 6
  store atomic volatile i64 1, ptr %pdone release, align 8
  ret void
}}
"""

# The floating-point environment of a launch: nearest, subnormals kept, nothing traps; the caller's is put back.
X86 = (
    """declare void @llvm.x86.sse.stmxcsr(ptr)
declare void @llvm.x86.sse.ldmxcsr(ptr)
""",
    """  %saved = alloca i32, align 4
  %ours = alloca i32, align 4
  call void @llvm.x86.sse.stmxcsr(ptr %saved)
  store i32 8064, ptr %ours, align 4
  call void @llvm.x86.sse.ldmxcsr(ptr %ours)""",
    "  call void @llvm.x86.sse.ldmxcsr(ptr %saved)",
)
AARCH64 = (
    """declare i64 @llvm.aarch64.get.fpcr()
declare void @llvm.aarch64.set.fpcr(i64)
""",
    """  %saved = call i64 @llvm.aarch64.get.fpcr()
  call void @llvm.aarch64.set.fpcr(i64 0)""",
    "  call void @llvm.aarch64.set.fpcr(i64 %saved)",
)


def runtime(triple: str) -> str:
    """The text of the runtime for a target."""
    arch = triple.partition("-")[0]
    declare, save, restore = (
        X86
        if arch in ("x86_64", "amd64", "i686")
        else AARCH64
        if arch in ("aarch64", "arm64")
        else ("", "", "")
    )
    return declare + COMMON.replace("@SAVE@", save).replace("@RESTORE@", restore)
