"""What cuTile compiled, kept as Tile IR: it takes the place of the cubin and is what a launch runs."""

from __future__ import annotations

import ctypes
import functools
import itertools
import threading
from hashlib import sha256

from tileiras.run import load_module, normalise_grid, run_encoded
from tileiras.run.args import INT_BYTES, Arguments

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .settings import Settings

MAGIC = b"\x7fTILEIRAS"  # no ELF file begins like this
ELF, HEADER_BYTES = b"\x7fELF", 64
POINTER_BYTES = 8


class Image:
    """The kernels of one compilation, ready for the target. Errors at creation: CompileError."""

    def __init__(self, bytecode: bytes, gpu_name: str, settings: Settings, opt_level: int = 3) -> None:
        import tileiras

        self.settings, self.gpu_name = settings, gpu_name
        self.bytecode, self.opt_level = bytecode, opt_level
        self.profile: Any = None  # of the last launch, where a report is wanted
        if settings.images is not None:
            settings.images.append(self)
        self.source: Any = tileiras.load(bytecode)
        if settings.target != "emulator":
            self.module = load_module(self.source)
            if settings.target == "cpu":
                self.compile_for_cpu()
        else:
            self.source = tileiras.compile(
                self.source,
                gpu_name=gpu_name,
                opt_level=opt_level,
                emit="ptx",
                launch_abi="simt",
                lineinfo=True,
            )
            self.module = self.source.module

    def compile_for_cpu(self) -> None:
        from tileiras.run.cpu.launch import kernel_of
        from tileiras.run.entries import entries_of

        for name in entries_of(self.module):
            kernel_of(self.module, name, self.settings.check)

    def run(
        self, symbol: str, grid: tuple[int, int, int], parameters: int | None, memory: list[tuple[Any, str]]
    ) -> None:
        """Run a kernel; `parameters` is the driver's array of pointers to values. Errors: LaunchError."""
        from tileiras.run.entries import find_entry

        types = [a.type.elem for a in find_entry(self.module, symbol).regions[0].block.args]
        arguments = Arguments()
        places = (ctypes.c_void_p * len(types)).from_address(parameters) if parameters and types else ()
        for elem, place in zip(types, places):
            size = INT_BYTES.get(elem.name, elem.bytes) if hasattr(elem, "name") else POINTER_BYTES
            arguments.data.append(ctypes.string_at(place, size))
            arguments.types.append(elem)
            arguments.sources.append(None)
        for array, label in memory:
            arguments.arrays.append(array)
            arguments.labels.append(label)
        counted: dict[str, Any] | None = None
        if self.settings.images is not None and self.settings.target == "emulator":
            from tileiras.run.profile import Profile

            self.profile = Profile()
            counted = {"profile": self.profile}
        run_encoded(
            self.source, self.module, symbol, normalise_grid(grid), arguments, self.settings.target, self.gpu_name,
            memory=[], check=self.settings.check, seed=self.settings.seed, out=None, options={}, emulation=counted,
        )  # fmt: skip


class Images:
    """Images by the token that stands for them where cuTile expects a cubin, or by the cubin that was exported."""

    def __init__(self) -> None:
        self.numbers = itertools.count(1)
        self.kept: dict[int, Image] = {}
        self.exported: dict[bytes, list[tuple[int, bytes, Callable[[], Image]]]] = {}  # by the file's header
        self.lock = threading.Lock()

    def keep(self, image: Image) -> bytes:
        """The token of an image."""
        with self.lock:
            number = next(self.numbers)
            self.kept[number] = image
        return MAGIC + number.to_bytes(8, "little")

    def remember(self, cubin: bytes, make: Callable[[], Image]) -> None:
        """A cubin that was assembled for export, and how its kernels are made ready should it be loaded here."""
        with self.lock:
            rows = self.exported.setdefault(cubin[:HEADER_BYTES], [])
            rows.append((len(cubin), sha256(cubin).digest(), functools.cache(make)))

    def find(self, address: int) -> Image | None:
        """The image whose token or cubin lies at an address. Errors: CompileError for a cubin of kernels that do not compile."""
        if ctypes.string_at(address, len(ELF)) == ELF:
            for size, digest, make in self.exported.get(ctypes.string_at(address, HEADER_BYTES), ()):
                if sha256(ctypes.string_at(address, size)).digest() == digest:
                    return make()
            return None
        if ctypes.string_at(address, len(MAGIC)) != MAGIC:
            return None
        number = int.from_bytes(ctypes.string_at(address + len(MAGIC), 8), "little")
        return self.kept.get(number)
