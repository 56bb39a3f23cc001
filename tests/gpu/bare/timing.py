"""Times of production-size kernels, and the copy and matmul peaks of the same run. Standard library only."""

from __future__ import annotations

import ctypes
import ctypes.util
import glob
import json
import statistics
import struct
import zipfile

from bare.cuda import CudaError, Gpu
from bare.values import SIZES, pattern, spread

RUNS = 20
FLUSH_BYTES = 512 << 20  # several times the largest L2
SAMPLE_BYTES = 1 << 16


def median_seconds(gpu: Gpu, action: object, runs: int = RUNS) -> float:
    """Median of `runs` calls, each behind a flush of L2; two calls before them do not count."""
    flush = gpu.allocate(FLUSH_BYTES)
    start, end = gpu.event(), gpu.event()
    times = []
    for number in range(runs + 2):
        gpu.clear(flush, FLUSH_BYTES)
        gpu.record(start)
        action()  # type: ignore[operator]
        gpu.record(end)
        seconds = gpu.seconds(start, end)
        if number >= 2:
            times.append(seconds)
    gpu.free(flush)
    return statistics.median(times)


def time_kernel(gpu: Gpu, archive: zipfile.ZipFile, name: str) -> dict[str, object]:
    """Seconds of ours and NVIDIA's image of one kernel on the same memory, and how far their results differ."""
    spec = json.loads(archive.read(f"timing/{name}.json"))
    arrays = []
    for number, a in enumerate(spec["arrays"]):
        size = a["elements"] * SIZES[a["kind"]]
        address = gpu.allocate(size)
        if a["fill"] == "zero":
            gpu.clear(address, size)
        elif a["fill"].startswith("index"):  # numbers of rows, below a bound
            bound = int(a["fill"].split()[1])
            gpu.fill(address, size, struct.pack("<16384i", *(i * 7919 % bound for i in range(16384))))
        else:
            gpu.fill(address, size, pattern(a["kind"], number + 1))
        arrays.append((address, size, a))
    parameters = [
        struct.pack("<Q", arrays[p["array"]][0]) if "array" in p else bytes.fromhex(p["bytes"])
        for p in spec["parameters"]
    ]
    grid = [gpu.multiprocessors if extent == "multiprocessors" else extent for extent in spec["grid"]]
    row: dict[str, object] = {"flops": spec["flops"], "bytes": spec["bytes"], "element": spec["element"]}
    samples: dict[str, bytes] = {}
    address, size, result = arrays[spec["result"]]
    for who, blocks in spec["images"].items():
        try:
            image = archive.read(f"images/{name}.{who}.cubin")
            function = gpu.function(image, spec["symbol"], spec["shared"] if who == "ours" else 0)
            if result["fill"] == "zero":
                gpu.clear(address, size)
            block = _accepted(gpu, function, grid, blocks, spec["shared"] if who == "ours" else 0, parameters)
            sample = min(size, SAMPLE_BYTES)
            samples[who] = gpu.read(address, sample) + gpu.read(address + size - sample, sample)
            shared = spec["shared"] if who == "ours" else 0
            row[who] = median_seconds(
                gpu, lambda f=function, b=block, s=shared: gpu.launch(f, grid, b, s, parameters)
            )
            row[f"{who}_block"] = block
        except CudaError as error:
            row[f"{who}_problem"] = str(error)
            break  # the context is lost
    if len(samples) == 2:
        row["difference"] = spread(samples["ours"], samples["nvidia"], result["kind"])
    return row


def _accepted(
    gpu: Gpu,
    function: ctypes.c_void_p,
    grid: list[int],
    blocks: list[list[int]],
    shared: int,
    parameters: list[bytes],
) -> list[int]:
    """The first of some block sizes that the driver launches the kernel with."""
    for number, block in enumerate(blocks):
        try:
            gpu.launch(function, grid, block, shared, parameters)
            gpu.wait()
            return block
        except CudaError:
            if number == len(blocks) - 1:
                raise
    raise CudaError("no block size to launch with")


# ---- peaks
def copy_peak(gpu: Gpu) -> dict[str, object]:
    """Bytes a second of the best device-to-device copy, read and written."""
    size = 2 << 30
    source, target = gpu.allocate(size), gpu.allocate(size)
    gpu.fill(source, size, pattern("f32"))
    best = 0.0
    start, end = gpu.event(), gpu.event()
    for _ in range(10):
        gpu.record(start)
        gpu.copy(target, source, size)
        gpu.record(end)
        best = max(best, 2 * size / gpu.seconds(start, end))
    return {"bytes_per_second": best, "how": "cuMemcpyDtoDAsync of 2 GiB, best of 10"}


def instruction_peak(gpu: Gpu, archive: zipfile.ZipFile) -> dict[str, object]:
    """Flops a second of matrix instructions alone, bf16 with f32 sums: no kernel can be faster."""
    spec = json.loads(archive.read("peaks/instruction.json"))
    function = gpu.function(archive.read("images/peak.cubin"), "peak")
    out = gpu.allocate(1 << 20)
    grid = [gpu.multiprocessors * spec["blocks"], 1, 1]
    parameters = [struct.pack("<Q", out), struct.pack("<I", spec["rounds"])]
    seconds = median_seconds(
        gpu, lambda: gpu.launch(function, grid, [spec["threads"], 1, 1], 0, parameters), 5
    )
    flops = spec["flops"] * spec["rounds"] * grid[0]
    return {
        "flops_per_second": flops / seconds,
        "how": f"{spec['instruction']} from registers and shared memory alone",
    }


CUBLAS = (
    "libcublas.so.13",
    "libcublas.so.12",
    "/usr/local/cuda*/lib64/libcublas.so.1?",
    "/usr/local/cuda*/lib64/libcublas.so",
)
BF16, COMPUTE_F32, TRANSPOSED, PLAIN = (
    14,
    68,
    1,
    0,
)  # CUDA_R_16BF, CUBLAS_COMPUTE_32F, CUBLAS_OP_T, CUBLAS_OP_N


def library_peak(gpu: Gpu, n: int = 8192) -> dict[str, object]:
    """Flops a second of cuBLAS on a bf16 product n^3, where the machine has it."""
    names = [found for name in CUBLAS for found in (sorted(glob.glob(name)) if "/" in name else [name])]
    names.append(ctypes.util.find_library("cublas") or "")
    for name in filter(None, names):
        try:
            lib = ctypes.CDLL(name)
            break
        except OSError:
            continue
    else:
        return {"how": "cuBLAS is not on this machine"}
    handle = ctypes.c_void_p()
    if lib.cublasCreate_v2(ctypes.byref(handle)):
        return {"how": "cublasCreate failed"}
    a, b, c = (gpu.allocate(2 * n * n) for _ in range(3))
    gpu.fill(a, 2 * n * n, pattern("bf16", 1))
    gpu.fill(b, 2 * n * n, pattern("bf16", 2))
    one, zero = ctypes.c_float(1), ctypes.c_float(0)

    def product() -> None:
        error = lib.cublasGemmEx(
            handle, PLAIN, PLAIN, n, n, n, ctypes.byref(one), ctypes.c_void_p(a), BF16, n, ctypes.c_void_p(b), BF16, n,
            ctypes.byref(zero), ctypes.c_void_p(c), BF16, n, COMPUTE_F32, -1,
        )  # fmt: skip
        if error:
            raise CudaError(f"cublasGemmEx: status {error}")

    seconds = median_seconds(gpu, product)
    return {
        "flops_per_second": 2 * n**3 / seconds,
        "how": f"cublasGemmEx bf16 {n}^3, cold L2, median of {RUNS}",
    }
