"""Passes and the manager that runs them: status word, results for later passes, verification between passes.

A pass has two ways to fail and a third that ends everything:

    miss            soft: says why, then sets bit 0x04 of its status word. The walk goes on, `run` returns True,
                    later passes read the word and skip or fall back.
    signal_failure  hard: the pass ends its walk, then the manager stops with failure (code 5).
    FatalError      the IR or an invariant is broken: nothing goes on (report_fatal_error).

The status word is the little-endian u32 at +40 of the pass's 48-byte record, whatever fields a pass has of its own.
Writes are ORs; only the manager clears it, before every run. What a run left is kept for each (function, pass).
"""

from __future__ import annotations

from _thread import get_ident

from tileiras.diag import ERROR, NOTE, WORD_ERROR, CompileError, Diag, Emitted, FatalError, Sink

from .analyses import Analyses

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

RECORD_BYTES = 48
STATUS_OFFSET = 40  # of the u32 status word in a pass's record
SOFT_FAILURE = 0x04  # bit 2; the other bits belong to the pass

AFTER_PASS = Diag("PM-0001", NOTE, "after the pass {name}", "verification between passes")
"""
cause: A pass failed, or left something that the verifier refuses; the messages beside this one say what.
remedy: Read the messages beside it; report the kernel, made small with `tileiras-reduce`, when they name no fault
of the input.

! The verifier refuses what a pass made: a defect of that pass, or a pass of one's own. The note names the pass.
"""

SIGNALLED = Diag(
    "PM-0002", ERROR, "the pass {name} failed on '{function}'", "handshake of failing passes", WORD_ERROR
)
"""
see: PM-0001

! A pass ends without a word: the passes here say why first, so only a pass of one's own leads there.
"""

LIFTED = Diag(
    "PM-0003",
    ERROR,
    "the result of the pass {name} on '{function}' is required",
    "handshake-lift-required",
    WORD_ERROR,
)
"""
see: PM-0001

! A pass whose result a program made obligatory through the pass manager has missed it; no command asks for that.
"""


OUTSIDE = Diag(
    "PM-0104", ERROR, "the pass {name}, which is not of this package, failed: {why}", "plugins", WORD_ERROR
)
"""
cause: A pass of another package raised an exception.
remedy: Report it to that package, which the message names by its pass, or compile without `--plugin`.

! Another package has to be installed for it.
"""


def word_of(record: bytes | bytearray | memoryview) -> int:
    """The status word of a record."""
    return int.from_bytes(record[STATUS_OFFSET : STATUS_OFFSET + 4], "little")


def mark_soft_failure(record: bytearray | memoryview) -> None:
    """ORs the bit into a record. The bit lies in the first byte of the word."""
    record[STATUS_OFFSET] |= SOFT_FAILURE


def soft_failed(word: int) -> bool:
    return bool(word & SOFT_FAILURE)


class Pass:
    """One pass. Subclasses name themselves as on the command line and override `run`.

    ANCHOR says what `run` gets: every function ("func"), or the module once ("module"). OPTIONS are (name, default, help).
    Without which ops a pass has nothing to do is said by its row of the pipeline, so that it need not be loaded.
    """

    NAME = ""
    SUMMARY = ""
    ANCHOR = "func"
    OPTIONS: tuple[tuple[str, Any, str], ...] = ()
    REQUIRED = False  # a miss of this pass stops the pipeline
    LAYER = 0  # 3 and 4: a named verifier
    AFTER = ""  # of a pass from outside: the row of the pipeline behind which it runs (plugins.py)
    KEEPS_ANALYSES = False  # whether the pass drops analyses itself where it changes what they rest on
    __slots__ = ("hard", "options", "record")

    def __init__(self, **options: Any) -> None:
        self.record = bytearray(RECORD_BYTES)
        self.hard = False
        self.options = {name: default for name, default, _ in self.OPTIONS}
        for name, value in options.items():
            if name not in self.options:
                raise KeyError(name)
            self.options[name] = value

    @property
    def status(self) -> int:
        return word_of(self.record)

    def clear(self) -> None:
        """Before a run, by the manager only."""
        self.record[STATUS_OFFSET : STATUS_OFFSET + 4] = bytes(4)
        self.hard = False

    def miss(self, context: Context, diag: Diag, op: Any, **facts: object) -> None:
        """Soft failure: the diagnostic first, then the bit."""
        context.sink.emit(diag, loc=op.loc, notes=facts.pop("notes", ()), **facts)  # type: ignore[arg-type]
        mark_soft_failure(self.record)

    def signal_failure(self) -> None:
        """Hard failure: the walk may end, nothing runs behind this pass."""
        self.hard = True

    def run(self, anchor: Any, context: Context) -> bool:
        """Whether the IR is usable afterwards. A soft failure is no reason to return False."""
        raise NotImplementedError

    def lift(self, function: Any, context: Context) -> bool:
        """Whether the bit is set and its result cannot be missed."""
        return self.REQUIRED and soft_failed(self.status)


class Result:
    """What a pass left on one function."""

    __slots__ = ("name", "word")

    def __init__(self, name: str, word: int) -> None:
        self.name = name
        self.word = word

    @property
    def soft_failed(self) -> bool:
        return bool(self.word & SOFT_FAILURE)


class Context:
    """What passes share: the module, the target, the sink, earlier results, analyses."""

    __slots__ = (
        "analyses", "debug", "function", "module", "names", "opt_level", "remarks", "results", "sink", "soft_failures",
        "target", "trace", "verify_each", "watch",
    )  # fmt: skip

    def __init__(self, module: Any, target: Any, sink: Sink, opt_level: int = 3) -> None:
        self.module = module
        self.target = target  # None: no compute capability is known
        self.sink = sink
        self.opt_level = opt_level
        self.debug: Any = None  # table of source positions, when they are asked for
        self.remarks: dict[str, str] | None = None  # optimisation remarks asked for, kind -> category
        self.function = ""  # name of the function a pass runs on
        self.results: dict[tuple[str, str], Result] = {}
        self.soft_failures: dict[tuple[str, str], int] = {}  # only runs that ended with the bit
        self.analyses = Analyses(target)
        self.names: set[str] | None = None  # op names that may be in the module, by the IR; None: not known
        self.trace: list[tuple[Any, ...]] | None = None
        self.watch: Any = None  # follows the lowering for a report
        self.verify_each = False  # whether to check what no correct pass gets wrong

    def lookup(self, name: str, function: str | None = None) -> Result | None:
        """What the pass `name` left on a function (the current one); None when it did not run there."""
        return self.results.get((self.function if function is None else function, name))

    def remark(self, diag: Diag, op: Any, **facts: Any) -> None:
        """Says a remark about an op, if its kind and category were asked for. What takes long to find out is asked for first:
        `if diag.wanted(context.remarks)`."""
        if diag.wanted(self.remarks):
            self.sink.emit(diag, loc=op.loc, **{"function": self.function, **facts})

    def event(self, *event: Any) -> None:
        if self.trace is not None:
            self.trace.append(event)


def function_name(op: Any) -> str:
    attrs = getattr(op, "attrs", None) or {}
    return getattr(op, "name", "") if "sym_name" not in attrs else str(attrs["sym_name"])


def functions_of(module: Any) -> list[Any]:
    """The functions of a module of any dialect."""
    found = getattr(module, "functions", None)
    if found is not None:
        return list(found)
    return [
        op
        for region in module.regions
        for block in region.blocks
        for op in block.ops
        if op.spec.name in FUNCTIONS
    ]


FUNCTIONS = frozenset(("func", "entry"))


def op_names(module: Any) -> set[str]:
    """Names of all ops in a module; empty for per-thread code, which has records."""
    return {op.spec.name for op in module.walk()} if hasattr(module, "walk") else set()


def run_pass(p: Pass, function: Any, context: Context) -> bool:
    """The wrapper of one run: clears the word, runs, keeps the word, returns the result of the walk unchanged."""
    context.function = name = function_name(function)
    p.clear()
    ok = p.run(function, context)
    word = p.status
    context.results[name, p.NAME] = Result(p.NAME, word)
    if word & SOFT_FAILURE:
        context.soft_failures[name, p.NAME] = word
    return ok


class PassManager:
    """Runs passes in order over `context.module`.

    `after(pass name, IR)` is called behind every pass; `verify_each` turns layer 2 on; `required` names passes whose
    miss stops the pipeline. `times` gets (name, seconds).
    """

    __slots__ = ("after", "context", "passes", "required", "times", "verify_each")

    def __init__(
        self, passes: Iterable[Pass], context: Context, *, verify_each: bool = False,
        required: frozenset[str] = frozenset(), after: Callable[[str, Any], None] | None = None,
    ) -> None:  # fmt: skip
        self.passes = passes
        self.context = context
        self.verify_each = context.verify_each = verify_each
        self.required = required
        self.after = after
        self.times: list[tuple[str, float]] = []

    def lookup(self, name: str, function: str) -> Result | None:
        return self.context.lookup(name, function)

    def run(self) -> bool:
        """False when a pass failed, layer 2 found something, or an Error was emitted by the end."""
        errors = self.context.sink.errors
        for p in self.passes:
            if not self._run_one(p):
                return False
        return self.context.sink.errors == errors

    def _guarded(self, p: Pass, anchor: Any) -> bool:
        """One run; an op that layer 1 refuses ends it as a failure. Names of what it makes join the context's."""
        from .build import RECORDS, Malformed, Record

        context = self.context
        module = context.module
        traced = context.trace is not None
        record = RECORDS[get_ident()] = Record(
            (lambda op: context.event("layer", 1, op.spec.full_name)) if traced else None
        )
        try:
            return run_pass(p, anchor, context)
        except Malformed as refused:
            from .verify import report

            if not p.AFTER:
                report(refused.problem, refused.op, context.sink)
                return False
            found = Sink()  # whose fault it is, is named
            report(refused.problem, refused.op, found)
            blame(p.NAME, found, context.sink)
            return False
        except (CompileError, FatalError):
            raise
        except (Exception, SystemExit) as error:
            if not p.AFTER:
                raise  # ours: a defect, and reported as one
            why = f"{type(error).__name__}: {error}"
            context.sink.emit(OUTSIDE, loc=getattr(anchor, "loc", None), name=p.NAME, why=why)
            return False
        finally:
            del RECORDS[get_ident()]
            if not p.KEEPS_ANALYSES:
                context.analyses.drop(anchor if p.ANCHOR == "func" else None)
            if context.module is not module:  # a lowering makes every op anew
                context.names = record.names
            elif context.names is not None:
                context.names |= record.names

    def _run_one(self, p: Pass) -> bool:
        from time import perf_counter

        context = self.context
        errors = context.sink.errors
        start = perf_counter()
        context.event("pass", p.NAME)
        if p.LAYER:
            context.event("layer", p.LAYER, p.NAME)
        ok = True
        anchors = functions_of(context.module) if p.ANCHOR == "func" else [context.module]
        for anchor in anchors:
            good = self._guarded(p, anchor)
            silent = context.sink.errors == errors
            if not good or p.hard:
                if silent:
                    context.sink.emit(
                        SIGNALLED, loc=getattr(anchor, "loc", None), name=p.NAME, function=context.function
                    )
                ok = False
            elif soft_failed(p.status) and (p.lift(anchor, context) or p.NAME in self.required):
                if silent:
                    context.sink.emit(
                        LIFTED, loc=getattr(anchor, "loc", None), name=p.NAME, function=context.function
                    )
                ok = False
        if ok and self.verify_each:
            ok = verify_after(p.NAME, context)
        self.times.append((p.NAME, perf_counter() - start))
        if ok and self.after is not None:
            self.after(p.NAME, context.module)
        return ok


def verify_after(name: str, context: Context) -> bool:
    """Layer 2: the whole anchor again; what breaks is reported with the name of the pass that left it."""
    module = context.module
    context.event("layer", 2, name)
    if not hasattr(module, "regions"):
        return True
    from .verify import verify

    found = Sink()
    if verify(module, found):
        return True
    blame(name, found, context.sink)
    return False


def blame(name: str, found: Sink, sink: Sink) -> None:
    """Says what was found, each with a note that names the pass which left it."""
    for emitted in found.emitted:
        emitted.notes.append(Emitted(AFTER_PASS, emitted.loc, facts=(("name", name),)))
        sink.deliver(emitted)


def report_fatal_error(text: str) -> FatalError:
    """For `raise report_fatal_error(...)`: the command prints the bare text and aborts."""
    return FatalError(text)
