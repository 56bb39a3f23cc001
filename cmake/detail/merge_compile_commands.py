"""Adds the entries of one compile_commands.json to another: `merge_compile_commands.py INTO FROM`.

An entry replaces the one with the same output, so that merging twice changes nothing.
"""

import json
import os
import sys

into, source = sys.argv[1:]
entries = []
if os.path.exists(into):
    with open(into, encoding="utf-8") as file:
        entries = json.load(file)
with open(source, encoding="utf-8") as file:
    added = json.load(file)
outputs = {entry["output"] for entry in added}
merged = [entry for entry in entries if entry.get("output") not in outputs] + added
partial = into + ".partial"
with open(partial, "w", encoding="utf-8") as file:
    json.dump(merged, file, indent=2, ensure_ascii=False)
    file.write("\n")
os.replace(partial, into)
