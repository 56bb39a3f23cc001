// Elements, references to lines, and what is selected: what all sections share. Input reaches the page as text nodes only.
"use strict";
const LEVELS = ["source", "cuda_tile", "nv_tileaa", "nv_tileas", "ptx", "sass"];
const TITLES = { source: "source", cuda_tile: "cuda_tile", nv_tileaa: "nv_tileaa", nv_tileas: "nv_tileas", ptx: "PTX", sass: "SASS" };
const SVG = "http://www.w3.org/2000/svg";
const doc = JSON.parse(document.getElementById("data").textContent);
const app = document.getElementById("app");

function fill(node, props, children) {
  for (const [name, value] of Object.entries(props || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "style") for (const [k, v] of Object.entries(value)) node.style.setProperty(k, v);
    else if (name === "value") node.value = value;
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    node.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return node;
}
const h = (tag, props, ...children) => fill(document.createElement(tag), props, children);
const g = (tag, props, ...children) => fill(document.createElementNS(SVG, tag), props, children);
const clear = (node) => { while (node.firstChild) node.removeChild(node.firstChild); return node; };
const number = (x) => (x === null || x === undefined ? "-" : x.toLocaleString("en", { maximumFractionDigits: 1 }));
const bytes = (n) => (n >= 1024 ? `${number(n / 1024)} KiB` : `${n} B`);
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const RESOURCES = { "global memory": "--r-global", "shared memory": "--r-shared", "tensor cores": "--r-tensor", "CUDA cores": "--r-issue", waits: "--r-wait", latency: "--r-wait" };
const paint = (resource) => `var(${RESOURCES[resource] || "--accent"})`;

// The module at hand, with the links of its lines: up as the data has them, down as their reverse.
const state = { module: null, order: [], down: {}, selected: null, hovered: null, listeners: [] };

function open(index) {
  const m = doc.modules[index];
  state.module = m;
  state.order = LEVELS.filter((name) => m.levels[name]);
  state.down = {};
  state.order.forEach((name, at) => {
    const next = state.order[at + 1];
    if (!next) return;
    const lists = (state.down[name] = new Map());
    m.levels[next].up.forEach((line, from) => {
      if (line < 0) return;
      if (!lists.has(line)) lists.set(line, []);
      lists.get(line).push(from);
    });
  });
  state.selected = state.hovered = null;
}

// level -> Set of lines that a line stems from or became.
function related(level, line) {
  const out = {};
  const at = state.order.indexOf(level);
  if (at < 0) return out;
  out[level] = new Set([line]);
  let up = line;
  for (let k = at; k > 0 && up >= 0; k--) {
    up = state.module.levels[state.order[k]].up[up];
    if (up === undefined || up < 0) break;
    out[state.order[k - 1]] = new Set([up]);
  }
  let lines = [line];
  for (let k = at; k < state.order.length - 1; k++) {
    lines = lines.flatMap((l) => state.down[state.order[k]].get(l) || []);
    if (!lines.length) break;
    out[state.order[k + 1]] = new Set(lines);
  }
  return out;
}

const on = (listener) => state.listeners.push(listener);
const tell = (what) => state.listeners.forEach((listener) => listener(what));

function hover(level, line) {
  state.hovered = level === null ? null : { level, line, lines: related(level, line) };
  tell("hover");
}
function select(level, line, show) {
  state.selected = level === null ? null : { level, line, lines: related(level, line) };
  tell("select");
  if (show) document.getElementById("code").scrollIntoView({ block: "start" });
}

// [file, line there] of a line of the source, by its runs of files; null for lines that only name a file.
function placeOf(level, line) {
  const m = state.module.levels[level];
  const run = m && m.places ? m.places.filter((r) => r[0] <= line).pop() : null;
  return run && run[1] ? [run[1], run[2] + line - run[0]] : null;
}
const ownText = (level) => { const p = state.module.levels[level].places; return !p || (p.length === 1 && p[0][0] === 0); };
function nameOf(level, line) {
  const found = ownText(level) ? null : placeOf(level, line);
  return found ? `${found[0]}:${found[1]}` : `${TITLES[level]} ${line + 1}`;
}

// A reference to a line: hover lights it up on all levels, click goes there.
function ref(level, line, text) {
  if (line === undefined || line === null || line < 0 || !state.module.levels[level]) return h("span", { class: "soft" }, text || "-");
  return h("button", {
    class: "ref", "data-level": level, "data-line": line, title: (state.module.levels[level].lines[line] || "").trim().slice(0, 200),
    onclick: () => select(level, line, true), onmouseenter: () => hover(level, line), onmouseleave: () => hover(null),
    onfocus: () => hover(level, line), onblur: () => hover(null),
  }, text || nameOf(level, line));
}
// The same with the line of the source that it stems from, where one is known.
function refs(level, line) {
  const found = line >= 0 ? related(level, line) : {};
  const source = found.source && level !== "source" ? [...found.source][0] : -1;
  return [ref(level, line), source >= 0 ? ref("source", source) : null];
}
on((what) => {
  if (what !== "hover") return;
  const lit = state.hovered && state.hovered.lines;
  for (const node of document.querySelectorAll(".ref, tr[data-line]"))
    node.classList.toggle("hl", !!(lit && lit[node.dataset.level] && lit[node.dataset.level].has(Number(node.dataset.line))));
});

// A row of a table that is one line of a level.
const lineRow = (level, line, ...cells) =>
  h("tr", { "data-level": level, "data-line": line, onmouseenter: () => hover(level, line), onmouseleave: () => hover(null) }, cells);
const head = (...names) => h("thead", {}, h("tr", {}, names.map((n) => (n.startsWith("#") ? h("th", { class: "num" }, n.slice(1)) : h("th", {}, n)))));
const section = (id, title, lead, ...children) =>
  h("section", { id, "aria-label": title }, h("h2", {}, title), lead ? h("p", { class: "lead" }, lead) : null, children);
const MODEL = () => h("span", { class: "model", title: "computed from the code and published rates of the GPU; nothing was run" }, "a model, not a measurement");
const legend = (...names) => h("div", { class: "legend" }, names.map((n) => h("span", { style: { "--dot": paint(n) } }, n)));
