"""The debug sections of a PTX file: file names, names of inlined functions and, for -g, a DWARF 2 description.

ptxas makes `.debug_line` out of the `.loc` lines. For a debug target it also wants `.debug_abbrev` and
`.debug_info`: one compile unit, the kernels with their extent, and the functions that were inlined into them.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tileiras.compiler.nvvm.code import DebugTable

_STRING, _DATA2, _DATA4, _UDATA, _ADDRESS, _FLAG, _DATA1, _BLOCK1 = 8, 5, 6, 15, 1, 12, 11, 10  # DW_FORM
_PRODUCER, _LANGUAGE, _NAME, _STMT_LIST, _COMP_DIR, _LOW_PC, _HIGH_PC = 37, 19, 3, 16, 27, 17, 18  # DW_AT
_FRAME_BASE, _DECL_FILE, _DECL_LINE, _EXTERNAL, _INLINE = 64, 58, 59, 63, 32
_LINKAGE_NAME = (135, 64)  # DW_AT_MIPS_linkage_name, two bytes of LEB128
_UNIT, _SUBPROGRAM = 17, 46  # DW_TAG
_LANG_C = 2
_CALL_FRAME_CFA = 156

_ABBREVIATIONS = (
    (1, _UNIT, 1, _PRODUCER, _STRING, _LANGUAGE, _DATA2, _NAME, _STRING, _STMT_LIST, _DATA4, _COMP_DIR, _STRING,
     _LOW_PC, _ADDRESS, 0, 0),
    (2, _SUBPROGRAM, 0, *_LINKAGE_NAME, _STRING, _NAME, _STRING, _DECL_FILE, _UDATA, _DECL_LINE, _UDATA, _EXTERNAL,
     _FLAG, _INLINE, _DATA1, 0, 0),
    (3, _SUBPROGRAM, 0, _LOW_PC, _ADDRESS, _HIGH_PC, _ADDRESS, _FRAME_BASE, _BLOCK1, *_LINKAGE_NAME, _STRING, _NAME,
     _STRING, _DECL_FILE, _UDATA, _DECL_LINE, _UDATA, _EXTERNAL, _FLAG, 0, 0),
    (0,),
)  # fmt: skip


def file_lines(table: DebugTable) -> list[str]:
    """`.file` directives and the names that `.loc` lines refer to."""
    out = [f'.file {index} "{_escape(path)}"' for path, index in table.files.items()]
    if table.inlined:
        out.append(".section .debug_str {")
        for linkage_name, (label, *_) in table.inlined.items():
            out += [f"$L__info_string{label}:", _bytes(_string(linkage_name))]
        out.append("}")
    return out


def info_lines(table: DebugTable) -> list[str]:
    """`.debug_abbrev` and `.debug_info` (-g)."""
    path = next(iter(table.files), "")
    folder, _, name = path.rpartition("/")
    out: list[tuple[int, str]] = []  # (size, directive)

    def put(data: list[int]) -> None:
        out.append((len(data), _bytes(data)))

    put([2, 0])
    out.append((4, ".b32 .debug_abbrev"))
    put([8, 1, *_string("tileiras"), _LANG_C, 0, *_string(name or "tile")])
    out.append((4, ".b32 .debug_line"))
    put(_string(folder))
    out.append((8, ".b64 0"))
    for linkage_name, (_, display, file, line) in table.inlined.items():
        put([2, *_string(linkage_name), *_string(display), *_leb(file), *_leb(line), 1, 1])
    for i, fn in enumerate(table.functions):
        put([3])
        out += [(8, f".b64 {begin_label(i)}"), (8, f".b64 {end_label(i)}")]
        put(
            [
                1,
                _CALL_FRAME_CFA,
                *_string(fn.linkage_name),
                *_string(fn.name),
                *_leb(fn.file),
                *_leb(fn.line),
                1,
            ]
        )
    put([0])
    return [
        ".section .debug_abbrev {", *(_bytes(row) for row in _ABBREVIATIONS), "}",
        ".section .debug_info {", f".b32 {sum(size for size, _ in out)}", *(text for _, text in out), "}",
    ]  # fmt: skip


def begin_label(index: int) -> str:
    return f"$L__func_begin{index}"


def end_label(index: int) -> str:
    return f"$L__func_end{index}"


def _string(text: str) -> list[int]:
    return [*text.encode("utf-8", "surrogateescape").replace(b"\0", b""), 0]


def _leb(value: int) -> list[int]:
    out = []
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return [*out, value]


def _bytes(data: list[int] | tuple[int, ...]) -> str:
    return ".b8 " + ", ".join(map(str, data))


def _escape(text: str) -> str:
    """A path as ptxas takes it: it refuses bytes beyond ASCII and ends a name at a backslash, so those are spelled %C3."""
    plain = text.encode("utf-8", "surrogateescape")
    return "".join(chr(b) if 32 <= b < 127 and b not in b'"\\' else f"%{b:02X}" for b in plain)
