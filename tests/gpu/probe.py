"""Which marks make a driver accept block size 1 for a tile kernel? `python tests/gpu/probe.py build DIR`, then `run DIR`.

`build` needs no GPU: it makes one image per combination of marks from the PTX that tileiras writes, and takes NVIDIA's
own images of the same bytecode where those peers are installed. `run` needs a GPU and nothing but this file, DIR and
Python's standard library (it calls libcuda through ctypes), so that the folder can be carried to a bare machine. Every
launch happens in a process of its own: one that fails leaves a context that fails everything after it.
"""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys
from pathlib import Path

ENTRY = "probe"
BLOCKS, TILE = 4, 1024
KERNEL = f"""
cuda_tile.module @launch_abi {{
  entry @{ENTRY}(%p: tile<ptr<i32>>) {{
    %v = make_tensor_view %p, shape = [{BLOCKS * TILE}], strides = [1] : tensor_view<{BLOCKS * TILE}xi32, strides=[1]>
    %w = make_partition_view %v : partition_view<tile=({TILE}), tensor_view<{BLOCKS * TILE}xi32, strides=[1]>>
    %x, %y, %z = get_tile_block_id : tile<i32>
    %a, %t = load_view_tko weak %w[%x] : partition_view<tile=({TILE}), tensor_view<{BLOCKS * TILE}xi32, strides=[1]>>, tile<i32> -> tile<{TILE}xi32>, token
    %one = constant <i32: 1> : tile<i32>
    %k = addi %x, %one : tile<i32>
    %r = reshape %k : tile<i32> -> tile<1xi32>
    %b = broadcast %r : tile<1xi32> -> tile<{TILE}xi32>
    %s = addi %a, %b : tile<{TILE}xi32>
    %u = store_view_tko weak %s, %w[%x] token = %t : tile<{TILE}xi32>, partition_view<tile=({TILE}), tensor_view<{BLOCKS * TILE}xi32, strides=[1]>>, tile<i32> -> token
    return
  }}
}}
"""  # noqa: E501
LANGUAGE = ".language 7"
METADATA = ".visible .global .align 8 .b8 ___NV_TILE_LAUNCH_META_DATA___[64]"
HEADER_BYTES = (
    56  # of the metadata that release 13.3 fills: cluster, block, seven zero words, bytes of a host object
)


def filled_metadata(block: tuple[int, int, int]) -> str:
    """The metadata variable as release 13.3 initialises it, without a host object."""
    words = [1, 1, 1, *block]
    data = b"".join(word.to_bytes(4, "little") for word in words).ljust(64, b"\0")
    return METADATA + " = {" + ", ".join(map(str, data)) + "}"


def combinations(block: tuple[int, int, int]) -> dict[str, tuple[bool, str, bool]]:
    """name -> (.language, metadata variable, NVIDIA's host object)."""
    return {
        "nothing": (False, "", False),
        "language": (True, "", False),
        "metadata": (False, METADATA, False),
        "filled metadata": (False, filled_metadata(block), False),
        "language + metadata": (True, METADATA, False),
        "language + filled metadata": (True, filled_metadata(block), False),
        "host object": (False, "", True),
        "language + host object": (True, "", True),
        "metadata + host object": (False, METADATA, True),
        "all": (True, METADATA, True),
    }


def mark(ptx: str, language: bool, metadata: str) -> str:
    """Unmarked PTX with the marks of one combination."""
    lines = []
    for line in ptx.splitlines():
        if line.startswith(".version") and language:
            major, minor = map(int, line.split()[1].split("."))
            line = ".version {}.{}".format(*max((major, minor), (9, 2)))
        if line == "{" and language:
            lines.append(LANGUAGE)
        lines.append(line)
        if line.startswith(".address_size") and metadata:
            lines.append(metadata + ";")
    return "\n".join(lines) + "\n"


def section(image: bytes, name: str) -> bytes | None:
    """The content of a section of a 64-bit ELF file."""
    from tileiras.toolchain.cubin import read_cubin

    return read_cubin(image).sections.get(name)


def build(folder: Path, gpu_name: str) -> dict[str, dict[str, object]]:
    """Images in `folder` and the table images.json: name -> file and real block, or why there is none."""
    import peers

    import tileiras
    from tileiras.toolchain.locate import find_ptxas

    folder.mkdir(parents=True, exist_ok=True)
    bytecode = folder / "probe.tilebc"
    bytecode.write_bytes(tileiras.load(KERNEL).to_bytecode("13.1"))
    plain = tileiras.compile(KERNEL, gpu_name=gpu_name, launch_abi="simt", emit="ptx")
    block = plain.kernels[ENTRY].block
    table: dict[str, dict[str, object]] = {}

    def keep(name: str, image: bytes | str) -> None:
        if isinstance(image, str):
            table[name] = {"problem": image}
            return
        file = name.replace(" ", "_").replace("+", "and") + ".cubin"
        (folder / file).write_bytes(image)
        from tileiras.toolchain.cubin import read_cubin

        found = read_cubin(image).kernels[ENTRY]
        table[name] = {"file": file, "block": list(found.block or block)}

    host = None
    for release in ("13.1", "13.4", "13.5"):
        tool = peers.tool("tileiras", release)
        if tool is None or peers.tool("ptxas", release) is None:
            keep(f"NVIDIA {release}", "not installed")
            continue
        out = folder / "nvidia.cubin"
        argv = [str(tool), str(bytecode), "-o", str(out), "--gpu-name", gpu_name]
        done = subprocess.run(argv, capture_output=True, text=True)
        keep(f"NVIDIA {release}", out.read_bytes() if done.returncode == 0 else done.stderr.strip()[-200:])
        if done.returncode == 0 and release != "13.1":
            host = section(out.read_bytes(), ".nv.host") or host
        out.unlink(missing_ok=True)
    keep("tileiras --launch-abi=tile", tileiras.compile(KERNEL, gpu_name=gpu_name, launch_abi="tile").cubin)
    ptxas = peers.tool("ptxas") or Path(find_ptxas().path)
    if host is not None:
        (folder / "host.o").write_bytes(host)
    for name, (language, metadata, wants_host) in combinations(block).items():
        if wants_host and host is None:
            keep(name, "needs NVIDIA's assembler, whose host object it takes")
            continue
        source, image = folder / "probe.ptx", folder / "probe.cubin"
        source.write_text(mark(plain.ptx, language, metadata))
        argv = [str(ptxas), f"--gpu-name={gpu_name}", str(source), "-o", str(image)]
        argv += [f"--nv-host={folder / 'host.o'}"] if wants_host else []
        done = subprocess.run(argv, capture_output=True, text=True)
        keep(name, image.read_bytes() if done.returncode == 0 else (done.stderr + done.stdout).strip()[-200:])
    for scratch in ("probe.ptx", "probe.cubin"):
        (folder / scratch).unlink(missing_ok=True)
    (folder / "images.json").write_text(json.dumps({"gpu_name": gpu_name, "images": table}, indent=1))
    return table


class Driver:
    """libcuda with a context on the first GPU. A failed call ends the process with its name and error."""

    def __init__(self) -> None:
        self.cuda = ctypes.CDLL("libcuda.so.1")
        self("cuInit", 0)
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self("cuDeviceGet", ctypes.byref(device), 0)
        self.device = device
        self("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self("cuCtxSetCurrent", context)

    def __call__(self, name: str, *arguments: object) -> None:
        error = getattr(self.cuda, name)(*arguments)
        if error:
            text = ctypes.c_char_p()
            self.cuda.cuGetErrorName(error, ctypes.byref(text))
            raise SystemExit(f"{name}: {(text.value or str(error).encode()).decode()}")

    def arch(self) -> str:
        found = []
        for attribute in (75, 76):  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR and _MINOR
            value = ctypes.c_int()
            self("cuDeviceGetAttribute", ctypes.byref(value), attribute, self.device)
            found.append(value.value)
        return "sm_{}{}".format(*found)

    def version(self) -> int:
        value = ctypes.c_int()
        self("cuDriverGetVersion", ctypes.byref(value))
        return value.value


def attempt(image: Path, block: tuple[int, int, int]) -> str:
    """ "right", or what went wrong, of one launch. Runs in a process of its own."""
    cuda = Driver()
    module, function, buffer = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_uint64()
    cuda("cuModuleLoadData", ctypes.byref(module), image.read_bytes())
    cuda("cuModuleGetFunction", ctypes.byref(function), module, ENTRY.encode())
    count = BLOCKS * TILE
    values = (ctypes.c_int32 * count)(*range(count))
    cuda("cuMemAlloc_v2", ctypes.byref(buffer), ctypes.c_size_t(4 * count))
    cuda("cuMemcpyHtoD_v2", buffer, values, ctypes.c_size_t(4 * count))
    arguments = (ctypes.c_void_p * 1)(ctypes.addressof(buffer))
    cuda("cuLaunchKernel", function, BLOCKS, 1, 1, *block, 0, None, arguments, None)
    cuda("cuCtxSynchronize")
    cuda("cuMemcpyDtoH_v2", values, buffer, ctypes.c_size_t(4 * count))
    wrong = sum(values[i] != i + i // TILE + 1 for i in range(count))
    return "right" if not wrong else f"{wrong} of {count} values are wrong"


def run(folder: Path) -> dict[str, dict[str, str]]:
    """name -> outcome with block 1 and with the real block."""
    table = json.loads((folder / "images.json").read_text())["images"]
    outcomes: dict[str, dict[str, str]] = {}
    for name, row in table.items():
        if "problem" in row:
            outcomes[name] = {"block 1": row["problem"], "real block": row["problem"]}
            continue
        outcomes[name] = {}
        for label, block in (("block 1", [1, 1, 1]), ("real block", row["block"])):
            argv = [sys.executable, __file__, "attempt", str(folder / row["file"]), *map(str, block)]
            try:
                done = subprocess.run(argv, capture_output=True, text=True, timeout=60)
                lines = (done.stdout + done.stderr).strip().splitlines()
                outcomes[name][label] = lines[-1] if lines else f"died with status {done.returncode}"
            except subprocess.TimeoutExpired:
                outcomes[name][label] = "hung"
    return outcomes


def spell(outcomes: dict[str, dict[str, str]]) -> str:
    """The table as text."""
    width = max(map(len, outcomes))
    rows = [f"{'image':{width}}  {'block 1':40}  real block"]
    rows += [f"{name:{width}}  {row['block 1']:40}  {row['real block']}" for name, row in outcomes.items()]
    return "\n".join(rows)


def main(argv: list[str]) -> int:
    verb = argv[0] if argv else ""
    if verb == "attempt":
        print(attempt(Path(argv[1]), (int(argv[2]), int(argv[3]), int(argv[4]))))
    elif verb == "build" and len(argv) in (2, 3):
        here = Path(__file__).resolve()
        sys.path[:0] = [str(here.parents[2]), str(here.parents[1])]
        for name, row in build(Path(argv[1]), argv[2] if len(argv) == 3 else "sm_90").items():
            print(f"{name}: {row.get('file') or row['problem']}")
    elif verb == "run" and len(argv) == 2:
        cuda = Driver()
        print(f"{cuda.arch()}, driver {cuda.version() // 1000}.{cuda.version() % 1000 // 10}")
        print(spell(run(Path(argv[1]))))
    else:
        print(__doc__)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
