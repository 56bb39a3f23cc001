// The texts side by side. Only lines in sight exist as elements, so that twenty thousand of them cost nothing.
const ROW = 18;
const TOKENS = /(\/\/.*$|#.*$|"(?:[^"\\]|\\.)*")|([%$@][\w.$#]+)|\b(-?\d[\w.]*)\b|([A-Za-z_][\w.]*)/g;

const PYTHON = /(#.*$|"(?:[^"\\]|\\.)*")|([%$@][\w.$#]+)|\b(-?\d[\w.]*)\b|([A-Za-z_][\w.]*)/g; // where // divides

function tokens(level, text, python) {
  const out = [];
  let last = 0;
  let first = true;
  for (const m of text.matchAll(python ? PYTHON : TOKENS)) {
    if (m.index > last) out.push(text.slice(last, m.index));
    last = m.index + m[0].length;
    if (m[1] !== undefined) out.push(h("span", { class: "tc" }, m[1]));
    else if (m[2] !== undefined) out.push(h("span", { class: "tv" }, m[2]));
    else if (m[3] !== undefined) out.push(h("span", { class: "tn" }, m[3]));
    else if (level !== "source" && first) { out.push(h("span", { class: "to" }, m[4])); first = false; }
    else out.push(m[4]);
  }
  out.push(text.slice(last));
  return out;
}

class Pane {
  constructor(level) {
    this.level = level;
    this.lines = state.module.levels[level].lines;
    this.up = state.module.levels[level].up;
    this.places = state.module.levels[level].places;
    this.tall = h("div", { class: "tall" });
    this.tall.style.height = `${this.lines.length * ROW + 8}px`;
    this.body = h("div", {
      class: "body", tabindex: 0, role: "listbox", "aria-label": `${TITLES[level]} lines`, onscroll: () => this.draw(),
      onkeydown: (e) => this.key(e), onmouseleave: () => hover(null),
    }, this.tall);
    const cut = state.module.levels[level].cut;
    this.node = h("div", { class: "pane", "data-level": level },
      h("div", { class: "head" }, TITLES[level], h("span", {}, `${this.lines.length} lines${cut ? ", cut" : ""}`)), this.body);
    this.draw();
  }
  // The number that an editor shows: of the file, where the text has lines of files.
  number(i) {
    if (!this.places || ownText(this.level)) return i + 1;
    const found = placeOf(this.level, i);
    return found ? found[1] : "";
  }
  draw() {
    const top = this.body.scrollTop;
    const height = this.body.clientHeight || 700;
    const from = Math.max(0, Math.floor(top / ROW) - 10);
    const to = Math.min(this.lines.length, Math.ceil((top + height) / ROW) + 10);
    if (this.rows && this.rows.from === from && this.rows.to === to) return this.mark();
    this.rows = { from, to };
    clear(this.tall);
    for (let i = from; i < to; i++) {
      const alone = this.up[i] < 0 && !(state.down[this.level] && state.down[this.level].has(i));
      const node = h("div", {
        class: alone ? "ln alone" : "ln", role: "option", "data-row": i, style: { top: `${i * ROW}px` },
        onclick: () => { select(this.level, i); this.body.focus({ preventScroll: true }); },
        onmouseover: () => { if (!state.hovered || state.hovered.level !== this.level || state.hovered.line !== i) hover(this.level, i); },
      }, h("i", {}, this.number(i)), tokens(this.level, this.lines[i], this.places && ((placeOf(this.level, i) || [""])[0]).endsWith(".py")));
      this.tall.append(node);
    }
    this.mark();
  }
  // What is lit and what is chosen, on the lines that are there: elements under the mouse stay the same.
  mark() {
    const lit = state.hovered && state.hovered.lines[this.level];
    const chosen = state.selected && state.selected.lines[this.level];
    const at = state.selected && state.selected.level === this.level ? state.selected.line : -1;
    for (const node of this.tall.children) {
      const i = Number(node.dataset.row);
      node.classList.toggle("sel", !!(chosen && chosen.has(i)));
      node.classList.toggle("hl", !!(lit && lit.has(i)));
      node.classList.toggle("at", i === at);
      node.setAttribute("aria-selected", i === at ? "true" : "false");
    }
  }
  show(line) {
    const top = line * ROW;
    if (top < this.body.scrollTop + ROW || top > this.body.scrollTop + this.body.clientHeight - 2 * ROW)
      this.body.scrollTop = Math.max(0, top - this.body.clientHeight / 3);
  }
  key(e) {
    const here = state.selected && state.selected.level === this.level ? state.selected.line : Math.floor(this.body.scrollTop / ROW);
    const page = Math.max(1, Math.floor(this.body.clientHeight / ROW) - 2);
    const step = { ArrowUp: -1, ArrowDown: 1, PageUp: -page, PageDown: page, Home: -1e9, End: 1e9 }[e.key];
    if (step !== undefined) {
      select(this.level, Math.max(0, Math.min(this.lines.length - 1, here + step)));
    } else if (e.key === "ArrowLeft" || e.key === "ArrowRight") {
      const shown = panes.filter((p) => !p.node.hidden);
      const next = shown[shown.indexOf(this) + (e.key === "ArrowLeft" ? -1 : 1)];
      if (!next) return;
      const lines = state.selected && state.selected.lines[next.level];
      if (lines) select(next.level, Math.min(...lines));
      next.body.focus();
    } else return;
    e.preventDefault();
  }
}

let panes = [];
on((what) => {
  for (const pane of panes) {
    if (what === "select" && state.selected) {
      const lines = state.selected.lines[pane.level];
      if (lines && lines.size) {
        const order = [...lines].sort((a, b) => a - b); // the middle of them: the first may be hoisted far away
        pane.show(pane.level === state.selected.level ? state.selected.line : order[Math.floor(order.length / 2)]);
      }
    }
    pane.draw();
  }
});

function codeSection() {
  panes = state.order.map((level) => new Pane(level));
  const toggles = panes.map((pane) => h("label", {}, h("input", {
    type: "checkbox", checked: true, "data-pane": pane.level,
    onchange: (e) => { pane.node.hidden = !e.target.checked; pane.node.style.display = e.target.checked ? "" : "none"; panes.forEach((p) => p.draw()); },
  }), TITLES[pane.level]));
  const said = h("span", { class: "soft", "aria-live": "polite" });
  const box = h("input", { type: "search", id: "find", placeholder: "find in all levels", "aria-label": "find in all levels" });
  box.addEventListener("keydown", (e) => { if (e.key === "Enter") { find(box.value, e.shiftKey ? -1 : 1, said); e.preventDefault(); } });
  return section("code", "Code, level by level",
    "Hover a line to see what it came from and what it became; click to keep it. Arrow keys move within a level and across levels, / finds text.",
    h("div", { class: "row", style: { "margin-bottom": "8px" } }, toggles, box,
      h("button", { onclick: () => find(box.value, 1, said) }, "next"), h("button", { onclick: () => { select(null); said.textContent = ""; } }, "clear"), said),
    h("div", { class: "panes" }, panes.map((pane) => pane.node)));
}

function find(text, way, said) {
  if (!text) return;
  const places = [];
  for (const level of state.order)
    state.module.levels[level].lines.forEach((line, i) => { if (line.includes(text)) places.push([level, i]); });
  if (!places.length) { said.textContent = "not found"; return; }
  const now = state.selected ? places.findIndex(([l, i]) => l === state.selected.level && i === state.selected.line) : -1;
  const next = (now + way + places.length) % places.length;
  said.textContent = `${next + 1} of ${places.length}`;
  select(...places[next]);
}
