"""The compiler: Tile IR to PTX, standard library only."""
