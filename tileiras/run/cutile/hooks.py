"""Where cuTile Python is hooked: what compiles a kernel's Tile IR, what launches, what measures.

cuTile's own path from `ct.launch` to the driver stays as it is: its specialisation of kernels by their arguments, its
caches and its packing of parameters. The hooks keep the bytecode instead of assembling it, lend host arrays as device
memory, and turn what a launch found into cuTile's exceptions.
"""

from __future__ import annotations

import functools
import sys
import threading
from pathlib import Path

from tileiras.diag import CompileError
from tileiras.run.imports import NotImportable
from tileiras.version import __version__

from .arrays import lend
from .driver import Driver
from .images import Image, Images

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .settings import Settings

US_PER_RUN = 1.0  # what every measurement says: nothing here has the speed of a GPU
ASSERTIONS = ("RUN-0005", "RUN-0306")  # of the reference and the CPU, of the emulator
STREAM_ATTRIBUTES = ("cuda_stream", "ptr", "handle")  # PyTorch, CuPy, numba


class Session:
    """The stand-in driver and what cuTile needs around it, for this process."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.images = Images()
        self.local = threading.local()  # .arrays of the launch, .kernel that is being compiled
        self.driver = Driver(settings.capability, self.images.find, self.run)
        # cuTile's extension counts on the interpreter's lock while it launches, and a call of the driver may pass it on.
        self.one_at_a_time = threading.RLock()
        self.fault_type: Any = None
        self.exceptions: Any = None

    def run(self, image: Image, symbol: str, grid: tuple[int, int, int], parameters: int | None) -> None:
        memory = [
            (array, f"array {i} of the launch") for i, array in enumerate(getattr(self.local, "arrays", ()))
        ]
        for raw, _ in list(self.driver.allocations.values()):
            memory.append((np_bytes(raw), "device memory"))
        image.run(symbol, grid, parameters, memory)

    # ---- compiling

    def compile_kernel(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """cuTile's compilation for a launch, which alone has its bytecode kept; exporting stays as it is."""

        @functools.wraps(original)
        def compile(kernel: Any, *args: Any, **options: Any) -> Any:
            before = getattr(self.local, "kernel", None)
            self.local.kernel = kernel
            try:
                return original(kernel, *args, **options)
            finally:
                self.local.kernel = before

        return compile

    def without_assembler(self, original: Callable[..., Any], answer: Any) -> Callable[..., Any]:
        """What cuTile asks its assembler, answered for launches, and elsewhere where there is no assembler."""

        @functools.wraps(original)
        def find(*args: Any, **options: Any) -> Any:
            if getattr(self.local, "kernel", None) is not None:
                return answer
            try:
                return original(*args, **options)
            except FileNotFoundError:
                return answer

        return find

    def keep_bytecode(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """For a launch, a file with the token of the kept image in place of the assembler's; others are remembered."""

        @functools.wraps(original)
        def assemble(
            fname_bytecode: str, compiler_options: Any, sm_arch: str, *args: Any, **options: Any
        ) -> Any:
            kernel = getattr(self.local, "kernel", None)
            path = Path(fname_bytecode)
            gpu_name = self.settings.spelled(sm_arch)
            level = compiler_options.opt_level_for_target(sm_arch)
            if kernel is None:
                bytecode = path.read_bytes()
                made = original(fname_bytecode, compiler_options, sm_arch, *args, **options)
                self.images.remember(
                    Path(made).read_bytes(), lambda: Image(bytecode, gpu_name, self.settings, level)
                )
                return made
            try:
                image = Image(path.read_bytes(), gpu_name, self.settings, level)
            except CompileError as error:
                raise self.compile_error(error, kernel, f"--gpu-name {gpu_name} -O{level}") from error
            image.kernel = kernel
            out = path.with_suffix(".cubin")
            out.write_bytes(self.images.keep(image))
            return out

        return assemble

    def compile_error(self, error: CompileError, kernel: Any, flags: str) -> Exception:
        text, where = self.told(error, kernel)
        kind = self.exceptions.TileCompilerExecutionError
        made: Exception = kind(error.exit_code, text, where, flags, f"tileiras {__version__}")
        return made

    # ---- launching

    def launch(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """cuTile's launch with host arrays on loan; what its blocks do has happened when it returns."""

        @functools.wraps(original)
        def launch(*args: Any, **options: Any) -> Any:
            if len(args) < 2:
                return original(*args, **options)  # it says what is missing
            stream, *front, kernel_args = args
            arrays: list[Any] = []
            try:
                kernel_args = lend(kernel_args, arrays)
            except NotImportable as why:
                raise TypeError(f"an argument of the launch cannot be used: {why}") from None
            before = getattr(self.local, "arrays", [])
            self.local.arrays = arrays
            self.driver.take_failure()
            try:
                with self.one_at_a_time:
                    return original(stream_number(stream), *front, kernel_args, **options)
            except RuntimeError as error:
                failure = self.driver.take_failure()
                if failure is None:
                    raise
                kernel = next((one for one in front if hasattr(one, "_annotated_function")), None)
                raise self.fault(failure, kernel) from (None if isinstance(failure, CompileError) else error)
            finally:
                self.local.arrays = before

        return launch

    def signature(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """cuTile's reading of a signature from arguments, with host arrays on loan."""

        @functools.wraps(original)
        def read(kernel: Any, kernel_args: Any, *rest: Any, **options: Any) -> Any:
            try:
                kernel_args = lend(kernel_args, [])
            except NotImportable as why:
                raise TypeError(f"an argument of the kernel cannot be used: {why}") from None
            return original(kernel, kernel_args, *rest, **options)

        return read

    def fault(self, failure: BaseException, kernel: Any) -> BaseException:
        if isinstance(failure, CompileError):
            for one in failure.diagnostics:
                if one.code in ASSERTIONS:
                    print(one.text, flush=True)  # a failed assertion is told on standard output, as on a GPU
            text, where = self.told(failure, kernel)
            made: BaseException = self.fault_type(text, where)
            return made
        if isinstance(failure, NotImplementedError):
            return RuntimeError(str(failure))
        return failure

    def told(self, error: CompileError, kernel: Any) -> tuple[str, Any]:
        """(what the diagnostics say, the first position among them as cuTile's exceptions carry it)."""
        texts = [one.text for one in error.diagnostics]
        located = next((one.loc for one in error.diagnostics if one.loc is not None and one.loc.line), None)
        return "\n".join(texts) or str(error), self.place(located, kernel)

    def place(self, loc: Any, kernel: Any) -> Any:
        kind = self.exceptions.Loc
        if loc is None:
            return kind.unknown()
        function = getattr(kernel, "_pyfunc", None)
        code = getattr(function, "__code__", None)
        described = self.exceptions.FunctionDesc(
            getattr(function, "__name__", None), code.co_filename if code else loc.file,
            code.co_firstlineno if code else loc.line, 1,
        )  # fmt: skip
        chain = None
        for one in reversed((loc, *loc.callers)):
            chain = kind(one.line, one.col, one.file, function=described, call_site=chain)
        return chain

    # ---- tuning

    def benchmark(self, launch: Callable[..., Any]) -> Callable[..., float]:
        """One run, and the same time for all: the first configuration that works is the best."""

        def benchmark(stream: Any, grid: Any, kernel: Any, kernel_args: Any, *_rest: Any) -> float:
            launch(stream, grid, kernel, kernel_args)
            return US_PER_RUN

        return benchmark

    # ---- all of it

    def install(self, tile: Any) -> None:
        """Hook a `cuda.tile` that was just imported. Errors: ImportError for a release without these places."""
        import cuda.tile._cext as cext
        from cuda.tile import _compile, _exception, _execution

        self.exceptions = _exception
        try:
            base = _exception.TileError
            self.fault_type = type("KernelFault", (base, RuntimeError), {"__doc__": KERNEL_FAULT_DOC})
            _execution.kernel._compile = self.compile_kernel(_execution.kernel._compile)
            _compile.compile_cubin = self.keep_bytecode(_compile.compile_cubin)
            _compile._get_max_supported_bytecode_version = self.without_assembler(
                _compile._get_max_supported_bytecode_version, _compile._SUPPORTED_VERSIONS[-1]
            )
            _compile._get_compiler_version_string = self.without_assembler(
                _compile._get_compiler_version_string, f"tileiras {__version__}"
            )
            cext.default_tile_context.config.cache_dir = None  # an image of another run would be no token
            tile.launch = cext.launch = self.launch(cext.launch)
        except AttributeError as error:
            raise ImportError(
                f"this release of cuda-tile cannot be run without a GPU by this tileiras: {error}"
            ) from None
        _signature = sys.modules.get("cuda.tile.compilation._signature")
        if hasattr(_signature, "get_parameter_constraints_from_pyargs"):
            _signature.get_parameter_constraints_from_pyargs = self.signature(  # type: ignore[union-attr]
                cext.get_parameter_constraints_from_pyargs
            )
        if hasattr(cext, "launch_extended"):
            cext.launch_extended = self.launch(cext.launch_extended)
        if hasattr(cext, "_benchmark"):
            cext._benchmark = self.benchmark(tile.launch)
        tile.KernelFault = self.fault_type

    def install_tuning(self, tune: Any) -> None:
        """Hook `cuda.tile.tune._tune`: one warm-up and one measurement for each configuration."""
        measure = sys.modules["cuda.tile._cext"]._benchmark  # type: ignore[attr-defined]
        tune._benchmark = measure
        tune.benchmark_with_timeout = lambda stream, grid, kernel, args, *_limits: (
            measure(stream, grid, kernel, args),
            None,
        )
        tune._WARM_UP_REPEATS = tune._MIN_REPEATS = tune._BATCH_REPEATS = 1


KERNEL_FAULT_DOC = "A launch found a fault in the kernel: cuTile's TileError, with the line of the script."


def np_bytes(raw: Any) -> Any:
    import numpy as np

    return np.frombuffer(raw, np.uint8)


def stream_number(stream: Any) -> Any:
    """A stream as the stand-in takes it; what is no stream goes on to cuTile, which says so."""
    if stream is None or isinstance(stream, int):
        return stream or 0
    protocol = getattr(stream, "__cuda_stream__", None)
    if protocol is not None:
        found = protocol() if callable(protocol) else protocol
        return int(found[1])
    for name in STREAM_ATTRIBUTES:
        number = getattr(stream, name, None)
        if isinstance(number, int):
            return number
    return stream
