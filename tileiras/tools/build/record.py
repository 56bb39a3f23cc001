"""What the last two builds of an output were made from, so that "why was this rebuilt?" has an exact answer.

Written where a depfile is asked for, as ``.tileiras-record/<output>.json`` in the folder of the depfile.  It
holds the present and the previous build: digest of every input, the options, the tools with version and
place, digests of the outputs.  It is no output: nothing depends on it, and losing it loses only the
explanation.

A command that makes many outputs keeps the records of all of them in one file, ``<name>.batch.json``: a file for
each would be a quarter of all that it writes.
"""

from __future__ import annotations

import json
import os

from tileiras.toolchain.digest import digest_bytes
from tileiras.tools.build.outputs import is_special

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from tileiras.tools.build.arguments import Arguments, Flag
    from tileiras.tools.build.job import Job, Result

FOLDER = ".tileiras-record"
_BATCH = ".batch.json"


class Record:
    """The record of one output; a disabled one (no depfile) does nothing."""

    def __init__(self, path: str | None) -> None:
        self.path = path

    def succeeded(self, job: Job, result: Result) -> None:
        """A compilation: the present build becomes the previous one."""
        from tileiras.tools.build.compile_verb import FLAGS

        arguments = job.arguments
        made = [
            arguments.o,
            arguments.ptx,
            arguments.tilebc,
            arguments.kernels_json,
            arguments.remarks_output,
        ]
        known = {job.source: job.data}
        if arguments.o and "cubin" in result.parts:
            known[arguments.o] = result.parts["cubin"]
        self.wrote(job.depends, made, options_of(arguments, FLAGS), result.tools, known)

    def wrote(
        self,
        inputs: Sequence[str],
        made: Sequence[str | None],
        options: list[str],
        tools: dict[str, str],
        known: dict[str, bytes] | None = None,
    ) -> None:
        """Any build: from `inputs`, the files `made`. `known` has the bytes of some of them."""
        if self.path is None:
            return

        def digest(path: str) -> str:
            data = known.get(path) if known else None
            return _digest_file(path) if data is None else digest_bytes(data)

        read_ = {os.path.abspath(path): digest(path) for path in inputs}
        outputs = {os.path.abspath(path): digest(path) for path in made if path and not is_special(path)}
        self._push({"inputs": read_, "options": options, "tools": tools, "outputs": outputs})

    def failed(self) -> None:
        """Notes that a build was tried and failed."""
        if self.path is not None:
            self._push({"failed": True})

    def _push(self, present: dict[str, Any]) -> None:
        assert self.path is not None
        _save(self.path, {"version": 1, **_after(read(self.path), present)})


class Batch:
    """The records of all that one command makes, by the outputs' names below a folder."""

    def __init__(self, folder: str, name: str) -> None:
        self.folder = folder
        self.path = os.path.join(folder, FOLDER, name + _BATCH)
        self._before = read(self.path).get("batch", {})
        self._rows: dict[str, Any] = {}

    def record(self, output: str) -> Record:
        """The record of one of them; `save` writes what it notes."""
        return _Row(self._before, self._rows, os.path.relpath(output, self.folder))

    def save(self) -> None:
        """Writes what was noted; of an output that nothing was said of, what was known, as long as it is there."""
        kept = {
            name: row
            for name, row in self._before.items()
            if name not in self._rows and os.path.exists(os.path.join(self.folder, name))
        }
        batch = {**kept, **self._rows}
        if batch != self._before:
            _save(self.path, {"version": 1, "batch": batch})


class _Row(Record):
    def __init__(self, before: dict[str, Any], rows: dict[str, Any], name: str) -> None:
        super().__init__(name)
        self._before = before
        self._rows = rows

    def _push(self, present: dict[str, Any]) -> None:
        assert self.path is not None
        self._rows[self.path] = _after(self._before.get(self.path, {}), present)


def _after(history: dict[str, Any], present: dict[str, Any]) -> dict[str, Any]:
    """The history of an output with one build more."""
    before = history.get("present", {})
    if present.get("failed"):
        # A failure between two builds must not hide what changed between them.
        present = {**before, "failed": True}
        before = before or history.get("previous", {})
    return {"present": present, "previous": before}


def _save(path: str, history: dict[str, Any]) -> None:
    from tileiras.files import write_atomically

    text = (json.dumps(history, sort_keys=True) + "\n").encode()  # indented, it takes ten times as long
    try:
        try:
            write_atomically(path, text)
        except FileNotFoundError:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            write_atomically(path, text)
    except OSError:
        pass


def open_record(arguments: Arguments) -> Record:
    """The record that belongs to this command line."""
    name = arguments.o or arguments.depfile_target
    if not arguments.depfile or not name:
        return Record(None)
    return Record(path_for(os.path.dirname(arguments.depfile), name))


def path_for(folder: str, output: str) -> str:
    """Where the record of `output` lies."""
    return os.path.join(folder, FOLDER, os.path.basename(output) + ".json")


def options_of(arguments: Arguments, flags: Sequence[Flag]) -> list[str]:
    """The options that decide what is made; names of outputs do not."""
    silent = (
        "o",
        "kernels_json",
        "ptx",
        "tilebc",
        "depfile",
        "depfile_target",
        "depfile_for",
        "depends",
        "remarks_output",
        "verbose",
    )
    found = []
    for flag in flags:
        value = getattr(arguments, flag.key)
        if flag.key in silent or not value:
            continue
        found += [f"{flag.name}={each}" for each in (value if isinstance(value, list) else [value])]
    return found


def read(path: str) -> dict[str, Any]:
    """The record at `path`; {} when there is none that can be read."""
    try:
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
        return found if isinstance(found, dict) else {}
    except (OSError, ValueError):
        return {}


def _digest_file(path: str) -> str:
    try:
        if not os.path.isfile(path):  # reading a device may never end
            return "missing"
        with open(path, "rb") as file:
            return digest_bytes(file.read())
    except OSError:
        return "missing"


def explain(output: str) -> list[str]:
    """Sentences that say why `output` was last rebuilt, and what would rebuild it now."""
    history = _find(output)
    if history is None:
        return [
            f"no record for '{output}': tileiras-build keeps one of what compile, bytecode and export make with "
            "--depfile; ask for the files that this one is made from"
        ]
    present, previous = history.get("present", {}), history.get("previous", {})
    lines = []
    if present.get("failed"):
        lines.append("the last build failed, so the next one runs whatever changed")
    elif not previous:
        lines.append("it was built for the first time")
    else:
        changes = differences(previous, present)
        if previous.get("failed"):
            changes.insert(0, "the build before had failed")
        if not changes:
            changes = [
                "nothing that it is made from changed: an output was missing or only time stamps were newer"
            ]
        lines += changes
    now = {"inputs": {name: _digest_file(name) for name in present.get("inputs", {})}}
    lines += [f"since then: {line}" for line in differences({"inputs": present.get("inputs", {})}, now)]
    for name, digest in present.get("outputs", {}).items():
        found = _digest_file(name)
        if found == "missing":
            lines.append(f"since then: output {name} was removed")
        elif found != digest:
            lines.append(f"since then: output {name} was changed by something else")
    return lines


def _find(output: str) -> dict[str, Any] | None:
    output = os.path.abspath(output)
    folder = os.path.dirname(output)
    for _ in range(4):  # the depfile may lie some folders above the output
        found: list[tuple[float, dict[str, Any]]] = []  # a project may have been built in both ways
        path = path_for(folder, output)
        if os.path.exists(path):
            found.append((os.path.getmtime(path), read(path)))
        for path in _batches(folder):
            history = read(path).get("batch", {}).get(os.path.relpath(output, folder))
            if history:
                found.append((os.path.getmtime(path), history))
        if found:
            return max(found, key=lambda pair: pair[0])[1]
        folder = os.path.dirname(folder)
    return None


def _batches(folder: str) -> list[str]:
    try:
        names = os.listdir(os.path.join(folder, FOLDER))
    except OSError:
        return []
    return [os.path.join(folder, FOLDER, name) for name in sorted(names) if name.endswith(_BATCH)]


def differences(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """What differs between two builds, a sentence each: inputs, options, tools."""
    lines = []
    old, new = before.get("inputs", {}), after.get("inputs", {})
    for name in sorted({*old, *new}):
        if name not in old:
            lines.append(f"input {name} is new")
        elif name not in new:
            lines.append(f"input {name} is no longer used")
        elif new[name] == "missing":
            lines.append(f"input {name} was removed")
        elif old[name] != new[name]:
            lines.append(f"input {name} changed")
    old_options, new_options = before.get("options", []), after.get("options", [])
    removed = [option for option in old_options if option not in new_options]
    added = [option for option in new_options if option not in old_options]
    for option in removed:
        flag = option.partition("=")[0]
        twin = next((each for each in added if each.partition("=")[0] == flag), None)
        if twin is not None:
            added.remove(twin)
            lines.append(f"option {option} became {twin}")
        else:
            lines.append(f"option {option} was dropped")
    lines += [f"option {option} was added" for option in added]
    if (
        not removed
        and not added
        and sorted(old_options) == sorted(new_options)
        and old_options != new_options
    ):
        lines.append("the order of options changed")
    old_tools, new_tools = before.get("tools", {}), after.get("tools", {})
    for name in sorted({*old_tools, *new_tools}):
        if old_tools.get(name) != new_tools.get(name):
            was, now = old_tools.get(name, "not used"), new_tools.get(name, "not used")
            lines.append(f"tool {name} changed: {was} -> {now}")
    return lines
