"""What matrices of kernels are refused for, by `tile_kernel_matrix` of CMake and `--matrix` of `tileiras-build export`."""

from __future__ import annotations

from tileiras.diag import ERROR, Diag

NO_MATRIX = Diag("BLD-0042", ERROR, "'{path}' is no matrix: {why}")
r"""
cause: The file is not JSON, or not in UTF-8; the reason and the place follow.
remedy: Correct what the message names; docs/build-command.md has examples.

  $ printf 'import cuda.tile as ct\n\n@ct.kernel\ndef k(x, n: ct.Constant[int]):\n    pass\n' > source.py
  $ tileiras-build export source.py --entry k --matrix k.json --signature "f32[1],=@n@" -o k.out
- {"n": [64}
+ {"n": [64]}
"""

KEY = Diag("BLD-0089", ERROR, "'{path}' is no matrix: unknown key '{key}'")
r"""
cause: An object with "values" has keys beside it, of which the message names one that is none of exclude,
signature, symbol.
remedy: Correct the spelling, or move it into "values" where it is a member.

  $ printf 'import cuda.tile as ct\n\n@ct.kernel\ndef k(x, n: ct.Constant[int]):\n    pass\n' > source.py
  $ tileiras-build export source.py --entry k --matrix k.json --signature "f32[1],=@n@" -o k.out
- {"values": {"n": [64]}, "symbl": "k@n@"}
+ {"values": {"n": [64]}, "symbol": "k@n@"}
"""

TEMPLATE = Diag(
    "BLD-0090", ERROR, "'{path}' is no matrix: '{key}' is no text of one line, without '|' and ';'"
)
r"""
cause: "signature" and "symbol" are templates, which are written as one line, and which the build system splits at
these signs.
remedy: Write a text of one line: "signature": "f32[1],=@n@".

  $ printf 'import cuda.tile as ct\n\n@ct.kernel\ndef k(x, n: ct.Constant[int]):\n    pass\n' > source.py
  $ tileiras-build export source.py --entry k --matrix k.json --signature "f32[1],=@n@" -o k.out
- {"values": {"n": [64]}, "symbol": ["k64"]}
+ {"values": {"n": [64]}, "symbol": "k64"}
"""

EXCLUDE = Diag("BLD-0091", ERROR, "'{path}' is no matrix: \"exclude\" is no list of objects")
r"""
cause: "exclude" lists the combinations to leave out, each of them an object with some of the members.
remedy: Write a list, with one object too: "exclude": [{"n": 64}].

  $ printf 'import cuda.tile as ct\n\n@ct.kernel\ndef k(x, n: ct.Constant[int]):\n    pass\n' > source.py
  $ tileiras-build export source.py --entry k --matrix k.json --signature "f32[1],=@n@" -o k.out
- {"values": {"n": [64, 128]}, "exclude": {"n": 64}}
+ {"values": {"n": [64, 128]}, "exclude": [{"n": 64}]}
"""

NO_KERNEL = Diag("BLD-0092", ERROR, "'{path}' is no matrix: it describes no kernel")
r"""
cause: A list in it is empty, or "exclude" leaves nothing.
remedy: Give each member a value; leave out what excludes too much.

  $ printf 'import cuda.tile as ct\n\n@ct.kernel\ndef k(x, n: ct.Constant[int]):\n    pass\n' > source.py
  $ tileiras-build export source.py --entry k --matrix k.json --signature "f32[1],=@n@" -o k.out
- {"n": []}
+ {"n": [64]}
"""

NO_LIST = Diag("BLD-0093", ERROR, "'{path}' is no matrix: '{key}' is no list of values")
r"""
cause: In an object of lists each member has the values that it takes, one behind the other.
remedy: Put a single value into brackets, too.

  $ printf 'import cuda.tile as ct\n\n@ct.kernel\ndef k(x, n: ct.Constant[int]):\n    pass\n' > source.py
  $ tileiras-build export source.py --entry k --matrix k.json --signature "f32[1],=@n@" -o k.out
- {"n": 64}
+ {"n": [64]}
"""

LIST = Diag("BLD-0094", ERROR, "'{path}' is no matrix: a list holds one object for each kernel")
r"""
cause: A list says each kernel by an object with its members; one of its elements is something else.
remedy: Write objects, or an object of lists for all combinations.

  $ printf 'import cuda.tile as ct\n\n@ct.kernel\ndef k(x, n: ct.Constant[int]):\n    pass\n' > source.py
  $ tileiras-build export source.py --entry k --matrix k.json --signature "f32[1],=@n@" -o k.out
- [64]
+ [{"n": 64}]
"""

FORM = Diag(
    "BLD-0095", ERROR, "'{path}' is no matrix: it is neither an object of lists nor a list of objects"
)
r"""
cause: The file is JSON, but a text, a number or a constant.
remedy: Write an object of lists (all combinations) or a list of objects (exactly those).

  $ printf 'import cuda.tile as ct\n\n@ct.kernel\ndef k(x, n: ct.Constant[int]):\n    pass\n' > source.py
  $ tileiras-build export source.py --entry k --matrix k.json --signature "f32[1],=@n@" -o k.out
- "n"
+ {"n": [64]}
"""

ROW = Diag("BLD-0096", ERROR, "'{path}' is no matrix: it has a row without members")
r"""
cause: An empty object says nothing about its kernel.
remedy: Name a member and its value, or leave the object out.

  $ printf 'import cuda.tile as ct\n\n@ct.kernel\ndef k(x, n: ct.Constant[int]):\n    pass\n' > source.py
  $ tileiras-build export source.py --entry k --matrix k.json --signature "f32[1],=@n@" -o k.out
- [{"n": 64}, {}]
+ [{"n": 64}]
"""

MEMBER = Diag("BLD-0097", ERROR, "'{path}' is no matrix: '{key}' is no identifier")
r"""
cause: The name of a member stands in templates as @name@, and is made of letters, digits and underscores.
remedy: Rename it, here and where it is used.

  $ printf 'import cuda.tile as ct\n\n@ct.kernel\ndef k(x, n: ct.Constant[int]):\n    pass\n' > source.py
  $ tileiras-build export source.py --entry k --matrix k.json --signature "f32[1],=@n@" -o k.out
- {"tile-n": [64]}
+ {"n": [64]}
"""

SCALAR = Diag("BLD-0098", ERROR, "'{path}' is no matrix: '{key}' has the value '{value}', which is no scalar")
r"""
cause: A value is an object, a list or holds one of ][{}|; or a line's end, at which the build system splits.
remedy: Write a number, a constant or a plain text; several members for several numbers.

  $ printf 'import cuda.tile as ct\n\n@ct.kernel\ndef k(x, n: ct.Constant[int]):\n    pass\n' > source.py
  $ tileiras-build export source.py --entry k --matrix k.json --signature "f32[1],=@n@" -o k.out
- {"n": [[64, 128]]}
+ {"n": [64, 128]}
"""

TWICE = Diag("BLD-0099", ERROR, "'{path}' is no matrix: an object names one member twice")
r"""
cause: JSON has no rule which of the two counts.
remedy: Write all its values into one list.

  $ printf 'import cuda.tile as ct\n\n@ct.kernel\ndef k(x, n: ct.Constant[int]):\n    pass\n' > source.py
  $ tileiras-build export source.py --entry k --matrix k.json --signature "f32[1],=@n@" -o k.out
- {"n": [64], "n": [128]}
+ {"n": [64, 128]}
"""

HOLE = Diag("BLD-0100", ERROR, "'{path}' is no matrix: no value for '{name}'")
r"""
cause: A template has a placeholder, @name@ or {name}, that is no member.
remedy: Correct the name, or add the member.

  $ printf 'import cuda.tile as ct\n\n@ct.kernel\ndef k(x, n: ct.Constant[int]):\n    pass\n' > source.py
  $ tileiras-build export source.py --entry k --matrix k.json --signature "f32[1],=@n@" -o k.out
- {"values": {"n": [64]}, "symbol": "k@m@"}
+ {"values": {"n": [64]}, "symbol": "k@n@"}
"""

ONE_NAME = Diag(
    "BLD-0101", ERROR, "'{path}' is no matrix: two kernels are named '{unit}': {first} and {second}"
)
r"""
cause: Kernels are named after their values, with an underscore for each letter that a name cannot have, or by
"symbol".
remedy: Give the matrix a "symbol" in which the values differ, or leave out the row that is there twice.

  $ printf 'import cuda.tile as ct\n\n@ct.kernel\ndef k(x, n: ct.Constant[int]):\n    pass\n' > source.py
  $ tileiras-build export source.py --entry k --matrix k.json --signature "f32[1],=@n@" -o k.out
- {"n": [64, 64]}
+ {"n": [64]}
"""

NO_SIGNATURE = Diag("BLD-0102", ERROR, "'{path}' is no matrix: no signature, neither there nor as {option}")
r"""
cause: The kernel is written in Python, and nothing says with which types it is exported.
remedy: Add "signature" beside "values", or give one for all rows.

  $ printf 'import cuda.tile as ct\n\n@ct.kernel\ndef k(x, n: ct.Constant[int]):\n    pass\n' > source.py
  $ tileiras-build export source.py --entry k --matrix k.json -o k.out
- {"values": {"n": [64]}, "symbol": "k@n@"}
+ {"values": {"n": [64]}, "symbol": "k@n@", "signature": "f32[1],=@n@"}
"""
