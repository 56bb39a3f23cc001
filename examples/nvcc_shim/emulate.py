"""Runs both kernels of this example on the CPU: compiled to PTX for sm_90, executed by the emulator."""

import sys
from pathlib import Path

import numpy as np

import tileiras

HERE = Path(__file__).parent
n = 3000
x, y, z = np.arange(n, dtype=np.float32), np.zeros(n, np.float32), np.zeros(n, np.float32)
where = {"target": "emulator", "gpu_name": "sm_90"}
tileiras.launch(
    HERE / "scale.tilebc", "scale", grid=(24, 1, 1), args=[x, y, np.float32(2), np.int32(n)], **where
)
tileiras.launch(
    HERE / "vector_add.tileir", "vector_add", grid=(3, 1, 1), args=[x, y, z, np.int32(n)], **where
)
right = bool(np.array_equal(z, 3 * x))
print("both kernels on the emulator:", "right" if right else "WRONG")
sys.exit(0 if right else 1)
