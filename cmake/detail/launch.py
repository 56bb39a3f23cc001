"""Runs one tool of the package for CMake: `python3 -I -S launch.py build compile ...`.

The rules call the interpreter and this file by absolute paths, so a build needs no script on PATH, no activated
environment and no PYTHON* variable, and behaves the same from a wheel, an editable installation and a checkout.
With -S it adds two folders to the path: the one that holds the package, and the interpreter's own packages (where
NVIDIA's wheels lie). `--site` as first word keeps the environment as it is (NumPy may come from anywhere).
"""

import os
import sys

here = os.path.dirname(os.path.abspath(__file__))
above = os.path.dirname(os.path.dirname(here))
# <site-packages>/tileiras/cmake/detail in a wheel, <checkout>/cmake/detail otherwise
package_root = (
    os.path.dirname(above)
    if os.path.basename(above) == "tileiras" and os.path.exists(above + "/version.py")
    else above
)

arguments = sys.argv[1:]
sys.path[:] = [entry for entry in sys.path if entry != here]
sys.path.insert(0, package_root)
if arguments[:1] == ["--site"]:
    del arguments[0]
else:
    prefix = os.path.dirname(os.path.dirname(sys.executable))
    site = f"{prefix}/lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"
    if site != package_root and os.path.isdir(site):
        sys.path.append(site)

name = arguments.pop(0)
sys.argv = ["tileiras-" + name, *arguments]
main = __import__("tileiras.tools." + name, fromlist=["main"]).main
sys.exit(main(arguments))
