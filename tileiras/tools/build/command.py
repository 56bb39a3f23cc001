"""What every verb shares: reading its flags, signals, the end of a failed run, the exit code."""

from __future__ import annotations

import errno
import os
import stat

from tileiras import signals
from tileiras.diag import OUT_OF_MEMORY, UNREADABLE, Catalogue, CompileError, Diag, Refusal
from tileiras.files import is_of_system
from tileiras.outputs import UNWRITABLE, OutputError
from tileiras.terminal import refuse, show_all
from tileiras.tools.build.arguments import MANY, ONE, UsageError, help_text, parse
from tileiras.tools.build.depfile import UnwritableDepfile
from tileiras.tools.build.outputs import Outputs, is_special

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

    from tileiras.tools.build.arguments import Arguments, Flag

common = Catalogue("tileiras.tools.diags")
diags = Catalogue("tileiras.tools.build.diags")

_OUTPUT_FLAGS = (
    "-o",
    "--depfile",
    "--header-out",
    "--kernels-json",
    "--ptx",
    "--remarks-output",
    "--report",
    "--source-out",
    "--stamp",
    "--tilebc",
)


class Failed(Refusal):
    """A verb stops. `of_line`: the command line alone is wrong, which costs no earlier output."""

    def __init__(
        self, diag: Diag | None, exit_code: int | None = None, of_line: bool = False, **facts: object
    ) -> None:
        super().__init__(diag, exit_code, **facts)
        self.of_line = of_line


def run_verb(verb: str, words: Sequence[str]) -> int:
    """Parses, runs, cleans up; returns the exit code, or ends by the signal that ended us."""
    module = __import__(f"tileiras.tools.build.{verb}_verb", fromlist=["run"])
    if "-h" in words or "--help" in words:
        print(help_text(verb, module.SYNOPSIS, module.FLAGS))
        return 0
    outputs = Outputs()
    return signals.obey(lambda: _answered(verb, words, module, outputs), outputs.discard)


def _answered(verb: str, words: Sequence[str], module: ModuleType, outputs: Outputs) -> int:
    try:
        arguments = parse(module.FLAGS, words)
        _check_outputs(verb, module.FLAGS, arguments)
        if verb != "json":  # which prints text
            _to_standard_output(module.FLAGS, arguments)
        module.run(arguments, outputs)
        return 0
    except KeyboardInterrupt:
        outputs.discard()
        return signals.die_of(2)
    except UsageError as error:
        outputs.discard(promised=False)
        return refuse(error, f"tileiras-build {verb}")
    except Failed as error:
        outputs.discard(promised=not error.of_line)
        return refuse(error)
    except CompileError as error:
        outputs.discard()
        return show_all(error)
    except (OutputError, UnwritableDepfile) as error:
        outputs.discard()  # of what was promised by then
        return refuse(error)
    except OSError as error:
        filename = outputs.in_users_words(error.filename) if isinstance(error.filename, str) else ""
        outputs.discard()
        return refuse(of_system(error, filename))
    except MemoryError:
        outputs.discard()
        return refuse(UsageError(OUT_OF_MEMORY))
    except Exception:
        # A bug of ours: everything that helps to report it, no outputs, and the code of a failed compilation.
        outputs.discard()
        import traceback

        traceback.print_exc()
        return refuse(Failed(diags.INTERNAL, verb=verb))
    except BaseException:
        outputs.discard()
        raise


def _check_outputs(verb: str, flags: Sequence[Flag], arguments: Arguments) -> None:
    """Errors: UsageError where an output is also an input or another output: the clean-up after a failure would remove the
    user's source; OutputError for an output that is a folder.

    A verb promises its outputs once it has read its inputs and checked its options; until then a failure leaves everything
    as it was.
    """
    named: list[str] = []
    others = (
        [] if verb == "kernels" else list(arguments.inputs)
    )  # of which only each third is a file: it looks itself
    for flag in flags:
        value = getattr(arguments, flag.key)
        if flag.name in _OUTPUT_FLAGS and flag.kind == ONE:
            named += [value] if value else []
        elif flag.metavar in ("FILE", "ARCH=FILE") and value:
            words = value if flag.kind == MANY else [value]
            others += [word.partition("=")[2] if flag.metavar == "ARCH=FILE" else word for word in words]
    files = [path for path in named if path != "-" and not is_special(path)]
    for index, path in enumerate(files):
        if any(_is_same_file(path, other) for other in files[:index]):
            raise UsageError(diags.TWO_OUTPUTS, path=path)
        if any(_is_same_file(path, other) for other in others):
            raise UsageError(diags.INPUT_IS_OUTPUT, path=path)
    for path in files:
        if os.path.isdir(path):
            raise OutputError(UNWRITABLE, path=path, why=os.strerror(errno.EISDIR))


def _to_standard_output(flags: Sequence[Flag], arguments: Arguments) -> None:
    """`-` in the place of an output is what `tileiras` takes it for."""
    for flag in flags:
        if flag.name in _OUTPUT_FLAGS and getattr(arguments, flag.key) == "-":
            setattr(arguments, flag.key, "/dev/stdout")


def _is_same_file(path: str, other: str) -> bool:
    if not other or other.startswith("-"):
        return False
    try:
        return os.path.samefile(path, other)
    except OSError:  # one of them does not exist yet
        return os.path.abspath(path) == os.path.abspath(other)


def say(text: str) -> None:
    """One message to the user."""
    from tileiras.terminal import complain

    complain(text)


def of_system(error: OSError, filename: object) -> Refusal:
    """What the operating system refused, and for which file."""
    place = f": '{filename}'" if filename else ""
    code = 1 if isinstance(error, FileNotFoundError) else None
    return Refusal(common.OS_ERROR, code, why=error.strerror or error, place=place)


def read_input(path: str, again: bool = False) -> bytes:
    """The bytes of `path`; `again`: of a source that a later build reads, too. Errors: Failed(1) in the assembler's words."""
    try:
        if again and not is_of_system(path) and stat.S_ISFIFO(os.stat(path).st_mode):
            raise OSError(errno.EINVAL, "it is a pipe, which nobody can read again")
        with open(path, "rb") as file:
            data = file.read()
    except OSError as error:
        raise Failed(UNREADABLE, path=path, why=error.strerror) from error
    from tileiras.terminal import remember

    remember(path, data)  # messages show its lines
    return data
