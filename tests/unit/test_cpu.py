"""The CPU target: what the corpus does not ask: faults, waiting blocks, aliasing, threads, settings."""

from __future__ import annotations

import concurrent.futures
import io
import os
import platform
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import tileiras
from tileiras.run import LaunchError, launch


def view_kernel(body: str, *arrays: str, n: int = 64) -> str:
    """A kernel over f32 arrays of 64-element tiles: pointer and extent each."""
    params = ", ".join(f"%{a}: tile<ptr<f32>>, %n{a}: tile<i32>" for a in arrays)
    views = "".join(
        f"""
        %v{a} = make_tensor_view %{a}, shape = [%n{a}], strides = [1] : tile<i32> -> tensor_view<?xf32, strides=[1]>
        %t{a} = make_partition_view %v{a} : partition_view<tile=({n}), tensor_view<?xf32, strides=[1]>>"""
        for a in arrays
    )
    return f"""cuda_tile.module @m {{ entry @k({params}) {{ {views}
        %x, %y, %z = get_tile_block_id : tile<i32>
        %t = make_token : token
        {body}
        return }} }}"""


def load(a: str, out: str, index: str = "%x", n: int = 64) -> str:
    return (
        f"%{out}, %k{out} = load_view_tko weak %t{a}[{index}] token = %t : "
        f"partition_view<tile=({n}), tensor_view<?xf32, strides=[1]>>, tile<i32> -> tile<{n}xf32>, token\n"
    )


def store(value: str, a: str, index: str = "%x", n: int = 64) -> str:
    return (
        f"%s{a} = store_view_tko weak %{value}, %t{a}[{index}] token = %t : tile<{n}xf32>, "
        f"partition_view<tile=({n}), tensor_view<?xf32, strides=[1]>>, tile<i32> -> token\n"
    )


ADD = view_kernel(
    load("a", "p") + load("b", "q") + "%r = addf %p, %q : tile<64xf32>\n" + store("r", "c"), "a", "b", "c"
)


def numbers(n: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(n).astype(np.float32)


def add(n: int, a: np.ndarray, b: np.ndarray, c: np.ndarray, **more: object) -> None:
    launch(ADD, "k", -(-n // 64), [a, n, b, n, c, n], target="cpu", **more)


@pytest.mark.parametrize("n", [1, 63, 64, 1000])
def test_nothing_is_written_beyond_a_ragged_extent(n: int) -> None:
    a, b, c = numbers(n + 70), numbers(n + 70, 2), np.full(n + 70, 7, np.float32)
    add(n, a, b, c)
    assert (c[:n] == a[:n] + b[:n]).all() and (c[n:] == 7).all()


def test_a_store_that_overlaps_what_its_value_loads_reads_first() -> None:
    """Each tile is read whole before any of it is written, also where fusing the two would not be."""
    for shift in (-3, 0, 5, 16):
        memory = numbers(256)
        want = memory.copy()
        a, c = memory[64:128], memory[64 + shift : 128 + shift]
        want[64 + shift : 128 + shift] = want[64:128] + want[64:128]
        add(64, a, a, c)
        assert (memory == want).all()


def test_rows_of_large_arrays_are_stored_past_the_caches() -> None:
    """Whole rows of more than the caches hold; not where an address is odd, nor what is in the caches already."""
    from tileiras.run.cpu.launch import kernel_of

    text = view_kernel(
        load("a", "p", n=1024) + "%r = addf %p, %p : tile<1024xf32>\n" + store("r", "c", n=1024),
        "a",
        "c",
        n=1024,
    )
    n = (1 << 22) + 777
    a = numbers(n)
    for offset in (0, 4, 1, 3):
        c = np.full(n + 32, 7, np.float32)
        start = offset + -c.ctypes.data // 4 % 16
        for extent in (n, 5000):
            launch(text, "k", -(-extent // 1024), [a, extent, c[start:], extent], target="cpu")
            assert (c[start : start + extent] == a[:extent] + a[:extent]).all()
        assert (c[:start] == 7).all() and (c[start + n :] == 7).all()
    again = a.copy()
    launch(text, "k", -(-n // 1024), [again, n, again, n], target="cpu")
    assert (again == a + a).all()
    made = {
        rows: view_kernel(load("a", "p", n=rows) + store("p", "c", n=rows), "a", "c", n=rows)
        for rows in (128, 1024)
    }
    modules = {rows: tileiras.load(text) for rows, text in made.items()}
    for module in modules.values():
        module.verify()
    streamed = {
        rows for rows, module in modules.items() if "!nontemporal" in kernel_of(module.op, "k", False).text
    }
    assert streamed == ({1024} if platform.machine() in ("x86_64", "AMD64") else set())


def test_negative_zero_subnormals_and_nan_come_through() -> None:
    a = np.array([-0.0, 1e-45, -1e-40, np.nan, np.inf, 2.0**-126] + [0.0] * 58, np.float32)
    b = np.array([-0.0, 1e-45, 5e-41, 1.0, -np.inf, -(2.0**-149)] + [0.0] * 58, np.float32)
    c = np.zeros(64, np.float32)
    with np.errstate(all="ignore"):
        want = a + b
    add(64, a, b, c)
    assert ((c.view(np.uint32) == want.view(np.uint32)) | np.isnan(want) & np.isnan(c)).all()


def test_check_names_the_access_that_leaves_memory_before_it_happens() -> None:
    a, b, c = numbers(64), numbers(64), np.zeros(64, np.float32)
    with pytest.raises(LaunchError) as caught:
        launch(ADD, "k", 2, [a, 128, b, 64, c, 128], target="cpu", check=True)
    (found,) = caught.value.diagnostics[:1]
    assert found.code == "RUN-0001" and found.op == "cuda_tile.load_view_tko"
    assert "reads 4 bytes" in str(caught.value) and "(1, 0, 0), element [0]" in str(caught.value)
    assert "nearest memory: argument 0" in str(caught.value)
    frozen = numbers(64)
    frozen.flags.writeable = False
    with pytest.raises(LaunchError, match="writes to read-only memory: argument 4"):
        launch(ADD, "k", 1, [a, 64, b, 64, frozen, 64], target="cpu", check=True)


def test_check_finds_nothing_in_a_correct_launch() -> None:
    n = 1000
    a, b, c = numbers(n), numbers(n, 2), np.zeros(n, np.float32)
    add(n, a, b, c, check=True)
    assert (c == a + b).all()


POINTERS = """cuda_tile.module @m { entry @k(%p: tile<ptr<i32>>, %d: tile<i32>) {
    %i = iota : tile<8xi32>
    %r = reshape %p : tile<ptr<i32>> -> tile<1xptr<i32>>
    %b = broadcast %r : tile<1xptr<i32>> -> tile<8xptr<i32>>
    %q = offset %b, %i : tile<8xptr<i32>>, tile<8xi32> -> tile<8xptr<i32>>
    BODY
    return } }"""


def test_failed_assertions_and_divisions_name_block_and_element() -> None:
    text = POINTERS.replace(
        "BODY",
        """%x, %t = load_ptr_tko weak %q : tile<8xptr<i32>> -> tile<8xi32>, token
        %z = constant <i32: 0> : tile<8xi32>
        %c = cmpi not_equal %x, %z, signed : tile<8xi32> -> tile<8xi1>
        assert %c, "no zeros" : tile<8xi1>
        %y = divi %z, %x signed : tile<8xi32>
        %s = store_ptr_tko weak %q, %y : tile<8xptr<i32>>, tile<8xi32> -> token""",
    )
    data = np.array([1, 2, 3, 0, 5, 6, 7, 8], np.int32)
    with pytest.raises(
        LaunchError, match=r"assertion failed: no zeros \(tile block \(0, 0, 0\), element \[3\]\)"
    ):
        launch(text, "k", 1, [data, 0], target="cpu")
    data = np.array([1, 2, 3, 0, 5, 6, 7, 8], np.int32)
    with pytest.raises(LaunchError) as caught:
        launch(text, "k", 1, [data, 0], target="cpu", check=True)
    assert [d.code for d in caught.value.diagnostics] == ["RUN-0005", "RUN-0007"]


BARRIER = """cuda_tile.module @m { entry @k(%p: tile<ptr<i32>>, %n: tile<i32>) {
    %one = constant <i32: 1> : tile<i32>
    %zero = constant <i32: 0> : tile<i32>
    %old, %t = atomic_rmw_tko release device %p, add, %one : tile<ptr<i32>>, tile<i32> -> tile<i32>, token
    loop {
      %seen, %t2 = load_ptr_tko acquire device %p : tile<ptr<i32>> -> tile<i32>, token
      %done = cmpi greater_than_or_equal %seen, %n, signed : tile<i32> -> tile<i1>
      if %done { break }
      continue
    }
    return } }"""


def test_a_grid_barrier_with_more_blocks_than_cores_ends() -> None:
    counter = np.zeros(1, np.int32)
    launch(BARRIER, "k", 200, [counter, 200], target="cpu")
    assert counter[0] == 200


def test_a_barrier_that_nobody_completes_is_a_deadlock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEIRAS_CPU_TIMEOUT", "0.2")
    counter = np.zeros(1, np.int32)
    with pytest.raises(LaunchError) as caught:
        launch(BARRIER, "k", 6, [counter, 7], target="cpu")
    (found,) = caught.value.diagnostics
    assert found.code == "RUN-0008" and found.op.startswith("cuda_tile.")
    assert f"address {counter.ctypes.data:#x}" in str(caught.value) and "6 of 6 tile blocks" in str(
        caught.value
    )
    assert counter[0] == 6


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TILEIRAS_CPU_THREADS", "0"),
        ("TILEIRAS_CPU_THREADS", "two"),
        ("TILEIRAS_CPU_THREADS", "inf"),
        ("TILEIRAS_CPU_TIMEOUT", "-1"),
    ],
)
def test_settings_that_make_no_sense_are_refused(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(LaunchError, match=f"{name}={value}") as caught:
        launch(BARRIER, "k", 1, [np.zeros(1, np.int32), 1], target="cpu")
    assert caught.value.exit_code == 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_process_forked_while_others_compile_launches_too() -> None:
    """Nothing that another thread held at that moment stays held in the child, which has no such thread."""
    code = """if True:
        import os, signal, threading
        import numpy as np
        from tests.unit.test_cpu import add, numbers
        a, b, c = numbers(1000), numbers(1000, 2), np.zeros(1000, np.float32)
        add(1000, a, b, c)  # also the pool of threads is there
        done = threading.Event()

        def busy():
            mine = np.zeros(1000, np.float32)
            while not done.is_set():
                add(1000, a, b, mine)  # from its text: compiled and loaded anew each time

        thread = threading.Thread(target=busy)
        thread.start()
        for _ in range(12):
            child = os.fork()
            if child == 0:
                signal.alarm(60)
                c[:] = 0
                add(1000, a, b, c)
                os._exit(0 if (c == a + b).all() else 1)
            print(os.waitpid(child, 0)[1])
        done.set()
        thread.join()"""
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True)
    assert done.stdout.split() == ["0"] * 12, done.stderr


def test_threads_do_not_change_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    text = view_kernel(
        load("a", "p")
        + """%r = reduce %p dim=0 identities=[0.0 : f32] : tile<64xf32> -> tile<f32>
        (%u: tile<f32>, %w: tile<f32>) { %s = addf %u, %w : tile<f32>
        yield %s : tile<f32> }
        %b = reshape %r : tile<f32> -> tile<1xf32>
        %q = broadcast %b : tile<1xf32> -> tile<64xf32>"""
        + "\n"
        + store("q", "c"),
        "a",
        "c",
    )
    outs = []
    for count in ("1", "2", "7"):
        monkeypatch.setenv("TILEIRAS_CPU_THREADS", count)
        out = np.zeros(6400, np.float32)
        launch(text, "k", 100, [numbers(6400), 6400, out, 6400], target="cpu")
        outs.append(out.tobytes())
    want = np.zeros(6400, np.float32)
    launch(text, "k", 100, [numbers(6400), 6400, want, 6400], target="reference")
    assert set(outs) == {want.tobytes()}


def test_eight_threads_may_launch_at_once() -> None:
    def one(seed: int) -> bool:
        a, b, c = numbers(5000, seed), numbers(5000, seed + 50), np.zeros(5000, np.float32)
        for _ in range(5):
            add(5000, a, b, c)
        return bool((c == a + b).all())

    with concurrent.futures.ThreadPoolExecutor(8) as crew:
        assert all(crew.map(one, range(8)))


def test_print_writes_blocks_in_order() -> None:
    text = """cuda_tile.module @m { entry @k() {
        %x, %y, %z = get_tile_block_id : tile<i32>
        %i = iota : tile<4xi32>
        %t = print_tko "block %d: %i\\n", %x, %i : tile<i32>, tile<4xi32> -> token
        return } }"""
    outs = []
    for target in ("reference", "cpu"):
        out = io.StringIO()
        launch(text, "k", 3, [], target=target, out=out)
        outs.append(out.getvalue())
    assert outs[0] == outs[1] and outs[0].startswith("block 0: [0, 1, 2, 3]")


def test_memory_that_would_not_fit_is_refused_before_the_start() -> None:
    text = """cuda_tile.module @m { entry @k(%p: tile<ptr<f64>>) {
        %a = alloca num_elem = 1099511627776, alignment = 8 : tile<ptr<f64>>
        %v, %t = load_ptr_tko weak %a : tile<ptr<f64>> -> tile<f64>, token
        %s = store_ptr_tko weak %p, %v : tile<ptr<f64>>, tile<f64> -> token
        return } }"""
    with pytest.raises(LaunchError, match="more than half of this machine's memory") as caught:
        launch(text, "k", 1, [np.zeros(1)], target="cpu")
    found = caught.value.diagnostics[0]
    assert "alloca" in found.render() and f"{1 << 43}"[:-3] in found.message


def test_a_refusal_for_memory_names_the_op_that_was_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """mmaf_scaled is taken apart into conversions, slices and products: none of them stands in the program."""
    a, b, sa, sb = "64x64xf8E4M3FN", "64x64xf8E4M3FN", "64x2xf8E8M0FNU", "2x64xf8E8M0FNU"
    text = f"""cuda_tile.module @m {{ entry @k(%p: tile<ptr<f32>>) {{
        %a = constant <f8E4M3FN: 1.0> : tile<{a}>
        %s = constant <f8E8M0FNU: 2.0> : tile<{sa}>
        %t = constant <f8E8M0FNU: 2.0> : tile<{sb}>
        %c = constant <f32: 1.0> : tile<64x64xf32>
        %r = mmaf_scaled %a, %a, %c, %s, %t : tile<{a}>, tile<{b}>, tile<64x64xf32>, tile<{sa}>, tile<{sb}>
        %v = make_tensor_view %p, shape = [64, 64], strides = [64, 1] : tensor_view<64x64xf32, strides=[64,1]>
        %w = make_partition_view %v : partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>
        %i = constant <i32: 0> : tile<i32>
        %u = store_view_tko weak %r, %w[%i, %i] : tile<64x64xf32>,
            partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>, tile<i32> -> token
        return }} }}"""
    out = np.zeros((64, 64), np.float32)
    launch(text, "k", 1, [out], target="cpu")
    assert (out == 64 * 4 + 1).all()
    monkeypatch.setattr(sys.modules["tileiras.run.cpu.launch"], "memory_bytes", lambda: 1 << 10)
    with pytest.raises(LaunchError, match="more than half of this machine's memory") as caught:
        launch(text, "k", 1, [out], target="cpu")
    (found,) = caught.value.diagnostics
    assert found.op == "cuda_tile.mmaf_scaled" and found.loc.line == 6


def test_a_program_says_what_a_tile_block_needs() -> None:
    """A scan of a tile of 256 KiB, which works in parts of that size; a sum that needs registers alone."""
    text = """cuda_tile.module @m { entry @k(%p: tile<ptr<f32>>) {
        %i = iota : tile<65536xi32>
        %f = itof %i signed : tile<65536xi32> -> tile<65536xf32>
        %s = scan %f dim=0 reverse=false identities=[0.0 : f32] : tile<65536xf32> -> tile<65536xf32>
          (%a: tile<f32>, %b: tile<f32>) { %c = addf %a, %b : tile<f32>
            yield %c : tile<f32> }
        %q = reshape %p : tile<ptr<f32>> -> tile<1xptr<f32>>
        %r = broadcast %q : tile<1xptr<f32>> -> tile<65536xptr<f32>>
        %o = offset %r, %i : tile<65536xptr<f32>>, tile<65536xi32> -> tile<65536xptr<f32>>
        %t = store_ptr_tko weak %o, %s : tile<65536xptr<f32>>, tile<65536xf32> -> token
        return } }"""
    program = tileiras.compile(text, gpu_name="sm_90", emit="ptx")
    assert 1 << 18 <= program.kernels["k"].cpu_bytes <= 6 << 18
    small = tileiras.compile(ADD, gpu_name="sm_90", emit="ptx")
    assert small.kernels["k"].cpu_bytes <= 4096


def test_a_launch_takes_little_memory_beside_its_tiles() -> None:
    """At most 64 MiB more than after a trivial launch, for a thousand blocks that wait for each other."""
    code = f"""
import numpy as np, tileiras
def high():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmHWM")) << 10
counter = np.zeros(1, np.int32)
tileiras.launch({BARRIER!r}, "k", 1, [counter, 1], target="cpu")
before = high()
counter[:] = 0
tileiras.launch({BARRIER!r}, "k", 1056, [counter, 1056], target="cpu")
print(high() - before)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 64 << 20, done.stdout


def test_missing_llvmlite_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['llvmlite'] = None\n"
        "import numpy as np, tileiras\n"
        f"try: tileiras.launch({BARRIER!r}, 'k', 1, [np.zeros(1, np.int32), 1], target='cpu')\n"
        "except tileiras.LaunchError as e: print(e.exit_code, e)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=os.environ)
    assert done.stdout.startswith("2 ") and "pip install 'tileiras[cpu]'" in done.stdout, done.stderr


def test_many_launches_keep_no_memory() -> None:
    import resource

    module = tileiras.load(ADD)
    module.verify()
    a, b, c = numbers(64), numbers(64), np.zeros(64, np.float32)
    args = [a, 64, b, 64, c, 64]
    for _ in range(100):
        launch(module.op, "k", 1, args, target="cpu")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(2000):
        launch(module.op, "k", 1, args, target="cpu")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 16 * 1024


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("factors", ["row", "column"])
def test_an_accumulator_that_is_scaled_first_is_scaled_once(dtype: str, factors: str) -> None:
    """Four rounds of o = a @ b + o * f, where numbers and powers of two make every sum exact."""
    shapes = {"a": (32, 16), "b": (16, 64), "f": (32, 1) if factors == "row" else (1, 64), "c": (32, 64)}
    tiles = {name: f"tile<{m}x{n}x{dtype}>" for name, (m, n) in shapes.items()}
    tensors = {name: f"tensor_view<{m}x{n}x{dtype}, strides=[{n},1]>" for name, (m, n) in shapes.items()}
    views = {name: f"partition_view<tile=({m}x{n}), {tensors[name]}>" for name, (m, n) in shapes.items()}
    made = "".join(
        f"""%v{x} = make_tensor_view %p{x}, shape = [{m}, {n}], strides = [{n}, 1] : {tensors[x]}
        %t{x} = make_partition_view %v{x} : {views[x]}
        """
        for x, (m, n) in shapes.items()
    )
    loads = "".join(
        f"%{x}, %k{x} = load_view_tko weak %t{x}[%zero, %zero] : {views[x]}, tile<i32> -> {tiles[x]}, token\n"
        for x in "abf"
    )
    params = ", ".join(f"%p{x}: tile<ptr<{dtype}>>" for x in shapes)
    kernel = f"""cuda_tile.module @m {{ entry @k({params}) {{
        {made}
        %zero = constant <i32: 0> : tile<i32>
        %one = constant <i32: 1> : tile<i32>
        %four = constant <i32: 4> : tile<i32>
        %start = constant <{dtype}: 3.0> : {tiles["c"]}
        %sum = for %i in (%zero to %four, step %one) : tile<i32> iter_values(%o = %start) -> ({tiles["c"]}) {{
            {loads}
            %s = broadcast %f : {tiles["f"]} -> {tiles["c"]}
            %p = mulf %o, %s : {tiles["c"]}
            %r = mmaf %a, %b, %p : {tiles["a"]}, {tiles["b"]}, {tiles["c"]}
            continue %r : {tiles["c"]}
        }}
        %t3 = store_view_tko weak %sum, %tc[%zero, %zero] : {tiles["c"]}, {views["c"]}, tile<i32> -> token
        return }} }}"""
    rng = np.random.default_rng(1)
    a, b = rng.integers(-8, 9, (32, 16)).astype(dtype.replace("f", "float")), rng.integers(-8, 9, (16, 64))
    b, c = b.astype(a.dtype), np.zeros((32, 64), a.dtype)
    scale = (2.0 ** rng.integers(-1, 2, shapes["f"])).astype(a.dtype)
    launch(kernel, "k", 1, [a, b, scale, c], target="cpu")
    want = np.full((32, 64), 3, a.dtype)
    for _ in range(4):
        want = a @ b + want * scale
    assert (c == want).all()


@pytest.mark.parametrize("shape", ["", "2x", "16x"])
def test_a_sign_from_another_block_of_code_needs_no_library(shape: str) -> None:
    """LLVM narrowed the sign of tanh, which the tangent's branch had put into another block, by a missing function."""
    n = int(shape[:-1] or 1)
    kernel = f"""cuda_tile.module @m {{ entry @k(%a: tile<ptr<f16>>, %c: tile<ptr<f16>>) {{
        %i = iota : tile<{n}xi32>
        %one = reshape %a : tile<ptr<f16>> -> tile<1xptr<f16>>
        %all = broadcast %one : tile<1xptr<f16>> -> tile<{n}xptr<f16>>
        %from = offset %all, %i : tile<{n}xptr<f16>>, tile<{n}xi32> -> tile<{n}xptr<f16>>
        %oc = reshape %c : tile<ptr<f16>> -> tile<1xptr<f16>>
        %allc = broadcast %oc : tile<1xptr<f16>> -> tile<{n}xptr<f16>>
        %to = offset %allc, %i : tile<{n}xptr<f16>>, tile<{n}xi32> -> tile<{n}xptr<f16>>
        %rows = constant <i32: {n}> : tile<{n}xi32>
        %to2 = offset %to, %rows : tile<{n}xptr<f16>>, tile<{n}xi32> -> tile<{n}xptr<f16>>
        %f = reshape %from : tile<{n}xptr<f16>> -> tile<{shape}ptr<f16>>
        %g = reshape %to : tile<{n}xptr<f16>> -> tile<{shape}ptr<f16>>
        %h = reshape %to2 : tile<{n}xptr<f16>> -> tile<{shape}ptr<f16>>
        %x, %t = load_ptr_tko weak %f : tile<{shape}ptr<f16>> -> tile<{shape}f16>, token
        %p = tan %x : tile<{shape}f16>
        %q = tanh %x : tile<{shape}f16>
        %u = store_ptr_tko weak %g, %p : tile<{shape}ptr<f16>>, tile<{shape}f16> -> token
        %v = store_ptr_tko weak %h, %q : tile<{shape}ptr<f16>>, tile<{shape}f16> -> token
        return }} }}"""
    x, c = np.linspace(-1, 1, n + 1).astype(np.float16)[:n], np.zeros(2 * n, np.float16)
    launch(kernel, "k", 1, [x, c], target="cpu")
    wide = x.astype(np.float64)
    np.testing.assert_array_equal(c, np.concatenate((np.tan(wide), np.tanh(wide))).astype(np.float16))
