// Loops as charts, barriers, and the roofline: what the model says of time.
function hbar(rows, width, unit) {
  const most = Math.max(1, ...rows.map((r) => r.value));
  return g("svg", { width, height: rows.length * 24 + 6, role: "img", "aria-label": rows.map((r) => `${r.name} ${r.value} ${unit}`).join(", ") }, rows.map((r, i) => [
    g("text", { x: 0, y: i * 24 + 17, class: r.strong ? "strong" : "" }, r.name),
    g("rect", { x: 120, y: i * 24 + 5, width: Math.max(1, ((width - 270) * r.value) / most), height: 16, rx: 3, fill: paint(r.name), opacity: r.strong ? 1 : 0.55 }),
    g("text", { x: 126 + ((width - 270) * r.value) / most, y: i * 24 + 17, class: r.strong ? "strong" : "" }, `${number(r.value)} ${unit}${r.strong ? ": the bound" : ""}`)]));
}

// Iterations over clocks: one row a resource, or a lane an agent. A loop that is fed starts one iteration every interval while
// copies run ahead; in one that is not, every iteration waits for its own loads. Terms are those of the bound above.
function gantt(loop, terms, interval) {
  const fed = loop.fed && (!loop.machine || loop.machine.fed);
  const feeder = loop.feeder == null ? null : state.module.loops.find((l) => l.line === loop.feeder);
  const rows = feeder
    ? [[`agent ${feeder.agent.id}: copies`, "global memory"], [`agent ${loop.agent.id}: products`, "tensor cores"], [`agent ${loop.agent.id}: issue`, "CUDA cores"]]
    : ["global memory", "shared memory", "tensor cores", "CUDA cores"].filter((r) => terms[r]).map((r) => [r, r]);
  const ahead = loop.fed ? loop.ring.ahead : 0;
  const shown = fed ? Math.min(8, ahead + 4) : 2;
  const width = 900, label = 130, high = 26;
  const span = interval * shown;
  const x = (clock) => label + ((width - label - 10) * clock) / span;
  const out = [];
  const hues = (i) => `hsl(${(i * 67 + 210) % 360} 55% 36%)`;
  const put = (resource, start, length, name, iteration, dashed) => {
    const at = rows.findIndex((r) => r[1] === resource);
    if (at < 0 || length <= 0 || start >= span) return;
    const w = Math.max(2, x(Math.min(span, start + length)) - x(start));
    out.push(g("rect", { x: x(start), y: at * high + 22, width: w, height: high - 6, rx: 3, fill: dashed ? "none" : hues(iteration), stroke: dashed ? hues(iteration) : "none", "stroke-dasharray": dashed ? "4 3" : null },
      g("title", {}, `iteration ${iteration}: ${name}, ${number(length)} clocks of ${resource}`)));
    const text = w > 8 * `${iteration}: ${name}`.length ? `${iteration}: ${name}` : w > 26 ? `${iteration}` : "";
    if (text) out.push(g("text", { x: x(start) + 5, y: at * high + 36, class: dashed ? "" : "onhue" }, text));
  };
  for (let k = 0; k < shown; k++) {
    const t0 = k * interval;
    out.push(g("line", { x1: x(t0), x2: x(t0), y1: 16, y2: rows.length * high + 24, class: "axis", "stroke-dasharray": "2 3" }), g("text", { x: x(t0) + 2, y: 12 }, `${number(t0)}`));
    if (fed) {
      put("global memory", t0, terms["global memory"], "copy", k + ahead);
      if (feeder) put("global memory", t0 + terms["global memory"], interval - terms["global memory"] - span / 300, "waits for a free stage", k + ahead + 1, true);
      put("shared memory", t0, terms["shared memory"], loop.agent ? "read" : "shared", k);
      put("tensor cores", t0, terms["tensor cores"], "product", k);
      put("CUDA cores", t0, terms["CUDA cores"], "issue", k);
    } else {
      let t = t0;
      const copied = terms["global memory"] || 0, shared = terms["shared memory"] || 0, multiplied = terms["tensor cores"] || 0;
      put("global memory", t, copied, loop.ring ? "copy" : "load", k);
      put("global memory", t + copied, loop.latency, "wait", k, true);
      t += loop.latency + copied;
      put("shared memory", t, shared, "shared", k);
      put("tensor cores", t + shared, multiplied, "product", k);
      put("CUDA cores", t + shared + multiplied, terms["CUDA cores"], "issue", k);
    }
  }
  rows.forEach(([name, resource], i) => out.push(g("text", { x: 0, y: i * high + 37, class: resource === (loop.machine ? loop.machine.bound : loop.bound) ? "strong" : "" }, name)));
  return h("div", { class: "wide" }, g("svg", { width: "100%", viewBox: `0 0 ${width} ${rows.length * high + 30}`, role: "img", "aria-label": "schedule of iterations over clocks" }, out));
}

function slots(ring, fed) {
  const out = [];
  for (let i = 0; i < ring.stages; i++) {
    const kind = i === 0 ? "now" : fed && i <= ring.ahead ? "way" : i >= ring.stages - ring.spare ? "kept" : "free";
    const what = { now: "being read", way: `iteration +${i} on its way`, kept: "read by a product that is not done yet", free: "free to be written" }[kind];
    out.push(h("div", { class: kind }, `stage ${i}: `, what));
  }
  return h("div", { class: "slots" }, out);
}

function stepTable(loop) {
  const steps = loop.steps.filter((s) => s.role !== "index" && s.role !== "quiet");
  const rest = loop.steps.filter((s) => s.role === "index" || s.role === "quiet").reduce((n, s) => n + s.issued, 0);
  return h("details", { open: steps.length <= 12 }, h("summary", {}, `${steps.length} ${steps.length === 1 ? "step" : "steps"} of an iteration of one block`),
    h("div", { class: "wide" }, h("table", {}, head("role", "operation", "where", "resource", "#clocks there", "#instructions of a thread"), h("tbody", {}, steps.map((s) =>
      lineRow("nv_tileas", s.line, h("td", {}, s.role), h("td", { class: "mono" }, s.op), h("td", {}, refs("nv_tileas", s.line)), h("td", {}, h("span", { class: "dot", style: { background: paint(s.resource) } }), s.resource), h("td", { class: "num" }, number(s.clocks[s.resource])), h("td", { class: "num" }, s.issued)))))),
    rest ? h("p", { class: "soft" }, `and ${rest} instructions of index arithmetic and loop control`) : null);
}

const whose = (loop) => (loop.agent ? `, agent ${loop.agent.id} (${loop.agent.issuing < loop.agent.warps ? `${loop.agent.issuing} of its ` : ""}${loop.agent.warps} warps)` : "");

function loopSection() {
  const m = state.module;
  const cards = m.loops.filter((l) => l.steps.length).map((loop) => {
    const made = loop.machine;
    const title = h("h3", {}, `Loop of ${loop.kernel}${whose(loop)} `, refs("nv_tileas", loop.line), made && made.sass.length ? ref("sass", made.sass[0]) : null, MODEL());
    const spare = loop.fallback ? h("p", { class: "note" }, "This version runs only where a test in front of the loop finds that alignment is missing.") : null;
    if (loop.inner) return h("div", { class: "loop", "data-loop": loop.line }, title, spare,
      h("p", {}, "Other loops run in this one. What stands around them, once a pass: ", Object.entries(loop.totals).filter(([, v]) => v).map(([n, v]) => `${n} ${number(v)} clocks`).join(", ") || "nothing that takes time", "."), stepTable(loop));
    if (loop.reader != null) return h("div", { class: "loop", "data-loop": loop.line }, title, spare,
      h("p", {}, "This agent copies into the ring and waits only for free stages. Its time is a lane of the chart of the loop that reads them: ", refs("nv_tileas", loop.reader)), stepTable(loop));
    const terms = made ? made.terms : loop.totals;
    const bound = made ? made.bound : loop.bound;
    const interval = made ? made.interval : loop.interval;
    const rows = Object.entries(terms).filter(([n, v]) => v && n !== "waits").map(([name, value]) => ({ name, value, strong: name === bound }));
    if (bound === "latency") rows.push({ name: "latency", value: loop.latency, strong: true });
    rows.sort((a, b) => b.value - a.value);
    const fed = loop.fed && (!made || made.fed);
    const late = loop.ring && loop.ring.ahead ? "and all copies on their way are awaited where an iteration begins." : "and nothing runs ahead.";
    return h("div", { class: "loop", "data-loop": loop.line }, title, spare,
      h("p", {}, h("b", {}, `One iteration starts every ${number(interval)} clocks`), made ? ` of an SM that holds ${made.blocks} block${made.blocks > 1 ? "s" : ""} (from machine code: ${made.instructions} instructions)` : " (one block on an SM)",
        `. The bound is ${bound}`, bound === "latency" ? `: ${loop.latency} clocks from load to use, ${late}` : `, ${number(terms[bound] || 0)} clocks on ${loop.gpu}.`),
      h("div", { class: "wide" }, hbar(rows, 520, "clocks")),
      loop.ring ? [h("h3", {}, `Ring of ${loop.ring.stages} stages of ${bytes(loop.ring.stage_bytes)} in shared memory, ${loop.ring.ahead} ${loop.ring.ahead === 1 ? "iteration" : "iterations"} on their way `, refs("nv_tileas", loop.ring.line)), slots(loop.ring, loop.fed)] : null,
      h("h3", {}, made && made.blocks > 1 ? `Schedule of the ${made.blocks} blocks of an SM together, by the model` : "Schedule of one block, by the model"),
      h("p", { class: "soft" }, fed ? `Numbers are iterations: while iteration 0 is multiplied, iteration ${loop.ring.ahead} is copied.` : "Numbers are iterations: one begins when the one before it is done.",
        loop.feeder == null ? "" : [" The agents meet at the mbarriers of the ring only. The agent that copies: ", refs("nv_tileas", loop.feeder)]), gantt(loop, terms, interval), stepTable(loop));
  });
  return section("loops", "Loops: schedule and bound", "Stages, roles and resources of each loop; the initiation interval is the time from one iteration's start to the next one's.", cards.length ? cards : h("p", { class: "empty" }, "There is no loop."));
}

const but = (n, one, many) => (!n ? `all ${many}` : n === 1 ? `all ${many} but the newest ${one}` : `all ${many} but the ${n} newest`);
const WAITS = {
  copies: (b) => `until ${but(b.pending, "group", "groups of copies")} of this thread have landed in shared memory`,
  products: (b) => `until ${but(b.pending, "group", "groups of warpgroup products")} are done`,
  barrier: (b) => (b.warps ? `until the ${b.warps} warps of this agent are there` : "until every warp of the block is there"),
  phase: (b) => ({
    landed: "until the bytes of its stage have landed (the stage's full mbarrier)",
    released: "until all readers of its stage have released it (the stage's empty mbarrier)",
    stored: "until every warp has stored its part of what a product reads",
    taken: "until every warp has taken the sum that lay there before",
    product: "until the product is done: its commit arrives on the mbarrier",
  }[b.channel] || "until the phase of an mbarrier is complete: what arrives on it is done"),
  "tensor memory": () => "until what was read from or written to tensor memory is there",
  "bulk copies": () => "until bulk copies have read or written their data",
};

function barrierSection() {
  const m = state.module;
  const names = (lines) => lines.map((l) => [ref("nv_tileas", l), h("span", { class: "soft mono" }, opOf(l), " ")]);
  const rows = m.barriers.map((b) => lineRow("ptx", b.ptx,
    h("td", {}, refs("nv_tileas", b.line), ref("ptx", b.ptx)), h("td", { class: "mono" }, b.instruction), h("td", {}, b.loop ? h("b", {}, "in a loop") : "once"), h("td", {}, WAITS[b.kind](b)),
    h("td", {}, b.for.length ? names(b.for) : b.read && b.read.length ? [h("span", { class: "soft" }, "readers of what was there before: "), names(b.read)] : h("span", { class: "soft" }, b.kind === "barrier" ? "readers of what was there before" : "-")),
    h("td", {}, b.then.length ? names(b.then) : b.write && b.write.length ? [h("span", { class: "soft" }, "the next write to that place: "), names(b.write)] : b.kind === "barrier" && !b.for.length ? h("span", { class: "soft" }, "the next write to that place") : b.kind !== "barrier" && b.next >= 0 ? [h("span", { class: "soft" }, "what stands behind the barrier "), ref("ptx", b.next)] : h("span", { class: "soft" }, "the code behind it"))));
  return section("barriers", "Barriers and waits: who waits for what", "Each barrier of the generated code, the operations whose results it waits for, and those that may go on behind it.",
    rows.length ? h("div", { class: "scroll" }, h("table", {}, head("where", "instruction", "how often", "waits", "for these", "so that these may go on"), h("tbody", {}, rows))) : h("p", { class: "empty" }, "The code has no barriers."));
}

const opOf = (line) => { const t = (state.module.levels.nv_tileas.lines[line] || "").match(/nv_tileas\.([\w.]+)/); return t ? t[1] : ""; };

function roofSection() {
  const m = state.module;
  const charts = m.roofline.map((r) => {
    const width = 560, high = 300, l = 60, b = 40;
    const xs = [0.25, 4096], ys = [8, Math.max(16384, r.peak * 1.5)];
    const X = (v) => l + ((width - l - 20) * Math.log(v / xs[0])) / Math.log(xs[1] / xs[0]);
    const Y = (v) => high - b - ((high - b - 16) * Math.log(Math.max(v, ys[0]) / ys[0])) / Math.log(ys[1] / ys[0]);
    const ridge = r.peak / r.bandwidth;
    const ticks = [0.25, 1, 4, 16, 64, 256, 1024, 4096];
    const y = r.share * r.peak;
    const at = r.intensity ? Math.min(xs[1], Math.max(xs[0], r.intensity)) : null;
    return h("div", { class: "split", style: { "margin-bottom": "14px" } },
      g("svg", { width, height: high, role: "img", "aria-label": `roofline: ${number(r.share * 100)} percent of the peak` },
        ticks.map((t) => [g("line", { x1: X(t), x2: X(t), y1: 16, y2: high - b, class: "axis" }), g("text", { x: X(t), y: high - b + 15, "text-anchor": "middle" }, t)]),
        [16, 64, 256, 1024, 4096, 16384].filter((t) => t <= ys[1]).map((t) => [g("line", { x1: l, x2: width - 20, y1: Y(t), y2: Y(t), class: "axis" }), g("text", { x: l - 6, y: Y(t) + 4, "text-anchor": "end" }, t)]),
        g("path", { d: `M${X(xs[0])},${Y(r.bandwidth * xs[0])} L${X(ridge)},${Y(r.peak)} L${X(xs[1])},${Y(r.peak)}`, fill: "none", stroke: "var(--accent)", "stroke-width": 2.5 }),
        g("text", { x: X(ridge) + 8, y: Y(r.peak) - 7, class: "strong" }, `${r.peak} flops a clock (${r.element})`),
        g("text", { x: X(1), y: Y(r.bandwidth) - 10, class: "strong" }, `${r.bandwidth} bytes a clock from L2`),
        at && y ? [g("line", { x1: X(at), x2: X(at), y1: Y(y), y2: Y(Math.min(r.peak, r.bandwidth * at)), stroke: "var(--bad)", "stroke-dasharray": "3 3" }),
          g("circle", { cx: X(at), cy: Y(y), r: 7, fill: "var(--bad)" }), g("text", { x: X(at) + 12, y: Y(y) + 5, class: "strong" }, `${number(r.share * 100)}% of the peak`)] : null,
        g("text", { x: (width + l) / 2, y: high - 6, "text-anchor": "middle" }, "flops for each byte of global memory"), g("text", { x: 12, y: 12 }, "flops a clock, one SM")),
      h("div", {}, h("h3", {}, `${r.kernel} on ${r.gpu} `, MODEL()),
        r.stands_in ? h("p", { class: "note" }, `The model has no numbers of this architecture's own: ${r.gpu} stands in.`) : null,
        h("p", {}, r.share ? [h("b", {}, `${number(r.share * 100)}% of the ${r.element === "f32" ? "f32" : "tensor"} peak`), ", limited by ", h("b", {}, r.bound), "."] : ["Limited by ", h("b", {}, r.bound), "."], " The busiest loop: ", refs("nv_tileas", r.line)),
        h("p", { class: "soft" }, `Each iteration: ${number(r.flops)} flops over ${number(r.bytes)} bytes`, r.intensity ? ` = ${number(r.intensity)} flops a byte; the ridge is at ${number(ridge)}.` : ".", ` Terms from ${r.from}.`),
        hbar(Object.entries(r.terms).filter(([n]) => n !== "waits").sort((a, c) => c[1] - a[1]).map(([name, value]) => ({ name, value, strong: name === r.bound })), 480, "clocks")));
  });
  return section("roofline", "Roofline", "How far the busiest loop can go, by published rates of one SM. It ranks kernels; it does not predict times.", charts.length ? charts : h("p", { class: "empty" }, "No loop moves or multiplies tiles: there is nothing to set against the roofs."));
}
