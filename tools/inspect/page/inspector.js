// What is known about the chosen operation: its line in the spec, what it came from, where it went, what it costs.

function drawInspector() {
  const aside = $("inspector");
  aside.replaceChildren();
  const stage = loadStage(state.stage), op = stage.ops[state.op];
  if (!op) return drawOverview(aside, stage);
  const kind = kindOf(op, stage);
  aside.append(h("div.head.k-" + kind, {}, h("i"), h("div", {}, h("h2", {}, titleOf(op)),
    h("div.dim", {}, op.n === "launch" ? "launch of a kernel" + (op.once ? ", once a request" : "") : "quern." + op.n.replace("func.", ""), " · ", kinds[kind])),
    h("button.close", {title: "Close (Esc)", click: () => update({op: -1})}, "×")));
  if (op.r.length) aside.append(h("div.types", {}, op.r.map(type => h("code", {}, type))));
  aside.append(h("div.where", {}, "line ", link(String(op.l), () => update({view: "text"})), " of ", h("b", {}, meta.stages[state.stage].name), ", ",
    link("in the graph", () => update({view: "graph", symbol: symbolOf(op, stage).s, reveal: true}))));
  specPart(aside, op);
  costPart(aside, op, stage);
  if (op.n === "launch" || op.n === "kernel") kernelPart(aside, op.k || op.s);
  flowPart(aside, op, stage);
  originPart(aside, op);
  section(aside, "Text", h("pre.full", {}, coloured(readable(stage.lines[op.l - 1] || "").trim())));
}

const link = (text, go) => h("a", {href: "#", click: event => { event.preventDefault(); event.stopPropagation(); go(); }}, text);
function section(parent, title, ...content) {
  parent.append(h("section", {}, h("h3", {}, title), content));
}

/// The line of the spec, and the library's lines that it called.
function specPart(parent, op) {
  const all = origins(op.o);
  if (!all.length) return;
  const shown = all.slice(0, 3).map(origin => h("div.origin", {},
    origin.frames.map(([file, line, column], depth) => snippet(file, line, column, depth)),
    origin.names.length ? h("div.dim", {}, "parameter ", h("code", {}, origin.names.join(" "))) : null));
  section(parent, all.length > 1 ? `Spec: ${all.length} locations` : "Spec", shown);
}
function snippet(file, line, column, depth) {
  const {name, text} = meta.files[file];
  const content = text === null ? "" : text.split("\n")[line - 1] || "";
  const cut = content.length - content.trimStart().length, at = Math.max(0, column - 1 - cut);
  const body = content.trim();
  const word = /^[\w.]+/.exec(body.slice(at)) || [body.slice(at, at + 1)];
  return h("div.snippet" + (depth ? ".called" : ""), {title: name}, h("span.place", {}, `${name.split("/").pop()}:${line}`),
    h("code", {}, body.slice(0, at), h("mark", {}, word[0]), body.slice(at + word[0].length)));
}

function costPart(parent, op, stage) {
  if (!op.f && !op.m) return;
  const inKernel = symbolOf(op, stage).n === "kernel";
  const rows = [];
  const row = (name, polynomial, unit) => rows.push(h("tr", {}, h("th", {}, name),
    h("td.number", {}, inKernel ? "" : short(evaluate(polynomial), unit)), h("td", {}, h("code", {}, polynomial || "0"))));
  row("FLOPs", op.f, "");
  row("bytes", op.m, "B");
  const iterations = iterationsOf(op, stage);
  const content = [h("table.cost", {}, rows)];
  if (!inKernel) {
    const flops = evaluate(op.f), bytes = evaluate(op.m), roof = roofOf(flops, bytes), least = leastSeconds(op, stage);
    content.push(h("p", {}, flops ? `${short(roof.intensity)} FLOP per byte: ` : "", h("b", {}, roof.memory ? "memory" : "arithmetic"),
      ` is the limit, at least ${seconds(least)}` + (iterations > 1 ? ` an iteration, ${seconds(least * iterations)} in ${iterations} iterations` : "")));
    const took = tookOf(op, stage), run = currentRun();
    if (took) content.push(h("p.took", {}, "measured: ", h("b", {}, seconds(took.seconds)), ` of a call of ${seconds(callSeconds(run))} (${percent(took.seconds / callSeconds(run))})` +
      (op.n === "launch" && roof.seconds ? `, ${percent(roof.seconds * (op.once ? took.runs : iterations) / took.seconds)} of what the machine allows` : "")));
    if (op.n === "launch") content.push(drawRoofline(kernelPoints(stage, state.symbol, op.k), 330, 210));
  }
  section(parent, inKernel ? "Cost, in the kernel's own lengths" : "Cost of one " + (op.n === "repeat" ? "loop" : "run"), content);
}

function kernelPart(parent, name) {
  const kernel = meta.kernels[name];
  section(parent, "Kernel", h("p", {}, link("@" + name, () => update({view: "kernels", kernel: name})),
    kernel ? [": ", link("loop nest", () => update({view: "kernels", kernel: name, tab: "loops"})), ", ",
      link("assembly", () => update({view: "kernels", kernel: name, tab: "assembly"})), ", ",
      link("operations", () => update({view: "kernels", kernel: name, tab: "body"}))] : null));
}

function opLink(op, stage, index, times = 1) {
  const kind = kindOf(op, stage);
  const inside = symbolOf(op, stage);
  return h("a.op", {href: "#", title: stage.lines[op.l - 1] ? readable(stage.lines[op.l - 1]).trim() : "", click: event => {
    event.preventDefault();
    update({stage: index, op: op.id, symbol: inside.s, reveal: true});
  }}, h("i.k-" + kind), titleOf(op), h("span.dim", {}, " " + shapeOf(op.r[0]) + (times > 1 ? `  × ${times}` : "")));
}
function opList(ops, stage, index, most = 8, times = new Map()) {
  const items = ops.slice(0, most).map(op => opLink(op, stage, index, times.get(op)));
  if (ops.length > most) items.push(h("button.more", {click: event => event.target.replaceWith(...ops.slice(most, 400).map(op => opLink(op, stage, index)))},
    `${ops.length - most} more`));
  return h("div.ops", {}, items);
}

function flowPart(parent, op, stage) {
  const makers = [...new Set(op.a.filter(a => typeof a === "number"))].map(a => stage.ops[a]);
  if (makers.length) section(parent, "Takes", opList(makers, stage, state.stage));
  if (op.users.length) section(parent, op.users.length > 1 ? `Used by ${op.users.length}` : "Used by", opList([...new Set(op.users)], stage, state.stage));
}

/// What it came from in the first stage, and the kernels that it is in at the end: by locations in the spec.
function originPart(parent, op) {
  const last = meta.stages.length - 1;
  if (loadStage(state.stage) !== loadStage(0)) {
    const seeds = op.n === "launch" ? kernelBody(op.k) : [op];
    const from = new Set(seeds.flatMap(one => sameOrigin(one, loadStage(0))));
    const list = [...from].filter(one => !one.n.startsWith("func")).sort((a, b) => a.id - b.id);
    const first = loadStage(0), like = new Map(); // the same operation of every layer is one line
    for (const one of list) {
      const name = one.n + JSON.stringify(one.r) + originKeys(one.o).join();
      like.set(name, [...(like.get(name) || []), one]);
    }
    if (list.length)
      section(parent, `Came from ${list.length} operation${list.length > 1 ? "s" : ""} of ${meta.stages[0].name}`,
        opList([...like.values()].map(same => same[0]), first, 0, 12, new Map([...like.values()].map(same => [same[0], same.length]))));
  }
  const end = loadStage(last);
  if (symbolOf(op, loadStage(state.stage)).n === "kernel" || op.n === "launch" || !end.kernels.size || op.n === "func" || op.n === "func.func" || op.n === "repeat") return;
  const kernels = [...new Set(sameOrigin(op, end).map(one => symbolOf(one, end)).filter(one => one.n === "kernel"))];
  if (kernels.length) section(parent, kernels.length > 1 ? "Went into kernels" : "Went into kernel",
    h("div.ops", {}, kernels.map(kernel => h("a.op", {href: "#", "data-kernel": kernel.s, click: event => {
      event.preventDefault();
      update({view: "kernels", kernel: kernel.s});
    }}, h("i.k-" + kindOf(kernel, end)), "@" + kernel.s))));
}
function kernelBody(name) {
  const kernel = loadStage(meta.stages.length - 1).kernels.get(name);
  return kernel ? kernel.children : [];
}

/// Nothing is chosen: numbers of the stage.
function drawOverview(parent, stage) {
  const info = meta.stages[state.stage], numbers = info.statistics;
  parent.append(h("div.head", {}, h("div", {}, h("h2", {}, info.name), h("div.dim", {}, info.meaning))));
  const line = (name, value, hint) => h("tr", {title: hint || ""}, h("th", {}, name), h("td", {}, value));
  for (const fn of numbers.functions) {
    const rows = [line("operations", String(fn.ops))];
    if (numbers.kernels.length) {
      const loops = fn.loops.map(loop => `${loop.launches} a layer × ${loop.iterations}`).join(", ");
      rows.push(line("launches", `${fn.launches}${loops ? ": " + loops : ""}`));
    }
    rows.push(line("FLOPs", short(evaluate(fn.flops)), fn.flops), line("traffic", short(evaluate(fn.bytes), "B"), fn.bytes));
    if (fn.arena) rows.push(line("arena", short(arenaBytes(fn.arena), "B"), fn.arena.map(slot => slot.join(" or ")).join("\n")));
    const owner = stage.symbols.find(op => op.s === fn.name);
    if (evaluate(fn.flops)) rows.push(line("at least", seconds(leastSeconds({...owner, f: fn.flops, m: fn.bytes}, stage)), "By the machine's limits"));
    section(parent, "@" + fn.name, h("table.facts", {}, rows));
  }
  if (numbers.states.length)
    section(parent, "Remembered", h("table.facts", {}, numbers.states.map(one => line(one.name.replace(/^.*\./, ""), `${one.remembers}, ${short(evaluate(one.bytes), "B")}`, one.type))));
  section(parent, "Machine", h("p.dim", {}, `${meta.machine.name}${meta.machine.measured ? `, ${meta.machine.threads} threads${meta.machine.vectors ? ", " + meta.machine.vectors : ""}` : ""}: ` +
    `${short(meta.machine.flops, "FLOP/s")} and ${short(meta.machine.bandwidth, "B/s")}${meta.machine.byProgram ? ", measured by the program in the same run" : meta.machine.measured ? ", measured for this page" : ""}`));
  section(parent, "Keys", h("p.dim.keys", {}, "j k passes · g graph · t text · c compare · n kernels · m memory · p time · / search · arrows move · + − 0 zoom · l layers · d light or dark · Esc close"));
}
function arenaBytes(slots) {
  return slots.reduce((sum, slot) => sum + Math.ceil(Math.max(...slot.map(size => evaluate(size))) / 64) * 64, 0);
}
