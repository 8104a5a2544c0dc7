// Memory over time: launches from left to right, the arena's addresses from bottom to top, each value a rectangle; what is
// elsewhere stands above it to scale.

/// A size in bytes, for memory: of rows taken in chunks one chunk.
const memorySize = polynomial => evaluate(polynomial, {...lengths, oneChunk: true});
const aligned = bytes => Math.ceil(bytes / 64) * 64;

/// What a kernel asks for while it runs (codegen/kernel/Scratch.h): {caller, worker} bytes.
function scratchOf(name, lengthsOfKernel) {
  const lines = ((meta.kernels[name] || {}).scratch || "results -1 -1").trim().split("\n").map(line => line.split(" "));
  const counters = new Map();
  const changing = []; // the counters that change a step: such steps are computed anew for each of their values
  const known = [];
  const down = (a, b) => b === 0 ? 0 : Math.floor(a / b);
  const compute = i => {
    const [op, ...words] = lines[i], [a, b, c] = words.map(Number);
    switch (op) {
      case "number": return a;
      case "length": return lengthsOfKernel(words[0]);
      case "counter": return counters.get(i) || 0;
      case "add": return value(a) + value(b);
      case "sub": return value(a) - value(b);
      case "mul": return value(a) * value(b);
      case "div": return down(value(a), value(b));
      case "mod": return value(b) === 0 ? 0 : value(a) - down(value(a), value(b)) * value(b);
      case "min": return Math.min(value(a), value(b));
      case "max": return Math.max(value(a), value(b));
      case "equal": return value(a) === value(b) ? 1 : 0;
      case "less": return value(a) < value(b) ? 1 : 0;
      case "select": return value(a) ? value(b) : value(c);
      default: {
        let most = 0;
        for (let count = 0, end = value(b); count < end; ++count) { counters.set(a, count); most = Math.max(most, value(c)); }
        counters.set(a, 0);
        return most;
      }
    }
  };
  const value = i => {
    if (i < 0) return 0;
    if (changing[i].size) return compute(i);
    return known[i] ??= compute(i);
  };
  lines.forEach(([op, ...words], i) => {
    const operands = ["number", "length", "counter", "results"].includes(op) ? [] : words.map(Number);
    changing[i] = new Set(op === "counter" ? [i] : operands.flatMap(operand => [...changing[operand]]));
    if (op === "most") changing[i].delete(operands[0]);
  });
  const [caller, worker] = lines[lines.length - 1].slice(1).map(Number);
  return {caller: value(caller), worker: value(worker)};
}

/// {slots: [{offset, bytes}], arena, buffers: [{slot, first, last, op, bytes, offset}], live: bytes at each step, peak: its step}.
function memoryOf(plan, stage) {
  const slots = [];
  let arena = 0;
  for (const sizes of plan.slots) {
    const bytes = aligned(Math.max(0, ...sizes.map(memorySize)));
    slots.push({offset: arena, bytes});
    arena += bytes;
  }
  const live = plan.steps.map(() => 0);
  const buffers = plan.buffers.map(([slot, first, last, op, result, size, filler]) => {
    const bytes = memorySize(size);
    for (let step = first; step <= last; ++step) live[step] += bytes;
    return {slot, first, last, op: stage.ops[op], filler: stage.ops[filler], result, bytes, offset: slots[slot].offset};
  });
  return {slots, arena, buffers, live, peak: live.indexOf(Math.max(...live))};
}

const launchTitle = op => op.w && !op.k.startsWith(op.w + "_") ? op.w : titleOf(op);
/// What a value is called: by its launch, or by what a loop saves of each iteration.
const ownerTitle = one => one.op.n !== "repeat" ? launchTitle(one.op) : one.filler ? `${one.op.t} × ${launchTitle(one.filler)}` : "carried by the layers";
const chooseOp = op => () => update({stage: meta.stages.length - 1, op: op.id});

function drawMemory(parent) {
  const stage = lastStage(), symbol = meta.memory[state.symbol] ? state.symbol : Object.keys(meta.memory)[0];
  const plan = meta.memory[symbol];
  if (!plan) { parent.append(h("p.empty", {}, "No plan: the passes stopped before memory was planned.")); return; }
  const memory = memoryOf(plan, stage);
  drawTotals(parent, plan, memory, stage);
  if (!memory.buffers.length) { parent.append(h("p.empty", {}, `@${symbol} keeps nothing between launches.`)); return; }
  const box = h("div.memorybox"), picture = h("div.memorypicture"), side = h("div.memoryside");
  parent.append(box);
  box.append(picture, side);
  drawArena(picture, plan, memory, stage);
  const owners = memory.buffers.filter(one => one.first <= memory.peak && memory.peak <= one.last).sort((a, b) => b.bytes - a.bytes);
  const at = stage.ops[plan.steps[memory.peak]];
  side.append(h("h3", {}, "Peak"), h("p", {}, h("b", {}, short(memory.live[memory.peak], "B")), ` of ${short(memory.arena, "B")} while `,
    link(at.k, chooseOp(at)), " runs:"), h("div.owners", {}, owners.map(one => h("a.op", {href: "#", title: `${titleOf(one.op)} ${one.op.r[one.result] || ""}`, "data-owner": one.op.id,
      click: event => { event.preventDefault(); chooseOp(one.op)(); }}, h("span.number", {}, short(one.bytes, "B")), h("i.k-" + kindOf(one.filler || one.op, stage)), ownerTitle(one)))));
}

/// All memory of a call in one bar.
function drawTotals(parent, plan, memory, stage) {
  const threads = measured ? measured.threads : meta.machine.threads;
  let caller = 0, worker = 0;
  for (const id of plan.steps) {
    const op = stage.ops[id], asked = scratchOf(op.k, name => memorySize((op.y || {})[name]));
    caller = Math.max(caller, asked.caller), worker = Math.max(worker, asked.worker);
  }
  const parts = [["weights", "input", evaluate(plan.weights), "each stored tensor once"],
    ["caches", "memory", plan.states.reduce((sum, [, size]) => sum + memorySize(size), 0), "what a text keeps from call to call"],
    ["arena", "matrix", memory.arena, "below: values between launches"], ["kept", "reduce", memorySize(plan.kept), "what a request's first call computes"],
    ["results", "map", memorySize(plan.outputs), "what a call gives"],
    ["scratch", "attention", caller + worker * Math.max(0, threads - 1), `of kernels while they run: ${short(caller, "B")} of the thread that calls, ${short(worker, "B")} of each other of ${threads}`]]
    .filter(([, , bytes]) => bytes > 0);
  const total = parts.reduce((sum, [, , bytes]) => sum + bytes, 0);
  parent.append(h("div.totals", {}, h("div.totalbar", {}, parts.map(([name, kind, bytes, hint]) => h("span.k-" + kind, {style: `flex-grow:${bytes}`, title: `${name}: ${short(bytes, "B")}\n${hint}`, "data-part": name}))),
    h("div.totalnames", {}, parts.map(([name, kind, bytes, hint]) => h("span", {title: hint}, h("i.k-" + kind), name + " ", h("b", {}, short(bytes, "B")))), h("span.dim", {}, "together " + short(total, "B")))));
}

function drawArena(parent, plan, memory, stage) {
  const steps = plan.steps.length, width = Math.max(360, parent.clientWidth || 700), height = Math.max(300, parent.clientHeight || 420);
  const named = (width - 76) / steps >= 13;
  const margin = {left: 64, right: 12, top: 44, bottom: named ? 104 : 26};
  const column = (width - margin.left - margin.right) / steps, floor = height - margin.bottom, scale = (floor - margin.top) / (memory.arena || 1);
  const root = svg("svg", {class: "arena", width, height, viewBox: `0 0 ${width} ${height}`});
  const text = (content, x, y, kind, anchor = "middle") => {
    const element = svg("text", {x, y, class: kind, "text-anchor": anchor});
    element.textContent = content;
    root.append(element);
    return element;
  };
  const x = step => margin.left + step * column, y = bytes => floor - bytes * scale;
  let lastTick = Infinity;
  for (const at of [0, ...memory.slots.map(slot => slot.offset + slot.bytes)]) {
    root.append(svg("path", {class: "grid", d: `M${margin.left} ${y(at)}H${width - margin.right}`}));
    if (lastTick - y(at) > 13) text(short(at, "B"), margin.left - 6, (lastTick = y(at)) + 4, "tick", "end");
  }
  root.append(svg("rect", {class: "peak", x: x(memory.peak), y: margin.top - 4, width: column, height: floor - margin.top + 4}));
  const peakAt = Math.min(width - 60, Math.max(margin.left + 40, x(memory.peak + 0.5)));
  text("peak " + short(memory.live[memory.peak], "B"), peakAt, margin.top - 10, "peaktext");
  for (const [first, last, iterations] of plan.loops) {
    root.append(svg("path", {class: "bracket", d: `M${x(first) + 2} 24V18H${x(last + 1) - 2}V24`}));
    text(iterations > 1 ? `${iterations} times` : "in chunks", (x(first) + x(last + 1)) / 2, 13, "tick");
  }
  for (const one of memory.buffers) {
    const w = (one.last - one.first + 1) * column, hgt = Math.max(1, one.bytes * scale), chosen = state.stage === meta.stages.length - 1 && state.op === one.op.id;
    const group = svg("g", {class: `buffer k-${kindOf(one.filler || one.op, stage)}${chosen ? " chosen" : ""}`, "data-op": one.op.id});
    const hint = svg("title");
    hint.textContent = `${titleOf(one.filler || one.op)}: ${ownerTitle(one)}\n${one.op.r[one.result] || ""}\n${short(one.bytes, "B")} at ${short(one.offset, "B")}, slot ${one.slot}\n` +
      `from ${stage.ops[plan.steps[one.first]].k} to ${stage.ops[plan.steps[one.last]].k}`;
    group.append(hint, svg("rect", {x: x(one.first) + 0.5, y: y(one.offset + one.bytes), width: Math.max(1, w - 1), height: hgt, rx: Math.min(3, hgt / 2)}));
    const room = Math.floor((w - 8) / 6.2), name = ownerTitle(one);
    if (hgt >= 14 && room >= 5) {
      const element = svg("text", {x: x(one.first) + 5, y: y(one.offset + one.bytes) + Math.min(hgt / 2 + 4, 16), class: "buffername"});
      element.textContent = name.length > room ? name.slice(0, room - 1) + "…" : name;
      group.append(element);
    }
    group.addEventListener("click", chooseOp(one.op));
    root.append(group);
  }
  if (named) plan.steps.forEach((id, step) => {
    const px = x(step + 0.5) + 3, py = floor + 12;
    text(stage.ops[id].k, px, py, "stepname" + (state.op === id ? " chosen" : ""), "end").setAttribute("transform", `rotate(-52 ${px} ${py})`);
  });
  else text(`${steps} launches, in order`, (margin.left + width - margin.right) / 2, height - 8, "axis");
  text("address", margin.left - 6, margin.top - 10, "axis", "end");
  parent.append(root);
}
