"""``tileiras --explain CODE``: why a diagnostic is given and what to do, from explanations.txt. Loaded for that alone."""

from __future__ import annotations

import os


def table() -> dict[str, str]:
    """code -> its explanation: the paragraphs `cause: ...` and `remedy: ...`."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "explanations.txt")
    with open(path, encoding="utf-8") as stream:
        text = stream.read()
    found: dict[str, str] = {}
    for section in text.split("\n[")[1:]:
        codes, _, body = section.partition("]")
        for code in codes.split():
            found[code] = body.strip()
    return found


def explain(code: str) -> tuple[str, str]:
    """(what to print, problem): one of them is empty. Letters of either case will do."""
    known = table()
    by_name = {name.lower(): name for name in known}
    name = by_name.get(code.strip().lower())
    if name is not None:
        return f"{name}\n{known[name]}\n", ""
    from difflib import get_close_matches

    near = get_close_matches(code.strip().lower(), list(by_name), 1, 0.5)
    hint = f"; did you mean {by_name[near[0]]}?" if near else f"; codes look like {next(iter(known))}"
    return "", f"no diagnostic has the code '{code}'{hint}"
