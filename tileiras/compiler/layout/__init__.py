"""Layouts as linear maps over GF(2): one algebra for registers, lanes, warps and shared memory."""
