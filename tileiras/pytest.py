"""A pytest plugin: tests of cuTile kernels on a machine without a GPU.

pytest -p tileiras.pytest --tileiras-target=cpu
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def pytest_addoption(parser: Any) -> None:
    from tileiras.run.cutile.settings import TARGETS

    group = parser.getgroup("tileiras", "cuTile kernels without a GPU")
    group.addoption("--tileiras-target", choices=TARGETS, help="run cuTile kernels there")
    group.addoption("--tileiras-gpu-name", default="", metavar="sm_NN", help="the GPU that the tests see")
    group.addoption("--tileiras-check", action="store_true", help="report undefined behaviour and races too")
    group.addoption("--tileiras-map-cuda", action="store_true", help="device='cuda' of PyTorch means the CPU")


def pytest_load_initial_conftests(early_config: Any) -> None:
    """Before any conftest, which may import cuda.tile."""
    import pytest

    from tileiras.run.cutile import BadSettings, Settings, activate

    given = early_config.known_args_namespace
    if given.tileiras_target is None:
        return
    try:
        activate(
            Settings(
                given.tileiras_target, given.tileiras_gpu_name, given.tileiras_check, given.tileiras_map_cuda
            )
        )
    except BadSettings as wrong:
        raise pytest.UsageError(f"--tileiras-target: {wrong}") from None


def pytest_report_header() -> str | None:
    import os

    target = os.environ.get("TILEIRAS_CUTILE")
    return f"cuTile kernels run on: {target}" if target else None
