"""Runs the kernel of this example on the CPU: compiled to PTX for sm_90, executed by the emulator."""

import sys
from pathlib import Path

import numpy as np

import tileiras

n = 3000
a, b, c = np.arange(n, dtype=np.float32), np.full(n, 0.5, np.float32), np.zeros(n, np.float32)
tileiras.launch(Path(__file__).parent / "vector_add.tileir", "vector_add", grid=(3, 1, 1),
                args=[a, b, c, np.int32(n)], target="emulator", gpu_name="sm_90")  # fmt: skip
right = bool(np.array_equal(c, a + b))
print("vector_add on the emulator:", "right" if right else "WRONG")
sys.exit(0 if right else 1)
