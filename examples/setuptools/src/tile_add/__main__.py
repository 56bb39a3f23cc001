"""python -m tile_add: launches the kernel on a GPU; without one, checks the image and runs the kernel on the emulator."""

import sys
from pathlib import Path

import numpy as np

from . import describe, image, launch
from .device import Device

FATBIN = bytes.fromhex("50ed55ba")


def main() -> int:
    n = 3000
    a, b = np.arange(n, dtype=np.float32), np.full(n, 0.5, np.float32)
    c = np.zeros(n, np.float32)
    print(describe())
    if image()[:4] != FATBIN:
        print("the image is damaged")
        return 1
    try:
        device = Device()
    except OSError as error:
        print(f"no GPU here ({error}); on the emulator, from the PTX for sm_90:")
        import tileiras

        kernel = Path(__file__).parent / "kernels" / "vector_add.tileir"
        tileiras.launch(
            kernel,
            "vector_add",
            grid=(3, 1, 1),
            args=[a, b, c, np.int32(n)],
            target="emulator",
            gpu_name="sm_90",
        )
    else:
        pointers = [device.to_device(one) for one in (a, b, c)]
        launch(*pointers, n)
        device.to_host(pointers[2], c)
    right = bool(np.array_equal(c, a + b))
    print("vector_add:", "right" if right else "WRONG")
    return 0 if right else 1


sys.exit(main())
