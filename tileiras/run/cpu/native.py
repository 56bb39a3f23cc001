"""From LLVM IR to code in this process, through llvmlite; objects are cached by content."""

from __future__ import annotations

import ctypes
import os
import threading

from tileiras.diag import ERROR, EXIT_CONFIGURATION, Diag, Emitted
from tileiras.run.errors import LaunchError
from tileiras.toolchain.cache import key_of, open_cache

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

NO_LLVM = Diag("RUN-0501", ERROR, "target 'cpu' needs llvmlite: pip install 'tileiras[cpu]' ({why})", "cpu")
"""
see: RUN-0520

! llvmlite is not installed: it depends on the installation.
"""

NO_TARGET = Diag("RUN-0502", ERROR, "LLVM has no code generator for this machine: {why}", "cpu")
"""
see: RUN-0520

! llvmlite was built without a code generator for this processor: it depends on the installation.
"""

OUR_BUG = Diag("RUN-0503", ERROR, "LLVM refuses the code that was made for this kernel: {why}", "cpu")
"""
see: DRV-0505

! LLVM refuses the code that was made: a defect. Whoever knows a kernel for it knows a bug, which is mended.
"""

LOCK = threading.RLock()  # LLVM's parser and optimiser share one context
if hasattr(os, "register_at_fork"):  # a child has no other threads: what they hold would never be released
    os.register_at_fork(before=LOCK.acquire, after_in_parent=LOCK.release, after_in_child=LOCK.release)


class Host:
    """The CPU that code is made for."""

    __slots__ = ("cpu", "features", "flags", "machine", "triple", "vector_bytes")

    def __init__(self, llvm: Any, cpu: str, features: str, triple: str) -> None:
        self.cpu, self.features, self.triple = cpu, features, triple
        have = {f[1:] for f in features.split(",") if f.startswith("+")}
        flags = set()
        arm = triple.startswith(("aarch64", "arm64"))
        if "f16c" in have or arm:
            flags.add("f16c")
        if "fma" in have or arm:
            flags.add("fma")
        if triple.startswith(("x86_64", "amd64")):
            flags.add("stream")
        if "avx2" in have:
            flags |= {"gather", "mask32"}
        if "avx512f" in have:
            flags |= {"scatter", "scalef"}
        if "avx512bw" in have:
            flags |= {"mask8"}
        self.flags = frozenset(flags)
        self.vector_bytes = 64 if "avx512f" in have else 32 if "avx2" in have else 16
        options = {"cpu": cpu, "features": features, "opt": 2, "reloc": "pic", "codemodel": "jitdefault"}
        self.machine = llvm.Target.from_triple(triple).create_target_machine(**options)


_host: list[Any] = []


def library() -> Any:
    """llvmlite.binding; LaunchError with the way out when it is missing."""
    try:
        import llvmlite.binding as llvm
    except ImportError as missing:
        raise LaunchError([Emitted(NO_LLVM, None, None, [("why", missing)])], EXIT_CONFIGURATION) from None
    return llvm


def host() -> tuple[Any, Host]:
    """(llvmlite.binding, this machine); LaunchError when there is no code for it."""
    if not _host:
        with LOCK:
            llvm = library()
            try:
                llvm.initialize_native_target()
                llvm.initialize_native_asmprinter()
                features = llvm.get_host_cpu_features().flatten()
                made = Host(llvm, llvm.get_host_cpu_name(), features, llvm.get_process_triple())
            except RuntimeError as problem:
                raise LaunchError(
                    [Emitted(NO_TARGET, None, None, [("why", problem)])], EXIT_CONFIGURATION
                ) from None
            if not _host:
                _host.append((llvm, made))
    return _host[0]  # type: ignore[no-any-return]


def optimise(llvm: Any, machine: Any, module: Any) -> None:
    """The passes that our code needs: locals to registers, common values, invariant code out of loops."""
    tuning = llvm.create_pipeline_tuning_options(speed_level=2)
    tuning.loop_vectorization = False
    tuning.slp_vectorization = False
    tuning.loop_unrolling = False
    tuning.loop_interleaving = False
    builder = llvm.create_pass_builder(machine, tuning)
    builder.getModulePassManager().run(module, builder)


def to_object(text: str) -> bytes:
    """The object file of a module's text for this machine."""
    llvm, machine = host()
    cache = open_cache()
    key = key_of(
        "cpu-object-1", text, machine.triple, machine.cpu, machine.features, str(llvm.llvm_version_info)
    )
    found = cache.get(key) if cache is not None else None
    if found is not None and "object" in found:
        return found["object"]
    with LOCK:
        try:
            module = llvm.parse_assembly(text)
            module.verify()
        except RuntimeError as problem:
            raise LaunchError([Emitted(OUR_BUG, None, None, [("why", str(problem).strip())])]) from None
        module.triple = machine.triple
        module.data_layout = str(machine.machine.target_data)
        optimise(llvm, machine.machine, module)
        data: bytes = machine.machine.emit_object(module)
    if cache is not None:
        cache.put(key, {"object": data})
    return data


class Loaded:
    """Native code in memory, freed with this object. `run(launch, arena, state, share)` takes blocks until none is left."""

    def __init__(self, data: bytes) -> None:
        llvm, machine = host()
        with LOCK:
            empty = llvm.parse_assembly("")
            options = {
                "cpu": machine.cpu,
                "features": machine.features,
                "opt": 2,
                "reloc": "pic",
                "codemodel": "jitdefault",
            }
            own = llvm.Target.from_triple(machine.triple).create_target_machine(**options)
            self.engine = llvm.create_mcjit_compiler(empty, own)
            self.object = llvm.ObjectFileRef.from_data(data)
            self.engine.add_object_file(self.object)
            self.engine.finalize_object()
            address = self.engine.get_function_address("tile_run")
        pointer = ctypes.c_void_p
        self.run = ctypes.CFUNCTYPE(None, pointer, pointer, pointer, ctypes.c_int64)(address)
