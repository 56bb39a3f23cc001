"""nv_tileas: every tensor has a layout; data movement is explicit."""
