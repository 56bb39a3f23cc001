"""One compilation and what came of it: what the verb, both compilers and the record speak about."""

from __future__ import annotations

import os

from tileiras.options import disabled_parts
from tileiras.toolchain.arch import VIRTUAL, Arch
from tileiras.tools.build.arguments import Arguments


class Job:
    """One compilation after all defaults: what both compilers need to know."""

    def __init__(self, arguments: Arguments, arch: Arch, source: str, data: bytes) -> None:
        from tileiras.toolchain.locate import host, normalize_host_arch

        machine, system = host()
        self.arguments = arguments
        self.arch = arch
        self.source = source
        self.data = data
        self.compiler: str = arguments.compiler or os.environ.get("TILEIRAS_COMPILER") or "builtin"
        self.launch_abi: str = arguments.launch_abi or ("tile" if self.compiler == "nvidia" else "simt")
        self.tensor_maps: str = arguments.tensor_maps or "none"
        self.host_arch = normalize_host_arch(arguments.host_arch or machine)
        self.host_os: str = arguments.host_os or system
        self.opt_level: str = arguments.opt_level or ("0" if arguments.debug else "3")
        self.disable = disabled_parts(arguments.disable) if self.compiler == "builtin" else ()
        self.modules: list[str] = []  # of passes from outside
        self.wants_ptx = bool(arguments.ptx) or arch.kind == VIRTUAL

    @property
    def depends(self) -> list[str]:
        """The files that a change of makes another outcome, beside tools."""
        return [self.source, *self.arguments.depends, *self.modules]


class Result:
    """What a compiler made: parts by name (cubin, ptx, tilebc, remarks, table) and what it said."""

    def __init__(self, parts: dict[str, bytes], log: str, tools: dict[str, str]) -> None:
        self.parts = parts
        self.log = log
        self.tools = tools
