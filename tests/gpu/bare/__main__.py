"""Runs everything that needs a GPU, from one archive, on a bare machine: Python 3.10 or later and the driver.

    python3 tileiras-gpu.pyz [--results DIR] [--minutes 9] [--only probe corpus peaks timing] [--rehearse]

Each call works for at most --minutes and ends with 75 while there is more to do: call it again until it ends with 0 (all
done; the report is printed and lies in DIR/report.md). Results are written as they come, so a call may be interrupted at any
time. A kernel that crashes or hangs costs its own process only. Ends with 2 where there is no driver or no device;
--rehearse checks the archive as far as that goes and says so, with 0.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
import zipfile
from pathlib import Path

from bare import report
from bare.corpus import run_case
from bare.cuda import CudaError, Gpu, NoDriver
from bare.timing import copy_peak, instruction_peak, library_peak, time_kernel

STEPS = ("probe", "corpus", "peaks", "timing")
MORE_TO_DO, NO_GPU = 75, 2
PATIENCE_S = 60.0  # for one case, kernel or image
ARCHIVE = Path(sys.argv[0]).absolute()


class Results:
    """Lines of JSON in a file a step: each has a name, and what was found."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def rows(self, step: str) -> dict[str, dict[str, object]]:
        """name -> the last complete line about it."""
        path = self.folder / f"{step}.jsonl"
        found = {}
        for line in path.read_text().splitlines() if path.exists() else ():
            try:
                row = json.loads(line)
            except ValueError:  # an interrupted write
                continue
            found[row["name"]] = row
        return found

    def add(self, step: str, name: str, **fields: object) -> None:
        with (self.folder / f"{step}.jsonl").open("a") as file:
            file.write(json.dumps({"name": name, **fields}) + "\n")


def names_of(archive: zipfile.ZipFile, step: str) -> list[str]:
    """What a step has to do, in order."""
    if step == "peaks":
        return ["machine", "copy", "instruction", "library"]
    if step == "probe":
        return list(json.loads(archive.read("probe/images.json"))["images"])
    return sorted(
        Path(n).stem for n in archive.namelist() if n.startswith(f"{step}/") and n.endswith(".json")
    )


# ---- the worker: does items one after the other, a line before and after each
def worker(step: str, names: list[str]) -> int:
    """Reports `start NAME` and `done NAME JSON` on standard output. Ends at the first error that costs the context."""
    gpu = Gpu()
    with zipfile.ZipFile(ARCHIVE) as archive:
        for name in names:
            print(f"start {name}", flush=True)
            try:
                found = perform(gpu, archive, step, name)
            except CudaError as error:
                print(f"done {name}\t{json.dumps({'problem': str(error)})}", flush=True)
                return 1
            print(f"done {name}\t{json.dumps(found)}", flush=True)
            if any(key.endswith("_problem") for key in found):
                return 1
    return 0


def perform(gpu: Gpu, archive: zipfile.ZipFile, step: str, name: str) -> dict[str, object]:
    """What one item gives."""
    if step == "corpus":
        problem = run_case(gpu, archive, name)
        return {"problem": problem} if problem else {}
    if step == "timing":
        return time_kernel(gpu, archive, name)
    if name == "machine":
        return gpu.describe()
    if name == "copy":
        return copy_peak(gpu)
    return instruction_peak(gpu, archive) if name == "instruction" else library_peak(gpu)


# ---- the parent
def drive(step: str, names: list[str], results: Results, deadline: float) -> bool:
    """Does what is left of a step until the deadline; returns whether all is done."""
    left = [n for n in names if n not in results.rows(step)]
    while left and time.monotonic() < deadline:
        if step == "probe":
            from bare import probing

            for row in probing.attempt_image(ARCHIVE, left[0], PATIENCE_S):
                results.add(step, left[0], **row)
            left = left[1:]
            continue
        argv = [sys.executable, str(ARCHIVE), "--worker", step]
        process = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        done = _listen(process, step, left, results, deadline)
        left = [n for n in left if n not in done]
    return not left


def _listen(
    process: subprocess.Popen[str], step: str, names: list[str], results: Results, deadline: float
) -> set[str]:
    """Writes a worker's findings down; kills it when one item takes too long or time is up."""
    import queue
    import threading

    assert process.stdin and process.stdout and process.stderr
    lines: queue.Queue[str | None] = queue.Queue()

    def read() -> None:
        assert process.stdout
        for line in process.stdout:
            lines.put(line)
        lines.put(None)

    threading.Thread(target=read, daemon=True).start()
    try:
        process.stdin.write("\n".join(names))
        process.stdin.close()
    except BrokenPipeError:
        pass  # it ended already: its message says why
    done: set[str] = set()
    current, problem = "", ""
    while True:
        try:
            line = lines.get(timeout=PATIENCE_S)
        except queue.Empty:
            problem = f"hung: nothing for {PATIENCE_S:g} s"
            break
        if line is None:
            break
        word, _, rest = line.rstrip("\n").partition(" ")
        if word == "start":
            current = rest
            if time.monotonic() > deadline:
                current = ""
                break
        elif word == "done":
            name, _, found = rest.partition("\t")
            results.add(step, name, **json.loads(found))
            done.add(name)
            current = ""
    process.kill()
    message = process.stderr.read().strip().splitlines()
    status = process.wait()
    if not current and not done and not problem and time.monotonic() < deadline:
        current = names[0]  # it did not get as far as saying what it does: do not try the same for ever
    if current:
        said = problem or f"died with status {status}" + (f": {message[-1]}" if message else "")
        results.add(step, current, problem=said)
        done.add(current)
    return done


def rehearse(archive: zipfile.ZipFile) -> list[str]:
    """What is wrong with the archive itself."""
    problems = [f"damaged: {archive.testzip()}"] if archive.testzip() else []
    present = set(archive.namelist())
    for step in STEPS:
        for name in names_of(archive, step):
            if step not in ("corpus", "timing"):
                continue
            spec = json.loads(archive.read(f"{step}/{name}.json"))
            wanted = [spec["image"]] if step == "corpus" else [f"{name}.{who}" for who in spec["images"]]
            problems += [f"{step}/{name}: no image {w}" for w in wanted if f"images/{w}.cubin" not in present]
            if step == "corpus":
                size = archive.getinfo(f"corpus/{name}.bin").file_size
                problems += [
                    f"corpus/{name}: data too short"
                    for s in spec["segments"]
                    if max(s["at"], s["want"]) + s["size"] > size
                ]
    for row in json.loads(archive.read("probe/images.json"))["images"].values():
        if "file" in row and f"probe/{row['file']}" not in present:
            problems.append(f"probe: no image {row['file']}")
    return problems


def main(argv: list[str]) -> int:
    if argv[:1] == ["--worker"]:
        return worker(argv[1], sys.stdin.read().split("\n"))
    parser = argparse.ArgumentParser(
        prog="tileiras-gpu.pyz", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--results", type=Path, default=Path("tileiras-gpu-results"))
    parser.add_argument("--minutes", type=float, default=9.0)
    parser.add_argument("--only", nargs="+", choices=STEPS, default=STEPS)
    parser.add_argument(
        "--rehearse", action="store_true", help="check the archive, up to the point where a driver is needed"
    )
    options = parser.parse_args(argv)
    deadline = time.monotonic() + 60 * options.minutes
    with zipfile.ZipFile(ARCHIVE) as archive:
        plan = {step: names_of(archive, step) for step in STEPS}
        target = json.loads(archive.read("archive.json"))["gpu_name"]
        if options.rehearse:
            problems = rehearse(archive)
            print(
                "\n".join(problems)
                or f"archive for {target}: " + ", ".join(f"{len(n)} of {s}" for s, n in plan.items())
            )
            if problems:
                return 1
    try:
        arch = Gpu().arch
    except NoDriver as error:
        print(f"no GPU: {error}", file=sys.stdout if options.rehearse else sys.stderr)
        return 0 if options.rehearse else NO_GPU
    if arch != target:
        print(
            f"this archive is for {target}, the GPU is {arch}: pack one with --gpu-name {arch}",
            file=sys.stderr,
        )
        return NO_GPU
    results = Results(options.results)
    complete = True
    for step in STEPS:
        if step in options.only:
            complete = drive(step, plan[step], results, deadline) and complete
    text = report.write(results, plan, target)
    (options.results / "report.md").write_text(text)
    if not complete:
        left = sum(len(set(plan[s]) - set(results.rows(s))) for s in options.only)
        print(f"{left} items left: call again with --results {options.results}")
        return MORE_TO_DO
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
