"""The schedule room: how loops are fed, in which pieces, with how many warps. Its answers stand in the nv_tileas text."""
