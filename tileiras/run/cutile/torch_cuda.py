"""`--map-cuda`: PyTorch scripts that say device="cuda" on a PyTorch, or a machine, without CUDA.

Tensors live on the CPU; each remembers whether the script believes it to be on the GPU, so that `.cuda()` and `.cpu()`
copy where they would, `is_cuda` and `device` answer as there, and a result is where its operands are. `torch.cuda` gets
streams and events that have always finished; between events lies the time that passed on this machine.
"""

from __future__ import annotations

import contextlib
import functools
import threading
import time
import types

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .settings import Settings

FLAG = "_tileiras_on_cuda"
TOTAL_MEMORY_BYTES = 80 << 30
MULTIPROCESSORS = 16
RESOLUTION_MS = 0.0005  # of CUDA's events: scripts divide by what they measured
NAME = "tileiras (no GPU)"


def names_cuda(device: Any) -> bool:
    """Whether a device as PyTorch takes it (text, number, torch.device) is a GPU."""
    if isinstance(device, str):
        return device.partition(":")[0] == "cuda"
    if isinstance(device, int):
        return not isinstance(device, bool)
    return getattr(device, "type", None) == "cuda"


class Stream:
    """A stream: what is queued on it has been done."""

    def __init__(self, *_args: Any, **_options: Any) -> None:
        self.cuda_stream = 0

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.cuda_stream

    def query(self) -> bool:
        return True

    def synchronize(self) -> None:
        pass

    def wait_event(self, _event: Any) -> None:
        pass

    def wait_stream(self, _stream: Any) -> None:
        pass

    def record_event(self, event: Any = None) -> Any:
        event = event or Event()
        event.record(self)
        return event

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_error: Any) -> None:
        pass


class Event:
    """An event that has happened, and when."""

    def __init__(self, *_args: Any, **_options: Any) -> None:
        self.recorded_s: float | None = None

    def record(self, _stream: Any = None) -> None:
        self.recorded_s = time.perf_counter()

    def wait(self, _stream: Any = None) -> None:
        pass

    def query(self) -> bool:
        return True

    def synchronize(self) -> None:
        pass

    def elapsed_time(self, end: Event) -> float:
        """Milliseconds from this event to a later one: loops that repeat until enough time was measured end."""
        if self.recorded_s is None or end.recorded_s is None:
            raise RuntimeError("Both events must be recorded before calculating elapsed time.")
        return max(RESOLUTION_MS, (end.recorded_s - self.recorded_s) * 1e3)


def map_cuda(torch: Any, settings: Settings) -> None:
    """Let this PyTorch take CUDA devices in every thread of the process."""
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.overrides import TorchFunctionMode

    functional = torch.nn.functional
    attention = functional.scaled_dot_product_attention
    # PyTorch sums their gradients in the element type on the CPU, in f32 on a GPU.
    norms = {
        functional.layer_norm,
        functional.group_norm,
        getattr(functional, "rms_norm", functional.layer_norm),
    }
    cpu, cuda = torch.device("cpu"), torch.device("cuda", 0)
    tensor = torch.Tensor
    moves = {tensor.to, tensor.cuda, tensor.cpu}
    device_of, is_cuda_of, data_of = tensor.device.__get__, tensor.is_cuda.__get__, tensor.data.__set__
    device_index = tensor.get_device

    def on_cuda(value: Any) -> bool:
        return isinstance(value, tensor) and getattr(value, FLAG, False)

    def mark(value: Any) -> Any:
        if isinstance(value, tensor):
            setattr(value, FLAG, True)
        elif isinstance(value, (list, tuple)):
            for item in value:
                mark(item)
        return value

    def any_on_cuda(values: Any) -> bool:
        return any(any_on_cuda(one) if isinstance(one, (list, tuple)) else on_cuda(one) for one in values)

    def moved(func: Any, value: Any, args: Any, options: dict[str, Any]) -> Any:
        """`.to`, `.cuda` and `.cpu`: a copy exactly where the script changes the side."""
        before = after = on_cuda(value)
        result = value
        if func is not tensor.to:
            after = func is tensor.cuda
        else:
            places = []
            if options.get("device") is not None:
                places.append(options["device"])
                options["device"] = cpu
            if args and (isinstance(args[0], (str, torch.device)) or type(args[0]) is int):
                places.append(args[0])
                args = (cpu, *args[1:])
            elif args and isinstance(args[0], tensor):
                after = on_cuda(args[0])
            if places:
                after = names_cuda(places[-1])
            result = value.to(*args, **options)
        if after != before and result is value:
            result = value.clone()
        if result is not value:
            setattr(result, FLAG, after)
        return result

    def in_f32(func: Any, args: Any, options: dict[str, Any]) -> Any:
        def wide(value: Any) -> Any:
            return value.float() if isinstance(value, tensor) else value

        result = func(*map(wide, args), **{name: wide(value) for name, value in options.items()})
        return result.to(args[0].dtype)

    class OnCpu(TorchFunctionMode):
        def __torch_function__(self, func: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
            options = dict(kwargs or {})
            if func == device_of:
                return cuda if on_cuda(args[0]) else func(*args)
            if func == is_cuda_of:
                return on_cuda(args[0])
            if func is device_index:
                return 0 if on_cuda(args[0]) else -1
            if func in moves:
                return moved(func, args[0], args[1:], options)
            if func == data_of:
                setattr(args[0], FLAG, on_cuda(args[1]))
                return func(*args)
            if func is tensor.pin_memory:
                return args[0]
            options.pop("pin_memory", None)
            given = options.get("device")
            if given is not None and names_cuda(given):
                options["device"] = cpu
            if func is attention:  # a script may have chosen among the kernels that only a GPU has
                with sdpa_kernel(SDPBackend.MATH):
                    result = func(*args, **options)
            elif func in norms and args[0].dtype in (torch.float16, torch.bfloat16):
                result = in_f32(func, args, options)
            elif func in (torch.mm, torch.bmm) and (len(args) > 2 or options.get("out_dtype") is not None):
                # products of narrow operands with a wider result exist for CUDA only
                kind = args[2] if len(args) > 2 else options.pop("out_dtype")
                result = func(args[0].to(kind), args[1].to(kind), **options)
            else:
                result = func(*args, **options)
            if names_cuda(given) if given is not None else any_on_cuda((*args, *options.values())):
                mark(result)
            return result

    def enter_in_threads() -> None:
        run = threading.Thread.run

        @functools.wraps(run)
        def run_with_mode(thread: threading.Thread) -> None:
            with OnCpu():
                run(thread)

        threading.Thread.run = run_with_mode  # type: ignore[method-assign,assignment]

    replace_module(torch, settings, cpu, mark)
    enter_in_threads()
    OnCpu().__enter__()


def replace_module(torch: Any, settings: Settings, cpu: Any, mark: Callable[[Any], Any]) -> None:
    """The functions of `torch.cuda`, and the places that hold a device before a tensor exists."""
    stream = Stream()
    properties = types.SimpleNamespace(
        name=NAME, major=settings.capability[0], minor=settings.capability[1], total_memory=TOTAL_MEMORY_BYTES,
        multi_processor_count=MULTIPROCESSORS, warp_size=32, L2_cache_size=32 << 20,
        max_threads_per_multi_processor=2048, shared_memory_per_block=48 << 10, shared_memory_per_block_optin=227 << 10,
    )  # fmt: skip
    answers = {
        "is_available": True, "is_initialized": True, "device_count": 1, "current_device": 0,
        "current_stream": stream, "default_stream": stream, "get_device_name": NAME,
        "get_device_capability": settings.capability, "get_device_properties": properties,
        "is_bf16_supported": True, "is_current_stream_capturing": False, "memory_allocated": 0,
        "max_memory_allocated": 0, "memory_reserved": 0, "max_memory_reserved": 0,
        "mem_get_info": (TOTAL_MEMORY_BYTES, TOTAL_MEMORY_BYTES),
        **dict.fromkeys(("init", "set_device", "set_stream", "synchronize", "empty_cache", "ipc_collect",
                         "reset_peak_memory_stats", "reset_max_memory_allocated")),
    }  # fmt: skip
    for name, answer in answers.items():
        setattr(torch.cuda, name, lambda *_args, _answer=answer, **_options: _answer)
    torch.cuda.Stream, torch.cuda.Event = Stream, Event
    torch.cuda.stream = lambda _stream: contextlib.nullcontext()
    torch.cuda.device = lambda _device: contextlib.nullcontext()
    # torch.manual_seed calls these, too
    torch.cuda.manual_seed = torch.cuda.manual_seed_all = torch.default_generator.manual_seed
    nvtx = getattr(torch.cuda, "nvtx", None)
    for name in ("range_push", "range_pop", "mark"):
        if nvtx is not None:
            setattr(nvtx, name, lambda *_args: None)

    from torch.utils import _device

    context = _device.DeviceContext  # of `with torch.device(...)` and of set_default_device
    begin, answer = context.__init__, context.__torch_function__

    def on_cpu(self: Any, device: Any) -> None:
        self.believed_cuda = names_cuda(device)
        begin(self, cpu if self.believed_cuda else device)

    def construct(self: Any, func: Any, kinds: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = answer(self, func, kinds, args, kwargs)
        if (
            self.believed_cuda
            and (kwargs or {}).get("device") is None
            and func in _device._device_constructors()
        ):
            mark(result)
        return result

    context.__init__, context.__torch_function__ = on_cpu, construct
    generator = torch.Generator

    class Generator(generator):  # type: ignore[misc,valid-type]
        def __new__(cls, device: Any = None) -> Any:
            return generator(cpu if device is None or names_cuda(device) else device)

    torch.Generator = Generator
