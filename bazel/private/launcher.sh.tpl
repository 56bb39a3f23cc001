#!/bin/sh
# The build command of this toolchain: the tileiras package beside this file, without anything of the user's
# Python environment. Also the persistent worker. TILEIRAS_PYTHON names another interpreter.
exec "${TILEIRAS_PYTHON:-%{python}}" -I -S -B -u "${0%/*}/tile_build.py" "$@"
