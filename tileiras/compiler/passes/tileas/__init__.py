"""Passes on nv_tileas: the D family and the TileIR operation analysis."""
