// What the page shows: reads the data that stands in script elements, each stage when it is first looked at.

const $ = id => document.getElementById(id);
const meta = JSON.parse($("meta").textContent);

/// An element: h("div.note", {title: "..."}, children...). Functions among the attributes are listeners.
function h(name, attributes, ...children) {
  const [tag, ...classes] = name.split(".");
  const element = document.createElement(tag);
  if (classes.length) element.className = classes.join(" ");
  for (const [key, value] of Object.entries(attributes || {})) {
    if (typeof value === "function") element.addEventListener(key, value);
    else if (value !== undefined && value !== null && value !== false) element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter(child => child !== null && child !== undefined && child !== false));
  return element;
}

const stages = new Map();
/// The operations and lines of a stage; stages that changed nothing share the data of the one before.
function loadStage(index) {
  const number = meta.stages[index].data;
  if (stages.has(number)) return stages.get(number);
  const stage = JSON.parse($("stage-" + number).textContent);
  stage.lines = stage.text.split("\n");
  if (stage.lines[stage.lines.length - 1] === "") stage.lines.pop();
  stage.byLine = new Map();
  stage.symbols = [];
  stage.kernels = new Map();
  stage.ops.forEach((op, id) => {
    op.id = id;
    op.children = [];
    op.users = [];
    if (op.p >= 0) stage.ops[op.p].children.push(op);
    else stage.symbols.push(op);
    for (const operand of op.a) if (typeof operand === "number") stage.ops[operand].users.push(op);
    if (!stage.byLine.has(op.l)) stage.byLine.set(op.l, op);
    if (op.n === "kernel") stage.kernels.set(op.s, op);
  });
  stages.set(number, stage);
  return stage;
}

// ---- lengths and polynomials

const lengths = {B: 1, T: 512, past: 0};
Object.assign(lengths, meta.lengths);
function lengthOf(symbol, table) {
  if (symbol in table) return table[symbol];
  if (symbol === "cap") return lengthOf("past", table) + lengthOf("T", table);
  return symbol === "B" ? 1 : symbol === "past" ? 0 : 512;
}
/// A length that follows from others (ir/Derived.h).
const derived = {
  min: (number, of) => Math.min(number, of),
  chunk: (number, of, table) => table.oneChunk ? Math.min(number, of) : of, // the longest, or all iterations together
  filled: (number, of, table) => Math.min(lengthOf("past", table), number),
  room: (number, of, table) => Math.min(lengthOf("cap", table), number + lengthOf("T", table)),
};
/// The value of "2 * T * past - min(8, B * T)".
function evaluate(polynomial, table = lengths) {
  const text = String(polynomial ?? 0).replace(/ /g, "");
  let at = 0;
  const factor = () => {
    const word = /^[\w.]+/.exec(text.slice(at))[0];
    at += word.length;
    if (text[at] !== "(") return /^\d/.test(word) ? Number(word) : lengthOf(word, table);
    ++at;
    const number = sum(), of = text[at] === "," ? (++at, sum()) : 0;
    ++at;
    return derived[word](number, of, table);
  };
  const sum = () => {
    let total = 0;
    do {
      let product = 1;
      if (text[at] === "-") product = -1;
      if (text[at] === "-" || text[at] === "+") ++at;
      for (product *= factor(); text[at] === "*"; ) ++at, product *= factor();
      total += product;
    } while (text[at] === "+" || text[at] === "-");
    return total;
  };
  return sum();
}

function short(number, unit = "") {
  const units = ["", "K", "M", "G", "T", "P"];
  let step = 0;
  while (Math.abs(number) >= 999.5 && step < 5) number /= 1000, ++step;
  const digits = step === 0 && Number.isInteger(number) ? 0 : number >= 99.95 ? 0 : number >= 9.995 ? 1 : 2;
  return number.toFixed(digits) + (step || unit ? " " : "") + units[step] + unit;
}
function seconds(value) {
  const [scale, unit] = value >= 1 ? [1, " s"] : value >= 1e-3 ? [1e3, " ms"] : [1e6, " µs"];
  return (value * scale).toFixed(value * scale >= 99.95 ? 0 : value * scale >= 9.995 ? 1 : 2) + unit;
}

// ---- what kinds of operations there are: one colour each, everywhere

const kinds = {
  matrix: "contractions", attention: "attention, softmax", reduce: "reductions, norms", map: "element by element",
  move: "gathers, views", memory: "caches", input: "parameters, numbers", frame: "functions, loops",
};
const kindOfName = {};
for (const [kind, names] of Object.entries({
  matrix: "contract", attention: "softmax attention", reduce: "reduce cumsum argmax top_k",
  move: "gather concat expand rename permute split merge cut unit squeeze scatter_add",
  memory: "remember recall store state push pop", input: "param const size index values",
  frame: "repeat func func.func kernel yield return func.return call",
})) for (const name of names.split(" ")) kindOfName[name] = kind;
const views = new Set("rename permute split merge cut unit squeeze".split(" "));

function kindOf(op, stage) {
  if (op.n !== "launch" && op.n !== "kernel") return kindOfName[op.n] || "map";
  const name = op.k || op.s;
  const family = name.split("_")[0];
  if (kindOfName[family]) return kindOfName[family];
  const kernel = stage && stage.kernels.get(name);
  if (!kernel) return "map";
  const inner = new Set(kernel.children.map(child => kindOfName[child.n] || "map"));
  return ["attention", "matrix", "reduce", "map", "move"].find(kind => inner.has(kind)) || "map";
}

/// The name of an operation for a label.
function titleOf(op) {
  if (op.n === "launch") return op.k;
  if (op.n === "func" || op.n === "func.func" || op.n === "kernel" || op.n === "state") return "@" + op.s;
  if (op.n === "param") return op.v.split(".").slice(-2).join(".");
  if (op.n === "const") return op.v;
  if (op.n === "repeat") return "repeat × " + op.t;
  return op.n.replace("func.", "");
}
/// "B · T · D=768" of "real[B, T, D = 768]"; a length worked out from others stands for itself.
function shapeOf(type) {
  const inside = /\[(.*)\]/.exec(type || "");
  if (!inside) return "";
  return inside[1].replace(/[\w.]+ = "([^"]*)"/g, (all, size) => size.replace(/ \* /g, "*")).replace(/ = /g, "=").replace(/, /g, " · ") || "one number";
}

/// Iterations of all loops around an operation.
function iterationsOf(op, stage) {
  let iterations = 1;
  for (let at = op.p; at >= 0; at = stage.ops[at].p) iterations *= stage.ops[at].t || 1;
  return iterations;
}
function symbolOf(op, stage) {
  while (op.p >= 0) op = stage.ops[op.p];
  return op;
}

// ---- places

const origins = place => meta.places[place] || [];
/// Texts that say where an operation comes from: equal ones mean the same piece of the spec.
const originKeys = place => origins(place).map(origin => JSON.stringify(origin));
/// The user's own line: "llama.quern:21".
function lineOf(place) {
  const origin = origins(place)[0];
  if (!origin) return "";
  const [file, line] = origin.frames[0];
  return meta.files[file].name.split("/").pop() + ":" + line;
}

/// The lines of the spec and the library that a place stands for, for the search.
function specText(place) {
  const entry = origins(place);
  return entry.text ??= entry.flatMap(origin => origin.frames.map(([file, line]) =>
    `${meta.files[file].name.split("/").pop()}:${line} ${fileLines(file)[line - 1] || ""}`)).join("\n").toLowerCase();
}
function fileLines(file) {
  return meta.files[file].lines ||= (meta.files[file].text || "").split("\n");
}

/// Operations of a stage by origin.
function byOrigin(stage) {
  if (!stage.byOrigin) {
    stage.byOrigin = new Map();
    for (const op of stage.ops)
      for (const key of originKeys(op.o)) {
        if (!stage.byOrigin.has(key)) stage.byOrigin.set(key, []);
        stage.byOrigin.get(key).push(op);
      }
  }
  return stage.byOrigin;
}
/// Operations of another stage that come from the same places.
function sameOrigin(op, stage) {
  const found = new Set();
  for (const key of originKeys(op.o)) for (const other of byOrigin(stage).get(key) || []) found.add(other);
  return [...found].sort((a, b) => a.id - b.id);
}
