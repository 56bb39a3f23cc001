"""What a launch left, as `tileiras-run` shows, saves and compares it."""

from __future__ import annotations

import argparse
import sys

from .run_values import Typed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    import numpy as np

    from .run import Plan

EXIT_MISMATCH = 6


def compare(got: np.ndarray, want: Any, rtol: float, atol: float) -> tuple[bool, str]:
    """(equal, what to say). Integers compare exactly, NaN equals NaN, a scalar stands for an array of it."""
    import numpy as np

    want = np.asarray(want)
    if want.ndim and want.shape != got.shape:
        return False, f"shape {list(got.shape)}, expected {list(want.shape)}"
    exact = got.dtype.kind in "iub" and want.dtype.kind in "iub"
    if exact:
        bad = got != want
        worst = ""
    else:
        g, w = got.astype(np.float64), want.astype(np.float64)
        with np.errstate(all="ignore"):
            difference = np.abs(g - w)
            bad = ~((difference <= atol + rtol * np.abs(w)) | (g == w) | (np.isnan(g) & np.isnan(w)))
            finite = difference[np.isfinite(difference)]
            worst = f", largest |difference| {finite.max():.3g}" if finite.size else ""
    count = int(np.count_nonzero(bad))
    if not count:
        return True, f"equal, {got.size} elements{worst}"
    place = tuple(int(i) for i in np.argwhere(bad)[0])
    expected = np.broadcast_to(want, got.shape)[place]
    return (
        False,
        f"{count} of {got.size} elements differ, first at {list(place)}: "
        f"{got[place]}, expected {expected}{worst}",
    )


def check_saved(paths: list[str], source: str) -> None:
    """Errors: OutputError for a file that is named twice, and for the kernel's own."""
    from tileiras.outputs import Outputs

    Outputs(paths).unlink_old(source, keep=True)


def save_array(path: str, array: np.ndarray) -> None:
    """Write a .npy file as the commands write outputs: whole or not at all, and into devices. Errors: OutputError."""
    import io

    import numpy as np

    from tileiras.outputs import Outputs

    out = io.BytesIO()
    np.save(out, np.asarray(array), allow_pickle=False)
    outputs = Outputs([path])
    try:
        outputs.write(path, out.getvalue())
        outputs.commit()
    finally:
        outputs.discard()


def report(options: argparse.Namespace, plan: Plan, entry: str, seconds: float, table: str = "") -> int:
    """Show, save and compare what a launch left; the exit code."""
    sys.stdout.flush()
    say = (lambda text: None) if options.quiet else print
    say(f"{entry}: grid {'x'.join(map(str, plan.grid))} on {options.target} in {seconds:.3f} s")
    if table:
        print(table)
    for name in options.show:
        import numpy

        print(f"{name} = {numpy.array2string(plan.find(name), threshold=64)}")
    for name, path in plan.save:
        save_array(path, plan.find(name))
    wrong = 0
    for name, want in plan.expected:
        want = want.value if isinstance(want, Typed) else want
        equal, text = compare(plan.find(name), want, options.rtol, options.atol)
        if equal:
            say(f"{name}: {text}")
        else:
            wrong += 1
            print(f"{name}: {text}")
    if plan.expected:
        say("PASS" if not wrong else "FAIL")
    return EXIT_MISMATCH if wrong else 0
