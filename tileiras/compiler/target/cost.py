"""CostModel: the numbers of one target that choices are made by, each with its source; hints override them.

Throughput figures are per SM and clock. Sources, by letter:

    G  CUDA C++ programming guide, compute capability tables: registers, shared memory, threads
    W  NVIDIA's architecture white papers: dense tensor throughput
    L  published microbenchmarks of latencies, rounded; they matter to a factor of two only
    S  SASS of the corpus and of the kernels of benchmarks/production.py: spills, instructions of the hot loop
    T  time that ptxas takes for the code, over the corpus
    F  a format or an instruction: PTX ISA

Numbers that bound a search (how many ops are looked at) stand beside the search: they cost compile time only.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, ClassVar

# Dense 16-bit multiply-adds a clock and SM by architecture number, and the share of them that mma.sync reaches where another
# instruction has all; other types relative to them (W). The model of reports reads both.
TENSOR_FMA = {75: 512, 80: 1024, 86: 512, 87: 1024, 88: 512, 89: 512, 90: 2048, 100: 4096, 103: 4096, 107: 4096, 110: 4096,
              120: 512, 121: 512}  # fmt: skip
MMA_SYNC_SHARE = {90: 0.63, 100: 0.25, 103: 0.25, 107: 0.25, 110: 0.25}
# Of the peak, what rings for tcgen05 are made as deep for: with all of it they have a stage more, and blocks less room (S).
_TENSOR_MEMORY_SHARE = 0.25
_GLOBAL_LATENCY_CLOCKS = 900  # L2 miss to first byte in shared memory, loaded machine


class CostModel:
    """Numbers of a target. What is no attribute of an instance is the same for all of them."""

    # ---- registers of a thread, 32 bits each
    register_file = 65536  # of an SM (G)
    max_registers = 255  # of a thread (G)
    min_registers = 24  # what ptxas takes for .maxnreg without a warning (S)
    register_unit = 8  # by which they are allocated (G)
    limited_registers = (20, 26)  # words alive at once: fewer need no word, with 28 some spilled (S)
    accumulators = 144  # that results of mma.sync may take: warp tiles of 64x64 and more (S)
    scaled_accumulators = 72  # the same where products are scaled in registers (S)
    warpgroup_accumulators = 128  # that the result of a wgmma may take: 64x256 a warpgroup (F)
    few_rows_registers = 128  # of results and left operands of mma.sync whose columns warps share out (S)
    shared_depth_registers = 144  # of results and queries; with more of them warps share out K (S)
    few_rows_held = 192  # of results and of copies of queries, which wgmma reads: more are spilled (S)
    product_tiles = 208  # that results of mma.sync which are alive at once may take (S)
    ordered_tiles = 256  # that tiles take where copies wait for a step: spills cost less than reads (S)
    warpgroup_tiles = 208  # that all tiles of a loop of wgmma may take at once (S)
    tensor_memory_elements = 128  # of an accumulator from tensor memory: more would be spilled (S)
    read_back_elements = 64  # of a sum in tensor memory, in one thread behind the loop (S)
    results_registers = 192  # of sums that come from tensor memory at once; more, and ptxas gives up (S)
    epilogue_registers = 192  # of sums and what is loaded beside them behind the loop: more would spill (S)
    epilogue_slice = 32  # of them that one slice of what is loaded takes; two are there at once (S)
    epilogue_fragments = 128  # elements of a thread from which on 16-bit ones are loaded as sums lie (S)
    loop_registers = 40  # of a loop with products: addresses, counters, what is on its way (S)
    fragment_registers = 48  # two slices of both operands in a warp tile of 64x64, 16 bits an element (F)
    stream_registers = 16  # beside fragments and accumulators of a product that is taken in parts of K (S)
    fma_registers = 40  # the same without tensor cores: rows and columns of both operands too (S)
    slot_registers = 64  # for values that wait in pipelines: more of them would spill (S)
    waiting_registers = 8  # for what is loaded an iteration ahead beside a ring: scales, indices (S)
    buffered_registers = 16  # of an operand: up to these, conversions are cheaper than a buffer (S)
    buffered_byte_registers = 15  # of one of bytes, whose conversions take them apart (S)
    mask_operations = 8  # that tell an operand's elements apart, computed again for its fragments (S)
    counting_operations = 12  # that make a slice's row numbers again, in the place of asking for them (S)
    divided_sums = 112  # registers carried by a loop of mma.sync; more, and each of several loops spills (S)
    masked_elements = 1024  # of a tile whose mask costs more than the code of another loop (S)
    chosen_registers = 16  # of a tile that an index at run time may choose from (S)
    part_registers = 32  # of a result from tensor memory that come at once beside a loop's sums (S)
    chunk_registers = 64  # that a part of an accumulator in tensor memory takes while it moves (S)
    multiplying_registers = 32  # of a loop with products whose copies others issue (S)
    instruction_registers = 32  # that ptxas wants beside the accumulators of a wgmma, at most (S)
    copying_warps = 4  # of a block that only copy: a warpgroup, which gives its registers back as one (F)
    copying_registers = 24  # of a thread that only copies: addresses, coordinates, the loop (S)
    addressing_registers = 56  # of one that copies by cp.async: addresses and sizes of its chunks (S)
    invariant_registers = 16  # of them that addresses take which wait through the loop (S)
    slice_registers = 32  # of them that addresses take which wait through a loop over slices of a tile (S)
    stride_registers = 8  # of them that shifted strides take which wait through a loop of wgmma (S)
    split_sums = 64  # registers of sums that each warp keeps of its own keys: all columns (S)
    split_sums_of_pointers = 32  # of them beside addresses of what it multiplies (S)
    turn_barrier = 14  # of two warpgroups that take turns, with the one behind it: the last of 16 (F)
    granted_registers = (24, 256)  # least and most that setmaxnreg takes (F)
    most_granted = 240  # of a thread that setmaxnreg is asked for: 65536 less what copying warps keep (F)
    # ---- clusters
    most_cluster = 16  # CTAs that a cluster may have where a launch allows it (G)
    portable_cluster = 8  # CTAs that a cluster may have on every GPU (G)
    pair_stages = 6  # of the ring of a pair of CTAs, with the one that products still read (S)
    uncut_stages = 4  # of a loop of tensor memory that fit, or its steps are cut (S)
    sums_of_block = 1 << 15  # words of sums that one CTA holds: half the registers, as huge tiles (G)
    exchanging_blocks = (4, 2)  # of an SM that take turns at exchanging operands; of long steps (S)
    # ---- warps
    least_warps = 4  # of a block: a warpgroup (F)
    least_multiplying_warps = 2  # of one that multiplies without tensor cores: 64x64 sums (S)
    most_warps = 16  # of a block: registers of a thread halve once more beyond (G)
    block_warps = 32  # that a block has at most (G)
    whole_warps = 8  # of a block whose threads have all registers that they may: more share them (G)
    thread_elements = 64  # of the largest tile: 2 * 64 registers of 32 bits leave room for operands (S)
    # ---- tiles and loops
    huge_elements = 1 << 15  # a tile above is cut: 64 a thread of 16 warps, half the register file (G)
    log2_slice = 13  # of the elements of a slice of it (S)
    chain_work = 32 * 64  # elements a warp, of all tiles, below which no chain of ops is long (T)
    chain_instructions = 400  # of a thread from which a chain is a loop: ptxas takes seconds over more (T)
    chain_elements = 8  # of a thread in a slice of it: two vectors of 16 bytes for f32 (F)
    sequences: ClassVar[dict[str, int]] = {  # instructions of ops that are more than one, about (S)
        "cos": 40, "sin": 40, "tan": 50, "sinh": 30, "cosh": 30, "tanh": 20, "exp": 8, "exp2": 10, "log": 20, "log2": 20,
        "fpowf": 60, "fpowi": 30, "atan2": 40, "divf": 8, "sqrt": 4, "rsqrt": 4, "remf": 30, "divi": 20, "remi": 20,
    }  # fmt: skip
    heavy_instructions = 64  # an element, from which half of them are enough (T)
    step_multiplications = 1024  # of a thread in one step without tensor cores: more is too much code (T)
    step_instructions = 2048  # mma of all warps in one step of a loop: more would be too much code (T)
    once_clocks = 200  # of mma.sync outside of loops, from which tensor memory is worth its waits (S)
    part_depth = 16  # of K that a part of a product has at least (F)
    part_rows = 16  # of an accumulator that a slice has at least (F)
    versions = 2  # loops of a kernel that get two versions (T)
    usual_latency = 5  # of the hint's 1 to 10 (F)
    least_stages = 3  # of a ring: with fewer, nothing is under way at a wait (S)
    hinted_stages = (3, 8)  # least and most that the hint asks for: at a wait, copies stay under way (S)
    row_stage_bytes = 32  # of K that a step which was cut still has in a row: a sector (G)
    # ---- an SM from sm_90 on
    shared_of_sm = 228 << 10  # bytes of shared memory (G)
    shared_of_block = 1 << 10  # of them that each block takes besides its own (G)
    # ---- an SM in a clock: what the initiation interval of a loop is computed by (cache_bytes as well)
    issued_threads = 128  # whose instructions its four schedulers issue (G)
    functions_a_clock = 16  # of the unit for exponentials and roots (G)
    bank_bytes = 128  # that its shared memory reads or writes: 32 banks (G)
    warp_tile = 64  # rows and columns of a product that a warp takes: others read the operands again (S)
    # ---- shared memory
    small_load_part = 8  # of an operand's elements: what is loaded for more of them each is not staged (S)
    carried_indices = 128  # loaded numbers that addresses need: more are waited for (S)
    carried_rows = 2048  # where each names neighbours, as a table's rows do: 16 a thread of 128 (S)
    spread_operations = 28  # a thread does more where small tiles are computed as they are wanted: an exchange takes as long (S)
    spread_words = 4  # that a thread loads of a small tile as it is wanted (S)
    packed_neighbours = 2  # log2 of bytes that a thread has side by side of what it unpacks: a word (G)
    queue_parts_alone = (1, 2, 4)  # where no two stages fit, and the loop would wait for all (S)
    usual_depth = 2048  # of K, which a loop over it is taken to have where its bounds do not say (S)
    step_parts = (4, 8, 16)  # of what the largest product takes, where no queue of products fits (S)
    steps_ahead = 2  # that copies run at least: at a wait, one is under way (S)
    most_steps_ahead = 4  # more would only take shared memory (S)
    queue_parts = (1, 2)  # of a product's K that are queued one behind the other (S)
    cache_bytes = 64  # that an SM takes from the second-level cache in a clock (G)
    queue_row_bytes = 64  # of a part, where it is contiguous: whole sectors, few bank conflicts (G)
    conversion_bytes = 48 << 10  # that a conversion may take at once: what a block has without opting in (G)
    joined_bytes = 8 << 10  # of rows that change their layouts together, in one go (S)
    joined_registers = 16  # of one of them that waits for the others (S)
    reduction_bytes = 32 << 10  # of partial results that warps leave at once (S)
    extract_bytes = 48 << 10  # that the source of an extract may take (G)
    # ---- layouts of what is stored
    log2_whole_rows = 12  # of elements from which fragments cross shared memory to leave in 16 bytes (S)
    log2_small_tile = 8  # of elements below which a tile is stored as it lies (S)
    computed_again = 4  # registers of a small tile that a thread computes without asking others (S)
    converted_again = 32  # of a row beside sums, from which a loop converts each of its elements once: an exchange is less (S)
    near_bits = 4  # log2 of neighbours that count as near: 16 elements of 2 bytes are a sector (G)
    enough_near = 3  # bits of register and lane numbers that lead to near elements (G)
    log2_vector = 2  # of elements that a thread has side by side where nothing is known (S)
    # ---- instructions
    copy_instructions = 6  # of a cp.async, with its addresses and what it compares with extents (S)
    few_rows_instructions = 140  # of a step of attention of few rows in tensor memory, beside its keys (S)
    few_rows_of_key = 2  # .. of each key: half a row of scores a thread (S)
    few_rows_of_copy = 4  # .. of each 16 bytes that a thread copies (S)
    few_rows_of_sums = 1.5  # .. of each sum of a thread that is scaled (S)
    few_rows_exchange = 40  # clocks of shared memory for maxima and scores of 16 rows, by mma.sync (S)
    arrival_instructions = 14  # of a warp and step that an mbarrier takes more than a group and a barrier (S)
    warpgroup_depth = 16  # of 16-bit elements along K that a wgmma takes, or as many bytes of others (F)
    unflushed_exponential = 4  # of ex2.approx with subnormal results (S)
    folded_results = 4  # of a reduction in a thread, from which on lanes exchange halves (S)
    joined_results = 16  # of a reduction in a thread, from which on lanes join some each (S)
    paired_registers = 8  # of a tile, from which on two f32 values share an instruction (S)
    many_coordinates = 4  # of a thread: they would wait through a loop for its comparisons (S)
    summed_bits = 128  # of a row that a thread joins where sums wait for a loop's end (S)
    summing_threads = 256  # that a tile is spread over there (S)
    shared_conditions = 3  # of all registers of a copy: fewer are operands of its comparisons (S)
    many_rows = 8  # of a thread that steps through them: their distances would wait through a loop (S)
    chooser_chains = 4  # of comparisons that choose a thread's greatest element: their latencies overlap (S)
    fma_unroll = 4  # steps of K of a product without tensor cores (S)
    batch_fma = 1 << 16  # multiply-adds of a batch and step, from which on wgmma takes batches one by one (S)
    batch_depth = 32  # .. elements along K: for less, what each step issues besides takes longer (S)
    unswitched_branches = 4  # of a function that become two loops each (T)
    unswitched_ops = 4000  # of a function that is not made longer any more (T)
    tested_factors = 4  # of a thread that are compared with 1 before an accumulator is scaled (S)
    print_unrolled = 16  # elements of a tile that is printed without a loop (T)

    __slots__ = (
        "fma_per_clock",
        "latency_clocks",
        "max_stages",
        "min_copy_bytes",
        "mma_sync_share",
        "shared_bytes",
    )

    def __init__(self, target: Any) -> None:
        self.shared_bytes: int = (
            target.smem_bytes_max - 1024
        )  # of a block; the last KiB is left for small things
        self.latency_clocks = _GLOBAL_LATENCY_CLOCKS
        self.fma_per_clock = TENSOR_FMA.get(target.number, 1024)
        self.mma_sync_share = MMA_SYNC_SHARE.get(target.number, 1.0)
        self.max_stages = 5
        self.min_copy_bytes = 4  # the smallest cp.async

    def product_clocks(self, fma: int, elem_bits: int, instruction: str | None = None) -> int:
        """Clocks an SM needs for that many multiply-adds of operands of a width: by wgmma, tcgen05 or, None, mma.sync."""
        shares = {"wgmma": 1.0, "tcgen05": _TENSOR_MEMORY_SHARE}
        rate = self.fma_per_clock * shares.get(instruction or "", self.mma_sync_share)
        return max(1, fma * elem_bits // 16 // int(rate))

    def wanted(self, step_clocks: int, wish: int | None = None) -> int:
        """Slots that a loop wants: one in use, one landing, and as many as cover the latency."""
        if wish is not None:
            return wish
        return min(self.max_stages, 2 + -(-self.latency_clocks // max(step_clocks, 1)))

    def shared_blocks(self, size: int) -> int:
        """Blocks of so much shared memory that an SM holds."""
        # one block's, the KiB left of it, and what it takes besides
        of_sm = self.shared_bytes + 2 * self.shared_of_block
        return of_sm // (size + self.shared_of_block)

    def stages(
        self,
        step_clocks: int,
        stage_bytes: int,
        other_bytes: int,
        wish: int | None = None,
        spare: int = 0,
        most_blocks: int = 1,
    ) -> int:
        """Slots of a ring: what is wanted and spare ones, as far as they fit. 1: none. Fewer, but three and spare ones, where
        more blocks then fit an SM, `most_blocks` at most, and have at least as many copies under way together."""
        fits = (self.shared_bytes - other_bytes) // max(stage_bytes, 1)
        slots = max(1, min(self.wanted(step_clocks, wish) + spare, fits))
        if wish is not None:
            return slots

        def under_way(slots: int, other: int) -> int:
            return min(max(most_blocks, 1), self.shared_blocks(slots * stage_bytes + other)) * (
                slots - 1 - spare
            )

        best, most = slots, under_way(slots, 0)  # what else a block has may turn out to lie in the ring
        for fewer in range(slots - 1, self.least_stages - 1 + spare, -1):
            if under_way(fewer, other_bytes) >= most:
                best, most = fewer, under_way(fewer, other_bytes)
        return best
