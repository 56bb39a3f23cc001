"""libtileiras: a C program that knows nothing of Python, one worker process behind it, and what happens when it dies."""

from __future__ import annotations

import ctypes
import os
import re
import shlex
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from contract.kit import BAD_EXTI, NOOP, REPOSITORY, bytecode, entry, module, run
from contract.rules import rule

import tileiras
from tileiras.capi.build import build, worker_header

CC = shutil.which("cc") or shutil.which("gcc")
pytestmark = pytest.mark.skipif(CC is None, reason="needs a C compiler")
BARE = module(entry(name="noop"), attrs="")

Callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)


class Options(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_size_t), ("gpu_name", ctypes.c_char_p), ("opt_level", ctypes.c_int),
        ("host_arch", ctypes.c_char_p), ("host_os", ctypes.c_char_p), ("flags", ctypes.c_uint), ("diagnostic", Callback),
        ("user", ctypes.c_void_p),
    ]  # fmt: skip


class Library:
    """The shared library, and everything its callbacks said."""

    def __init__(self, path: Path) -> None:
        self.c = ctypes.CDLL(str(path))
        self.c.tileirasProgramCreate.argtypes = [
            ctypes.c_void_p,
            ctypes.c_char_p,
            ctypes.c_size_t,
            ctypes.c_void_p,
        ]
        self.c.tileirasProgramCompile.argtypes = [ctypes.c_void_p]
        self.c.tileirasProgramGetOutput.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
        self.c.tileirasProgramRelease.argtypes = [ctypes.c_void_p]
        self.said: list[tuple[bytes, str]] = []
        self.on_diagnostic: Any = None
        self.callback = Callback(self._hear)

    def _hear(self, record: int, rendered: bytes, user: int) -> None:
        self.said.append((ctypes.string_at(record, 208), rendered.decode()))
        if self.on_diagnostic:
            self.on_diagnostic(record)

    def options(self, **fields: Any) -> Options:
        given = {
            "struct_size": ctypes.sizeof(Options),
            "gpu_name": b"sm_90",
            "opt_level": 3,
            "diagnostic": self.callback,
        }
        return Options(**{**given, **fields})

    def create(self, source: str | bytes | None, **fields: Any) -> tuple[int, ctypes.c_void_p]:
        data = source.encode() if isinstance(source, str) else source
        handle = ctypes.c_void_p(1)
        code = self.c.tileirasProgramCreate(
            ctypes.byref(handle), data, len(data or b""), ctypes.byref(self.options(**fields))
        )
        return code, handle

    def output(self, handle: ctypes.c_void_p) -> tuple[int, bytes]:
        data, size = ctypes.c_void_p(1), ctypes.c_size_t(1)
        code = self.c.tileirasProgramGetOutput(handle, ctypes.byref(data), ctypes.byref(size))
        return code, ctypes.string_at(data.value, size.value) if data.value else b""

    def compile(self, source: str | bytes, **fields: Any) -> tuple[int, bytes]:
        code, handle = self.create(source, **fields)
        if code:
            return code, b""
        code = self.c.tileirasProgramCompile(handle)
        image = self.output(handle)[1] if code == 0 else b""
        assert self.c.tileirasProgramRelease(ctypes.byref(handle)) == 0 and not handle.value
        return code, image


@pytest.fixture(scope="module")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An installation of the library."""
    folder = tmp_path_factory.mktemp("capi")
    build(folder)
    return folder


@pytest.fixture
def library(prefix: Path, tmp_path: Path) -> Library:
    """A copy of its own: its pool of workers belongs to one test."""
    copy = tmp_path / "libtileiras-test.so"
    shutil.copyfile(prefix / "lib" / "libtileiras.so", copy)
    return Library(copy)


def word(record: bytes) -> int:
    return int.from_bytes(record[0x10:0x12], "little")


@rule("driver-four-entry-points", "exit-0-success")
def test_compile(library: Library) -> None:
    code, image = library.compile(NOOP)
    assert code == 0 and library.said == []
    assert image == tileiras.compile(NOOP).cubin, "the command, Python and C share one code path"
    code, other = library.compile(bytecode(BARE), gpu_name=b"sm_80", flags=8)
    assert code == 0 and other == tileiras.compile(bytecode(BARE), "sm_80", launch_abi="simt").cubin


@rule("exit-per-call-site", "exit-4-handle-state", "exit-2-configuration")
def test_codes_by_call_site(library: Library) -> None:
    c = library.c
    assert library.create(None)[0] == 2
    assert word(library.said[-1][0]) == 0x503
    assert c.tileirasProgramCreate(None, b"x", 1, ctypes.byref(library.options())) == 2
    handle = ctypes.c_void_p(1)
    assert c.tileirasProgramCreate(ctypes.byref(handle), b"x", 1, None) == 2 and not handle.value
    data, size = ctypes.c_void_p(1), ctypes.c_size_t(1)
    assert c.tileirasProgramGetOutput(None, ctypes.byref(data), ctypes.byref(size)) == 4
    assert not data.value and not size.value
    assert c.tileirasProgramCompile(None) == 4
    assert (
        c.tileirasProgramRelease(None) == 4 and c.tileirasProgramRelease(ctypes.byref(ctypes.c_void_p())) == 4
    )
    code, handle = library.create(NOOP)
    assert code == 0 and library.output(handle) == (4, b"")
    assert c.tileirasProgramCompile(handle) == 0 and c.tileirasProgramCompile(handle) == 0
    assert c.tileirasProgramGetOutput(handle, None, ctypes.byref(size)) == 4
    assert library.output(handle)[0] == 0
    stale = ctypes.c_void_p(handle.value)
    assert c.tileirasProgramRelease(ctypes.byref(handle)) == 0 and not handle.value
    assert c.tileirasProgramCompile(stale) == 4 and library.output(stale) == (4, b"")
    assert c.tileirasProgramRelease(ctypes.byref(stale)) == 4 and stale.value, (
        "a handle that is no program stays as it is"
    )


@rule("exit-3-bytecode", "exit-5-compile")
@pytest.mark.parametrize(
    ("source", "fields", "at_create", "code"),
    [
        (b"\0" * 16, {}, True, 3),
        (b"", {}, True, 3),
        (NOOP, {"gpu_name": b"sm_999"}, True, 2),
        (NOOP, {"opt_level": 4}, True, 2),
        (NOOP, {"host_os": b"plan9"}, True, 2),
        (NOOP, {"flags": 2}, True, 2),
        (NOOP, {"flags": 0x100}, True, 2),
        (NOOP, {"struct_size": 3}, True, 2),
        (bytecode(BARE), {"gpu_name": None}, True, 2),
        (BAD_EXTI, {}, False, 5),
        (bytecode(BARE)[:-3], {}, False, 3),
    ],
    ids=[
        "zeros",
        "empty",
        "gpu",
        "level",
        "host os",
        "debug",
        "flags",
        "struct size",
        "no gpu",
        "verifier",
        "cut",
    ],
)
def test_refusals(library: Library, source: Any, fields: dict[str, Any], at_create: bool, code: int) -> None:
    created, handle = library.create(source, **fields)
    if at_create:
        assert created == code and not handle.value
    else:
        assert created == 0 and library.c.tileirasProgramCompile(handle) == code
        said = list(library.said)
        assert library.output(handle) == (4, b"")
        library.said = said
        library.c.tileirasProgramRelease(ctypes.byref(handle))
    if "struct_size" in fields:
        return  # no callback can be known
    assert all(record[0xCF] for record, _ in library.said), "the guard: these bodies have been flushed"
    words = {word(record) for record, _ in library.said}
    assert words <= {2: {0x503}, 3: {0x104}, 5: {0x103}}[code] and library.said


@rule("diag-body-size-208", "diag-offset-severity", "diag-offset-location")
def test_the_record_arrives_with_its_pointers(library: Library) -> None:
    from contract.test_diag_record import field, text_at

    seen: list[Any] = []

    def look(record: int) -> None:
        body = ctypes.string_at(record, 208)
        where = field(body, 0, "Q")
        arguments = [
            text_at(field(ctypes.string_at(field(body, 0x18, "Q") + 24 * i, 24), 8, "Q"))
            for i in range(field(body, 0x20, "I"))
        ]
        location = ctypes.string_at(where, 24)
        seen.append((text_at(field(location, 0, "Q")), field(location, 8, "I"), arguments, body[0xCF]))

    library.on_diagnostic = look
    assert library.compile(BAD_EXTI)[0] == 5
    text = "exti requires the result width to be strictly greater than the input width"
    assert seen[0] == ("<input>", 5, [text], 1)
    assert library.said[0][1].splitlines()[0] == f"<input>:5:7: error: 'cuda_tile.exti' op {text}"
    assert seen[-1][2] == [library.said[-1][1][len("error: ") :]] == ["failed to compile Tile IR program"]


@rule("exit-1-allocation")
def test_allocation_failure(tmp_path: Path) -> None:
    capi = REPOSITORY / "tileiras" / "capi"
    (tmp_path / "tileiras_worker.h").write_text(worker_header(sys.executable, str(capi / "launch.py")))
    (tmp_path / "null.c").write_text(
        "#include <stdlib.h>\nint refuse;\nvoid *allocate(size_t n) { return refuse ? NULL : calloc(1, n); }\n"
    )
    path = tmp_path / "lib.so"
    sources = [str(capi / "tileiras.c"), str(capi / "worker.c"), str(tmp_path / "null.c")]
    subprocess.run(
        [str(CC), "-shared", "-fPIC", "-pthread", "-DTILEIRAS_ALLOCATE=allocate", f"-I{capi}/include", f"-I{tmp_path}", *sources,
         "-o", str(path)], check=True,
    )  # fmt: skip
    library = Library(path)
    assert library.compile(NOOP)[0] == 0
    ctypes.c_int.in_dll(library.c, "refuse").value = 1
    code, handle = library.create(NOOP)
    assert code == 1 and not handle.value and word(library.said[-1][0]) == 0x103


def test_exported_symbols(prefix: Path) -> None:
    """Plain `cc` exports the four functions, too: a host links two libraries of its own names."""
    capi = REPOSITORY / "tileiras" / "capi"
    out = prefix / "plain.so"
    subprocess.run(
        [
            str(CC),
            "-shared",
            "-fPIC",
            "-pthread",
            f"-I{capi}/include",
            str(capi / "tileiras.c"),
            str(capi / "worker.c"),
            "-o",
            str(out),
        ],
        check=True,
    )
    for path in (out, prefix / "lib" / "libtileiras.so"):
        listed = subprocess.run(
            ["nm", "-D", "--defined-only", str(path)], capture_output=True, text=True, check=True
        ).stdout
        names = sorted(line.split()[-1] for line in listed.splitlines() if " T " in line)
        assert names == [f"tileirasProgram{verb}" for verb in ("Compile", "Create", "GetOutput", "Release")]


CRASH = """#!/bin/sh
# Says hello, reads a request, says so, and dies; after the first time it is the real one.
if [ -e {marker} ]; then exec {python} -m tileiras "$@"; fi
touch {marker}
exec {python} -c '
import os, struct
def read(n):
    data = b""
    while len(data) < n:
        data += os.read(0, n - len(data))
    return data
def answer():
    size, kind = struct.unpack("<Ic", read(5))
    read(size)
    os.write(1, struct.pack("<Ic", 0, b"A"))
    return kind
os.write(1, struct.pack("<Ic", 9, b"H") + b"TILEIRAS1")
while answer() == b"K":
    os.write(1, struct.pack("<Ici", 4, b"R", 0))
os.kill(os.getpid(), 9)
'
"""


def test_survives_a_crash_of_the_worker(
    library: Library, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = tmp_path / "worker"
    worker.write_text(
        CRASH.format(marker=shlex.quote(str(tmp_path / "crashed")), python=shlex.quote(sys.executable))
    )
    worker.chmod(0o755)
    monkeypatch.setenv("TILEIRAS_COMMAND", str(worker))
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))
    code, handle = library.create(NOOP)
    assert code == 0
    assert library.c.tileirasProgramCompile(handle) == 5
    assert [text for _, text in library.said] == [
        "error: the compiler process died (killed by signal 9)", "error: failed to compile Tile IR program",
    ]  # fmt: skip
    assert {word(record) for record, _ in library.said} == {0x103}
    assert library.output(handle) == (4, b"")
    assert library.c.tileirasProgramCompile(handle) == 0, "the next call has a fresh worker"
    assert library.output(handle)[1] == tileiras.compile(NOOP).cubin


def children() -> set[int]:
    """Of every thread."""
    return {
        int(p) for task in Path("/proc/self/task").iterdir() for p in (task / "children").read_text().split()
    }


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc")
def test_an_idle_worker_that_died_costs_nothing(library: Library) -> None:
    before = children()
    assert library.compile(NOOP)[0] == 0
    (worker,) = children() - before
    os.kill(worker, 9)
    assert library.compile(NOOP)[0] == 0 and library.said == []
    assert len(children() - before) == 1, "the dead one is reaped, one is alive"


def test_no_compiler_at_hand(library: Library, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    other = tmp_path / "tileiras"
    other.write_text("#!/bin/sh\necho unknown option; exit 1\n")  # such as NVIDIA's, which has no --serve
    other.chmod(0o755)
    for command in (tmp_path / "missing", other):
        monkeypatch.setenv("TILEIRAS_COMMAND", str(command))
        code, handle = library.create(NOOP)
        assert code == 2 and not handle.value and "cannot start the compiler" in library.said[-1][1]


def test_threads(library: Library) -> None:
    """Programs compile side by side; a broken one between them disturbs none."""
    expected = {name: tileiras.compile(module(entry(name=name))).cubin for name in ("a", "b", "c")}
    failures: list[Any] = []

    def work(name: str) -> None:
        for _ in range(2):
            code, image = library.compile(module(entry(name=name)))
            if (code, image) != (0, expected[name]):
                failures.append((name, code))
            if library.compile(BAD_EXTI)[0] != 5:
                failures.append(name)

    threads = [threading.Thread(target=work, args=(name,)) for name in "abcab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures and len(library.said) == 20


def test_a_callback_may_use_the_library(library: Library) -> None:
    inner: list[tuple[int, int]] = []

    def again(record: int) -> None:
        library.on_diagnostic = None
        inner.append((library.compile(NOOP)[0], library.output(handle)[0]))

    code, handle = library.create(BAD_EXTI)
    library.on_diagnostic = again
    assert code == 0 and library.c.tileirasProgramCompile(handle) == 5 and inner == [(0, 4)]


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc")
def test_after_fork(library: Library) -> None:
    assert library.compile(NOOP)[0] == 0
    child = os.fork()
    if child == 0:
        code = library.compile(NOOP)[0]
        os._exit(code if len(children()) == 1 else 99)  # a worker of its own, and not its parent's
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert library.compile(NOOP)[0] == 0, "the parent's worker answered nobody else"


@pytest.fixture(scope="module")
def example(prefix: Path) -> Path:
    """examples/capi, built through pkg-config as its Makefile does."""
    pkg_config = shutil.which("pkg-config")
    if pkg_config is None:
        pytest.skip("needs pkg-config")
    source = REPOSITORY / "examples" / "capi"
    folder = prefix / "example"
    shutil.copytree(source, folder, ignore=shutil.ignore_patterns("build"))
    found = f"PKG_CONFIG_PATH={prefix}/lib/pkgconfig"  # as the Makefile's head says
    subprocess.run(["make", "-C", str(folder), f"CC={CC} -Werror", found], check=True, capture_output=True)
    return folder


@rule("exit-main-propagates")
def test_the_example(example: Path, tmp_path: Path) -> None:
    """A host program in C, in an environment that has no Python of ours."""
    env = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(tmp_path)}
    done = run(
        [str(example / "compile"), "vector_add.tileir", str(tmp_path / "v.cubin"), "sm_80"], example, env
    )
    assert (done.status, done.err) == (0, "")
    image = (tmp_path / "v.cubin").read_bytes()
    assert image == tileiras.compile(example / "vector_add.tileir", "sm_80", launch_abi="simt").cubin
    done = run([str(example / "launch"), "vector_add.tileir"], example, env)
    assert done.status == 0 and re.search(r"sm_90 is complete\n$|right\n$", done.out), done.err
    bad = tmp_path / "bad.tileir"
    bad.write_text(BAD_EXTI)
    done = run([str(example / "compile"), str(bad), str(tmp_path / "x"), "sm_90"], example, env)
    assert done.status == 5 and "word 0x103, line 5" in done.err and "error: 'cuda_tile.exti' op" in done.err
    assert run([str(example / "compile"), "compile.c", str(tmp_path / "x")], example, env).status == 3
    assert (
        run([str(example / "compile"), "vector_add.tileir", str(tmp_path / "x"), "sm_1"], example, env).status
        == 2
    )
    assert not (tmp_path / "x").exists()


def test_the_header_is_cxx_and_strict_c(tmp_path: Path) -> None:
    include = f"-I{REPOSITORY}/tileiras/capi/include"
    source = tmp_path / "u.c"
    source.write_text(
        "#include <tileiras.h>\n"
        "typedef char argument_is_24[sizeof(tileirasArgument) == 24 ? 1 : -1];\n"
        "typedef char location_is_24[sizeof(tileirasLocation) == 24 ? 1 : -1];\n"
        "typedef char inline_ends[TILEIRAS_RECORD_INLINE + 4 * 24 == TILEIRAS_RECORD_NOTES ? 1 : -1];\n"
    )
    strict = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only", include, str(source)]
    subprocess.run([str(CC), "-std=c99", *strict], check=True)
    cxx = shutil.which("c++") or shutil.which("g++")
    if cxx:
        subprocess.run(
            [cxx, "-std=c++11", "-Wall", "-Werror", "-fsyntax-only", "-x", "c++", include, str(source)],
            check=True,
        )


def test_header_and_record_agree() -> None:
    from tileiras.capi import record

    header = (REPOSITORY / "tileiras/capi/include/tileiras.h").read_text()
    defined = dict(
        line.split()[1:3] for line in header.splitlines() if line.startswith("#define TILEIRAS_RECORD_")
    )
    for name, value in (
        ("SIZE", record.SIZE), ("LOCATION", record.LOCATION), ("SEVERITY", record.SEVERITY), ("ARGS_BEGIN", record.ARGS_BEGIN),
        ("ARG_COUNT", record.ARG_COUNT), ("INLINE", record.INLINE), ("NOTES", record.NOTES), ("NOTE_COUNT", record.NOTE_COUNT),
        ("OP_NAME", record.OP_NAME), ("GUARD", record.GUARD),
    ):  # fmt: skip
        assert int(defined[f"TILEIRAS_RECORD_{name}"], 0) == value


def test_cmake_target(tmp_path: Path) -> None:
    """find_package(Tileiras) and Tileiras::capi."""
    cmake = shutil.which("cmake")
    if cmake is None:
        pytest.skip("needs cmake")
    build_folder = tmp_path / "build"
    subprocess.run(
        [cmake, "-S", str(REPOSITORY / "examples" / "capi"), "-B", str(build_folder), f"-DTileiras_DIR={REPOSITORY}/cmake",
         f"-DTileiras_PYTHON_EXECUTABLE={sys.executable}"], check=True, capture_output=True,
    )  # fmt: skip
    subprocess.run([cmake, "--build", str(build_folder)], check=True, capture_output=True)
    source = REPOSITORY / "examples" / "capi" / "vector_add.tileir"
    done = run(
        [str(build_folder / "compile"), str(source), str(tmp_path / "v.cubin")], tmp_path, {"PYTHONPATH": ""}
    )
    assert done.status == 0 and (tmp_path / "v.cubin").read_bytes()[:4] == b"\x7fELF"


@pytest.mark.full
@pytest.mark.parametrize("sanitizer", ["address,undefined", "thread"])
def test_under_sanitizers(sanitizer: str, tmp_path: Path) -> None:
    capi = REPOSITORY / "tileiras" / "capi"
    (tmp_path / "tileiras_worker.h").write_text(worker_header(sys.executable, str(capi / "launch.py")))
    program = tmp_path / "stress"
    sources = [
        str(Path(__file__).with_name("capi_stress.c")),
        str(capi / "tileiras.c"),
        str(capi / "worker.c"),
    ]
    built = subprocess.run(
        [str(CC), "-g", f"-fsanitize={sanitizer}", "-pthread", f"-I{capi}/include", f"-I{tmp_path}",
         *sources, "-o", str(program)],
        capture_output=True, text=True,
    )  # fmt: skip
    if built.returncode and "cannot find" in built.stderr:
        pytest.skip(f"needs the runtime of -fsanitize={sanitizer}")
    assert built.returncode == 0, built.stderr
    (tmp_path / "good").write_text(NOOP)
    (tmp_path / "bad").write_text(BAD_EXTI)
    done = run([str(program), "good", "bad"], tmp_path)
    assert done.status == 0 and "Sanitizer" not in done.err, done.err
