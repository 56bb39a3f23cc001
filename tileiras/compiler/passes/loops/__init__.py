"""Passes on loops of nv_tileaa, before layouts: shapes in which the schedule room can feed them."""
