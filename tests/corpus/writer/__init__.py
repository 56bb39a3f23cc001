"""Modules written op by op through cuda-tile's bytecode writer."""
