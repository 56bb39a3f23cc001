"""The entries of a module by name."""

from __future__ import annotations

from tileiras.diag import ERROR, EXIT_USAGE, Diag, Emitted, shortened

from .errors import LaunchError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tileiras.compiler.ir.core import Op

NO_ENTRY = Diag(
    "RUN-0009", ERROR, "no entry named '{name}'; the module has: {names}", "reference interpreter"
)
"""
see: RUN-0301

in: script
- tileiras.launch(kernel, "add", 1, [])
+ tileiras.launch(kernel, "k", 1, [])
"""


def find_entry(module: Op, name: str) -> Op:
    """The entry of that name; LaunchError (exit code 1) names those that exist."""
    entries = entries_of(module)
    if name not in entries:
        names = ", ".join(entries) or "none"
        raise LaunchError(
            [Emitted(NO_ENTRY, None, None, [("name", shortened(name)), ("names", names)])], EXIT_USAGE
        )
    return entries[name]


def entries_of(module: Op) -> dict[str, Op]:
    """Name -> entry op, in order."""
    if not module.regions or not module.regions[0].blocks:
        return {}
    return {op.attr("sym_name"): op for op in module.regions[0].block.ops if op.spec.name == "entry"}
