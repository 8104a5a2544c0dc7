// All kernels: the roofline, what each takes at least, and one kernel's loops, assembly and operations.

/// The launches of every call in a function or loop, those of loops within it, too.
function launchesIn(op) {
  return op.children.flatMap(child => child.n === "repeat" ? launchesIn(child) : child.n === "launch" && !child.once ? [child] : []);
}
/// What a function, a loop or an operation takes at least: the sum over its launches, as one waits for the other.
function leastSeconds(op, stage) {
  const launches = op.children ? launchesIn(op) : [], own = op.n === "repeat" ? iterationsOf(op, stage) : 1;
  if (!launches.length) return roofOf(evaluate(op.f), evaluate(op.m)).seconds;
  return launches.reduce((sum, launch) => sum + roofOf(evaluate(launch.f), evaluate(launch.m)).seconds * iterationsOf(launch, stage), 0) / own;
}

/// The kernels that a function launches, at the lengths chosen: one point each.
function kernelPoints(stage, symbol, chosen) {
  const points = new Map();
  const owner = stage.symbols.find(op => op.s === symbol);
  for (const launch of owner ? launchesIn(owner) : []) {
    const iterations = iterationsOf(launch, stage), flops = evaluate(launch.f), bytes = evaluate(launch.m), took = tookOf(launch, stage);
    const point = points.get(launch.k) || {name: launch.k, title: launch.w, kind: kindOf(launch, stage), flops: 0, bytes: 0, launches: 0, seconds: 0, took: 0};
    if (took) point.took += took.seconds;
    point.flops += flops * iterations, point.bytes += bytes * iterations, point.launches += iterations;
    point.seconds += roofOf(flops, bytes).seconds * iterations;
    points.set(launch.k, point);
  }
  const time = point => point.took || point.seconds; // measured where it was
  const list = [...points.values()].sort((a, b) => time(b) - time(a));
  const total = list.reduce((sum, point) => sum + time(point), 0) || 1, longest = list.length ? time(list[0]) || 1 : 1;
  for (const point of list) point.share = time(point) / total, point.length = time(point) / longest, point.chosen = point.name === chosen, point.click = () => update({kernel: point.name});
  return list;
}

function drawKernels(parent) {
  const last = meta.stages.length - 1, stage = loadStage(last);
  if (!stage.kernels.size) { parent.append(h("p.empty", {}, "No kernels: the passes stopped before they were cut out.")); return; }
  const functions = stage.symbols.filter(op => op.children.some(child => child.n === "launch"));
  const symbol = functions.some(op => op.s === state.symbol) ? state.symbol : (functions[0] || {}).s;
  const points = kernelPoints(stage, symbol, state.kernel);
  const known = new Set(points.map(point => point.name));
  if (!state.kernel || !stage.kernels.has(state.kernel)) state.kernel = points.length ? points[0].name : [...stage.kernels.keys()][0];
  for (const point of points) point.chosen = point.name === state.kernel;
  const total = points.reduce((sum, point) => sum + point.seconds, 0), tookAll = points.reduce((sum, point) => sum + point.took, 0);
  const rows = points.map(point => h("tr" + (point.chosen ? ".chosen" : ""), {"data-kernel": point.name, click: point.click},
    h("td", {title: point.title}, h("i.k-" + point.kind), point.name), h("td.number", {}, point.launches),
    h("td.number", {}, short(point.flops)), h("td.number", {}, short(point.bytes, "B")),
    h("td.number", {}, seconds(point.seconds)), tookAll ? h("td.number", {}, point.took ? seconds(point.took) : "") : null,
    h("td.share", {title: (100 * point.share).toFixed(1) + "% of the function" + (tookAll ? "" : " at least")}, h("span.k-" + point.kind, {style: `width:${(100 * point.length).toFixed(1)}%`}))));
  for (const [name, kernel] of stage.kernels)
    if (!known.has(name)) rows.push(h("tr.unused" + (name === state.kernel ? ".chosen" : ""), {"data-kernel": name, click: () => update({kernel: name})},
      h("td", {}, h("i.k-" + kindOf(kernel, stage)), name), h("td.number", {colspan: tookAll ? 6 : 5}, "not in @" + symbol)));
  const table = h("table.kernels", {}, h("thead", {}, h("tr", {}, ["kernel", "launches", "FLOPs", "bytes", "at least", ...(tookAll ? ["took"] : []), ""].map(name => h("th", {}, name)))),
    h("tbody", {}, rows), h("tfoot", {}, h("tr", {}, h("td", {colspan: 4}, "@" + symbol), h("td.number", {}, seconds(total)), tookAll ? h("td.number", {}, seconds(tookAll)) : null, h("td"))));
  const plot = h("div.plot");
  const top = h("div.kerneltop" + (tookAll ? ".measured" : ""), {}, h("div.scroll", {}, table), plot);
  const tabs = {loops: "loop nest", assembly: "assembly", body: "operations"};
  const tab = state.tab in tabs ? state.tab : "loops";
  const below = h("div.kernelbelow");
  parent.append(top, h("div.subtabs", {}, h("b", {}, "@" + state.kernel),
    Object.entries(tabs).map(([name, title]) => h("button" + (name === tab ? ".current" : ""), {"data-tab": name, click: () => update({tab: name})}, title)),
    h("span.dim", {id: "kernelnote"})), below);
  plot.append(drawRoofline(points, Math.max(280, plot.clientWidth || 420), 260));
  const row = table.querySelector("tr.chosen");
  if (row) row.scrollIntoView({block: "nearest"}), row.closest(".scroll").scrollLeft = 0;
  const kernel = meta.kernels[state.kernel] || {loops: "", assembly: ""};
  if (tab === "body") drawBody(below, stage, stage.kernels.get(state.kernel));
  else if (tab === "assembly") drawAssembly(below, kernel.assembly);
  else drawLoops(below, kernel.loops);
}

function drawLoops(parent, text) {
  const lines = text.trimEnd().split("\n");
  const list = new VirtualList(parent, 19, index => {
    const line = lines[index];
    const match = /^(\s*)(produce|consume|for|parallel|vectorized|unrolled|gpu_block|gpu_thread|store)?\b(.*)$/.exec(line);
    return h("div.line", {}, h("code", {}, match[1], match[2] ? h("span.loop-" + match[2], {}, match[2]) : "", match[3]));
  });
  list.outer.classList.add("text");
  list.reset(lines.length);
  $("kernelnote").textContent = "as Halide runs it: each Func inside the loops that it is computed in";
}

/// The innermost loop with the most multiply-adds: where a kernel spends its time.
function hotLoop(lines) {
  const labels = new Map();
  lines.forEach((line, i) => { const match = /^([.\w$]+):/.exec(line); if (match) labels.set(match[1], i); });
  const loops = [];
  lines.forEach((line, i) => {
    const match = /^\s+j\w+\s+([.\w$]+)/.exec(line);
    if (match && labels.has(match[1]) && labels.get(match[1]) < i) loops.push([labels.get(match[1]), i]);
  });
  const innermost = loops.filter(([from, to]) => !loops.some(([a, b]) => (a > from && b <= to) || (a >= from && b < to)));
  const arithmetic = /^\s+v?(f(n?m)(add|sub)|mul|add|sub|max|min|div|fmadd)\w*[ps][sd]\b/;
  let best = null;
  for (const [from, to] of innermost) {
    const body = lines.slice(from, to + 1);
    const fma = body.filter(line => /\bvfn?m(add|sub)\w*/.test(line)).length, all = body.filter(line => arithmetic.test(line)).length + fma;
    if (!best || fma * 4 + all > best.score) best = {from, to, fma, score: fma * 4 + all, length: body.length,
      registers: /zmm/.test(body.join()) ? "zmm" : /ymm/.test(body.join()) ? "ymm" : "xmm"};
  }
  return best && best.score ? best : null;
}

function drawAssembly(parent, text) {
  const lines = text.trimEnd().split("\n");
  const hot = hotLoop(lines);
  const list = new VirtualList(parent, 19, index => {
    const line = lines[index].replace(/\t/g, "  ").replace(/^ {2}(\w+) {2}/, (all, name) => "  " + name.padEnd(14));
    const match = /^(\s+)([a-z]\w*)(.*)$/.exec(line);
    const inside = hot && index >= hot.from && index <= hot.to;
    return h("div.line" + (inside ? ".hot" : ""), {}, h("span.number", {}, String(index + 1)),
      h("code", {}, match ? [match[1], h("span" + (/^vf|^v(mul|add|sub|max|min|div)/.test(match[2]) ? ".t-matrix" : /^j/.test(match[2]) ? ".t-memory" : /mov/.test(match[2]) ? ".t-move" : ""), {}, match[2]), match[3]]
        : h("span.t-reduce", {}, line)));
  });
  list.outer.classList.add("text");
  list.reset(lines.length, 110);
  if (hot) {
    list.show(Math.max(0, hot.from - 2), false);
    list.outer.scrollTop = Math.max(0, (hot.from - 2) * 19);
    $("kernelnote").textContent = `${lines.length} lines; the hottest loop has ${hot.length - 1} instructions` +
      (hot.fma ? `, ${hot.fma} multiply-adds on ${hot.registers}` : "");
  }
}

function drawBody(parent, stage, kernel) {
  let last = kernel.l;
  const visit = op => { last = Math.max(last, op.l); op.children.forEach(visit); };
  visit(kernel);
  const lines = stage.lines.slice(kernel.l - 1, last + 1).map(readable);
  const list = new VirtualList(parent, 19, index => {
    const op = stage.byLine.get(kernel.l + index);
    const row = h("div.line" + (op && op.id === state.op && state.stage === meta.stages.length - 1 ? ".selected" : ""), {}, h("code", {}, coloured(lines[index])),
      op && op.o !== undefined && op !== kernel ? h("span.dim.at", {}, lineOf(op.o)) : null);
    if (op) row.addEventListener("click", () => update({stage: meta.stages.length - 1, op: op.id}));
    return row;
  });
  list.outer.classList.add("text");
  list.reset(lines.length, Math.max(...lines.map(line => line.length)) + 30);
  $("kernelnote").textContent = `${kernel.children.length - 1} operations, ${kernel.f || 0} FLOPs a launch`;
}
