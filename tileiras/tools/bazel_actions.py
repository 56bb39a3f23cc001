"""What a Bazel action adds to the build command: parameter files, a private TMPDIR, the check of declared inputs.

Also the few verbs that only Bazel rules need: `bazel-toolchain` (the resolver's answer, for the local repository
rule), `bazel-kernels`, `bazel-validate`, `bazel-sizes` and `bazel-golden`.

Options of `compile` and `export` that are ours and not the build command's:

    --declared=FILE   an input that the rule declares; repeated. A workspace file that the tool read and no rule
                      declares is an error that names `hdrs`: outside a sandbox it would go unnoticed, and the action
                      would not run again when that file changes.

The launcher starts Python without site-packages (-I -S): compiling needs none. The verbs that run a user's Python,
`export` and `test`, switch them on.
"""

from __future__ import annotations

import os
import re
import sys

from tileiras import terminal
from tileiras.diag import Catalogue, Refusal, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

diags = Catalogue("tileiras.tools.diags")


def expand_parameter_files(argv: list[str]) -> list[str]:
    """Returns argv with each `@FILE` replaced by the lines of FILE; `@@x` stands for `@x`."""
    words: list[str] = []
    for word in argv:
        if word.startswith("@@"):
            words.append(word[1:])
        elif word.startswith("@") and len(word) > 1:
            try:
                with open(word[1:], encoding="utf-8", errors="surrogateescape", newline="\n") as file:
                    text = file.read()
            except (OSError, ValueError) as error:
                raise UsageError(
                    diags.BZL_PARAMETER_FILE, path=word[1:], why=getattr(error, "strerror", None) or error
                ) from None
            lines = text.split("\n")
            words += lines[:-1] if lines[-1] == "" else lines
        else:
            words.append(word)
    for word in words:
        if "\0" in word:
            raise UsageError(diags.NUL_IN_ARGUMENT, word=word[:80])
    return words


def refuse(refusal: Refusal, command: str) -> int:
    """Says what stopped a command, in the form of Bazel's tools; the exit code."""
    sys.stderr.write(f"{command}: {refusal}\n")
    terminal.name_code(refusal)
    return refusal.exit_code


def run_action(words: list[str]) -> int:
    """Returns the exit code of one build command, with TMPDIR beside its output."""
    if not words:
        return refuse(UsageError(diags.BZL_NO_VERB), "tile-build")
    verb, *rest = words
    own = _VERBS.get(verb)
    if own is not None:
        try:
            return own(rest)
        except UsageError as error:
            return refuse(error, f"tile-build {verb}")
    on_cpu = verb == "compile" and _option(rest, "--arch") == "cpu"
    if (verb in ("export", "test") or on_cpu) and sys.flags.no_site:
        import site

        site.main()
    if verb == "test":
        from tileiras.tools.kernel_test import main as test_main

        return test_main(rest)
    with _TemporaryFolder(rest) as folder:
        if verb in ("compile", "export"):
            return _run_checked(verb, rest, folder)
        return _run_build([verb, *rest])


def _run_build(words: list[str]) -> int:
    from tileiras.tools.build import main as build_main

    return build_main(words)


def _option(words: list[str], *names: str) -> str | None:
    """Returns the last value of an option spelled `-o X`, `--opt X` or `--opt=X`."""
    value = None
    for index, word in enumerate(words):
        if word in names and index + 1 < len(words):
            value = words[index + 1]
        for name in names:
            if name.startswith("--") and word.startswith(name + "="):
                value = word[len(name) + 1 :]
    return value


class _TemporaryFolder:
    """Makes `<output>.tmp` the temporary folder of this process and its children while a command runs.

    The name follows from the output, so none that is random can leak into an artefact, and it lies in the folder that
    the action may write to.
    """

    _NAMES = ("TMPDIR", "TMP", "TEMP")

    def __init__(self, words: list[str]) -> None:
        output = _option(words, "-o", "--output", "--header-out") or _option(words, "--kernels-json")
        self._path = os.path.abspath(output) + ".tmp" if output else ""
        self._before = {name: os.environ.get(name) for name in self._NAMES}

    def __enter__(self) -> str | None:
        if not self._path:
            return None
        import shutil

        shutil.rmtree(self._path, ignore_errors=True)
        try:
            os.makedirs(self._path)
        except OSError:
            self._path = ""  # an unwritable place: the build command says so, with its own exit code
            return None
        os.environ.update(dict.fromkeys(self._NAMES, self._path))
        self._forget()
        return self._path

    def __exit__(self, *_: object) -> None:
        if not self._path:
            return
        import shutil

        for name, value in self._before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
        self._forget()
        shutil.rmtree(self._path, ignore_errors=True)

    @staticmethod
    def _forget() -> None:
        tempfile = sys.modules.get("tempfile")
        if tempfile is not None:
            tempfile.tempdir = None  # it keeps the first answer otherwise


def _run_checked(verb: str, words: list[str], folder: str | None) -> int:
    """Runs `compile` or `export`, and holds what it read against what the rule declares."""
    declared = [word[len("--declared=") :] for word in words if word.startswith("--declared=")]
    imports = [word[len("--path=") :] for word in words if word.startswith("--path=")]
    words = [word for word in words if not word.startswith("--declared=")]
    depfile = os.path.join(folder, "inputs.d") if folder and declared else None
    if depfile:
        words = [*words, "--depfile", depfile, "--depfile-target", "out"]
    # Source locations below the execution root relative to it: its absolute name is that of a sandbox.
    words = [*words, f"--file-prefix-map={os.getcwd()}="]
    with _Captured() as captured:
        code = _run_build([verb, *words])
    if code != 0:
        hint = _missing_module_hint(captured.text, declared) if verb == "export" else ""
        if hint:
            sys.stderr.write(hint)
        return code
    if depfile:
        undeclared = undeclared_inputs(_read_depfile(depfile), declared, imports)
        if undeclared:
            for path in undeclared:
                terminal.refuse(Refusal(diags.BZL_UNDECLARED, source=declared[0], path=path))
            _remove_outputs(words)
            return 1
    return 0


class _Captured:
    """Copies descriptor 2 into memory while a command runs, and passes it on unchanged afterwards."""

    def __enter__(self) -> _Captured:
        import tempfile

        self.text = ""
        sys.stderr.flush()
        self._file = tempfile.TemporaryFile()
        self._saved = os.dup(2)
        os.dup2(self._file.fileno(), 2)
        return self

    def __exit__(self, *_: object) -> None:
        sys.stderr.flush()
        os.dup2(self._saved, 2)
        os.close(self._saved)
        self._file.seek(0)
        data = self._file.read()
        self._file.close()
        self.text = data.decode("utf-8", "replace")
        view = memoryview(data)
        while view:
            view = view[os.write(2, view) :]


def _missing_module_hint(text: str, declared: list[str]) -> str:
    """Returns advice when a cuTile Python source imports a module that is no input of its action."""
    at = text.rfind("No module named ")
    if at < 0 or not declared:
        return ""
    name = re.match(
        r"['\"]?([\w.]*\w)", text[at + len("No module named ") :]
    )  # the place in the source may follow
    if not name:
        return ""
    path = name[1].replace(".", "/") + ".py"
    return f"note: if {path} belongs to your workspace, add it to `hdrs` of the rule; a library goes to `py_deps`\n"


def _remove_outputs(words: list[str]) -> None:
    for name in ("-o", "--kernels-json", "--ptx", "--tilebc", "--remarks-output", "--report"):
        path = _option(words, name)
        if path:
            try:
                os.unlink(path)
            except OSError:
                pass


def _read_depfile(path: str) -> list[str]:
    """Returns the prerequisites of a Make depfile, unescaped."""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            text = file.read()
    except OSError:
        return []
    text = text.replace("\\\r\n", " ").replace("\\\n", " ")
    words: list[str] = []
    word = ""
    at = 0
    while at < len(text):
        char, following = text[at], text[at + 1 : at + 2]
        if (char == "\\" and following in (" ", "#", "\\", ":")) or (char == "$" and following == "$"):
            word += following
            at += 2
            continue
        if char in " \t\n\r":
            if word:
                words.append(word)
            word = ""
        else:
            word += char
        at += 1
    if word:
        words.append(word)
    # Everything up to the first word that ends in a colon is the target.
    for index, item in enumerate(words):
        if item.endswith(":"):
            return words[index + 1 :]
    return words


def undeclared_inputs(read: list[str], declared: list[str], imports: list[str] | None = None) -> list[str]:
    """Returns the workspace files in `read` that are not in `declared`, in order, relative where they can be.

    Files of the interpreter, of its site-packages, of the toolchain (external/) and below an import root other than
    the workspace itself belong to somebody else and are covered by their own rules.
    """
    here = os.getcwd()
    allowed: set[str] = set()
    roots = [here]
    for path in declared:
        full = os.path.abspath(path)
        real = os.path.realpath(full)
        allowed.update((full, real))
        if not os.path.isabs(path) and real.endswith(os.sep + os.path.normpath(path)):
            # Links of the execution root lead to the workspace: the same file has two names.
            roots.append(real[: -len(os.path.normpath(path)) - 1])
    foreign = [os.path.join(here, "external"), sys.prefix, sys.base_prefix]
    foreign += [os.path.abspath(path) for path in imports or [] if os.path.abspath(path) != here]
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    foreign += [package, os.path.realpath(package)]
    found: list[str] = []
    for path in read:
        full = os.path.abspath(path)
        if full in allowed or os.path.realpath(full) in allowed:
            continue
        if any(_below(full, folder) for folder in foreign):
            continue
        for root in roots:
            if _below(full, root):
                relative = os.path.relpath(full, root)
                if relative not in found:
                    found.append(relative)
                break
    return found


def _below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


# --- verbs of our own


def _output(words: list[str]) -> tuple[str, list[str]]:
    """Returns (value of -o, the other words)."""
    if "-o" not in words or words.index("-o") + 1 >= len(words):
        raise UsageError(diags.BZL_NO_OUTPUT)
    at = words.index("-o")
    return words[at + 1], words[:at] + words[at + 2 :]


def write_text(path: str, text: str) -> None:
    """Writes `path` by way of a temporary sibling, so that it is there as a whole or not at all."""
    from tileiras.files import write_atomically

    try:
        write_atomically(path, text.encode("utf-8", "surrogateescape"))
    except OSError as error:
        raise UsageError(diags.BZL_PARAMETER_FILE, path=path, why=error.strerror) from None


def read_table(path: str) -> dict:
    """Returns a kernels.json file."""
    import json

    try:
        with open(path, encoding="utf-8") as file:
            table = json.load(file)
    except OSError as error:
        raise UsageError(diags.BZL_PARAMETER_FILE, path=path, why=error.strerror) from None
    except ValueError as error:
        raise UsageError(diags.BZL_NOT_JSON, path=path, why=error) from None
    if not isinstance(table, dict) or not isinstance(table.get("kernels"), list):
        raise UsageError(diags.BZL_NO_TABLE, path=path)
    return table


def _bazel_kernels(words: list[str]) -> int:
    """Writes one table of the kernels of many images."""
    import json

    output, tables = _output(words)
    images = []
    for path in tables:
        name = os.path.basename(path)
        image = name[: -len(".kernels.json")] + ".cubin" if name.endswith(".kernels.json") else name
        table = read_table(path)
        if table.get("arch") == "cpu":  # the code lies in the source that is generated
            image = os.path.basename(path)[: -len(".cpu.kernels.json")]
            table = {key: table[key] for key in table if key not in ("assembly", "cpu", "globals")}
        images.append({"image": image, **table})
    images.sort(key=lambda image: (image["image"], str(image.get("arch", ""))))
    write_text(output, json.dumps({"version": 1, "images": images}, indent=1, ensure_ascii=False) + "\n")
    return 0


def signature_of(kernel: dict) -> tuple:
    """Returns what must not differ between the images of one kernel."""
    params = kernel.get("params") or []
    return tuple((p.get("type"), p.get("size"), p.get("offset")) for p in params)


def _bazel_validate(words: list[str]) -> int:
    """Checks that the images of a kernel agree on its parameters, for every architecture; writes a marker."""
    output, rest = _output(words)
    label = ""
    if "--label" in rest:
        at = rest.index("--label")
        label = rest[at + 1]
        rest = rest[:at] + rest[at + 2 :]
    seen: dict[tuple[str, str], tuple[tuple, str]] = {}
    problems = []
    for path in rest:
        table = read_table(path)
        source = re.split(r"\.(?:sm_|compute_|cpu\.)", os.path.basename(path))[0]
        if not table["kernels"]:
            problems.append(f"{path}: no kernel")
        for kernel in table["kernels"]:
            key = (os.path.dirname(path) + "/" + source, kernel.get("symbol") or kernel.get("name"))
            found = signature_of(kernel)
            before = seen.setdefault(key, (found, path))
            if before[0] != found:
                problems.append(f"{key[1]}: parameters differ between {before[1]} and {path}")
    for problem in problems:
        terminal.refuse(Refusal(diags.BZL_PARAMETERS_DIFFER, label=label, problem=problem))
    if problems:
        return 5
    write_text(output, "")
    return 0


def _bazel_sizes(words: list[str]) -> int:
    """Writes bytes per image, and what each kernel uses."""
    import json

    output, paths = _output(words)
    images, kernels = [], []
    for path in paths:
        if not path.endswith(".json"):
            images.append({"file": path, "bytes": os.stat(path).st_size})
            continue
        table = read_table(path)
        for kernel in table["kernels"]:
            row = {"arch": table.get("arch"), "name": kernel.get("name")}
            for key in ("registers", "spill_bytes", "static_shared", "dynamic_shared"):
                row[key] = kernel.get(key)
            kernels.append(row)
    total = sum(os.stat(str(image["file"])).st_size for image in images)
    text = json.dumps(
        {"total_bytes": total, "images": images, "kernels": kernels}, indent=1, ensure_ascii=False
    )
    write_text(output, text + "\n")
    return 0


def _bazel_toolchain(words: list[str]) -> int:
    """Prints the resolver's answer for the local repository rule: root, how, version, fingerprint, warnings."""
    import json

    from tileiras.toolchain import locate
    from tileiras.toolchain.digest import digest_text

    root = _option(words, "--toolkit-root")
    tools, problems = locate.find_set(root)
    anchor = tools.get("ptxas") or tools.get("tileiras")
    if root and anchor is None:
        raise UsageError(diags.BZL_NO_PTXAS, root=root)
    warnings = [_render(problem) for problem in problems]
    if anchor is None:
        warnings.append(
            "no CUDA toolkit found: python -m pip install nvidia-cuda-nvcc, or set TILEIRAS_TOOLKIT_ROOT"
        )
    same = [tools[name] for name in sorted(tools) if anchor is not None and tools[name].root == anchor.root]
    identity = [f"{tool.name}-{tool.version}-{os.stat(tool.path).st_size}" for tool in same]
    version = ".".join(str(part) for part in anchor.release) if anchor is not None and anchor.release else ""
    answer = {
        "root": anchor.root if anchor is not None else "",
        "how": anchor.how if anchor is not None else "nothing found",
        "version": version,
        "fingerprint": f"{version}-{digest_text(' '.join(identity))[:16]}",
        "warnings": warnings,
    }
    sys.stdout.write(json.dumps(answer) + "\n")
    return 0


def _render(problem: object) -> str:
    from tileiras import diag

    render = getattr(diag, "render", None)
    return render(problem).strip() if callable(render) else str(problem)


def _bazel_golden(words: list[str]) -> int:
    from tileiras.tools.bazel_golden import main as golden_main

    return golden_main(words)


_VERBS: dict[str, Callable[[list[str]], int]] = {
    "bazel-golden": _bazel_golden,
    "bazel-kernels": _bazel_kernels,
    "bazel-sizes": _bazel_sizes,
    "bazel-toolchain": _bazel_toolchain,
    "bazel-validate": _bazel_validate,
}
