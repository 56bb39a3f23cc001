"""Finds NVIDIA's tools: an ordered list of places, the first that has the tool wins, and the answer says
which.

The order: explicit option, TILEIRAS_TOOLKIT_ROOT, NVIDIA's wheels beside this
interpreter, CONDA_PREFIX, CUDA_PATH, CUDA_HOME, PATH, default prefixes.  A place that the user named (the
first two) is final: a tool that is not there is an error, not a reason to use another toolkit silently.

The compile path calls `find_ptxas` on every run, so this file imports only `os` and `sys`, and a version is
read from the package metadata beside the tool; the tool is run for it only where there is none, and the
answer is kept.
"""

from __future__ import annotations

import os
import sys

from tileiras.options import is_number
from tileiras.toolchain.catalog import ONE_RELEASE, TOOLS, ptxas_needed
from tileiras.toolchain.digest import digest_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tileiras.diag import CompileError, Emitted

SCRIPT = ", a script"  # ends the identity of a tool whose results must not be kept
_EXE = ".exe" if sys.platform == "win32" else ""


class Place:
    """One root to look in; `how` names it to the user, `named` says that the user asked for exactly this
    one."""

    __slots__ = ("folders", "how", "named", "root")

    def __init__(
        self, root: str, how: str, named: bool = False, folders: tuple[str, ...] | None = None
    ) -> None:
        self.root = root
        self.how = how
        self.named = named
        self.folders = folders  # instead of the tool's usual ones, for entries of PATH


class Tool:
    """A tool that was found. `version` is as the vendor spells it ("13.4.92"), or "" where nobody can
    tell."""

    __slots__ = ("how", "name", "path", "root", "version", "version_from")

    def __init__(self, name: str, path: str, root: str, how: str, version: str, version_from: str) -> None:
        self.name = name
        self.path = path
        self.root = root
        self.how = how
        self.version = version
        self.version_from = version_from

    @property
    def release(self) -> tuple[int, int] | None:
        """(13, 4) for "13.4.92"."""
        return release_of(self.version)

    def identity(self) -> str:
        """Text that changes when the tool does, cheaply: version, size and time of the file."""
        try:
            stat = os.stat(self.path)
        except OSError:
            return f"{self.name} {self.version} missing"
        known = f"{self.name} {self.version} {stat.st_size} {stat.st_mtime_ns}"
        try:
            return known + SCRIPT if is_script(self.path) else known
        except OSError:  # it may run all the same; nobody can say what it is
            return known + SCRIPT

    def __repr__(self) -> str:
        return f"Tool({self.name!r}, {self.path!r}, {self.version!r}, how={self.how!r})"


def is_script(path: str) -> bool:
    """Whether a tool is a script: size and time of the file then say little about what it does. Errors: OSError."""
    with open(path, "rb") as file:
        return file.read(2) == b"#!"


def release_of(version: str) -> tuple[int, int] | None:
    """(13, 4) for "13.4.92", None for anything that does not start with two numbers."""
    parts = version.split(".")
    if len(parts) < 2 or not is_number(parts[0]) or not is_number(parts[1]):
        return None
    return (int(parts[0]), int(parts[1]))


def host() -> tuple[str, str]:
    """This machine as the assembler's --host-arch and --host-os spell it: ("x86_64", "linux")."""
    machine = (
        os.uname().machine if hasattr(os, "uname") else os.environ.get("PROCESSOR_ARCHITECTURE", "x86_64")
    )
    return normalize_host_arch(machine), "windows" if sys.platform == "win32" else "linux"


def normalize_host_arch(name: str) -> str:
    """ "aarch64" for arm64 and AArch64, "x86_64" for AMD64 and x64, anything else in lower case."""
    lowered = name.lower()
    return {"arm64": "aarch64", "amd64": "x86_64", "x64": "x86_64", "x86-64": "x86_64"}.get(lowered, lowered)


def site_packages() -> list[str]:
    """Directories that may hold NVIDIA's wheels, for the running interpreter, also when it runs with -I
    -S."""
    found: list[str] = []

    def add(path: str) -> None:
        if path and path not in found:
            found.append(path)

    # An installed tileiras lies in site-packages itself; a tree that put it elsewhere is covered by what
    # follows.
    add(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
    for entry in sys.path:
        if entry.endswith(("site-packages", "dist-packages")):
            add(os.path.abspath(entry))
    # With -S nobody has told sys.prefix about the virtual environment, so go from the interpreter's own
    # place.
    prefixes = [sys.prefix]
    if sys.executable:
        prefixes.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(sys.executable))))
    lib = f"lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"
    for prefix in prefixes:
        add(
            os.path.join(prefix, "Lib", "site-packages")
            if sys.platform == "win32"
            else os.path.join(prefix, lib)
        )
    return found


def places(explicit_root: str | None = None, environ: Mapping[str, str] | None = None) -> Iterator[Place]:
    """Every place to look, in order, lazily: most runs stop at the first wheel."""
    env = os.environ if environ is None else environ
    if explicit_root:
        yield Place(explicit_root, "option --toolkit-root", named=True)
        return
    if env.get("TILEIRAS_TOOLKIT_ROOT"):
        yield Place(env["TILEIRAS_TOOLKIT_ROOT"], "environment variable TILEIRAS_TOOLKIT_ROOT", named=True)
        return
    for site in site_packages():
        for folder in ("cu13", "cuda_nvcc"):
            root = os.path.join(site, "nvidia", folder)
            if os.path.isdir(root):
                yield Place(root, f"NVIDIA wheels in {site}")
    if env.get("CONDA_PREFIX"):
        prefix = env["CONDA_PREFIX"]
        yield Place(prefix, "environment variable CONDA_PREFIX")
        if sys.platform == "win32":
            yield Place(os.path.join(prefix, "Library"), "environment variable CONDA_PREFIX")
    for name in ("CUDA_PATH", "CUDA_HOME"):
        if env.get(name):
            yield Place(env[name], f"environment variable {name}")
    for folder in env.get("PATH", "").split(os.pathsep):
        if folder:
            yield Place(folder, "PATH", folders=("",))
    yield from default_prefixes()


def default_prefixes() -> Iterator[Place]:
    """Where installers put a toolkit when nobody says otherwise; of numbered ones the highest first."""
    if sys.platform == "win32":
        base = os.path.join(
            os.environ.get("ProgramFiles", r"C:\Program Files"), "NVIDIA GPU Computing Toolkit", "CUDA"
        )
        for root in _numbered(base, "v"):
            yield Place(root, "default prefix")
        return
    yield Place("/usr/local/cuda", "default prefix")
    for root in _numbered("/usr/local", "cuda-"):
        yield Place(root, "default prefix")
    yield Place("/opt/cuda", "default prefix")


def _numbered(base: str, prefix: str) -> list[str]:
    try:
        names = os.listdir(base)
    except OSError:
        return []
    found = []
    for name in names:
        release = release_of(name[len(prefix) :] + ".0") if name.startswith(prefix) else None
        if release is not None:
            found.append((release, name))
    return [os.path.join(base, name) for _, name in sorted(found, reverse=True)]


def find_tool(
    name: str,
    explicit_root: str | None = None,
    environ: Mapping[str, str] | None = None,
    trace: list[tuple[str, str]] | None = None,
) -> Tool | None:
    """The first `name` in the order above, or None. `trace` receives (place, outcome) for each place
    tried."""
    spec = TOOLS[name]
    for place in places(explicit_root, environ):
        path = _tool_in(place, name, spec.folders)
        if trace is not None:
            trace.append((f"{place.root} ({place.how})", "found" if path else "not there"))
        if path:
            return _describe(name, path, place)
    return None


def candidates(
    name: str, explicit_root: str | None = None, environ: Mapping[str, str] | None = None
) -> Iterator[tuple[str, str]]:
    """(path, how) of every file that `find_tool` would try, in order."""
    for place in places(explicit_root, environ):
        for folder in place.folders or (*TOOLS[name].folders, ""):
            yield os.path.join(place.root, folder, name + _EXE), place.how


def find_tool_beside(name: str, other: Tool) -> Tool | None:
    """`name` from the root that `other` came from, or None: a set of tools comes from one root."""
    place = Place(other.root, other.how)
    path = _tool_in(place, name, TOOLS[name].folders)
    if path is None:
        # A bin directory named by PATH need not be called bin.
        place = Place(os.path.dirname(other.path), other.how, folders=("",))
        path = _tool_in(place, name, ())
    return _describe(name, path, place) if path else None


def _tool_in(place: Place, name: str, folders: tuple[str, ...]) -> str | None:
    # The root may also have been given as its bin directory, as people do.
    for folder in place.folders or (*folders, ""):
        path = os.path.join(place.root, folder, name + _EXE)
        if os.path.isfile(path) and os.access(path, os.X_OK) and not (name in _SHARED and _is_ours(path)):
            return path
    return None


_SHARED = ("tileiras", "tileirdisasm")  # names that NVIDIA's tools and our commands have in common


def _is_ours(path: str) -> bool:
    """Whether this is a command of this project (scripts/command.in), which is no part of a toolkit."""
    try:
        with open(path, "rb") as file:
            return file.read(2) == b"#!" and b"\nfrom tileiras." in file.read(8192)
    except OSError:
        return False


def _describe(name: str, path: str, place: Place) -> Tool:
    path = os.path.abspath(path)
    real = os.path.realpath(path)
    root = place.root
    if place.folders is not None or os.path.basename(os.path.dirname(path)) == os.path.basename(
        os.path.abspath(root)
    ):
        root = os.path.dirname(os.path.dirname(real))
        if os.path.basename(root) == "nvvm" or os.path.basename(os.path.dirname(real)) == "x64":
            root = os.path.dirname(root)
    version, version_from = version_of(name, real)
    return Tool(name, path, os.path.abspath(root), place.how, version, version_from)


def find_ptxas(explicit_root: str | None = None, environ: Mapping[str, str] | None = None) -> Tool:
    """The ptxas to use. Errors: TOOL_MISSING or ROOT_INVALID, exit code 2, with every place that was
    searched."""
    return require("ptxas", explicit_root, environ)


def require(name: str, explicit_root: str | None = None, environ: Mapping[str, str] | None = None) -> Tool:
    """`find_tool`, or CompileError(2) that lists where it was looked for and how to get it."""
    tool = find_tool(name, explicit_root, environ)
    if tool is not None:
        return tool
    from tileiras.toolchain import diags

    if explicit_root or (os.environ if environ is None else environ).get("TILEIRAS_TOOLKIT_ROOT"):
        place = next(places(explicit_root, environ))
        raise diags.fail(2, diags.one(diags.ROOT_INVALID, path=place.root, how=place.how, tool=name))
    trace: list[tuple[str, str]] = []
    find_tool(name, explicit_root, environ, trace)
    missing = diags.one(diags.TOOL_MISSING, tool=name)
    missing.notes = [diags.one(diags.TOOL_SEARCHED, place=place, outcome=outcome) for place, outcome in trace]
    wheel = TOOLS[name].wheel
    advice = f"install it with: python -m pip install {wheel}   (or name a toolkit by TILEIRAS_TOOLKIT_ROOT)"
    missing.notes.append(diags.one(diags.TOOL_ADVICE, advice=advice))
    raise diags.fail(2, missing)


# --- versions
# ---------------------------------------------------------------------------------------------------


def version_of(name: str, real_path: str) -> tuple[str, str]:
    """(version, where it was read). Not by running the tool where its package says it."""
    spec = TOOLS[name]
    folder = os.path.dirname(real_path)
    for _ in range(2 if os.path.basename(folder) in ("bin",) else 3):
        folder = os.path.dirname(folder)
        version = _version_json(os.path.join(folder, "version.json"), spec.component)
        if version:
            return version, "version.json"
        # site-packages/nvidia/cu13/bin/ptxas: the metadata of the wheel lies three levels up.
        parent = os.path.dirname(os.path.dirname(folder))
        if os.path.basename(os.path.dirname(folder)) == "nvidia":
            version = _version_dist_info(parent, spec.wheel)
            if version:
                return version, "wheel metadata"
    return _version_by_running(name, real_path)


def _version_dist_info(site: str, wheel: str) -> str:
    prefix = wheel.replace("-", "_")
    try:
        names = os.listdir(site)
    except OSError:
        return ""
    versions = []
    for name in names:
        if name.endswith(".dist-info") and name.startswith(prefix):
            version = name[len(prefix) : -len(".dist-info")]
            # nvidia_cuda_nvcc-13.4.92 and nvidia_cuda_nvcc_cu12-12.9.86, but not nvidia_cuda_nvcc_something.
            head, dash, tail = version.partition("-")
            if dash and (head == "" or head.startswith("_cu")) and release_of(tail):
                versions.append(tail)
    # Two leftovers of an interrupted upgrade would make this a guess: let the tool speak for itself.
    return versions[0] if len(versions) == 1 else ""


def _version_json(path: str, component: str) -> str:
    """The version of `component` in a toolkit's version.json, by text search: importing json costs more."""
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError):
        return ""
    start = text.find(f'"{component}"')
    end = text.find("}", start)
    key = text.find('"version"', start, end)
    if start < 0 or key < 0:
        return ""
    words = text[key + len('"version"') : end].split('"')
    return words[1] if len(words) > 1 and release_of(words[1]) else ""


def _version_by_running(name: str, path: str) -> tuple[str, str]:
    """What `<tool> --version` says; kept in the cache under path, size and time, except for scripts.

    A script's size and time say nothing about the tool that it starts.
    """
    try:
        stat = os.stat(path)
        script = is_script(path)
    except OSError:
        return "", "unreadable"
    note = ""
    if not script:
        from tileiras.toolchain.cache import cache_directory, note_about, read_note, write_note

        folder = cache_directory()
        if folder:
            note = note_about(folder, "versions", path, stat)
            version = read_note(note)
            if release_of(version):
                return version, "tool --version, kept"
    from tileiras.toolchain.run import run

    done = run([path, "--version"], timeout=30)
    version = parse_version(done.stdout.decode("utf-8", "replace")) if done.status == 0 else ""
    if version and note:
        write_note(note, version)
    return version, "tool --version"


def parse_version(text: str) -> str:
    """ "13.4.92" from what an NVIDIA tool prints: "... release 13.4, V13.4.92"."""
    release = ""
    for line in text.splitlines():
        at = line.find("release ")
        if at < 0:
            continue
        for word in line[at + len("release ") :].replace(",", " ").split():
            word = word.lstrip("V")
            if release_of(word):
                release = max(release, word, key=len)
        break
    return release


def digest_file(path: str) -> str:
    """The digest of a file's content; kept in the cache under its path, size and time, as tools are large."""
    from tileiras.toolchain.cache import cache_directory, note_about, read_note, write_note

    stat = os.stat(path)
    folder = cache_directory()
    note = ""
    if folder and stat.st_size > 1 << 20:
        note = note_about(folder, "digests", path, stat)
        found = read_note(note)
        if len(found) == 40 and found.isascii() and found.isalnum():
            return found
    with open(path, "rb") as file:
        digest = digest_bytes(file.read())
    if note:
        write_note(note, digest)
    return digest


# --- checks
# -----------------------------------------------------------------------------------------------------


def find_set(explicit_root: str | None = None) -> tuple[dict[str, Tool], list[Emitted]]:
    """Every tool of the catalogue that can be found, from the root of ptxas where it is there, and what
    disagrees."""
    tools: dict[str, Tool] = {}
    anchor = find_tool("ptxas", explicit_root)
    if anchor is None:
        anchor = find_tool("tileiras", explicit_root)
    for name in TOOLS:
        tool = find_tool_beside(name, anchor) if anchor is not None else None
        if tool is None:
            tool = find_tool(name, explicit_root)
        if tool is not None:
            tools[name] = tool
    return tools, check_releases(tools)


def check_releases(tools: Mapping[str, Tool]) -> list[Emitted]:
    """One RELEASES_DIFFER for each tool whose major.minor is not that of ptxas (or of the first one
    known)."""
    from tileiras.toolchain import diags

    found: list[Emitted] = []
    first: Tool | None = None
    for name in ONE_RELEASE:
        tool = tools.get(name)
        if tool is None or tool.release is None:
            continue
        if first is None:
            first = tool
        elif tool.release != first.release:
            found.append(
                diags.one(
                    diags.RELEASES_DIFFER,
                    first=first.name,
                    first_version=first.version,
                    first_path=first.path,
                    second=tool.name,
                    second_version=tool.version,
                    second_path=tool.path,
                )
            )
    return found


def check_ptxas(ptxas: Tool, target: str, ptx_isa: tuple[int, int] | None = None) -> None:
    """Raises CompileError(2) where this ptxas is known to be too old for `target` or for that PTX ISA
    version."""
    release = ptxas.release
    if release is None:  # somebody's own wrapper: let it try, it will say what it cannot do
        return
    needed = ptxas_needed(target, ptx_isa)
    if release < needed:
        need = f"assemble for {target}"
        if ptx_isa is not None and release >= ptxas_needed(target):
            need = f"read PTX ISA {ptx_isa[0]}.{ptx_isa[1]}"
        raise too_old("ptxas", ptxas, need, needed)


def too_old(name: str, tool: Tool, need: str, needed: tuple[int, int]) -> CompileError:
    """The error, code 2, for a tool whose release is below the one `needed` to do what is needed."""
    from tileiras.toolchain import diags

    least = f"{needed[0]}.{needed[1]}"
    return diags.fail(
        2,
        diags.one(
            diags.TOOL_TOO_OLD, tool=name, version=tool.version, path=tool.path, need=need, needed=least
        ),
    )
