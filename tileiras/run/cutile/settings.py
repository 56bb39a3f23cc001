"""What a cuTile script is to run on: the words of the command, of the environment and of pytest's options."""

from __future__ import annotations

import importlib.util

from tileiras.diag import Catalogue, Refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

diags = Catalogue("tileiras.run.cutile.diags")

TARGETS = ("cpu", "reference", "emulator")
DEFAULT_TARGET = "cpu"
VARIABLE = "TILEIRAS_CUTILE"
# cuTile allows an element type by the GPU: where no GPU is imitated, the most permissive one is the default.
DEFAULT_GPU = {"emulator": "sm_90"}
PERMISSIVE_GPU = "sm_100"


class BadSettings(Refusal, ValueError):
    """A setting is wrong; the text says which, and what is possible."""


class Settings:
    """target, gpu_name, whether launches are checked and scripts see their GPU on the CPU, and a seed of the order."""

    __slots__ = ("check", "gpu_name", "images", "map_cuda", "number", "seed", "target")

    def __init__(
        self, target: str = "", gpu_name: str = "", check: bool = False, map_cuda: bool = False
    ) -> None:
        target = target or DEFAULT_TARGET
        if target not in TARGETS:
            raise BadSettings(diags.TARGET, target=target, known=", ".join(TARGETS[:-1]), last=TARGETS[-1])
        if target == "cpu" and importlib.util.find_spec("llvmlite") is None:
            raise BadSettings(diags.CPU_NEEDS_LLVMLITE)
        self.target, self.check, self.map_cuda = target, check, map_cuda
        self.seed: int | None = None
        self.images: list[Any] | None = None  # all that are made, where a report of them is wanted
        self.gpu_name = gpu_name or DEFAULT_GPU.get(target, PERMISSIVE_GPU)
        from tileiras.compiler.target import sm

        found = sm.find(self.gpu_name)
        if found is None:
            raise BadSettings(diags.GPU_NAME, gpu=self.gpu_name)
        self.number: int = found.number

    @property
    def capability(self) -> tuple[int, int]:
        return self.number // 10, self.number % 10

    def spelled(self, gpu_name: str) -> str:
        """The GPU that cuTile names by the capability of the device, with the suffix that was chosen for it."""
        return self.gpu_name if gpu_name == f"sm_{self.number}" else gpu_name

    def as_variable(self) -> str:
        """The value of TILEIRAS_CUTILE that says the same to a child process."""
        words = [self.target, self.gpu_name]
        return ":".join(words + ["check"] * self.check + ["map-cuda"] * self.map_cuda)


def parse_variable(text: str) -> Settings:
    """Settings of TARGET[:sm_NN][:check][:map-cuda]. Errors: BadSettings."""
    target, *words = text.strip().split(":")
    gpu_name = ""
    for word in words:
        if word.startswith("sm_") and not gpu_name:
            gpu_name = word
        elif word not in ("check", "map-cuda"):
            raise BadSettings(diags.SETTING, word=word)
    return Settings(target, gpu_name, "check" in words, "map-cuda" in words)
