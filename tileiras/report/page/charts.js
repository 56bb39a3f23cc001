// Global accesses, shared memory, registers, remarks, counts: tables and charts over lines of the code.
function accessSection() {
  const m = state.module;
  const rows = m.accesses.map((a) => {
    const waste = a.sectors && a.least ? a.sectors / a.least : null;
    const share = waste ? 100 / waste : null;
    return lineRow("nv_tileas", a.line, h("td", {}, refs("nv_tileas", a.line)), h("td", {}, a.what), h("td", { class: "mono" }, `${a.count} x ${a.instruction}`),
      h("td", {}, h("span", { class: "track" }, h("span", { class: "bar", style: { width: `${(100 * a.width) / Math.max(16, a.possible)}%`, background: a.width < a.possible ? "var(--warn)" : "var(--good)" } })), `${a.width} of ${a.possible} B`),
      h("td", {}, share === null ? h("span", { class: "soft" }, "not known: addresses are computed. A run on the emulator counts the sectors") : [h("span", { class: share < 99 ? "bad" : "good" }, share < 99 ? "not coalesced" : "coalesced"), h("span", { class: "soft" }, ` ${a.sectors} sectors for ${a.least}`)]),
      h("td", {}, [a.narrow, a.scattered, a.partial].filter(Boolean).map((t) => h("div", {}, t)), [...new Set([a.widen, a.gather])].filter(Boolean).map((t) => h("div", { class: "good" }, "Change: ", t))));
  });
  return section("accesses", "Global memory: width and coalescing", "Each load, store and copy: the bytes one instruction moves for a thread, and the sectors of 32 bytes that one request of a warp touches, for rows that start at sectors.",
    rows.length ? h("div", { class: "scroll" }, h("table", {}, head("where", "what", "instructions of a thread", "width", "coalescing", "why, and what would widen it"), h("tbody", {}, rows))) : h("p", { class: "empty" }, "No access to global memory was seen."));
}

// Columns of tensor memory over the lines of the code.
function tensorMemory(t) {
  const width = 900, left = 76, high = 150, row = t.last - t.first || 1;
  const X = (line) => left + ((width - left - 10) * (line - t.first)) / row;
  const Y = (column) => 8 + ((high - 36) * column) / t.columns;
  const hues = ["--r-tensor", "--r-shared", "--r-global", "--r-issue"];
  const shapes = t.regions.map((r, i) => {
    const x = X(r.line), w = Math.max(7, X(r.end) - x), tall = Math.max(3, Y(r.column + r.columns) - Y(r.column) - 1);
    const text = `${r.name ? `${r.name} ` : ""}${r.what}: columns ${r.column} to ${r.column + r.columns - 1}`;
    const narrow = w < 8 * text.length;
    return g("g", { tabindex: 0, role: "button", "data-region": r.column, style: { cursor: "pointer" }, onclick: () => select("nv_tileas", r.line, true), onkeydown: (e) => { if (e.key === "Enter") select("nv_tileas", r.line, true); }, onmouseenter: () => hover("nv_tileas", r.line), onmouseleave: () => hover(null) },
      g("title", {}, `${text}, ${r.lanes} of ${t.lanes} lanes, lines ${r.line + 1} to ${r.end + 1}`),
      g("rect", { x, y: Y(r.column) + 0.5, width: w, height: tall, rx: 2, fill: `var(${hues[i % 4]})`, opacity: 0.85 }),
      !narrow && tall > 14 ? g("text", { x: x + 6, y: Y(r.column) + 14, class: "onbar" }, text) : null);
  });
  return [h("h3", {}, `Tensor memory: ${t.columns} of ${t.of} columns, ${t.lanes} lanes of 4 bytes each`),
    h("div", { class: "wide" }, g("svg", { width: "100%", viewBox: `0 0 ${width} ${high}`, role: "img", "aria-label": "columns of tensor memory over the lines of the code" },
      g("text", { x: 0, y: 16 }, "column 0"), g("text", { x: 0, y: high - 30 }, t.columns), g("rect", { x: left, y: 8, width: width - left - 10, height: high - 36, class: "room" }),
      g("text", { x: left, y: high - 8 }, `nv_tileas line ${t.first + 1}`), g("text", { x: width - 10, y: high - 8, "text-anchor": "end" }, `line ${t.last + 1}`), shapes)),
    h("div", { class: "wide" }, h("table", {}, head("columns", "#lanes", "holds", "from", "to", "products"), h("tbody", {}, t.regions.map((r) => lineRow("nv_tileas", r.line,
      h("td", { class: "mono" }, `${r.column} to ${r.column + r.columns - 1}`), h("td", { class: "num" }, r.lanes), h("td", {}, r.what), h("td", {}, refs("nv_tileas", r.line)), h("td", {}, ref("nv_tileas", r.end)), h("td", {}, r.by.map((l) => refs("nv_tileas", l)))))))),
    t.of > t.columns ? null : h("p", { class: "soft" }, "The block takes all of it: one such block fits an SM.")];
}

function sharedSection() {
  const m = state.module;
  const parts = m.shared.filter((s) => s.buffers.length || s.accesses.length || (s.tensor_memory || []).length).map((s) => {
    const width = 900, left = 76, row = s.last - s.first || 1;
    const most = Math.max(1, s.bytes, ...s.buffers.map((b) => b.offset + b.bytes));
    const high = 170;
    const X = (line) => left + ((width - left - 10) * (line - s.first)) / row;
    const Y = (at) => 8 + ((high - 30) * at) / most;
    const shapes = s.buffers.map((b) => {
      const x = X(b.line), w = Math.max(7, X(b.end) - x);
      const one = (b.bytes / b.stages);
      const inside = (y, tall) => Math.min(y, high - 22 - tall);
      return g("g", { tabindex: 0, role: "button", "data-buffer": b.name, style: { cursor: "pointer" }, onclick: () => select("nv_tileas", b.line, true), onkeydown: (e) => { if (e.key === "Enter") select("nv_tileas", b.line, true); }, onmouseenter: () => hover("nv_tileas", b.line), onmouseleave: () => hover(null) },
        g("title", {}, `${b.name}: ${b.what}, ${b.bytes} bytes at ${b.offset}, lines ${b.line + 1} to ${b.end + 1}${b.members.map((t) => `; ${t.bytes} bytes of a stage from line ${t.line + 1}`).join("")}`),
        Array.from({ length: b.stages }, (_, i) => { const tall = Math.max(3, Y(b.offset + (i + 1) * one) - Y(b.offset + i * one) - 1); return g("rect", { x, y: inside(Y(b.offset + i * one) + 0.5, tall), width: w, height: tall, rx: 2, fill: b.what === "scratch" ? "var(--r-wait)" : b.what.startsWith("mbarriers") ? "var(--r-tensor)" : "var(--r-shared)", opacity: b.what === "scratch" ? 0.9 : 0.95 - 0.4 * (i % 2) }); }),
        w > 120 && Y(b.offset + one) - Y(b.offset) > 14 ? g("text", { x: x + 6, y: Y(b.offset) + 15, class: "onbar" }, `${b.name} ${b.what}: ${b.stages > 1 ? `${b.stages} x ` : ""}${bytes(one)}`) : null);
    });
    const heat = s.accesses.map((a) => lineRow("nv_tileas", a.line, h("td", {}, refs("nv_tileas", a.line)), h("td", {}, a.role), h("td", {}, a.what), h("td", { class: "num" }, `${a.width} B`),
      h("td", { class: `num ${a.wavefronts > a.least ? "bad" : "good"}` }, `${a.wavefronts} for ${a.least}`),
      h("td", {}, h("div", { class: "heat", role: "img", "aria-label": `words asked of banks 0 to 31: ${a.banks.join(" ")}` }, a.banks.map((n, i) => h("div", { title: `bank ${i}: ${n} word${n === 1 ? "" : "s"} at once`, style: { background: n === 0 ? "var(--grid)" : n === 1 ? "var(--good)" : `hsl(${Math.max(0, 45 - 3 * n)} 85% 48%)` } }))))));
    return [h("h3", {}, `${s.kernel}: ${bytes(s.bytes)} a block`),
      s.buffers.length ? [h("div", { class: "wide" }, g("svg", { width: "100%", viewBox: `0 0 ${width} ${high}`, role: "img", "aria-label": "buffers over the lines of the code" },
        g("text", { x: 0, y: 16 }, "byte 0"), g("text", { x: 0, y: high - 26 }, bytes(most)), g("line", { x1: left, x2: left, y1: 8, y2: high - 22, class: "axis" }), g("line", { x1: left, x2: width - 10, y1: high - 22, y2: high - 22, class: "axis" }),
        g("text", { x: left, y: high - 6 }, `nv_tileas line ${s.first + 1}`), g("text", { x: width - 10, y: high - 6, "text-anchor": "end" }, `line ${s.last + 1}`), shapes)),
        h("div", { class: "legend" }, h("span", { style: { "--dot": "var(--r-shared)" } }, "buffer, striped by stages"), h("span", { style: { "--dot": "var(--r-wait)" } }, "scratch of an exchange"), s.buffers.some((b) => b.what.startsWith("mbarriers")) ? h("span", { style: { "--dot": "var(--r-tensor)" } }, "mbarriers") : null)] : null,
      heat.length ? [h("h3", {}, "Banks that one access of a warp asks"), h("div", { class: "scroll" }, h("table", {}, head("where", "role", "access", "#width", "#wavefronts", "banks 0 to 31: words in the worst phase"), h("tbody", {}, heat))),
        h("div", { class: "legend" }, h("span", { style: { "--dot": "var(--grid)" } }, "not asked"), h("span", { style: { "--dot": "var(--good)" } }, "one word"), h("span", { style: { "--dot": "hsl(39 85% 48%)" } }, "two: a conflict"), h("span", { style: { "--dot": "hsl(0 85% 48%)" } }, "many"))] : null,
      (s.tensor_memory || []).map(tensorMemory)];
  });
  return section("shared", "Shared memory: buffers over time, banks and conflicts", "Buffers from the line that takes them to the line that gives them back, and how the 32 lanes of an access meet the banks.", parts.length ? parts : h("p", { class: "empty" }, "Nothing is kept in shared memory."));
}

function curve(level, lines, live, limit, peak, extra) {
  const width = 900, high = 170, left = 46;
  const most = Math.max(limit || 0, ...live) * 1.05 || 1;
  const X = (i) => left + ((width - left - 10) * i) / Math.max(1, live.length - 1);
  const Y = (v) => high - 22 - ((high - 34) * v) / most;
  let path = `M${X(0)},${Y(0)}`;
  live.forEach((v, i) => { path += `L${X(i).toFixed(1)},${Y(v).toFixed(1)}`; });
  path += `L${X(live.length - 1)},${Y(0)}Z`;
  const top = live.indexOf(Math.max(...live));
  const dot = g("circle", { r: 4, fill: "var(--accent)", cx: -20, cy: -20 });
  const index = (e) => { const box = svg.getBoundingClientRect(); return Math.max(0, Math.min(live.length - 1, Math.round((((e.clientX - box.left) / box.width) * width - left) / (width - left - 10) * (live.length - 1)))); };
  const svg = g("svg", { width: "100%", viewBox: `0 0 ${width} ${high}`, role: "img", "aria-label": `registers along ${TITLES[level]}, most ${Math.max(...live)}`, style: { cursor: "crosshair" },
    onmousemove: (e) => { const i = index(e); dot.setAttribute("cx", X(i)); dot.setAttribute("cy", Y(live[i])); hover(level, lines[i]); }, onmouseleave: () => hover(null), onclick: (e) => select(level, lines[index(e)], true) },
    g("path", { d: path, fill: "var(--accent-soft)", stroke: "var(--accent)" }),
    limit ? [g("line", { x1: left, x2: width - 10, y1: Y(limit), y2: Y(limit), stroke: "var(--bad)", "stroke-dasharray": "5 4" }), g("text", { x: left + 4, y: Y(limit) - 4, style: { fill: "var(--bad)" } }, `limit ${limit}`)] : null,
    (extra || []).map((line) => { const i = lines.indexOf(line); return i < 0 ? null : g("line", { x1: X(i), x2: X(i), y1: high - 22, y2: high - 14, stroke: "var(--bad)" }); }),
    g("circle", { cx: X(top), cy: Y(live[top]), r: 5, fill: "var(--bad)" }), g("text", { x: Math.min(width - 120, X(top) + 8), y: Y(live[top]) + 4, class: "strong" }, `peak ${live[top]}`),
    [0, Math.round(most / 2), Math.round(most)].map((v) => g("text", { x: left - 6, y: Y(v) + 4, "text-anchor": "end" }, v)),
    g("text", { x: left, y: high - 5 }, `${TITLES[level]} line ${lines[0] + 1}`), g("text", { x: width - 10, y: high - 5, "text-anchor": "end" }, `line ${lines[lines.length - 1] + 1}`), dot);
  return svg;
}

function holderTable(rows) {
  const values = new Map(state.module.values.map((v) => [`${v.name}@${v.line}`, v]));
  const most = Math.max(1, ...rows.map((r) => r.registers));
  return h("div", { class: "wide" }, h("table", {}, head("value", "#registers", "", "shape", "made by"), h("tbody", {}, rows.slice(0, 12).map((r) => {
    const v = values.get(`${r.name}@${r.line}`);
    return lineRow("nv_tileas", r.line, h("td", { class: "mono" }, r.name), h("td", { class: "num" }, r.registers), h("td", {}, h("span", { class: "track" }, h("span", { class: "bar", style: { width: `${(100 * r.registers) / most}%` } }))),
      h("td", { class: "mono" }, v ? `${v.shape.join("x")} ${v.elem}` : "-"), h("td", {}, refs("nv_tileas", r.line)));
  }))));
}

function registerSection() {
  const m = state.module;
  const parts = m.pressure.map((p) => {
    const kernel = m.kernels.find((k) => k.name === p.kernel) || {};
    const lines = p.ptx.lines || p.ptx.live.map((_, i) => p.ptx.first + i);
    const shown = lines.filter((l) => l < m.levels.ptx.lines.length).length;
    const spills = kernel.spill_stores || kernel.spill_loads;
    const keep = p.sass ? p.sass.lines.map((l, i) => [l, p.sass.live[i]]).filter(([l]) => l >= 0) : [];
    return [h("h3", {}, p.kernel, ": ", p.registers === null ? "not assembled" : `${p.registers} registers a thread${agents(kernel).length ? ` where the block starts, then ${agents(kernel).map((a) => `${a.registers || p.registers} of agent ${a.id}`).join(" and ")}` : ` of at most ${p.limit}`}`),
      spills ? h("p", { class: "fail" }, `It spills: ${kernel.spill_stores} bytes are written to and ${kernel.spill_loads} bytes read from local memory by each thread. The values below hold more registers than the ${p.limit} there are.`) : h("p", { class: "soft" }, "Nothing is spilled.".slice(0, p.registers === null ? 0 : 99)),
      h("p", {}, "What the PTX asks for (32-bit registers alive), most at ", ref("ptx", p.ptx.peak_line), ". It counts before ptxas reuses and reorders."), curve("ptx", lines.slice(0, shown), p.ptx.live.slice(0, shown), p.limit, p.ptx.peak),
      h("h3", {}, "Alive where the PTX asks for most"), holderTable(p.ptx.holders),
      keep.length ? [h("p", {}, "What the machine code holds, most at ", ref("sass", p.sass.peak_line), p.sass.spills.length ? [". Red marks below the axis are spill instructions, the first at ", ref("sass", p.sass.spills[0])] : "", "."), curve("sass", keep.map((k) => k[0]), keep.map((k) => k[1]), p.limit, p.sass.peak, p.sass.spills),
        h("h3", {}, "Alive where the machine code holds most"), holderTable(p.sass.holders)] : null];
  });
  return section("registers", "Registers along the code", "Click a curve to see the line; the tables name what is alive at the peak, by the operation that wrote it.", parts.length ? parts : h("p", { class: "empty" }, "There is no code."));
}

function remarkSection() {
  const m = state.module;
  const body = h("tbody", {});
  const kinds = ["all", ...new Set(m.remarks.map((r) => r.severity))];
  const pick = h("select", { id: "severity", "aria-label": "severity", onchange: () => draw() }, kinds.map((k) => h("option", { value: k }, k)));
  const draw = () => {
    clear(body);
    for (const r of m.remarks.filter((x) => pick.value === "all" || x.severity === pick.value)) {
      const color = { error: "bad", warning: "warn", remark: r.kind === "missed" ? "warn" : "soft" }[r.severity] || "soft";
      const line = r.nv_tileas >= 0 ? ["nv_tileas", r.nv_tileas] : ["cuda_tile", r.cuda_tile];
      body.append(lineRow(...line, h("td", { class: color }, r.kind || r.severity), h("td", { class: "mono" }, r.code), h("td", {}, r.text, r.notes.map((n) => h("div", { class: "soft" }, n))),
        h("td", {}, h("div", { class: "soft" }, r.cause), r.remedy ? h("div", { class: "good" }, r.remedy) : null), h("td", {}, r.file ? h("div", { class: "mono soft" }, `${r.file}:${r.line}:${r.col}`) : null, refs(...line))));
    }
  };
  draw();
  return section("remarks", "Remarks and diagnostics, with remedies", null, m.remarks.length ? [h("label", {}, "show", pick), h("div", { class: "scroll" }, h("table", {}, head("kind", "code", "what", "cause and remedy", "where"), body))] : h("p", { class: "empty" }, "There is nothing to say."));
}

function emulatorSection() {
  const e = state.module.emulator;
  if (!e) return section("emulator", "Counted by the emulator", null, h("p", { class: "empty" }, "The kernel was not run. Launch it on the emulator with a profile, and write the report afterwards: program.launch(..., target=\"emulator\", profile=Profile()), then program.report(FILE)."));
  const rows = [...e.lines].sort((a, b) => b.warps - a.warps).slice(0, 300).map((l) => lineRow("ptx", l.ptx, h("td", {}, ref("ptx", l.ptx), up(l.ptx)), h("td", { class: "mono" }, l.instruction.slice(0, 80)), h("td", { class: "num" }, number(l.warps)),
    h("td", { class: `num ${l.wavefronts > l.least_wavefronts ? "bad" : ""}` }, l.wavefronts ? `${number(l.wavefronts)} / ${number(l.least_wavefronts)}` : ""), h("td", { class: `num ${l.sectors > l.least_sectors ? "bad" : ""}` }, l.sectors ? `${number(l.sectors)} / ${number(l.least_sectors)}` : "")));
  const t = e.total;
  return section("emulator", "Counted by the emulator", "Counts of the generated PTX when it was run; not times.",
    h("div", { class: "cards" }, [["instructions of warps", number(t.warps)], ["shared wavefronts", `${number(t.wavefronts)} / ${number(t.least_wavefronts)}`], ["global sectors", `${number(t.sectors)} / ${number(t.least_sectors)}`], ["barriers", number(t.barriers)], ["bytes copied", number(t.copied)], t.in_flight ? ["bytes on their way at products", `${number(t.in_flight[0])} to ${number(t.in_flight[2])}`] : null].filter(Boolean).map(([n, v]) => h("div", { class: "card" }, h("b", {}, v), h("span", {}, n)))),
    h("div", { class: "scroll" }, h("table", {}, head("where", "instruction", "#issued by warps", "#wavefronts / least", "#sectors / least"), h("tbody", {}, rows))));
}
const up = (line) => { const found = related("ptx", line).nv_tileas; return found ? ref("nv_tileas", [...found][0]) : null; };
