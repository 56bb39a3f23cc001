"""Printing kernels in generated C: the texts of `run/printing.py` as tables, and the function that formats them."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

KINDS = ("none", "signed", "unsigned", "nibble", "half", "brain", "float", "tf32", "double", "table")
FAMILIES = ("none", "long", "double", "int", "string")

PRINT = r"""
/* One piece of what a kernel prints: text, then the elements of a tile. */
typedef struct tile_cpu_item {
  const char *text, *conversion;
  int read, family;  /* how an element is read, and what the conversion takes */
  size_t size;
  unsigned rank;
  const size_t *shape;
  const unsigned *table;  /* of floats of up to 8 bits: those of f32 */
} tile_cpu_item;
typedef struct tile_cpu_text {
  const tile_cpu_item *items;
  unsigned count;
} tile_cpu_text;

static double tile_cpu_f32(unsigned bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return (double)value;
}

static double tile_cpu_half(unsigned bits) {
  unsigned sign = (bits & 0x8000u) << 16, exponent = bits >> 10 & 31u, rest = bits & 1023u;
  if (exponent == 31) return tile_cpu_f32(sign | 0x7F800000u | rest << 13);
  if (exponent) return tile_cpu_f32(sign | (exponent + 112) << 23 | rest << 13);
  return (sign ? -1.0 : 1.0) * (double)rest / 16777216.0;
}

static void tile_cpu_element(const tile_cpu_item *item, const char *at) {
  uint64_t bits = 0;
  int64_t whole;
  double value = 0;
  memcpy(&bits, at, item->size);
  whole = (int64_t)bits;
  if (item->read == 1 && item->size < 8) whole = (int64_t)(bits << (64 - 8 * item->size)) >> (64 - 8 * item->size);
  if (item->read == 3) whole = (int64_t)((bits & 15) ^ 8) - 8;
  if (item->read >= 4) {
    if (item->read == 4) value = tile_cpu_half((unsigned)bits);
    if (item->read == 5) value = tile_cpu_f32((unsigned)bits << 16);
    if (item->read == 6) value = tile_cpu_f32((unsigned)bits);
    if (item->read == 7) value = tile_cpu_f32((unsigned)bits & 0xFFFFE000u);
    if (item->read == 8) memcpy(&value, at, sizeof value);
    if (item->read == 9) value = tile_cpu_f32(item->table[bits & 255]);
    if (item->family != 2) whole = (int64_t)value;
  } else {
    value = item->read == 2 ? (double)bits : (double)whole;
  }
  if (item->family == 1) printf(item->conversion, (long)whole);
  if (item->family == 2) printf(item->conversion, value);
  if (item->family == 3) printf(item->conversion, (int)(whole & 255));
  if (item->family == 4) {
    const char *text;
    memcpy(&text, at, sizeof text);
    printf(item->conversion, text);
  }
}

static const char *tile_cpu_nested(const tile_cpu_item *item, unsigned dim, const char *at) {
  size_t i;
  if (dim == item->rank) {
    tile_cpu_element(item, at);
    return at + item->size;
  }
  putchar('[');
  for (i = 0; i < item->shape[dim]; ++i) {
    if (i) fputs(", ", stdout);
    at = tile_cpu_nested(item, dim + 1, at);
  }
  putchar(']');
  return at;
}

/* The text of one op as a whole, whoever else prints. */
void tile_cpu_print(const tile_cpu_text *text, void **places);
TILE_WEAK void tile_cpu_print(const tile_cpu_text *text, void **places) {
  unsigned i;
  flockfile(stdout);
  for (i = 0; i < text->count; ++i) {
    const tile_cpu_item *item = &text->items[i];
    fputs(item->text, stdout);
    if (item->family) tile_cpu_nested(item, 0, (const char *)places[i]);
  }
  funlockfile(stdout);
}
"""


def quote(text: str) -> str:
    """A C string literal; what is not ASCII by its bytes."""
    out = ""
    for byte in text.encode("utf-8", "surrogateescape"):
        char = chr(byte)
        plain = 32 <= byte < 127 and char != "?"  # ? would begin a trigraph
        out += "\\" + char if char in '"\\' else char if plain else f"\\{byte:03o}"
    return f'"{out}"'


def tables(number: int, private: str, prints: list[Any]) -> list[str]:
    """The lines that define the texts of entry `number`, and the function that its code calls for them."""
    lines: list[str] = []
    rows: list[str] = []
    for site, items in enumerate(prints):
        name = f"{private}items_{number}_{site}"
        if not items:
            rows.append("  {NULL, 0},")
            continue
        entries = []
        for i, item in enumerate(items):
            family = FAMILIES.index(item.get("as", "none"))
            shape, table = "NULL", "NULL"
            if item.get("shape"):
                shape = f"{name}_shape_{i}"
                extents = ", ".join(map(str, item["shape"]))
                lines.append(f"static const size_t {shape}[] = {{{extents}}};")
            if "table" in item:
                table = f"{name}_table_{i}"
                lines.append(f"static const unsigned {table}[] = {{")
                bits = [f"{value}u" for value in item["table"]]
                bits += ["0u"] * (256 - len(bits))  # a byte of memory is any number
                lines += [f"  {', '.join(bits[at : at + 16])}," for at in range(0, len(bits), 16)]
                lines.append("};")
            conversion = quote(item["conversion"]) if family else "NULL"
            entries.append(
                f"  {{{quote(item['text'])}, {conversion}, {KINDS.index(item.get('read', 'none'))}, {family}, "
                f"{item.get('size', 0)}, {len(item.get('shape', ()))}, {shape}, {table}}},"
            )
        lines += [f"static const tileiras_loader_cpu_item {name}[] = {{", *entries, "};"]
        rows.append(f"  {{{name}, {len(items)}}},")
    lines += [f"static const tileiras_loader_cpu_text {private}texts_{number}[] = {{", *rows, "};"]
    lines += [
        f"static void {private}print_{number}(int64_t site, void **places) {{",
        f"  tileiras_loader_cpu_print(&{private}texts_{number}[site], places);",
        "}",
    ]
    return lines
