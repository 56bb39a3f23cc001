"""One Tile kernel behind two binding libraries: `_nanobind` and `_pybind11` have the same three functions."""
