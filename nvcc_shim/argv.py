"""Words to options and inputs: environment flags, options files, the two spellings, comma lists, Tile IR by content.

`parse_line` is the only reader of a command line. It keeps for every option and input the words it came from, so that
a mixed line can be handed to nvcc with exactly those words, minus ours and with objects in the place of Tile inputs.
"""

from __future__ import annotations

import os
import sys

from tileiras.diag import Catalogue, Refusal

from .flags import LIST, NO, ONE, index_flags

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from .flags import Flag

diags = Catalogue(f"{__package__}.diags")

TILE_SUFFIXES = (".tileir", ".tilebc", ".tileirbc")
MAGIC = b"\x7fTileIR\x00"


OURS = "tileiras-nvcc error   : "  # what nvcc itself would not say


class Usage(Refusal):
    """The line is wrong: `nvcc fatal   : <text>`, exit code 1."""


def refuse(refusal: Refusal, head: str = "nvcc fatal   : ", more: str = "") -> None:
    """Says what stopped the line, in the form of nvcc."""
    from tileiras.terminal import name_code

    sys.stdout.flush()
    sys.stderr.write(f"{head}{refusal}{more}\n")
    sys.stderr.flush()
    name_code(refusal)


class Item:
    """One option (flag, values), unknown option (flag None) or input (flag None, is_input) and the words it is."""

    __slots__ = ("flag", "is_input", "is_tile", "values", "words")

    def __init__(
        self, flag: Flag | None, values: list[str], words: list[str], is_input: bool = False
    ) -> None:
        self.flag, self.values, self.words, self.is_input, self.is_tile = flag, values, words, is_input, False


class Line:
    """A parsed command line: items in order, warnings that nvcc would print, and how the environment took part."""

    __slots__ = ("append", "items", "prepend", "warnings")

    def __init__(self, items: list[Item], warnings: list[str], prepend: str, append: str) -> None:
        self.items, self.warnings, self.prepend, self.append = items, warnings, prepend, append

    def has(self, long: str) -> bool:
        return any(item.flag is not None and item.flag.long == long for item in self.items)

    def one(self, long: str) -> str | None:
        """Returns the value that counts (the last) of a single-value option."""
        found = None
        for item in self.items:
            if item.flag is not None and item.flag.long == long:
                found = item.values[0]
        return found

    def all(self, long: str) -> list[str]:
        """Returns the accumulated values of a list option."""
        return [
            v for item in self.items if item.flag is not None and item.flag.long == long for v in item.values
        ]

    def inputs(self) -> list[Item]:
        return [item for item in self.items if item.is_input]

    def unknown(self) -> list[str]:
        return [item.words[0] for item in self.items if item.flag is None and not item.is_input]


def split_list(text: str) -> list[str]:
    """Returns the parts of a comma list; commas inside quotes and brackets, or after a backslash, do not separate."""
    parts, part, depth, quote, index = [], "", 0, "", 0
    while index < len(text):
        char = text[index]
        if char == "\\" and index + 1 < len(text) and text[index + 1] in ",\\\"'":
            part += text[index + 1]
            index += 2
            continue
        if quote:
            if char == quote:
                quote = ""
            part += char if char != quote and quote else ""
        elif char in "\"'":
            quote = char
        elif char == "," and depth == 0:
            parts.append(part)
            part = ""
        else:
            depth += (char == "[") - (char == "]")
            part += char
        index += 1
    parts.append(part)
    return parts


def split_file(text: str) -> list[str]:
    """Returns the words of an options file: separated by blanks, a backslash escapes, no comments.

    nvcc knows double quotes there; a single one is a letter like others.
    """
    words, word, started, quote, index = [], "", False, "", 0
    while index < len(text):
        char = text[index]
        if char == "\\" and index + 1 < len(text) and (text[index + 1] in '"\\' or text[index + 1].isspace()):
            word, started = word + text[index + 1], True
            index += 2
            continue
        if quote:
            if char == quote:
                quote = ""
            else:
                word += char
        elif char == '"':
            quote, started = char, True
        elif char.isspace():
            if started:
                words.append(word)
            word, started = "", False
        else:
            word, started = word + char, True
        index += 1
    if quote:
        raise Usage(diags.STRAY, char='"')
    if started:
        words.append(word)
    return words


def match_option(word: str, index: Mapping[str, Flag]) -> tuple[Flag, str | None] | None:
    """Returns (flag, value attached to the word or None), or None for an unknown option."""
    if word in index:
        return index[word], None
    name, equals, value = word.partition("=")
    if equals and name in index:
        flag = index[name]
        if flag.value == NO:
            raise Usage(diags.NO_ARGUMENT, option=name)
        return flag, value
    if word[:2] in index and not word.startswith("--"):
        from .flags import JOINED

        flag = index[word[:2]]
        digits = flag.short in ("-O", "-m", "-t")  # `-tilebc` of an nvcc without it must not be `-t ilebc`
        if flag.short in JOINED and (not digits or word[2:].isdigit()):
            return flag, word[2:]
        if flag.short == "-O" and not word.startswith("-Ofc"):
            raise Usage(diags.NUMBER, text=word[2:])  # nvcc forwards it to nobody
    return None


def _expand(words: Sequence[str], index: Mapping[str, Flag], read: Callable[[str], str], seen: tuple[str, ...]
            ) -> Iterator[str]:  # fmt: skip
    """Yields the words with every options file replaced by its contents, nested ones included."""
    position = 0
    while position < len(words):
        word = words[position]
        position += 1
        if not word.startswith("-") or word == "-":
            yield word
            continue
        matched = match_option(word, index)
        if matched is None or matched[0].value == NO:
            yield word
            continue
        flag, value = matched
        if flag.long != "--options-file":
            yield word
            if value is None and position < len(words):
                yield words[position]
                position += 1
            continue
        if value is None:
            if position == len(words):
                raise Usage(diags.ARGUMENT, option=word)
            value = words[position]
            position += 1
        for name in split_list(value):
            if name in seen or len(seen) > 32:
                raise Usage(diags.OPTIONS_LOOP, name=name)
            try:
                text = read(name)
            except OSError:
                raise Usage(diags.OPTIONS_FILE, name=name) from None
            yield from _expand(split_file(text), index, read, (*seen, name))


def _read_text(path: str) -> str:
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        return file.read()


def parse_line(
    words: Sequence[str],
    environ: Mapping[str, str],
    index: Mapping[str, Flag] | None = None,
    read: Callable[[str], str] = _read_text,
) -> Line:
    """Returns the parsed line: NVCC_PREPEND_FLAGS, the words, NVCC_APPEND_FLAGS, options files expanded once.

    Errors: Usage, in nvcc's words, for a missing or unwanted value; unknown options are kept, plan.py judges them.
    """
    if index is None:
        index = index_flags()
    prepend, append = environ.get("NVCC_PREPEND_FLAGS", ""), environ.get("NVCC_APPEND_FLAGS", "")
    # nvcc splits these two at blanks and knows no quotes there.
    full = [*prepend.split(), *words, *append.split()]
    flat = list(_expand(full, index, read, ()))
    items: list[Item] = []
    warnings: list[str] = []
    last: dict[str, str] = {}
    position = 0
    while position < len(flat):
        word = flat[position]
        position += 1
        if not word.startswith("-") or word == "-":
            items.append(Item(None, [word], [word], is_input=True))
            continue
        matched = match_option(word, index)
        if matched is None:
            items.append(Item(None, [], [word]))
            continue
        flag, value = matched
        used = [word]
        if flag.value != NO and value is None:
            if position == len(flat):
                raise Usage(diags.ARGUMENT, option=word)
            value = flat[position]
            used.append(value)
            position += 1
        if flag.value == NO:
            items.append(Item(flag, [], used))
            continue
        assert value is not None
        # --dependency targets and files are taken whole; a generate-code value keeps its commas for arch.py.
        values = [value] if flag.value == ONE or flag.long == "--generate-code" else split_list(value)
        if flag.choices is not None:
            for one in values:
                if one not in flag.choices:
                    if flag.choices == ("true", "false"):
                        raise Usage(diags.TRUE_OR_FALSE, value=one)
                    raise Usage(diags.VALUE, value=one, option=flag.long.lstrip("-"))
        if flag.value == ONE:
            if last.get(flag.long, value) != value:
                text = (f"incompatible redefinition for option '{flag.long.lstrip('-')}', "
                        "the last value of this option was used")  # fmt: skip
                if text not in warnings:
                    warnings.append(text)
            last[flag.long] = value
        elif flag.value != LIST:
            raise AssertionError(flag.long)
        items.append(Item(flag, values, used))
    return Line(items, warnings, prepend, append)


def is_tile_input(path: str, read: Callable[[str], bytes] | None = None) -> bool:
    """Returns whether the file is Tile IR: by suffix, by the bytecode magic, or by text that opens a cuda_tile module.

    Content decides over `-x cu`, which CMake adds to every source. Objects and archives are not opened.
    """
    if path.endswith(TILE_SUFFIXES):
        return True
    if path == "-" or path.endswith((".o", ".obj", ".a", ".lib", ".so", ".cubin", ".fatbin", ".ptx")):
        return False
    try:
        head = (read or _read_head)(path)
    except OSError:
        return False
    return head.startswith(MAGIC) or opens_module(head)


def _read_head(path: str) -> bytes:
    # A pipe (`<(generate)`) must reach its real reader unread.
    import stat

    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return b""
        return os.read(descriptor, 4096)
    finally:
        os.close(descriptor)


def opens_module(head: bytes) -> bool:
    """Returns whether text starts, after comments, blanks and attribute aliases, with `cuda_tile.module`."""
    text = head.lstrip()
    while text.startswith((b"//", b"#")):
        if text.startswith(b"#") and b"=" not in text.split(b"\n", 1)[0]:
            return False  # a preprocessor line, so not MLIR
        text = text.partition(b"\n")[2].lstrip()
    for start in (b"cuda_tile.module", b'"cuda_tile.module"'):
        if text.startswith(start):
            return True
    # `module { cuda_tile.module @m {` and `module attributes {...} {` are what some printers write around it.
    return text.startswith((b"module {", b"module attributes", b"module @")) and b"cuda_tile." in text
