"""cuda_tile: Tile IR as the frontends write it."""
