"""Finds the real nvcc, and makes the private home directory through which nvcc 13.3 and later uses our assembler.

nvcc takes its home from argv[0] without following links, reads nvcc.profile there, and calls a bare `tileiras` with
the profile's PATH first. So a directory with a link to nvcc, a link to crt and the toolkit's own profile, in which the
home is spelled out and our tools come first on PATH, makes the unchanged nvcc call us. The profile also names the
toolkit root for our assembler: its ptxas is then the one of this nvcc, never another release's.
routes.sh remembers the answer for delegate.sh, with what must still hold for it to be true.
"""

from __future__ import annotations

import os
import sys

from tileiras.diag import Catalogue, Refusal
from tileiras.files import is_own, make_own_folder, read_own, write_atomically
from tileiras.toolchain import locate
from tileiras.toolchain.cache import cache_directory, own_root
from tileiras.toolchain.digest import digest_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

diags = Catalogue(f"{__package__}.diags")

TILE_SINCE = (13, 3)  # 13.1 and 13.2 have no tile option at all
ROUTES_MAX = 16
MARK = b"tileiras.nvcc_shim"  # stands in every form of our own script, which must never be taken for the real nvcc


class Missing(Refusal):
    """No nvcc: exit code 127."""


class RealNvcc:
    """The toolkit's nvcc. Searched before it: `absent` paths had nothing, `passed` ones were this shim itself."""

    __slots__ = ("absent", "how", "passed", "path", "root", "version")

    def __init__(
        self, path: str, root: str, how: str, version: str, absent: list[str], passed: list[str]
    ) -> None:
        self.path, self.root, self.how, self.version = path, root, how, version
        self.absent, self.passed = absent, passed

    @property
    def release(self) -> tuple[int, int]:
        return locate.release_of(self.version) or (0, 0)

    @property
    def has_tile(self) -> bool:
        return self.release >= TILE_SINCE


def is_shim(path: str) -> bool:
    """Returns whether the file is this shim under any name: compared by content, since links and copies are common."""
    try:
        with open(path, "rb") as file:
            head = file.read(2)
            return head == b"#!" and MARK in file.read(65536)
    except OSError:
        return False


def _root_of(path: str) -> str:
    """Returns the toolkit of an nvcc: where its profile lies beside a link to it, that is nvcc's home and ours, too."""
    folder = os.path.dirname(os.path.abspath(path))
    if not os.path.exists(os.path.join(folder, "nvcc.profile")):
        folder = os.path.dirname(os.path.realpath(path))
    return (
        os.path.dirname(folder)
        if os.path.basename(folder) != "x64"
        else os.path.dirname(os.path.dirname(folder))
    )


def find_nvcc(environ: Mapping[str, str], explicit: str | None = None) -> RealNvcc:
    """Returns the real nvcc: --tileiras-nvcc, TILEIRAS_NVCC, else the toolchain's search, skipping ourselves.

    Errors: Missing, with every place that was searched.
    """
    for value, how in ((explicit, "option --tileiras-nvcc"), (environ.get("TILEIRAS_NVCC"), "TILEIRAS_NVCC")):
        if not value:
            continue
        path = value if os.sep in value else _which(value, environ)
        if path and os.path.isdir(path):
            path = (
                os.path.join(path, "nvcc")
                if os.path.exists(os.path.join(path, "nvcc"))
                else path + "/bin/nvcc"
            )
        if not path or not os.path.isfile(path) or not os.access(path, os.X_OK):
            raise Missing(diags.NO_PROGRAM, how=how, value=value)
        if is_shim(path):
            raise Missing(diags.NO_PROGRAM_BUT_US, how=how, value=value)
        return RealNvcc(os.path.abspath(path), _root_of(path), how, _version(path), [], [])
    absent: list[str] = []
    passed: list[str] = []
    notes: list[str] = []
    bare: RealNvcc | None = None
    if not environ.get("TILEIRAS_TOOLKIT_ROOT"):
        # places() leaves out wheels that are not there; one that is installed later must be noticed.
        absent += [os.path.join(site, "nvidia", name, "bin", "nvcc") for site in locate.site_packages()
                   for name in ("cu13", "cuda_nvcc") if not os.path.isdir(os.path.join(site, "nvidia", name))]  # fmt: skip
    for place in locate.places(None, environ):
        folders = place.folders if place.folders is not None else ("bin", "bin/x64", "")
        for folder in folders:
            path = os.path.join(place.root, folder, "nvcc")
            if not os.path.isfile(path) or not os.access(path, os.X_OK):
                if path not in absent:
                    absent.append(path)
            elif is_shim(path):
                passed.append(path)
                notes.append(f"{path} is this shim itself")
            else:
                root = (
                    _root_of(path)
                    if place.folders is not None or folder == ""
                    else os.path.abspath(place.root)
                )
                found = RealNvcc(
                    os.path.abspath(path), root, place.how, _version(path), list(absent), list(passed)
                )
                header = os.path.join(root, "include", "cuda_runtime.h")
                if not place.how.startswith("NVIDIA wheels") or os.path.exists(header):
                    return found
                # The wheel of ptxas brings nvcc along, but not the headers without which it compiles nothing. A whole
                # toolkit further on is meant, unless there is none; and the headers may come later.
                bare = bare or found
                absent.append(header)
        if place.named:
            break
        notes.append(f"{place.root} ({place.how}): not there")
    if bare is not None:
        return bare
    raise Missing(diags.NO_NVCC, where=f"; searched {'; '.join(notes)}" if notes else "")


def _which(name: str, environ: Mapping[str, str]) -> str | None:
    for folder in environ.get("PATH", "").split(os.pathsep):
        path = os.path.join(folder, name)
        if folder and os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    return None


def _version(path: str) -> str:
    return locate.version_of("nvcc", os.path.realpath(path))[0]


def own_command(name: str, module: str, script: str) -> list[str]:
    """Returns the argv prefix of a sibling command: the script beside ours, else the module under this interpreter."""
    folder = os.path.dirname(os.path.realpath(script)) if script else ""
    for place in (os.path.dirname(os.path.abspath(script)) if script else "", folder):
        path = os.path.join(place, name)
        if place and os.path.isfile(path) and os.access(path, os.X_OK) and not _is_vendor(path):
            return [path]
    top = os.path.dirname(os.path.dirname(os.path.abspath(locate.__file__)))
    code = (f"import sys; sys.path.insert(0, {os.path.dirname(top)!r}); sys.argv[0] = {name!r}; "
            f"from {module} import main; sys.exit(main(sys.argv[1:]))")  # fmt: skip
    return [sys.executable or "python3", "-I", "-S", "-c", code]


def _is_vendor(path: str) -> bool:
    # A checkout may be tried with our script copied beside NVIDIA's tools: theirs is no script.
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


def write_profile(text: str, real_bin: str, tools: str, root: str) -> str:
    """Returns the private nvcc.profile: the toolkit's own, its home spelled out, our tools first, its root named.

    `=` in a profile exports the name to every child, so our assembler learns which toolkit called it.
    """
    lines = [line.rstrip("\n").replace("$(_HERE_)", real_bin) for line in text.splitlines()]
    lines += ["", f"PATH += {tools}:", f"CUDA_ROOT = {root}", f"TILEIRAS_TOOLKIT_ROOT = {root}", ""]
    return "\n".join(lines)


def quote(word: str) -> str:
    """Returns the word as sh reads it back."""
    if word and all(char.isalnum() or char in "@%+=:,./-_" for char in word) and word.isascii():
        return word
    return "'" + word.replace("'", "'\"'\"'") + "'"


def find_profile(nvcc: RealNvcc) -> tuple[str, str] | None:
    """Returns (bin directory, profile text) of the real nvcc: beside its path, or beside what a link there names."""
    for path in (nvcc.path, os.path.realpath(nvcc.path)):
        folder = os.path.dirname(path)
        try:
            with open(
                os.path.join(folder, "nvcc.profile"), encoding="utf-8", errors="surrogateescape"
            ) as file:
                return folder, file.read()
        except OSError:
            continue
    return None


def make_home(nvcc: RealNvcc, assembler: list[str], base: str) -> str:
    """Returns the path of `nvcc` inside the private home below `base`, made when it is not there yet.

    The folder's name is a digest of everything in it, and it appears by one rename: any number of processes may race.
    """
    found = find_profile(nvcc)
    if found is None:
        raise Missing(diags.NO_PROFILE, path=nvcc.path)
    real_bin, profile = found
    wrapper = (f"#!/bin/sh\n# Started by nvcc in the place of its own assembler; written by tileiras-nvcc.\n"
               f"TILEIRAS_TOOLKIT_ROOT={quote(nvcc.root)}\nexport TILEIRAS_TOOLKIT_ROOT\n"
               f"exec {' '.join(quote(word) for word in assembler)} \"$@\"\n")  # fmt: skip
    stat = os.stat(nvcc.path)
    name = digest_text("\0".join((nvcc.path, str(stat.st_mtime_ns), str(stat.st_size), profile, wrapper)))
    home = os.path.join(base, name)
    entry = os.path.join(home, "bin", "nvcc")
    # Its name can be worked out, and nvcc runs what lies in it: nobody else may have put it there.
    if not (own_root(os.path.dirname(base)) and make_own_folder(base)):
        raise PermissionError(13, "another user can write to this folder", base)
    if os.path.lexists(home) and not is_own(os.lstat(home)):
        raise PermissionError(13, "another user can write to this folder", home)
    if os.path.exists(entry) and os.path.exists(os.path.join(home, "tools", "tileiras")):
        return entry
    import shutil
    import tempfile

    work = tempfile.mkdtemp(prefix=".home-", dir=base)
    try:
        os.mkdir(os.path.join(work, "bin"))
        os.mkdir(os.path.join(work, "tools"))
        os.symlink(nvcc.path, os.path.join(work, "bin", "nvcc"))
        if os.path.isdir(os.path.join(real_bin, "crt")):
            os.symlink(os.path.join(real_bin, "crt"), os.path.join(work, "bin", "crt"))
        with open(
            os.path.join(work, "bin", "nvcc.profile"), "w", encoding="utf-8", errors="surrogateescape"
        ) as file:
            file.write(write_profile(profile, real_bin, os.path.join(home, "tools"), nvcc.root))
        path = os.path.join(work, "tools", "tileiras")
        with open(path, "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(wrapper)
        os.chmod(path, 0o755)
        os.chmod(work, 0o755)
        try:
            os.rename(work, home)
        except OSError:
            if not os.path.exists(entry):
                # A home that lost part of itself (a cleaner of caches): take it away and try once more.
                shutil.rmtree(home, ignore_errors=True)
                os.rename(work, home)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return entry


def route_key(script: str, environ: Mapping[str, str]) -> str:
    """Returns what the answer depends on, spelled as delegate.sh spells it."""
    names = ("TILEIRAS_NVCC", "TILEIRAS_TOOLKIT_ROOT", "CONDA_PREFIX", "CUDA_PATH", "CUDA_HOME", "PATH")
    return "|".join([script, *(environ.get(name, "") for name in names)])


def record_route(nvcc: RealNvcc, home: str | None, script: str, environ: Mapping[str, str]) -> None:
    """Writes the answer where delegate.sh reads it; the newest first, ROUTES_MAX of them. A cache: failures are silent.

    The conditions are stat calls only: the program is there and not newer than the record, and nothing has appeared in
    a place that is searched before it.
    """
    base = cache_directory(environ)
    if base is None or not script:
        return
    key = quote(route_key(script, environ))
    path = os.path.join(base, "nvcc", "routes.sh")
    stamp = os.path.join(base, "nvcc", digest_text(key) + ".stamp")
    tests = [f"-x {quote(nvcc.path)}"]
    tests += [f"! {quote(one)} -nt {quote(stamp)}" for one in (nvcc.path, *nvcc.passed)]
    # A missing directory settles every path below it.
    absent = []
    for one in nvcc.absent:
        while not os.path.isdir(os.path.dirname(one)):
            one = os.path.dirname(one)
        absent.append(one)
    tests += [f"! -e {quote(one)}" for one in dict.fromkeys(absent)]
    if home:
        tests.append(f"-e {quote(home)}")
    # One `[` per test: `-a` is ambiguous when a name looks like an operator.
    checks = " && ".join(f"[ {test} ]" for test in tests)
    block = (f"# route\n[ \"$shim_key\" = {key} ] && {checks} && "
             f"shim_real={quote(nvcc.path)} && shim_home={quote(home or '')}\n")  # fmt: skip
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        known = (read_own(path, 1 << 20) or b"").decode("utf-8", "surrogateescape")
        old = known.split("# route\n")[1:]
        kept = ["# route\n" + text for text in old if f" = {key} ]" not in text][1 - ROUTES_MAX :]
        write_atomically(stamp, b"")
        write_atomically(path, "".join([*kept, block]).encode("utf-8", "surrogateescape"), mode=0o600)
    except OSError:
        pass
