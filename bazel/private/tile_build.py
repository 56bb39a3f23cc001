"""Starts the build command of the tileiras package that lies in ../site, beside this file's folder.

Paths are kept as they are spelled: in a sandbox this file and the package are links, and following them would read
files that the action does not declare.
"""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "site"))

from tileiras.tools.worker import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
