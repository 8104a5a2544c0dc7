// What a program measured of itself (PROGRAM ... --profile FILE) beside what the machine allows. A run is a kind of calls: of one
// function, with the same lengths; what is shown is the mean of one call.

const measured = meta.profile;
const lastStage = () => loadStage(meta.stages.length - 1);

/// "@forward.last, T 256".
function runTitle(run) {
  const shown = Object.entries(run.lengths).filter(([name, value]) => value > (name === "B" ? 1 : 0) && !/^(past|cap)/.test(name));
  const past = run.lengths.past ? ` after ${run.lengths.past}` : "";
  return `@${run.name}, ${shown.map(([name, value]) => `${name} ${value}`).join(", ")}${past}`;
}
function longestRun() {
  return measured.kinds.reduce((best, run, i) => run.ns > measured.kinds[best].ns ? i : best, 0);
}
function currentRun() {
  return measured && state.run >= 0 ? measured.kinds[state.run] : null;
}
/// Shows a kind of calls, at its lengths.
function chooseRun(index) {
  const run = measured.kinds[index];
  Object.assign(lengths, run.lengths);
  state.run = index;
  return {symbol: run.name, redraw: true};
}

/// The profile's numbers of launches: they stand in the order of the text.
function launchNumbers(stage) {
  return stage.launchNumbers ||= new Map(stage.ops.filter(op => op.n === "launch").map((op, i) => [op, i]));
}
/// Seconds of one call that an operation took, a loop or function with all inside: {seconds, iterations: [...], runs, balance}; null
/// where nothing was measured.
function tookOf(op, stage) {
  const run = currentRun();
  if (!run || stage !== lastStage() || symbolOf(op, stage).s !== run.name) return null;
  if (op.n !== "launch") {
    const inside = op.children.map(child => tookOf(child, stage)).filter(one => one);
    return inside.length ? {seconds: inside.reduce((sum, one) => sum + one.seconds, 0), iterations: [], runs: 0} : null;
  }
  run.byLaunch ||= new Map(run.launches.map(one => [one.launch, one]));
  const number = launchNumbers(stage).get(op), one = run.byLaunch.get(number);
  if (!one) return null;
  const iterations = one.iterations_ns.map(ns => ns / run.calls / 1e9), busy = measured.busy[number] || [];
  return {seconds: iterations.reduce((sum, iteration) => sum + iteration, 0), iterations, runs: one.runs / run.calls,
    balance: Math.max(...busy) ? busy.reduce((sum, ns) => sum + ns, 0) / Math.max(...busy) / busy.length : 0};
}
const callSeconds = run => run.ns / run.calls / 1e9;
const percent = value => (100 * value).toFixed(value >= 0.0995 ? 0 : 1) + "%";
/// How warm a share of the time looks, from 0 to 1: small ones stay apart.
const warmth = share => Math.min(1, Math.max(0, share)) ** 0.6;

/// The launches of a run, at the lengths chosen: estimated beside measured.
function measuredLaunches(run) {
  const stage = lastStage(), rows = [];
  for (const op of stage.ops) {
    if (op.n !== "launch") continue;
    const took = tookOf(op, stage);
    if (!took) continue;
    const iterations = op.once ? took.runs : iterationsOf(op, stage), flops = evaluate(op.f) * iterations, bytes = evaluate(op.m) * iterations;
    const least = roofOf(evaluate(op.f), evaluate(op.m)).seconds * iterations;
    rows.push({op, ...took, flops, bytes, least, iterationCount: took.iterations.length, kind: kindOf(op, stage), share: took.seconds / callSeconds(run)});
  }
  return rows;
}

function drawTimes(parent) {
  const run = currentRun();
  if (!run) {
    parent.append(h("p.empty", {}, "These lengths were not measured. What was: ",
      measured.kinds.map((one, i) => [link(runTitle(one), () => { update(chooseRun(i)); drawHead(); }), i + 1 < measured.kinds.length ? "; " : "."])));
    return;
  }
  const rows = measuredLaunches(run), whole = callSeconds(run), inside = rows.reduce((sum, row) => sum + row.seconds, 0);
  const least = rows.reduce((sum, row) => sum + row.least, 0), longest = Math.max(...rows.map(row => row.share), 1e-9);
  const elsewhere = meta.machine.measured && meta.machine.name !== measured.cpu;
  parent.append(h("div.timehead", {}, h("b", {}, runTitle(run)), h("span.dim", {}, ` ${seconds(whole)} a call, mean of ${run.calls} · ${measured.cpu}, ${measured.threads} threads` +
    (elsewhere ? ` · the roofs are of another machine: ${meta.machine.name}` : ""))));
  const heads = ["kernel", "weights", "line", "runs", "took", "", "share", "at least", "reached", "GFLOP/s", "GB/s", "balance"];
  const hints = {runs: "launches in one call", "at least": "what the roofline allows", reached: "at least, of what it took", balance: "of the threads' work in all calls: 1 where all had as much"};
  const chosen = row => state.stage === meta.stages.length - 1 && row.op.id === state.op;
  const choose = row => () => update({stage: meta.stages.length - 1, op: row.op.id, kernel: row.op.k});
  const body = [...rows].sort((a, b) => b.seconds - a.seconds).map(row => h("tr" + (chosen(row) ? ".chosen" : ""), {"data-kernel": row.op.k, click: choose(row)},
    h("td", {}, h("i.k-" + row.kind), row.op.k), h("td.weights.dim", {title: row.op.w}, row.op.w), h("td.dim", {}, lineOf(row.op.o)),
    h("td.number", {}, Number(row.runs.toFixed(2))), h("td.number", {}, seconds(row.seconds)),
    h("td.share", {}, h("span.k-" + row.kind, {style: `width:${(100 * row.share / longest).toFixed(1)}%`})), h("td.number", {}, percent(row.share)),
    h("td.number", {}, seconds(row.least)), h("td.number", {}, percent(row.least / row.seconds)),
    h("td.number", {}, row.flops ? short(row.flops / row.seconds / 1e9) : ""), h("td.number", {}, short(row.bytes / row.seconds / 1e9)),
    h("td.number", {}, row.balance ? row.balance.toFixed(2) : "")));
  const table = h("table.kernels.times", {}, h("thead", {}, h("tr", {}, heads.map(name => h("th", {title: hints[name]}, name)))), h("tbody", {}, body),
    h("tfoot", {}, h("tr", {}, h("td", {colspan: 4}, "between launches"), h("td.number", {}, seconds(Math.max(0, whole - inside))), h("td"), h("td.number", {}, percent(Math.max(0, 1 - inside / whole))), h("td", {colspan: 5})),
      h("tr", {}, h("td", {colspan: 4}, "@" + run.name), h("td.number", {}, seconds(whole)), h("td"), h("td"), h("td.number", {}, seconds(least)), h("td.number", {}, percent(least / whole)), h("td", {colspan: 3}))));
  const strips = h("div.strips");
  parent.append(h("div.timetop.scroll", {}, table), strips);
  for (const loop of loopsOf(rows)) drawStrip(strips, loop, whole, chosen, choose);
  if (!strips.children.length) strips.append(h("p.empty", {}, "No loop: each kernel runs once."));
}

/// Launches of each outermost loop, in the order of the text.
function loopsOf(rows) {
  const stage = lastStage(), loops = new Map();
  for (const row of rows) {
    let outermost = null;
    for (let at = row.op.p; at >= 0; at = stage.ops[at].p) if (stage.ops[at].n === "repeat") outermost = stage.ops[at];
    if (outermost && row.iterationCount > 1) loops.set(outermost, [...(loops.get(outermost) || []), row]);
  }
  return [...loops.values()];
}

/// Time as heat: a column for each layer, a row for each launch in it.
function drawStrip(parent, rows, whole, chosen, choose) {
  const layers = Math.max(...rows.map(row => row.iterationCount)), left = 208, right = 74, top = 24, height = 23;
  const width = Math.max(520, (parent.clientWidth || 800) - 46), cell = Math.min(66, (width - left - right) / layers);
  const sums = Array.from({length: layers}, (_, i) => rows.reduce((sum, row) => sum + (row.iterations[i] || 0), 0));
  const most = Math.max(...rows.flatMap(row => row.iterations)), mostSum = Math.max(...sums);
  const root = svg("svg", {class: "strip", width, height: top + (rows.length + 1) * height + 14});
  const text = (content, x, y, kind, anchor = "start") => {
    const element = svg("text", {x, y, class: kind, "text-anchor": anchor});
    element.textContent = content;
    root.append(element);
    return element;
  };
  const every = Math.ceil(22 / cell);
  for (let i = 0; i < layers; ++i) if (i % every === 0) text(String(i), left + (i + 0.5) * cell, top - 8, "tick", "middle");
  text("layer", left - 10, top - 8, "tick", "end");
  text("all layers", left + layers * cell + right - 6, top - 8, "tick", "end");
  const heat = (value, largest, x, y, hint) => {
    const share = warmth(value / largest);
    const rect = svg("rect", {class: "heat", x: x + 0.5, y: y + 0.5, width: Math.max(1, cell - 1), height: height - 1, rx: 2, style: `--heat:${(100 * share).toFixed(1)}%`});
    const title = svg("title");
    title.textContent = hint;
    rect.append(title);
    root.append(rect);
    // Without its unit, which the tooltip has: "1.24", in milliseconds.
    if (cell >= 34) text((value * 1e3).toFixed(value >= 9.95e-3 ? 1 : value >= 0.995e-3 ? 2 : 3), x + cell / 2, y + 15, "celltext" + (share > 0.72 ? " over" : ""), "middle");
    return rect;
  };
  rows.forEach((row, r) => {
    const full = row.op.w === row.op.k.split("_")[0] ? row.op.k : `${row.op.k}  ${row.op.w}`;
    const y = top + r * height, name = text(full.length > 28 ? full.slice(0, 27) + "…" : full, 18, y + 15, "rowname" + (chosen(row) ? " chosen" : ""));
    name.addEventListener("click", choose(row));
    root.append(svg("rect", {class: "swatch k-" + row.kind, x: 2, y: y + 7, width: 9, height: 9, rx: 3}));
    row.iterations.forEach((value, i) => {
      const rect = heat(value, most, left + i * cell, y, `layer ${i}, ${row.op.k} (${row.op.w})\n${seconds(value)}, ${percent(value / whole)} of the call`);
      rect.dataset.kernel = row.op.k;
      rect.dataset.layer = i;
      rect.addEventListener("click", choose(row));
    });
    text(seconds(row.seconds), left + layers * cell + right - 6, y + 15, "rowname", "end");
  });
  const y = top + rows.length * height + 6;
  text("together", 18, y + 15, "rowname");
  sums.forEach((value, i) => heat(value, mostSum, left + i * cell, y, `layer ${i}: ${seconds(value)}, ${percent(value / whole)} of the call`));
  text(seconds(sums.reduce((sum, value) => sum + value, 0)), left + layers * cell + right - 6, y + 15, "rowname", "end");
  parent.append(h("div.striphead.dim", {}, cell >= 34 ? "Milliseconds of each launch in each layer; the warmer, the longer" : "Each launch in each layer: the warmer, the longer"), root);
}
