"""A directory of links that gives a toolkit from NVIDIA's wheels the shape of an installed one.

Two programs need it.  CMake's FindCUDAToolkit wants an unversioned libcudart; NVIDIA's tileiras 13.1
loads `<root>/nvvm/lib64/libnvvm.so`, which the wheels keep as `lib/libnvvm.so.4`, and fails without a reason
when it is not there ("failed to compile Tile IR program").  Nothing is copied.
"""

from __future__ import annotations

import os


def make_view(source: str, view: str) -> None:
    """Makes or renews `view` over the toolkit at `source`; what is already right is left alone."""
    os.makedirs(os.path.join(view, "lib"), exist_ok=True)
    for name in ("bin", "include"):
        if os.path.isdir(os.path.join(source, name)):
            link(os.path.join(source, name), os.path.join(view, name))
    libraries = next((f for f in ("lib64", "lib") if os.path.isdir(os.path.join(source, f))), None)
    names = sorted(os.listdir(os.path.join(source, libraries))) if libraries else []
    for name in names:
        path = os.path.join(source, str(libraries), name)
        link(path, os.path.join(view, "lib", name))
        stem, mark, _ = name.partition(".so.")
        if mark and stem + ".so" not in names:
            link(path, os.path.join(view, "lib", stem + ".so"))
    link("lib", os.path.join(view, "lib64"))
    _nvvm(source, view)


def _nvvm(source: str, view: str) -> None:
    folder = os.path.join(view, "nvvm")
    if os.path.islink(folder):  # an earlier version linked the folder as a whole
        os.unlink(folder)
    os.makedirs(folder, exist_ok=True)
    try:
        names = os.listdir(os.path.join(source, "nvvm"))
    except OSError:
        names = []
    for name in names:
        link(os.path.join(source, "nvvm", name), os.path.join(folder, name))
    if "lib64" not in names and os.path.exists(os.path.join(view, "lib", "libnvvm.so")):
        os.makedirs(os.path.join(folder, "lib64"), exist_ok=True)
        link(
            os.path.join(os.pardir, os.pardir, "lib", "libnvvm.so"),
            os.path.join(folder, "lib64", "libnvvm.so"),
        )


def link(target: str, path: str) -> None:
    """Makes or renews a symbolic link, without a moment in which it is missing."""
    from tileiras.files import temporary_sibling

    if os.path.islink(path) and os.readlink(path) == target:
        return
    temporary = temporary_sibling(path)
    os.symlink(target, temporary)
    os.replace(temporary, path)
