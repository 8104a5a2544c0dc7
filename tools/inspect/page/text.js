// The text of a stage, and two stages side by side.

/// A line for people: types without their wrapping, long lists of parameter names shortened.
function readable(line) {
  return line.replace(/!quern\.tensor<([^<>]*)>/g, "$1").replace(/#quern\.dim<([^<>]*)>/g, "$1")
    .replace(/(\[\["[^"]*"\])(?:, \["[^"]*"\]){3,}\]/g, (all, first) => `${first}, … ${all.split("], [").length} iterations]`)
    .replace(/quern\.(file_)?config = "(?:[^"\\]|\\.)*"/g, (all, file) => `quern.${file || ""}config = …`);
}

const tokens = /(%[\w#]+)|("(?:[^"\\]|\\.)*")|(@[\w.]+)|\b(?:quern|func)\.([a-z_]\w*)(?!\w|\s*=)|\b(real|int|bool)\[([^\]]*)\]/g;
/// The line's pieces, coloured by what they are.
function coloured(line, stage) {
  const pieces = [];
  let at = 0;
  for (const match of line.matchAll(tokens)) {
    if (match.index > at) pieces.push(line.slice(at, match.index));
    const [all, value, string, symbol, op, kind] = match;
    if (value) pieces.push(h("span.value", {}, all));
    else if (string) pieces.push(h("span.string", {}, all));
    else if (symbol) pieces.push(h("span.symbol", {}, all));
    else if (op) pieces.push(h("span.op.t-" + (kindOfName[op] || (op === "launch" ? "frame" : "map")), {}, all));
    else if (kind) pieces.push(h("span.type", {}, all));
    at = match.index + all.length;
  }
  pieces.push(line.slice(at));
  return pieces;
}

/// Which lines the chosen pass has made.
const freshLines = new Map();
function freshIn(index) {
  if (!freshLines.has(index)) {
    const fresh = new Set();
    if (index > 0 && meta.stages[index].changed)
      for (const [x, y] of alignLines(loadStage(index - 1).lines, loadStage(index).lines)) if (x < 0) fresh.add(y);
    freshLines.set(index, fresh);
  }
  return freshLines.get(index);
}

let textList = null;
function drawText(parent) {
  const stage = loadStage(state.stage);
  const lines = stage.lines.map(readable);
  const fresh = freshIn(state.stage);
  textList = new VirtualList(parent, 19, index => {
    const op = stage.byLine.get(index + 1);
    const row = h("div.line" + (op && op.id === state.op ? ".selected" : "") + (fresh.has(index) ? ".fresh" : ""), {"data-line": index + 1},
      h("span.number", {}, String(index + 1)), h("code", {}, coloured(lines[index])));
    if (op) row.addEventListener("click", () => update({op: op.id}));
    return row;
  });
  textList.outer.classList.add("text");
  textList.reset(lines.length, Math.min(400, lines.reduce((most, line) => Math.max(most, line.length), 0)) + 10);
  const chosen = stage.ops[state.op];
  textList.show(chosen ? chosen.l - 1 : 0);
}

function drawDiff(parent) {
  const left = state.compare, right = state.stage;
  const a = loadStage(left), b = loadStage(right);
  const picker = h("select", {"aria-label": "Compare with", change: event => update({compare: Number(event.target.value)})},
    meta.stages.map((stage, i) => h("option", {value: i, selected: i === left}, stage.name)));
  const linesA = a.lines.map(readable), linesB = b.lines.map(readable);
  const rows = diffRows(linesA, linesB);
  const changed = rows.filter(row => row.changed).length;
  parent.append(h("div.diffhead", {}, h("span", {}, "after ", picker), h("span", {}, "after ", h("b", {}, meta.stages[right].name),
    h("span.dim", {}, changed ? ` · ${changed} rows differ` : " · no difference"))));
  const cell = (stage, lines, index, mark, other) => {
    if (index < 0) return h("div.cell.none");
    const op = stage.byLine.get(index + 1);
    const element = h("div.cell" + (mark ? "." + mark : ""), {title: lines[index].trim()}, h("span.number", {}, String(index + 1)),
      h("code", {}, mark && other !== undefined ? marked(lines[index], other) : coloured(lines[index])));
    if (op) element.addEventListener("click", () => update({stage: stage === a && left !== right ? left : right, op: op.id, view: "text"}));
    return element;
  };
  const list = new VirtualList(parent, 19, index => {
    const row = rows[index];
    if (row.fold) return h("div.line.folded", {click: () => { rows.splice(index, 1, ...row.fold); list.reset(rows.length); }},
      `⋯ ${row.fold.length} equal lines`);
    const both = row.changed && row.a >= 0 && row.b >= 0;
    return h("div.line.pair", {}, cell(a, linesA, row.a, row.changed && "removed", both ? linesB[row.b] : undefined),
      cell(b, linesB, row.b, row.changed && "added", both ? linesA[row.a] : undefined));
  });
  list.outer.classList.add("text", "diff");
  list.reset(rows.length);
  const first = rows.findIndex(row => row.changed);
  list.show(Math.max(0, first - 3), false);
}

/// What is between the common beginning and end of two lines, marked.
function marked(line, other) {
  let begin = 0, end = 0;
  while (begin < line.length && begin < other.length && line[begin] === other[begin]) ++begin;
  while (end < line.length - begin && end < other.length - begin && line[line.length - 1 - end] === other[other.length - 1 - end]) ++end;
  if (begin + end < line.length * 0.4) return coloured(line);
  return [...coloured(line.slice(0, begin)), h("mark", {}, line.slice(begin, line.length - end)), ...coloured(line.slice(line.length - end))];
}
