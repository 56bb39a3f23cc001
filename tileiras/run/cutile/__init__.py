"""cuTile Python scripts without a GPU: `ct.launch` runs on this machine.

`activate` takes effect when `cuda.tile` is imported; a process that never does pays nothing. `tileiras-cutile`, the
variable TILEIRAS_CUTILE and the pytest plugin all come here.
"""

from __future__ import annotations

import ctypes
import importlib.abc
import importlib.util
import os
import sys
import types

from tileiras.diag import Catalogue

from .settings import VARIABLE, BadSettings, Settings, parse_variable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

diags = Catalogue("tileiras.run.cutile.diags")

__all__ = ["BadSettings", "Settings", "activate", "activate_from_environment", "parse_variable"]

LOADER = "cuda.tile._load_libcuda"  # what cuTile asks for the driver's first function
_active: Settings | None = None


class AfterImport(importlib.abc.MetaPathFinder):
    """Calls a function once with a module that was just imported."""

    def __init__(
        self, name: str, then: Callable[[Any], None], before: Callable[[], None] | None = None
    ) -> None:
        self.name, self.then, self.before = name, then, before

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != self.name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def exec_module(module: Any) -> None:
            if self.before is not None:
                self.before()
            execute(module)
            self.then(module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def when_imported(name: str, then: Callable[[Any], None], before: Callable[[], None] | None = None) -> None:
    """Call `then` with the module `name`: now if it is there, else when it comes."""
    if name in sys.modules:
        then(sys.modules[name])
    else:
        sys.meta_path.insert(0, AfterImport(name, then, before))


def activate(settings: Settings) -> None:
    """Let this process, and the Python processes that it starts, run cuTile kernels on the target.

    Errors: BadSettings when cuTile is loaded already, with the driver that it found.
    """
    global _active
    if LOADER in sys.modules:
        raise BadSettings(diags.IMPORTED_EARLY)
    if _active is None:
        when_imported("cuda.tile", _install, _put_driver)
        when_imported("torch", _map_cuda)
    _active = settings
    os.environ[VARIABLE] = settings.as_variable()


def deactivate() -> None:
    """Leave cuTile to the machine's own driver, whatever the environment asked for."""
    global _active
    if _active is not None and LOADER in sys.modules:
        raise BadSettings(diags.IMPORTED_EARLY)
    _active = None
    os.environ.pop(VARIABLE, None)


def _put_driver() -> None:
    """The stand-in where cuTile looks for the driver, before it looks."""
    if _active is None:
        return
    from .hooks import Session

    session = Session(_active)
    loader = types.ModuleType(LOADER)
    loader.cuGetProcAddress_v2_ptrptr = session.driver.get_proc_address_cell  # type: ignore[attr-defined]
    # a function of its own: who calls it from Python sets its types
    loader._cuGetProcAddress_v2 = ctypes.CFUNCTYPE(ctypes.c_int)(session.driver.get_proc_address_of)  # type: ignore[attr-defined]
    loader.session = session  # type: ignore[attr-defined]
    sys.modules[LOADER] = loader


def _install(tile: Any) -> None:
    session = getattr(sys.modules.get(LOADER), "session", None)
    if session is not None:
        session.install(tile)
        when_imported("cuda.tile.tune._tune", session.install_tuning)


def _map_cuda(torch: Any) -> None:
    if _active is not None and _active.map_cuda:
        from .torch_cuda import map_cuda

        map_cuda(torch, _active)


def activate_from_environment() -> None:
    """What the environment asks for. A wrong value is an error where cuTile is imported: no kernel runs elsewhere."""
    text = os.environ.get(VARIABLE, "").strip()
    if not text:
        return
    try:
        activate(parse_variable(text))
    except BadSettings as wrong:
        why = f"{VARIABLE}={text}: {wrong}"

        def refuse() -> None:
            raise ImportError(why)

        when_imported("cuda.tile", lambda _tile: None, refuse)
