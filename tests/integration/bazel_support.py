"""Small Bazel workspaces for the tests, and the Bazel that builds them.

`bazel` on PATH is Debian's 4.2.3 (package bazel-bootstrap). TILEIRAS_BAZEL7 names a newer one: a program, or a root
folder made by debootstrap that holds one (with /proc mounted), which is then run by chroot. Nothing here needs a network:
the repositories that Bazel's own tools load are stand-ins, as the documentation of the rules describes for users.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import peers
import pytest

from tests.fixtures import BYTECODE

REPOSITORY = Path(__file__).resolve().parents[2]
RULES = REPOSITORY / "bazel"

# Modules that Bazel 7's own tools name and that Debian does not ship; none of them is loaded.
STUB_MODULES = ("apple_support", "buildozer", "protobuf", "rules_shell", "zlib")
_BUILDOZER = """def _empty(ctx):
    ctx.file("BUILD.bazel", "")

_repo = repository_rule(implementation = _empty)

def _impl(_ctx):
    _repo(name = "buildozer_binary")

buildozer_binary = module_extension(implementation = _impl)
"""


class Result:
    """What a Bazel command left: exit code, and its streams as one text without the sandbox's debug lines."""

    def __init__(self, command: list[str], done: subprocess.CompletedProcess[str]) -> None:
        self.command = command
        self.code = done.returncode
        self.out = done.stdout
        lines = [line for line in done.stderr.splitlines() if "src/main/tools/linux-sandbox" not in line]
        self.err = "\n".join(lines)

    @property
    def text(self) -> str:
        return self.out + self.err

    def processes(self) -> dict[str, int]:
        """Returns how many actions ran, by kind: {"internal": 1, "worker": 2, "remote cache hit": 3}."""
        found = re.findall(r"INFO: \d+ process(?:es)?: (.*?)\.$", self.err, re.M)
        if not found:
            return {}
        words = [item.strip().split(" ", 1) for item in found[-1].split(",")]
        return {kind: int(count) for count, kind in words}

    def ran(self) -> int:
        """Returns how many actions did work (not Bazel's own bookkeeping, not a cache)."""
        skipped = ("internal", "remote cache hit", "disk cache hit", "action cache hit")
        return sum(count for kind, count in self.processes().items() if kind not in skipped)


def bazel4() -> str:
    """Returns the path of Debian's Bazel; the calling test is skipped, by the package's name, without it."""
    found = shutil.which("bazel")
    if found is None:
        # Not a peer from PyPI: it can be installed only where apt is allowed, so its absence is never a failure.
        pytest.skip("needs bazel 4.2.3 (Debian package bazel-bootstrap)")
    return found


def bazel7() -> Path:
    """Returns what TILEIRAS_BAZEL7 names; the calling test is skipped, by that name, without it."""
    named = os.environ.get("TILEIRAS_BAZEL7")
    if not named or not Path(named).exists():
        pytest.skip("needs Bazel 7: TILEIRAS_BAZEL7 names no program and no debootstrap folder")
    return Path(named)


_SNAPSHOT: list[Path] = []


def package_snapshot() -> Path:
    """Returns a copy of the package as it is now.

    Every action depends on each of its files: an edit between two builds of a test would be seen, rightly, and would
    fail a test that expects nothing to run.
    """
    if not _SNAPSHOT:
        folder = Path(tempfile.mkdtemp(prefix="tileiras-package-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        copy_package(folder / "tileiras")
        _SNAPSHOT.append(folder / "tileiras")
    return _SNAPSHOT[0]


def copy_package(target: Path) -> None:
    """Copies the package to `target`."""
    shutil.copytree(REPOSITORY / "tileiras", target, ignore=shutil.ignore_patterns("__pycache__"))


def bytecode(name: str) -> Path:
    """Returns a bytecode file of the corpus."""
    return BYTECODE / f"{name}.tilebc"


class Workspace:
    """A workspace with its own Bazel server; `shutdown` ends the server and removes its outputs."""

    def __init__(self, root: Path, user_root: Path, startup: list[str] | None = None) -> None:
        self.root = root
        self.user_root = user_root
        self.program = [bazel4()]
        self.startup = startup or []
        self.python = str(peers.require_python())
        self.toolkit = str(peers.require_toolkit())
        self.rules = str(RULES)
        self.package = package_snapshot()
        # Nothing of the developer's shell may decide a test; PATH is for Bazel's own scripts and gcc.
        self.env = {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "HOME": str(user_root / "home"),
            "LC_ALL": "C.UTF-8",
        }
        (user_root / "home").mkdir(parents=True, exist_ok=True)
        root.mkdir(parents=True, exist_ok=True)

    def write(self, path: str, text: str | bytes) -> Path:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text.encode() if isinstance(text, str) else text)
        return file

    def register(self, extra: str = "", before: str = "", **arguments: str) -> None:
        """Writes WORKSPACE and .bazelrc for a local toolchain."""
        values = {"package": str(self.package), "path": self.toolkit, "python": self.python, **arguments}
        words = ", ".join(f"{name} = {value!r}".replace("'", '"') for name, value in values.items())
        self.write(
            "WORKSPACE",
            'workspace(name = "ws")\n\n'
            f'local_repository(name = "tileiras", path = "{self.rules}")\n\n{before}'
            'load("@tileiras//:repositories.bzl", "tile_dependencies", "tile_register_toolchains")\n\n'
            f"tile_dependencies()\n\ntile_register_toolchains({words})\n{extra}",
        )
        self.write_rc()

    def write_rc(self, extra: str = "") -> None:
        rc = "build --jobs=2 --nosandbox_debug\n"
        for name in ("remote_coverage_tools", "rules_cc", "rules_java"):
            for command in ("build", "query"):  # a path may hold a blank
                rc += f'{command} "--override_repository={name}={self.rules}/stubs/{name}"\n'
        self.write(".bazelrc", rc + extra)

    def run(self, *words: str, check: bool | None = True, env: dict[str, str] | None = None) -> Result:
        """Runs a Bazel command; `check` False expects failure, None accepts both."""
        command = [
            *self.program,
            "--nohome_rc",
            "--host_jvm_args=-Xmx1g",
            "--max_idle_secs=60",
            f"--output_user_root={self.user_root}",
            *self.startup,
            *words,
        ]
        done = subprocess.run(
            command,
            cwd=self.root,
            env={**self.env, **(env or {})},
            capture_output=True,
            text=True,
            timeout=500,
        )
        result = Result(command, done)
        if check is not None:
            assert (result.code == 0) == check, f"{' '.join(words)}: exit code {result.code}\n{result.text}"
        return result

    def build(self, *words: str, check: bool | None = True, env: dict[str, str] | None = None) -> Result:
        return self.run(
            "build",
            "--color=no",
            "--curses=no",
            "--show_progress_rate_limit=60",
            *words,
            check=check,
            env=env,
        )

    def outputs(self, target: str, *flags: str) -> list[Path]:
        """Returns the files of a target, as `bazel cquery` names them in Starlark."""
        expression = "'\\n'.join([f.path for f in target.files.to_list()])"
        # Without config() cquery lists the target in every configuration that something of the build gives it.
        query = f"config({target}, target)"
        done = self.run("cquery", *flags, "--output=starlark", f"--starlark:expr={expression}", query)
        return [self.execroot / line for line in done.out.splitlines() if line]

    @property
    def execroot(self) -> Path:
        return (self.root / "bazel-out").resolve().parent

    @property
    def bin(self) -> Path:
        return self.root / "bazel-bin"

    def digests(self, folder: str = "") -> dict[str, str]:
        """Returns a digest for each artefact of ours below bazel-bin."""
        base = self.bin / folder
        suffixes = (".cubin", ".fatbin", ".json", ".tilebc", ".ptx", ".h", ".c", ".cc", ".a", ".o")
        files = [p for p in sorted(base.resolve().rglob("*")) if p.is_file() and p.name.endswith(suffixes)]
        return {
            str(p.relative_to(base.resolve())): hashlib.sha256(p.read_bytes()).hexdigest()
            for p in files
            if "runfiles" not in str(p)
        }

    def shutdown(self) -> None:
        self.run("shutdown", check=None)
        # Bazel makes its folders read-only.
        subprocess.run(["chmod", "-R", "u+w", str(self.user_root)], check=False, capture_output=True)
        shutil.rmtree(self.user_root, ignore_errors=True)


class Bazel7Workspace(Workspace):
    """A workspace with MODULE.bazel under a newer Bazel, inside a debootstrap folder where TILEIRAS_BAZEL7 is one."""

    def __init__(self, name: str) -> None:
        place = bazel7()
        self.chroot = place if place.is_dir() else None
        base = (
            self.chroot / "var" / "tmp" if self.chroot else Path("/var/tmp")
        ) / f"tileiras-test-{os.getpid()}-{name}"
        shutil.rmtree(base, ignore_errors=True)
        base.mkdir(parents=True)
        self.base = base
        super().__init__(base / "ws", base / "out")
        self.program = [str(place)]
        if self.chroot is None:
            return
        # The folder sees nothing outside: bring the rules, the package and the tools along.
        for name_, source in (("bazel", RULES), ("tileiras", REPOSITORY / "tileiras")):
            shutil.copytree(source, base / name_, ignore=shutil.ignore_patterns("__pycache__"))
        real = Path(self.toolkit)
        for path in ("bin/ptxas", "bin/fatbinary", "bin/tileiras", "bin/nvdisasm", "lib/libnvvm.so.4"):
            if (real / path).exists():
                (base / "cuda" / path).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(real / path, base / "cuda" / path)
        self.rules = self.inside(base / "bazel")
        self.toolkit = self.inside(base / "cuda")
        self.python = "/usr/bin/python3"

    def inside(self, path: Path) -> str:
        return "/" + str(path.relative_to(self.chroot)) if self.chroot else str(path)

    @property
    def execroot(self) -> Path:
        link = os.readlink(self.root / "bazel-out")
        return Path(str(self.chroot or "") + link).parent

    @property
    def bin(self) -> Path:
        link = os.readlink(self.root / "bazel-bin")
        return Path(str(self.chroot or "") + link)

    def register(self, extra: str = "", before: str = "", **arguments: str) -> None:
        values = {"path": self.toolkit, "python": self.python, **arguments}
        words = ", ".join(f'{name} = "{value}"' for name, value in values.items())
        self.write(
            "MODULE.bazel",
            'module(name = "ws")\n\nbazel_dep(name = "tileiras", version = "0.1.0")\n'
            f'local_path_override(module_name = "tileiras", path = "{self.rules}")\n\n{before}'
            f'tile = use_extension("@tileiras//:extensions.bzl", "tile")\ntile.toolkit({words})\n{extra}',
        )
        rc = "common --noenable_workspace\nbuild --jobs=2 --nosandbox_debug\n"
        for name in STUB_MODULES:
            stub = self.base / "modules" / name
            stub.mkdir(parents=True, exist_ok=True)
            (stub / "MODULE.bazel").write_text(f'module(name = "{name}")\n')
            (stub / "BUILD.bazel").touch()
            rc += f"common --override_module={name}={self.inside(stub)}\n"
        (self.base / "modules" / "buildozer" / "buildozer_binary.bzl").write_text(_BUILDOZER)
        self.write(".bazelrc", rc)

    def run(self, *words: str, check: bool | None = True, env: dict[str, str] | None = None) -> Result:
        options = ["--nohome_rc", "--host_jvm_args=-Xmx1g", "--max_idle_secs=60"]
        options.append(f"--output_user_root={self.inside(self.user_root)}")
        full = {**self.env, "HOME": "/tmp", **(env or {})}
        if self.chroot is None:
            command = [*self.program, *options, *words]
        else:
            chroot = shutil.which("chroot", path="/usr/sbin:/sbin:/usr/bin:/bin") or "chroot"
            script = 'cd "$1" && shift && exec bazel "$@"'
            command = [
                chroot,
                str(self.chroot),
                "sh",
                "-c",
                script,
                "sh",
                self.inside(self.root),
                *options,
                *words,
            ]
        done = subprocess.run(command, cwd=self.root, env=full, capture_output=True, text=True, timeout=500)
        result = Result(command, done)
        if check is not None:
            assert (result.code == 0) == check, f"{' '.join(words)}: exit code {result.code}\n{result.text}"
        return result

    def shutdown(self) -> None:
        super().shutdown()
        subprocess.run(["chmod", "-R", "u+w", str(self.base)], check=False, capture_output=True)
        shutil.rmtree(self.base, ignore_errors=True)


# --- one workspace that every Bazel builds

SAMPLE_BUILD = """
load("@tileiras//:compat.bzl", "cc_binary", "cc_library", "cc_test", "py_test")
load(
    "@tileiras//:defs.bzl",
    "tile_configured",
    "tile_cubin",
    "tile_fatbin",
    "tile_golden_test",
    "tile_kernels_json",
    "tile_library",
    "tile_test",
)
load(":parent.bzl", "parent")

package(default_visibility = ["//visibility:public"])

tile_library(name = "axpy", srcs = ["axpy.tilebc"], compiler = "nvidia")

tile_library(
    name = "pair",
    srcs = ["axpy.tilebc", "sub/axpy.tilebc"],
    archs = ["sm_80", "sm_90a", "120-virtual"],
    compiler = "nvidia",
    language = "CXX",
    namespace = "pair::gpu",
)

tile_library(
    name = "incbin",
    srcs = ["axpy.tilebc"],
    compiler = "nvidia",
    embed = "incbin",
    include_prefix = "some/prefix",
    prefix = "other",
)

tile_cubin(name = "one", srcs = ["axpy.tilebc"], arch = "sm_89", compiler = "nvidia", opt_level = 1)

tile_fatbin(name = "bundle", deps = [":one", ":pair_single"])

tile_library(name = "pair_single", srcs = ["sub/axpy.tilebc"], archs = ["sm_120"], compiler = "nvidia")

tile_kernels_json(name = "table", deps = [":axpy", ":one"])

tile_library(name = "both", srcs = ["sub/axpy.tilebc"], archs = ["sm_87"], compiler = "nvidia", deps = [":axpy", ":plain"])

cc_library(name = "plain", hdrs = ["plain.h"])

cc_test(name = "transitive", srcs = ["transitive.c"], deps = [":both"])

parent(name = "parent", archs = ["sm_88"], deps = [":axpy"])

tile_configured(name = "axpy_for_86", archs = ["sm_86"], library = ":axpy")

tile_configured(name = "axpy_for_100", archs = ["sm_100", "sm_103"], library = ":axpy")

cc_binary(name = "program", srcs = ["main.c"], deps = [":axpy", ":incbin"])

cc_test(name = "program_cxx", srcs = ["main.cc"], deps = [":pair"])

cc_binary(name = "libshared.so", srcs = ["shared.c"], linkshared = True, deps = [":axpy"])

py_test(
    name = "loads",
    srcs = ["loads.py"],
    data = [":axpy"],
    deps = ["@tileiras//:runfiles"],
)
"""

_MAIN_C = """#include <stdio.h>
#include <string.h>
#include "k/axpy_tile.h"
#include "some/prefix/incbin_tile.h"

int main(void) {
  if (axpy_image_size != other_image_size) return 1;
  if (memcmp(axpy_image, other_image, axpy_image_size) != 0) return 2;
  printf("%s %u %d\\n", axpy_kernels[0].symbol, (unsigned)axpy_image_size, (int)axpy_kernel_count);
  return 0;
}
"""

_MAIN_CC = """#include "k/pair_tile.h"

int main() {
  return pair_axpy_0_image_size > 0 && pair_axpy_1_image_size > 0 ? 0 : 1;
}
"""

_TRANSITIVE = """#include "k/axpy_tile.h"
#include "k/both_tile.h"
#include "k/plain.h"

int main(void) {
  return axpy_kernel_count == 1 && both_kernel_count == 1 && PLAIN ? 0 : 1;
}
"""

# A rule of a user's own that configures what it depends on.
_PARENT = """load("@tileiras//:defs.bzl", "TileInfo", "tile_archs_transition")

def _impl(ctx):
    return [DefaultInfo(files = depset([c.file for dep in ctx.attr.deps for c in dep[TileInfo].cubins.to_list()]))]

parent = rule(
    implementation = _impl,
    cfg = tile_archs_transition,
    attrs = {
        "archs": attr.string_list(),
        "deps": attr.label_list(providers = [TileInfo]),
        "_allowlist_function_transition": attr.label(
            default = "@bazel_tools//tools/allowlists/function_transition_allowlist",
        ),
    },
)
"""

_LOADS = """import os

from tileiras_bazel import locate

with open(locate("ws/k/axpy.fatbin"), "rb") as file:
    # The magic of a fat binary, little endian.
    assert file.read(4) == bytes.fromhex("50ed55ba"), "no container"
assert os.path.exists(locate("ws/k/_tile/axpy/axpy.sm_90.kernels.json"))
"""


def write_sample(ws: Workspace) -> None:
    """Writes package //k: libraries of one and two sources, their consumers in C, C++ and Python."""
    ws.write("k/axpy.tilebc", bytecode("axpy_f32").read_bytes())
    ws.write("k/sub/axpy.tilebc", bytecode("axpy_f16").read_bytes())
    ws.write("k/BUILD", SAMPLE_BUILD)
    ws.write("k/main.c", _MAIN_C)
    ws.write("k/main.cc", _MAIN_CC)
    ws.write("k/shared.c", '#include "k/axpy_tile.h"\nunsigned long size(void) { return axpy_image_size; }\n')
    ws.write("k/loads.py", _LOADS)
    ws.write("k/parent.bzl", _PARENT)
    ws.write("k/plain.h", "#define PLAIN 1\n")
    ws.write("k/transitive.c", _TRANSITIVE)
