"""Output files of a command: old ones go first, new ones appear whole or not at all.

`-` is standard output. Devices, pipes and what lies under /dev and /proc are written into, never replaced: /dev/stdout
names a regular file when the shell redirects it. A symbolic link stays; the file behind it is the output.
"""

from __future__ import annotations

import os

from tileiras.diag import ERROR, EXIT_CONFIGURATION, WORD_CONFIG, Diag, Refusal
from tileiras.files import PLANTED, is_of_system, is_planted, remove_quietly, temporary_sibling, write_new

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


UNWRITABLE = Diag(
    "DRV-0209", ERROR, "unable to write output file '{path}': {why}", "own", WORD_CONFIG, exit_code=EXIT_CONFIGURATION
)  # fmt: skip
"""
cause: An output file cannot be written, for the reason named.
remedy: Check that its folder exists, is writable, and has space left.

- $ tileiras k.tileir --emit=ptx --gpu-name=sm_90 -o no/such/folder/k.ptx
+ $ tileiras k.tileir --emit=ptx --gpu-name=sm_90 -o k.ptx
  cuda_tile.module @m { entry @k() { return } }
"""

NAMED_TWICE = Diag(
    "DRV-0213", ERROR, "output file '{path}' is named twice", "own", WORD_CONFIG, exit_code=EXIT_CONFIGURATION
)
"""
cause: Two options name one file, and the later output would replace the earlier.
remedy: Give each output a name of its own.

- $ tileiras k.tileir --gpu-name=sm_90 --emit=ptx -o k.out --report=k.html --depfile=k.out
+ $ tileiras k.tileir --gpu-name=sm_90 --emit=ptx -o k.out --report=k.html --depfile=k.d
  cuda_tile.module @m { entry @k() { return } }
"""


class OutputError(Refusal):
    """An output cannot be written: it names the file and the reason (exit code 2)."""


def is_stream(path: str) -> bool:
    """Whether an output is written into where it is: standard output, a device, a pipe."""
    if path == "-" or is_of_system(path):
        return True
    return os.path.exists(path) and not os.path.isfile(path)


def _real(path: str) -> str:
    """The file behind links; a relative name as it is in a folder that was removed."""
    try:
        return os.path.realpath(path)
    except (OSError, ValueError):
        return path


def _stat(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except (OSError, ValueError):
        return None


class Outputs:
    """Files that one run will write."""

    def __init__(self, paths: Sequence[str]) -> None:
        self.paths = list(paths)
        self._staged: list[tuple[str, str, str]] = []  # (temporary, final, as the user spelled it)
        self._streams: list[tuple[str, bytes]] = []

    def unlink_old(self, *sources: str, keep: bool = False) -> None:
        """Remove earlier outputs, so that a failure leaves no stale one. Streams stay, and the inputs do.

        `keep`: the names are looked at, and the files stay.

        Errors: OutputError for the first name that cannot be an output's, when nothing has been touched, or for a file that
        cannot be removed, when the others have been.
        """
        seen = set()
        problem: OutputError | None = None
        old_ones: list[tuple[str, str]] = []
        inputs = [found for found in map(_stat, sources) if found is not None]
        for path in self.paths:
            why = ""
            if is_stream(path) and not is_planted(path):
                continue
            real = _real(path)
            old = _stat(real)
            if not path or path.endswith(os.sep):
                why = "it has no name" if not path else "Is a directory"
            elif is_planted(path):
                why = PLANTED
            elif old is not None and any(os.path.samestat(old, source) for source in inputs):
                why = "it is the input file"
            elif old is not None:
                old_ones.append((path, real))
            if why:
                problem = problem or OutputError(UNWRITABLE, path=path, why=why)
            elif real in seen:
                problem = problem or OutputError(NAMED_TWICE, path=path)
            seen.add(real)
        if problem is not None:
            raise problem
        for path, real in () if keep else old_ones:
            try:
                os.unlink(real)
            except OSError as error:
                problem = problem or OutputError(UNWRITABLE, path=path, why=error.strerror or error)
        if problem is not None:
            raise problem

    def write(self, path: str, data: bytes) -> None:
        """Stage one output."""
        if is_planted(path):
            raise OutputError(UNWRITABLE, path=path, why=PLANTED)
        if is_stream(path):
            self._streams.append((path, data))
            return
        real = _real(path)
        temporary = temporary_sibling(real)
        self._staged.append((temporary, real, path))
        try:
            write_new(temporary, data)
        except (OSError, ValueError) as error:
            self._staged.pop()
            why = getattr(error, "strerror", None) or str(error)
            raise OutputError(UNWRITABLE, path=path, why=why) from None

    def commit(self) -> None:
        """Rename everything staged; when one rename fails, none of the outputs remains."""
        done = []
        place = ""
        try:
            for temporary, real, path in self._staged:
                place = path
                done.append(real)
                os.replace(temporary, real)
            for path, data in self._streams:
                place = path
                # Appending: what the shell redirects with >> keeps what it had.
                descriptor = os.dup(1) if path == "-" else os.open(path, os.O_WRONLY | os.O_APPEND)
                with open(descriptor, "wb") as handle:
                    handle.write(data)
        except BaseException as error:  # a signal, too, finds all of them or none
            for finished in done:
                remove_quietly(finished)
            if isinstance(error, OSError):
                raise OutputError(UNWRITABLE, path=place, why=error.strerror) from None
            raise
        self._staged = []

    def discard(self) -> None:
        for temporary, _, _ in self._staged:
            remove_quietly(temporary)
        self._staged = []
