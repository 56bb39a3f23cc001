"""``python -m tileiras.tools.build``."""

import sys

from tileiras.tools.build import main

sys.exit(main())
