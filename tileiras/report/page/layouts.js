// A value's layout as a picture: which thread holds which element. Places are (register, lane, warp); a column of a layout says
// which bits of the packed index a bit of the place flips.
const MOST = 256; // rows and columns in sight

function spread(columns) {
  const out = [0];
  for (const column of columns) out.push(...out.map((x) => x ^ column));
  return out;
}

class Layout {
  constructor(value) {
    const l = state.module.layouts[value.layout];
    this.value = value;
    this.inv = l.inv;
    this.regs = spread(l.reg);
    this.lanes = spread(l.lane);
    this.warps = spread(l.warp);
    this.cols = value.shape[value.shape.length - 1];
    this.rows = value.shape.slice(0, -1).reduce((a, b) => a * b, 1);
    this.owner = new Map(); // packed index without copies -> [register, lane, warp]
    for (let w = 0; w < this.warps.length; w++)
      for (let t = 0; t < 32; t++)
        for (let r = 0; r < this.regs.length; r++) {
          const at = (this.regs[r] ^ this.lanes[t] ^ this.warps[w]) & ~this.inv;
          if (!this.owner.has(at)) this.owner.set(at, [r, t, w]);
        }
    this.copies = (this.warps.length * 32 * this.regs.length) / Math.max(1, this.owner.size);
  }
  at(row, col) { return this.owner.get((row * this.cols + col) & ~this.inv); }
  place(r, t, w) { return (this.regs[r] ^ this.lanes[t] ^ this.warps[w]) & ~this.inv; }
  name(index) {
    const out = [];
    for (let d = this.value.shape.length - 1; d >= 0; d--) { out.unshift(index % this.value.shape[d]); index = Math.floor(index / this.value.shape[d]); }
    return `[${out.join(", ")}]`;
  }
}

const HUE = { thread: (r, t, w) => [(t * 360) / 32, 40 + (w % 4) * 13], lane: (r, t) => [(t * 360) / 32, 55], warp: (r, t, w, n) => [(w * 360) / Math.max(1, n), 55], register: (r, t, w, n, regs) => [(r * 300) / Math.max(1, regs), 55] };

function layoutSection() {
  const m = state.module;
  if (!m.values.length) return section("layouts", "Layouts", null, h("p", { class: "empty" }, "There is no value with elements."));
  let layout = null;
  let cursor = [0, 0];
  const canvas = h("canvas", { tabindex: 0, role: "application", "aria-label": "layout of the value: arrow keys move the cell" });
  const said = h("div", { "aria-live": "polite", class: "pick", id: "picked" });
  const lists = h("div", {});
  const what = h("select", { id: "value", "aria-label": "value", style: { "max-width": "520px" } },
    m.values.map((v, i) => h("option", { value: i }, `${v.name} : ${v.shape.join("x")} ${v.elem} (${v.op}, line ${v.line + 1})`)));
  const by = h("select", { id: "colour", "aria-label": "colour by" }, Object.keys(HUE).map((k) => h("option", { value: k }, k)));
  const warp = h("input", { type: "number", id: "warp", min: 0, value: 0, "aria-label": "warp" });
  const lane = h("input", { type: "number", id: "lane", min: 0, max: 31, value: 0, "aria-label": "lane" });
  const top = h("input", { type: "number", id: "firstrow", min: 0, value: 0, step: 32, "aria-label": "first row in sight" });
  const left = h("input", { type: "number", id: "firstcol", min: 0, value: 0, step: 32, "aria-label": "first column in sight" });
  const where = h("span", {});
  const whole = (box, most) => Math.max(0, Math.min(most, Math.floor(Number(box.value) || 0)));

  function view() {
    const rows = Math.min(layout.rows, MOST), cols = Math.min(layout.cols, MOST);
    return { rows, cols, r0: whole(top, layout.rows - rows), c0: whole(left, layout.cols - cols), cell: Math.max(3, Math.min(26, Math.floor(Math.min(820 / cols, 520 / rows)))) };
  }
  function draw() {
    const { rows, cols, r0, c0, cell } = view();
    const scale = window.devicePixelRatio || 1;
    canvas.width = cols * cell * scale;
    canvas.height = rows * cell * scale;
    canvas.style.setProperty("width", `${cols * cell}px`);
    const c = canvas.getContext("2d");
    c.scale(scale, scale);
    const mine = [whole(warp, layout.warps.length - 1), whole(lane, 31)];
    const dark = document.documentElement.classList.contains("dark");
    const held = new Set(layout.regs.map((_, r) => layout.place(r, mine[1], mine[0])));
    for (let i = 0; i < rows; i++)
      for (let j = 0; j < cols; j++) {
        const index = ((r0 + i) * layout.cols + c0 + j) & ~layout.inv;
        const o = layout.owner.get(index);
        if (!o) continue;
        const [hue, light] = HUE[by.value](...o, layout.warps.length, layout.regs.length);
        const own = held.has(index);
        c.fillStyle = `hsl(${hue} ${own ? 90 : 45}% ${own ? (dark ? 62 : 45) : dark ? light * 0.45 + 8 : light * 0.35 + 62}%)`;
        c.fillRect(j * cell, i * cell, cell - (cell > 5 ? 1 : 0), cell - (cell > 5 ? 1 : 0));
        if (cell >= 20) {
          c.fillStyle = own && !dark ? "#fff" : dark ? "#eef" : "#223";
          c.font = "9px sans-serif";
          c.fillText(`${o[1]}`, j * cell + 3, i * cell + cell / 2 + 3);
        }
        if (own) { c.strokeStyle = dark ? "#fff" : "#111"; c.lineWidth = 1.4; c.strokeRect(j * cell + 0.7, i * cell + 0.7, cell - 1.8, cell - 1.8); }
      }
    const [x, y] = [cursor[1] - c0, cursor[0] - r0];
    c.strokeStyle = css("--accent"); c.lineWidth = 2.5; c.strokeRect(x * cell, y * cell, cell, cell);
  }
  function tell_() {
    const w = whole(warp, layout.warps.length - 1), t = whole(lane, 31);
    const o = layout.at(...cursor);
    const index = cursor[0] * layout.cols + cursor[1];
    clear(said).append(`element ${layout.name(index)} is in register ${o[0]} of lane ${o[1]}, warp ${o[2]}` +
      (layout.copies > 1 ? ` (and ${layout.copies - 1} more ${layout.copies > 2 ? "copies" : "copy"})` : "") + `. Warp ${w}, lane ${t} holds ${layout.regs.length} element${layout.regs.length > 1 ? "s" : ""}:`);
    const regs = layout.regs.slice(0, 256).map((_, r) => h("tr", {}, h("td", { class: "num" }, r), h("td", {}, layout.name(layout.place(r, t, w)))));
    const row = cursor[0];
    const spans = [];
    for (let j = 0; j < layout.cols; j++) {
      const p = layout.at(row, j);
      const last = spans[spans.length - 1];
      if (!p) continue;
      if (last && last.o[1] === p[1] && last.o[2] === p[2]) { last.to = j; last.regs.push(p[0]); } else spans.push({ from: j, to: j, o: p, regs: [p[0]] });
    }
    clear(lists).append(
      h("div", { class: "row", style: { "align-items": "flex-start" } },
        h("div", {}, h("h3", {}, `Registers of warp ${w}, lane ${t}`), h("div", { class: "scroll", style: { "max-height": "300px" } }, h("table", { id: "lane-registers" }, head("#register", "element"), h("tbody", {}, regs)))),
        h("div", {}, h("h3", {}, `Lanes of row ${row}`), h("div", { class: "scroll", style: { "max-height": "300px" } }, h("table", { id: "row-lanes" }, head("columns", "#warp", "#lane", "registers"),
          h("tbody", {}, spans.slice(0, 256).map((s) => h("tr", {}, h("td", {}, s.from === s.to ? s.from : `${s.from} to ${s.to}`), h("td", { class: "num" }, s.o[2]), h("td", { class: "num" }, s.o[1]), h("td", {}, [...new Set(s.regs)].join(" "))))))))));
  }
  const again = () => { draw(); tell_(); };
  function choose() {
    layout = new Layout(m.values[Number(what.value)]);
    cursor = [0, 0];
    warp.max = layout.warps.length - 1;
    for (const box of [warp, lane, top, left]) box.value = 0;
    const many = layout.rows > MOST || layout.cols > MOST;
    top.parentNode.hidden = left.parentNode.hidden = !many;
    top.parentNode.style.display = left.parentNode.style.display = many ? "" : "none";
    clear(where).append(...refs("nv_tileas", layout.value.line).filter(Boolean));
    again();
  }
  function pick(row, col) {
    cursor = [Math.max(0, Math.min(layout.rows - 1, row)), Math.max(0, Math.min(layout.cols - 1, col))];
    const o = layout.at(...cursor);
    warp.value = o[2]; lane.value = o[1];
    again();
  }
  canvas.addEventListener("click", (e) => {
    const v = view(), box = canvas.getBoundingClientRect(), shrink = box.width / (v.cols * v.cell);
    pick(v.r0 + Math.floor((e.clientY - box.top) / v.cell / shrink), v.c0 + Math.floor((e.clientX - box.left) / v.cell / shrink));
  });
  canvas.addEventListener("keydown", (e) => {
    const move = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[e.key];
    if (!move) return;
    pick(cursor[0] + move[0], cursor[1] + move[1]);
    e.preventDefault();
  });
  what.addEventListener("change", choose);
  for (const box of [warp, lane, top, left]) box.addEventListener("input", again);
  by.addEventListener("change", again);
  on((kind) => {
    if (kind === "theme") draw();
    if (kind !== "select" || !state.selected || !state.selected.lines.nv_tileas) return;
    const i = m.values.findIndex((v) => state.selected.lines.nv_tileas.has(v.line));
    if (i >= 0 && Number(what.value) !== i && state.module === m) { what.value = i; choose(); }
  });
  const node = section("layouts", "Layouts: which thread holds which element",
    "Numbers in cells are lanes. Click a cell, or move with the arrow keys, to pick its thread; its elements are outlined. A line selected above shows its value here.",
    h("div", { class: "row", style: { "margin-bottom": "10px" } }, h("label", {}, "value", what), h("label", {}, "colour by", by), h("label", {}, "warp", warp), h("label", {}, "lane", lane), h("label", {}, "from row", top), h("label", {}, "from column", left), where),
    h("div", { class: "split" }, h("div", {}, canvas), h("div", {}, said, lists)));
  const worth = (v) => (m.layouts[v.layout].inv ? 0 : v.shape.reduce((a, b) => a * b, 1));
  what.value = m.values.reduce((best, v, i) => (worth(v) > worth(m.values[best]) ? i : best), 0);
  node.start = choose;
  return node;
}
