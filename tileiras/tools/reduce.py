"""``tileiras-reduce``: a kernel made as small as it can be while a command still finds it interesting.

    tileiras-reduce k.tilebc -- ./check.sh {}
    tileiras-reduce k.tileir --jobs 4 --timeout 20 -- sh -c 'tileiras {} -o /dev/null --gpu-name sm_90 2>&1 | grep spill'

The command runs once for each candidate, `{}` standing for its file: bytecode that the verifier accepts. Exit code 0
says that the candidate is interesting still. The smallest one so far lies in ``k.reduced.tilebc``, its text beside it.
"""

from __future__ import annotations

import os
import sys

from tileiras.diag import OUT_OF_MEMORY, Catalogue, Refusal, UsageError
from tileiras.tools import shrink

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from tileiras.compiler.ir.core import Op

diags = Catalogue("tileiras.tools.diags")

NAME = "tileiras-reduce"
USAGE = """\
usage: tileiras-reduce INPUT [options] -- COMMAND... {}

  INPUT               bytecode or text
  COMMAND             what to ask: {} stands for the file of a candidate (bytecode). Exit code 0: still interesting
  -o, --output FILE   what to write (default: INPUT with .reduced.tilebc for its ending); its text goes beside it, .tileir
  -j, --jobs N        candidates to try at the same time (default: 1)
  --timeout SECONDS   a run that takes longer is not interesting, and is ended (default: 60)
  --quiet             do not tell of progress
  --color[=WHEN]      colour in messages: auto, always, never
  --diagnostic-codes  name the code of an error in a last note; a terminal always has it
  --version           print the version of this program
  --help              print this text

The command runs in this folder; with --jobs above 1 it must not write to files of fixed names. An interrupt keeps the
smallest candidate so far. Exit codes: 0 reduced, 1 usage or an input that is not interesting, 2 output, 3 bytecode, 5 text."""


_written: list[str] = []  # what an interrupt leaves behind


class Arguments:
    """What the command line says."""

    __slots__ = ("command", "input", "jobs", "output", "quiet", "timeout")

    def __init__(self) -> None:
        self.input = ""
        self.output = ""
        self.jobs = 1
        self.timeout = 60.0
        self.quiet = False
        self.command: list[str] = []


def parse_arguments(argv: Sequence[str]) -> Arguments | None:
    """The arguments, or None when the command only prints something."""
    found = Arguments()
    words, command = list(argv), []
    if "--" in words:
        at = words.index("--")
        words, command = words[:at], words[at + 1 :]
    items = iter(words)
    for word in items:
        name, equals, value = word.partition("=")
        if name in ("-h", "--help"):
            sys.stdout.write(USAGE + "\n")
            return None
        if name == "--version":
            from tileiras.version import __version__

            sys.stdout.write(f"{NAME} {__version__}\n")
            return None
        if name == "--quiet":
            found.quiet = True
        elif name in ("-o", "--output", "-j", "--jobs", "--timeout"):
            value = value if equals else next(items, "")
            if not value:
                raise UsageError(diags.NEEDS_VALUE, option=name)
            _take(found, name.lstrip("-")[0], name, value)
        elif word.startswith("-"):
            raise diags.unknown_option(word, USAGE)
        elif found.input:
            raise UsageError(diags.MORE_INPUTS, first=found.input, second=word)
        else:
            found.input = word
    if not found.input:
        raise UsageError(diags.RED_NO_INPUT)
    if not command:
        raise UsageError(diags.RED_NO_COMMAND)
    if not any("{}" in word for word in command):
        raise UsageError(diags.RED_NO_PLACE)
    found.command = command
    base = os.path.splitext(found.input)[0]
    found.output = found.output or base + ".reduced.tilebc"
    return found


def _take(found: Arguments, letter: str, name: str, value: str) -> None:
    if letter == "o":
        found.output = value
        return
    try:
        number = float(value) if letter == "t" else int(value)
    except ValueError:
        number = 0
    if not 0 < number < 1e6:
        raise UsageError(diags.RED_POSITIVE, option=name, value=value)
    if letter == "t":
        found.timeout = float(number)
    else:
        found.jobs = int(number)


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code: 0, 1 (usage, input, not interesting), 2 (output), 3 (bytecode), 5 (text, verifier)."""
    from tileiras.terminal import until_broken_pipe

    return until_broken_pipe(_main, argv)


def _main(argv: Sequence[str] | None) -> int:
    from tileiras import signals

    return signals.obey(lambda: _answered(argv), _tell_best)


def _tell_best() -> None:
    """For whoever interrupts: the smallest so far was written when it was found."""
    if _written:
        from tileiras.diag import say

        say(f"{NAME}: interrupted; the smallest so far: {_written[-1]}\n")


def _answered(argv: Sequence[str] | None) -> int:
    from tileiras.terminal import refuse, take_words

    try:
        arguments = parse_arguments(take_words(sys.argv[1:] if argv is None else argv, NAME))
        return 0 if arguments is None else run(arguments)
    except UsageError as error:
        return refuse(error, NAME, f"\n{USAGE}")
    except Refusal as error:
        return refuse(error, NAME)
    except MemoryError:
        return refuse(UsageError(OUT_OF_MEMORY), NAME)


def run(arguments: Arguments) -> int:
    from tileiras import terminal
    from tileiras.compiler.ir.verify import verify_or_fail
    from tileiras.compiler.source import load, to_bytecode
    from tileiras.diag import CompileError, Sink, say
    from tileiras.tools.candidates import Judge

    sink = Sink(terminal.show)
    try:
        with open(arguments.input, "rb") as file:
            terminal.remember(arguments.input, file.read())
    except (OSError, ValueError):
        pass  # load() says it
    try:
        module = load(os.fspath(arguments.input), sink)
        verify_or_fail(module, sink)
        start = to_bytecode(module, None, sink)
    except CompileError as error:
        terminal.advise(sink.emitted)
        return error.exit_code
    outputs = [arguments.output, os.path.splitext(arguments.output)[0] + ".tileir"]
    if os.path.realpath(arguments.input) in map(os.path.realpath, outputs):
        raise UsageError(diags.RED_OVERWRITTEN, path=arguments.input)
    with Judge(arguments.command, arguments.timeout, arguments.jobs) as judge:
        if judge.first([start]) is None:
            raise Refusal(diags.RED_NOT_INTERESTING, path=arguments.input, what=judge.said)
        reducer = Reducer(start, judge, outputs, arguments.quiet)
        reducer.write()
        reducer.reduce()
    before, after = shrink.measure(module), shrink.measure(_read(reducer.best))
    say(f"{NAME}: {before[1]} ops to {after[1]}, {judge.runs} runs: {arguments.output}\n")
    return 0


class Reducer:
    """Searches for smaller modules: delta debugging over the sites of each edit, until no edit helps."""

    def __init__(self, start: bytes, judge: Any, outputs: list[str], quiet: bool) -> None:
        self.best = start
        self.judge = judge
        self.outputs = outputs
        self.quiet = quiet
        self.size = shrink.measure(_read(start))
        self.refused: set[bytes] = {start}  # what need not be tried again

    def reduce(self) -> None:
        while True:
            before = self.best
            for edit in shrink.EDITS:
                self.shrink_by(edit)
            if self.best == before:
                return

    def shrink_by(self, edit: shrink.Edit) -> None:
        """Takes away sites of one edit: all of them, then halves, quarters, at last one at a time."""
        count = len(edit[1](_read(self.best)))
        chunk = 1 if edit[0] in shrink.ALTERNATIVES else max(count, 1)
        while count:
            start = 0
            while start < count:
                batch = [range(at, min(at + chunk, count)) for at in range(start, count, chunk)]
                taken = self.try_all(edit, batch)
                if taken is None:
                    break
                # The sites behind the chunk have moved to its place, most often.
                start = batch[taken].start
                count = len(edit[1](_read(self.best)))
            if chunk == 1:
                return
            chunk = max(1, min(chunk, count) // 2)

    def try_all(self, edit: shrink.Edit, choices: Sequence[range]) -> int | None:
        """The number of the first choice that stays interesting, which is the best from now on."""
        waiting: list[tuple[int, bytes, Any]] = []
        for number, sites in enumerate(choices):
            candidate = self.make(edit, sites)
            if candidate is not None:
                waiting.append((number, *candidate))
            if len(waiting) == self.judge.jobs or (waiting and number == len(choices) - 1):
                found = self.judge.first([data for _, data, _ in waiting])
                if found is not None:
                    number, self.best, self.size = waiting[found]
                    self.write()
                    if not self.quiet:
                        from tileiras.diag import say

                        say(f"{NAME}: {self.size[1]} ops ({edit[0]}, run {self.judge.runs})\n")
                    return number
                self.refused.update(data for _, data, _ in waiting)
                waiting = []
        return None

    def make(self, edit: shrink.Edit, sites: range) -> tuple[bytes, Any] | None:
        """A candidate and its size; None where the edit gives nothing valid, smaller and new."""
        from tileiras.compiler.ir.verify import verify
        from tileiras.compiler.source import to_bytecode
        from tileiras.diag import CompileError, Sink

        module = _read(self.best)
        shrink.apply(edit, module, sites)
        size = shrink.measure(module)
        sink = Sink()
        if size >= self.size or not verify(module, sink):
            return None
        try:
            data = to_bytecode(module, None, sink)
            _read(data)
        except CompileError:
            return None
        return None if data in self.refused else (data, size)

    def write(self) -> None:
        """Puts the best so far, and its text, where the user wants them. Errors: OutputError."""
        from tileiras.compiler.source import to_text
        from tileiras.outputs import Outputs
        from tileiras.signals import held

        text = to_text(_read(self.best)).encode("utf-8", "surrogateescape")
        files = Outputs(self.outputs)
        with held():  # an interrupted commit takes all outputs away, the best so far among them
            try:
                files.write(self.outputs[0], self.best)
                files.write(self.outputs[1], text)
                files.commit()
                _written[:] = [self.outputs[0]]
            except BaseException:
                files.discard()
                raise


def _read(data: bytes) -> Op:
    """The module of a candidate. Errors: CompileError."""
    from tileiras.compiler.bytecode.reader import read
    from tileiras.diag import Sink

    return read(data, Sink(), file="")


if __name__ == "__main__":
    sys.exit(main())
