"""The error of a launch: like a compile error, it carries diagnostics; its exit code is that of the stage.

A launch that the machine would trap (an access outside of memory, a misaligned one, a failed assertion, a
deadlock) or that `check=True` finds fault with raises `LaunchError` with exit code 5; arguments that do not
fit the entry raise it with exit code 1. `diagnostics` has one entry per finding.
"""

from __future__ import annotations

from tileiras.diag import EXIT_COMPILE, CompileError, Emitted


class LaunchError(CompileError):
    """A launch failed. `exit_code` and `diagnostics` as in `CompileError`."""

    def __init__(self, diagnostics: list[Emitted], exit_code: int = EXIT_COMPILE) -> None:
        super().__init__(exit_code, diagnostics)
