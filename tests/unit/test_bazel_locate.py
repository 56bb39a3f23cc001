"""The runfiles locator: folder, manifest only (Windows), repository mapping, package data."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "bazel" / "__init__.py"


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("tileiras_bazel_under_test", SOURCE)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


bazel = load()


def write(path: Path, text: str = "data") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_runfiles_folder(tmp_path: Path) -> None:
    file = write(tmp_path / "p.runfiles" / "ws" / "a b" / "k.fatbin")
    env = {"RUNFILES_DIR": str(tmp_path / "p.runfiles")}
    assert bazel.locate("ws/a b/k.fatbin", environ=env) == str(file)
    assert bazel.locate("ws/a b", environ=env) == str(file.parent)
    with pytest.raises(bazel.RunfileNotFound, match=r"k2\.fatbin"):
        bazel.locate("ws/k2.fatbin", environ=env)


def test_manifest_only(tmp_path: Path) -> None:
    target = write(tmp_path / "elsewhere" / "k.fatbin")
    tree = write(tmp_path / "tree" / "sub" / "x.json").parent.parent
    manifest = write(
        tmp_path / "p.runfiles_manifest",
        f"ws/k.fatbin {target}\r\nws/tree {tree}\nws/empty \nws/gone {tmp_path / 'gone'}\n",
    )
    # As Bazel sets them on Windows: the folder is named, but nobody made it.
    env = {
        "RUNFILES_MANIFEST_FILE": str(manifest),
        "RUNFILES_DIR": str(tmp_path / "p.runfiles"),
        "RUNFILES_MANIFEST_ONLY": "1",
    }
    assert bazel.locate("ws/k.fatbin", environ=env) == str(target)
    assert bazel.locate("ws/tree/sub/x.json", environ=env) == str(tree / "sub" / "x.json")
    with pytest.raises(bazel.RunfileNotFound, match="empty on purpose"):
        bazel.locate("ws/empty", environ=env)
    with pytest.raises(bazel.RunfileNotFound):
        bazel.locate("ws/gone", environ=env)


def test_manifest_escapes(tmp_path: Path) -> None:
    target = write(tmp_path / "a b\\c" / "k #1.fatbin")
    escaped = str(target).replace("\\", "\\b")
    manifest = write(tmp_path / "M", f" ws/a\\sb\\bc/k\\s#1.fatbin {escaped}\n")
    assert bazel.locate("ws/a b\\c/k #1.fatbin", environ={"RUNFILES_MANIFEST_FILE": str(manifest)}) == str(
        target
    )


def test_manifest_inside_the_folder(tmp_path: Path) -> None:
    target = write(tmp_path / "k.fatbin")
    write(tmp_path / "p.runfiles" / "MANIFEST", f"ws/k.fatbin {target}\n")
    assert bazel.locate("ws/k.fatbin", environ={"RUNFILES_DIR": str(tmp_path / "p.runfiles")}) == str(target)


@pytest.mark.parametrize("form", ["folder", "manifest"])
def test_repository_mapping(tmp_path: Path, form: str) -> None:
    root = tmp_path / "p.runfiles"
    main = write(root / "_main" / "k.fatbin")
    other = write(root / "kernels+1.0" / "k.fatbin")
    nested = write(root / "kernels+2.0" / "k.fatbin")
    mapping = write(
        root / "_repo_mapping",
        ",my_module,_main\n,kernels,kernels+1.0\nlib+,kernels,kernels+2.0\next+*,kernels,kernels+2.0\n",
    )
    env = {"RUNFILES_DIR": str(root)}
    if form == "manifest":
        lines = {
            "_main/k.fatbin": main,
            "kernels+1.0/k.fatbin": other,
            "kernels+2.0/k.fatbin": nested,
            "_repo_mapping": mapping,
        }
        text = "".join(f"{name} {path}\n" for name, path in lines.items())
        env = {"RUNFILES_MANIFEST_FILE": str(write(tmp_path / "manifest", text))}
    assert bazel.locate("my_module/k.fatbin", environ=env) == str(main)
    assert bazel.locate("_main/k.fatbin", environ=env) == str(main)
    assert bazel.locate("kernels/k.fatbin", environ=env) == str(other)
    assert bazel.locate("kernels/k.fatbin", "lib+", environ=env) == str(nested)
    assert bazel.locate("kernels/k.fatbin", "ext+repo", environ=env) == str(nested)


@pytest.mark.parametrize("path", ["", "../k", "ws/../k", "ws//k", "ws/./k", "\\ws\\k"])
def test_refused_paths(path: str) -> None:
    with pytest.raises(ValueError):
        bazel.locate(path, environ={})


def test_absolute_path_is_kept() -> None:
    assert bazel.locate(os.path.abspath("k"), environ={}) == os.path.abspath("k")


def test_package_data_when_bazel_did_not_start_the_program(tmp_path: Path) -> None:
    file = write(tmp_path / "kernels_pkg" / "images" / "k.fatbin")
    write(tmp_path / "kernels_pkg" / "__init__.py", "raise RuntimeError('a look-up imports nothing')")
    program = (
        f"import sys; sys.path[:0] = [{str(tmp_path)!r}, {str(SOURCE.parent.parent)!r}]\n"
        f"import importlib.util as u; s = u.spec_from_file_location('b', {str(SOURCE)!r}); b = u.module_from_spec(s)\n"
        "s.loader.exec_module(b); print(b.locate('ws/src/kernels_pkg/images/k.fatbin'))"
    )
    env = {k: v for k, v in os.environ.items() if not k.startswith("RUNFILES") and k != "TEST_SRCDIR"}
    done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True)
    assert done.stdout.strip() == str(file), done.stderr


@pytest.mark.parametrize("layout", ["folder", "manifest"])
def test_beside_the_program(tmp_path: Path, layout: str) -> None:
    program = write(
        tmp_path / "tool",
        f"import importlib.util as u; s = u.spec_from_file_location('b', {str(SOURCE)!r}); b = u.module_from_spec(s)\n"
        "s.loader.exec_module(b); print(b.locate('ws/k.fatbin'))",
    )
    if layout == "folder":
        file = write(tmp_path / "tool.runfiles" / "ws" / "k.fatbin")
    else:
        file = write(tmp_path / "k.fatbin")
        write(tmp_path / "tool.runfiles_manifest", f"ws/k.fatbin {file}\n")
    env = {k: v for k, v in os.environ.items() if not k.startswith("RUNFILES") and k != "TEST_SRCDIR"}
    done = subprocess.run([sys.executable, str(program)], env=env, capture_output=True, text=True)
    assert done.stdout.strip() == str(file), done.stderr


def test_bazels_own_library_is_asked_first(tmp_path: Path) -> None:
    file = write(tmp_path / "from_library")
    write(
        tmp_path / "lib" / "runfiles" / "__init__.py",
        "class Runfiles:\n"
        "    @staticmethod\n"
        "    def Create(): return Runfiles()\n"
        "    def CurrentRepository(self, frame=1): return 'caller'\n"
        "    def Rlocation(self, path, source_repo=None):\n"
        f"        return {str(file)!r} if (path, source_repo) == ('ws/k', 'caller') else None\n",
    )
    program = (
        f"import sys; sys.path.insert(0, {str(tmp_path / 'lib')!r})\n"
        f"import importlib.util as u; s = u.spec_from_file_location('b', {str(SOURCE)!r}); b = u.module_from_spec(s)\n"
        "s.loader.exec_module(b); print(b.locate('ws/k'))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == str(file), done.stderr


def test_it_is_a_module_of_the_package() -> None:
    import tileiras.bazel

    assert Path(tileiras.bazel.__file__ or "").samefile(SOURCE)


def test_directory_is_the_repository() -> None:
    assert (Path(bazel.directory()) / "defs.bzl").exists()
