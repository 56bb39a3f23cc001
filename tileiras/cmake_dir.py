"""Where `TileirasConfig.cmake` lies: inside the package in a wheel, beside it in a checkout."""

import os


def cmake_dir() -> str:
    """Returns the folder for `-DTileiras_DIR=`; printed by `python -m tileiras --cmake-dir`."""
    package = os.path.dirname(os.path.abspath(__file__))
    for folder in (package + "/cmake", os.path.dirname(package) + "/cmake"):
        if os.path.exists(folder + "/TileirasConfig.cmake"):
            return folder
    raise FileNotFoundError(f"TileirasConfig.cmake is in neither {package}/cmake nor its checkout")
