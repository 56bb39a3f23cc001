// The page: what to look at first, the sections in order, theme and keys.
const agents = (kernel) => kernel.agents || [];
function overview() {
  const m = state.module;
  const cards = m.kernels.flatMap((k) => [
    [agents(k).length ? "registers a thread where the block starts" : "registers a thread", k.registers === null ? "-" : agents(k).length ? k.registers : `${k.registers} / ${k.limit}`, ""],
    ["spilled bytes a thread", k.spill_stores === null ? "-" : k.spill_stores, k.spill_stores ? "bad" : ""],
    ["shared memory a block", bytes(k.shared), ""], ["threads a block", k.threads, ""],
    ["blocks an SM holds", k.blocks ? k.blocks.fit : "-", ""],
    ...agents(k).map((a) => [`agent ${a.id}: warps, and registers each thread may have there`, `${a.warps}, ${a.registers || k.limit}`, ""]),
  ].map(([name, value, kind]) => h("div", { class: `card ${kind}` }, h("b", {}, value), h("span", {}, m.kernels.length > 1 ? `${k.name}: ${name}` : name))));
  for (const r of m.roofline) cards.push(h("div", { class: "card" }, h("b", {}, r.share ? `${number(r.share * 100)}%` : r.bound), h("span", {}, r.share ? `of the ${r.element === "f32" ? "f32" : "tensor"} peak, bound by ${r.bound} (a model)` : "is the bound (a model)")));
  const found = m.findings.map((f) => h("div", { class: `finding ${f.weight >= 60 ? "high" : f.weight >= 35 ? "mid" : "low"}`, "data-kind": f.kind },
    h("h3", {}, f.title, " ", f.refs.map(([level, line], i) => (i ? ref(level, line) : refs(level, line)))), f.why ? h("p", { class: "why" }, f.why) : null, f.remedy ? h("p", { class: "fix" }, f.remedy) : null));
  const o = m.options;
  return section("overview", "What to look at first",
    [m.name, m.target, o.opt_level === null ? "" : `-O${o.opt_level}`, o.launch_abi ? `launch ABI ${o.launch_abi}` : "", o.tensor_maps === "launcher" ? "tensor maps from the launcher" : "", `${m.ops} ops`, o.disable.length ? `without ${o.disable.join(", ")}` : ""].filter(Boolean).join(", "),
    m.exit_code ? h("p", { class: "fail", role: "alert" }, `The compile failed at ${m.stage} with exit code ${m.exit_code}. What there was by then is below.`) : null,
    m.cut.map((t) => h("p", { class: "note" }, `Cut: ${t}.`)), m.notes.map((t) => h("p", { class: "note" }, t)),
    h("div", { class: "cards" }, cards), found.length ? found : h("p", { class: "good" }, m.exit_code ? "" : "Nothing stands out: no spills, no conflicts, every access as wide as it can be."));
}

const SECTIONS = [["overview", "Overview", overview], ["code", "Code", codeSection], ["loops", "Loops", loopSection], ["accesses", "Memory", accessSection], ["shared", "Shared", sharedSection], ["layouts", "Layouts", layoutSection], ["registers", "Registers", registerSection], ["barriers", "Barriers", barrierSection], ["roofline", "Roofline", roofSection], ["remarks", "Remarks", remarkSection], ["emulator", "Emulator", emulatorSection]];

function theme(dark) {
  document.documentElement.classList.toggle("dark", dark);
  tell("theme");
}

const help = h("dialog", { id: "help", "aria-label": "keys" }, h("h3", {}, "Keys"), h("table", {}, h("tbody", {}, [
  ["1 to 9, 0, -", "go to a section"], ["/", "find text in all levels; Enter and Shift Enter go on"], ["arrow up, down", "next line of the level in focus"], ["arrow left, right", "the level beside it"],
  ["page up, page down, home, end", "far along the level"], ["Escape", "forget the selection"], ["t", "light or dark"], ["?", "this table"],
].map(([k, what]) => h("tr", {}, h("td", {}, h("kbd", {}, k)), h("td", {}, what))))), h("p", {}, h("button", { onclick: () => help.close() }, "close")));

function build(index) {
  open(index);
  state.listeners.length = base.length;
  clear(main);
  const made = SECTIONS.map(([, , make]) => make());
  main.append(...made);
  made.forEach((node) => node.start && node.start());
  seen.disconnect();
  made.forEach((node) => seen.observe(node));
  tell("select");
}

const base = [...state.listeners];
const main = h("main", {});
const links = SECTIONS.map(([id, title]) => h("a", { href: `#${id}`, "data-nav": id }, title));
const seen = new IntersectionObserver((entries) => {
  for (const entry of entries) if (entry.isIntersecting) links.forEach((a) => a.classList.toggle("here", a.dataset.nav === entry.target.id));
}, { rootMargin: "-70px 0px -70% 0px" });
const module_ = h("select", { id: "module", "aria-label": "module", onchange: (e) => build(Number(e.target.value)) }, doc.modules.map((m, i) => h("option", { value: i }, `${m.name} ${m.target}`)));
app.append(h("header", { class: "top" }, doc.modules.length > 1 ? module_ : h("h1", {}, doc.modules.length ? `${doc.modules[0].name} on ${doc.modules[0].target || "?"}` : "nothing was compiled"),
  h("nav", { "aria-label": "sections" }, links), h("button", { id: "theme", title: "light or dark (t)", onclick: () => theme(!document.documentElement.classList.contains("dark")) }, "light / dark"), h("button", { id: "keys", title: "keys (?)", onclick: () => help.showModal() }, "?")), main, help);
const system = window.matchMedia("(prefers-color-scheme: dark)");
theme(system.matches);
system.addEventListener("change", (e) => theme(e.matches));
if (doc.modules.length) build(0);
else main.append(section("overview", "Nothing was compiled", "No kernel was compiled while this report was kept."));

document.addEventListener("keydown", (e) => {
  if (e.ctrlKey || e.metaKey || e.altKey || help.open) return;
  if (e.key === "Escape") { select(null); if (document.activeElement) document.activeElement.blur(); return; }
  if (/^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement ? document.activeElement.tagName : "")) return;
  const at = "1234567890-".indexOf(e.key);
  if (e.key === "/") document.getElementById("find").focus();
  else if (e.key === "t") document.getElementById("theme").click();
  else if (e.key === "?") help.showModal();
  else if (at >= 0 && SECTIONS[at]) {
    const node = document.getElementById(SECTIONS[at][0]);
    node.scrollIntoView({ block: "start" });
    if (SECTIONS[at][0] === "code" && panes.length) panes[0].body.focus({ preventScroll: true });
  } else return;
  e.preventDefault();
});
window.addEventListener("resize", () => panes.forEach((p) => p.draw()));
