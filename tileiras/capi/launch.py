"""Starts the worker of libtileiras with an interpreter that knows nothing of this package: `python3 -I -S launch.py --serve`.

With -I -S no setting of the host program's environment reaches the compiler. Two folders are added to the path: the one
that holds the package, and the interpreter's own packages, where NVIDIA's wheels may lie.
"""

import os
import sys

here = os.path.dirname(os.path.abspath(__file__))
root = os.path.dirname(os.path.dirname(here))
site = (
    f"{os.path.dirname(os.path.dirname(sys.executable))}"
    f"/lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"
)
sys.path[:] = [root, *(entry for entry in sys.path if entry not in (here, root))]
if site != root and os.path.isdir(site):
    sys.path.append(site)

from tileiras.cli import main  # noqa: E402 - the path comes first

sys.exit(main(sys.argv[1:]))
