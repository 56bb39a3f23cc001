"""The launch-ABI probe from the archive: one image, launched with block 1 and with its real block, in processes of their own."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path


def attempt_image(archive: Path, name: str, limit_s: float) -> Iterator[dict[str, object]]:
    """One row: the outcome with each block size, or why there is no image."""
    with zipfile.ZipFile(archive) as packed, tempfile.TemporaryDirectory() as folder:
        row = json.loads(packed.read("probe/images.json"))["images"][name]
        if "problem" in row:
            yield {"block 1": row["problem"], "real block": row["problem"]}
            return
        program, image = Path(folder) / "probe.py", Path(folder) / "image.cubin"
        program.write_bytes(packed.read("probe.py"))
        image.write_bytes(packed.read(f"probe/{row['file']}"))
        found: dict[str, object] = {}
        for label, block in (("block 1", [1, 1, 1]), ("real block", row["block"])):
            argv = [sys.executable, str(program), "attempt", str(image), *map(str, block)]
            try:
                done = subprocess.run(argv, capture_output=True, text=True, timeout=limit_s)
                lines = (done.stdout + done.stderr).strip().splitlines()
                found[label] = lines[-1] if lines else f"died with status {done.returncode}"
            except subprocess.TimeoutExpired:
                found[label] = "hung"
        yield found
