"""Files of a Bazel program at run time: `tileiras.bazel.locate("repository/path/to/k.fatbin")`.

A program that Bazel runs finds its data through runfiles: a folder (RUNFILES_DIR), or, on Windows and with
`--nobuild_runfile_links`, a manifest that maps each name to a file. With modules (bzlmod) the first part of a path is
the name by which the calling repository knows another; the file `_repo_mapping` turns it into the real one. Where the
program was not started by Bazel, files beside the package (`importlib` package data) are the fallback.

`python.runfiles` of rules_python and `runfiles` of the bazel-runfiles distribution are used when one of them can be
imported, because they follow Bazel; what they do is done here as well, so that neither is needed.

The folder of this file is also the Bazel repository `@tileiras` itself: see docs/bazel.md.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["RunfileNotFound", "directory", "locate"]


class RunfileNotFound(FileNotFoundError):
    """No such runfile; the message lists where it was looked for."""


def directory() -> str:
    """Returns the folder of the repository @tileiras, for local_repository and local_path_override."""
    return os.path.dirname(os.path.abspath(__file__))


def locate(
    rlocation: str, source_repository: str | None = None, environ: Mapping[str, str] | None = None
) -> str:
    """Returns the absolute path of a runfile.

    rlocation: "<repository>/<path>", as `$(rlocationpath //pkg:target)` gives it; the main repository is its
    workspace name, or `_main` with modules. An absolute path is returned as it is.
    source_repository: canonical name of the repository that asks, for the repository mapping; default: the caller's.
    Errors: ValueError for a path that leaves the runfiles; RunfileNotFound.
    """
    if not rlocation:
        raise ValueError("an empty runfile path")
    if os.path.isabs(rlocation):
        return rlocation
    if rlocation.startswith("\\"):
        raise ValueError(f"{rlocation!r}: a drive-relative path is no runfile path")
    parts = rlocation.split("/")
    if ".." in parts or "." in parts or "" in parts:
        raise ValueError(f"{rlocation!r}: a runfile path has no '.', '..' or empty part")
    env = os.environ if environ is None else environ
    tried: list[str] = []
    by_library = _by_library(rlocation, source_repository, tried) if environ is None else None
    if by_library:
        return by_library
    folder, manifest = find_runfiles(env)
    entries = read_manifest(manifest) if manifest else {}
    mapped = _map_repository(rlocation, source_repository or "", folder, entries)
    if manifest:
        found = look_up(entries, mapped)
        if found is not None:
            if found == "":
                raise RunfileNotFound(
                    f"{rlocation}: {manifest} says that this file is empty on purpose and has no path"
                )
            if os.path.exists(found):
                return os.path.abspath(found)
        tried.append(manifest)
    if folder:
        path = os.path.join(folder, *mapped.split("/"))
        if os.path.exists(path):
            return os.path.abspath(path)
        tried.append(path)
    path = _package_data(parts)
    if path:
        return path
    places = "; ".join(tried) or "no RUNFILES_DIR, no RUNFILES_MANIFEST_FILE, no <program>.runfiles"
    raise RunfileNotFound(f"{rlocation}: not a runfile (looked in: {places}; then in package data)")


def _by_library(rlocation: str, source_repository: str | None, tried: list[str]) -> str | None:
    for module in ("python.runfiles", "runfiles"):
        try:
            runfiles = __import__(module, fromlist=["Runfiles"]).Runfiles.Create()
        except (ImportError, AttributeError):
            continue
        except (OSError, ValueError):
            return None
        if runfiles is None:
            return None
        repository = source_repository
        try:
            if repository is None:
                repository = runfiles.CurrentRepository(frame=3)
        except Exception:
            repository = ""  # a caller outside the runfiles tree belongs to the main repository
        try:
            path = runfiles.Rlocation(rlocation, repository)
        except (TypeError, ValueError):
            continue
        if path and os.path.exists(path):
            return os.path.abspath(path)
        tried.append(f"{module}: {path}")
        return None
    return None


def find_runfiles(env: Mapping[str, str]) -> tuple[str, str]:
    """Returns (runfiles folder, manifest file); each may be empty."""
    folder = env.get("RUNFILES_DIR", "") or env.get("TEST_SRCDIR", "")
    manifest = env.get("RUNFILES_MANIFEST_FILE", "")
    if not folder and not manifest:
        program = os.path.abspath(sys.argv[0]) if sys.argv and sys.argv[0] else ""
        for stem in (program, program.removesuffix(".py")) if program else ():
            if os.path.isdir(stem + ".runfiles"):
                folder = stem + ".runfiles"
                break
            if os.path.isfile(stem + ".runfiles_manifest"):
                manifest = stem + ".runfiles_manifest"
                break
        else:
            at = program.find(".runfiles" + os.sep)
            if at >= 0:
                folder = program[: at + len(".runfiles")]
    if not manifest and folder:
        for name in (
            os.path.join(folder, "MANIFEST"),
            folder.removesuffix(".runfiles") + ".runfiles_manifest",
        ):
            if os.path.isfile(name):
                manifest = name
                break
    # A manifest-only program sets the variable to a folder that does not exist.
    if folder and not os.path.isdir(folder):
        folder = ""
    if manifest and not os.path.isfile(manifest):
        manifest = ""
    return folder, manifest


def read_manifest(path: str) -> dict[str, str]:
    """Returns the entries of a runfiles manifest: "<runfile> <path>" a line.

    A line that begins with a blank is escaped: `\\s` blank, `\\n` newline, `\\b` backslash (blank only in the first word).
    """
    entries: dict[str, str] = {}
    with open(path, encoding="utf-8", errors="surrogateescape", newline="\n") as file:
        for line in file:
            line = line.rstrip("\n").rstrip("\r")
            if not line:
                continue
            if line.startswith(" "):
                name, _, target = line[1:].partition(" ")
                entries[_unescape(name, True)] = _unescape(target, False)
            else:
                name, _, target = line.partition(" ")
                entries[name] = target
    return entries


def _unescape(text: str, blanks: bool) -> str:
    text = text.replace("\\s", " ") if blanks else text
    return text.replace("\\n", "\n").replace("\\b", "\\")


def look_up(entries: Mapping[str, str], name: str) -> str | None:
    """Returns the path of a runfile, also of one inside a folder that the manifest lists; "" marks an empty file."""
    if name in entries:
        return entries[name]
    at = len(name)
    while (at := name.rfind("/", 0, at)) > 0:
        base = entries.get(name[:at])
        if base:
            return base + name[at:]
    return None


def _map_repository(rlocation: str, source: str, folder: str, entries: Mapping[str, str]) -> str:
    """Returns `rlocation` with its repository's canonical name."""
    mapping = entries.get("_repo_mapping") or (os.path.join(folder, "_repo_mapping") if folder else "")
    if not mapping or not os.path.isfile(mapping):
        return rlocation
    apparent, slash, rest = rlocation.partition("/")
    with open(mapping, encoding="utf-8", newline="\n") as file:
        for line in file:
            fields = line.rstrip("\n").split(",")
            if len(fields) != 3 or fields[1] != apparent:
                continue
            # Bazel 8 may end the source with '*': every repository of that extension.
            if fields[0] == source or (fields[0].endswith("*") and source.startswith(fields[0][:-1])):
                return fields[2] + slash + rest
    return rlocation


def _package_data(parts: list[str]) -> str | None:
    """Returns the file as data of a Python package: "<anything>/pkg/k.fatbin" is k.fatbin in package pkg."""
    import importlib.util

    for start in range(len(parts) - 1):
        if not parts[start].isidentifier():
            continue
        try:
            spec = importlib.util.find_spec(parts[start])  # finds without importing
        except (ImportError, ValueError):
            continue
        for base in (spec.submodule_search_locations if spec else None) or []:
            path = os.path.join(base, *parts[start + 1 :])
            if os.path.exists(path):
                return os.path.abspath(path)
    return None
