// What is shown, and how it changes: one state, written to the address so that a view can be linked to and gone back to.

const state = {stage: meta.stages.length - 1, view: "graph", symbol: "", op: -1, compare: 0, kernel: "", tab: "loops", views: false, run: measured ? longestRun() : -1, heat: true};
const tabs = {graph: "graph", text: "text", diff: "compare", kernels: "kernels", memory: "memory", ...(measured ? {time: "time"} : {})};
let graph = null;

function firstSymbol(stage) {
  const functions = stage.symbols.filter(op => op.n.startsWith("func"));
  const find = name => functions.find(op => op.s === name);
  return ((currentRun() && find(currentRun().name)) || find("loss.grad") || find("forward") || functions[0] || stage.symbols[0] || {s: ""}).s;
}

/// Changes the state and draws what depends on it.
function update(change, remember = true) {
  const {reveal, keepView, keepSearch, ...rest} = change;
  const before = {...state};
  Object.assign(state, rest);
  if (state.stage !== before.stage) {
    const stage = loadStage(state.stage), old = loadStage(before.stage);
    if (stage !== old && !("op" in rest)) {
      // The same piece of the spec stays chosen where the new stage has it.
      const same = old.ops[state.op] ? sameOrigin(old.ops[state.op], stage) : [];
      state.op = same.length ? (same.find(op => op.n === old.ops[state.op].n) || same[0]).id : -1;
    }
    if (state.compare === state.stage || !("compare" in rest)) state.compare = Math.max(0, previousChange(state.stage));
  }
  const stage = loadStage(state.stage);
  if (!stage.symbols.some(op => op.s === state.symbol)) state.symbol = firstSymbol(stage);
  const redraw = state.stage !== before.stage || state.view !== before.view || state.symbol !== before.symbol || state.compare !== before.compare ||
    state.views !== before.views || state.heat !== before.heat || (state.view === "kernels" && (state.kernel !== before.kernel || state.tab !== before.tab)) || change.redraw;
  if (state.stage !== before.stage || change.redraw) drawPasses();
  if (redraw) drawView();
  else if (state.view === "text" && textList) {
    textList.refresh();
    if (stage.ops[state.op] && state.op !== before.op) textList.show(stage.ops[state.op].l - 1, false);
  } else if (((state.view === "kernels" && state.tab === "body") || state.view === "memory" || state.view === "time") && state.op !== before.op) drawView();
  if (state.view === "graph" && graph) {
    if ((reveal || (redraw && stage.ops[state.op])) && state.op >= 0) graph.reveal(state.op);
    graph.mark();
  }
  if (state.op !== before.op || state.stage !== before.stage || state.symbol !== before.symbol || change.redraw) drawInspector();
  if (!keepSearch && state.stage !== before.stage) $("search").value = "", $("found").hidden = true;
  const address = "#" + new URLSearchParams({pass: meta.stages[state.stage].name, view: state.view, in: state.symbol, ...(state.op >= 0 ? {op: state.op} : {}),
    ...(state.view === "diff" ? {with: meta.stages[state.compare].name} : {}), ...(state.view === "kernels" ? {kernel: state.kernel, tab: state.tab} : {}), ...(measured ? {run: state.run} : {})});
  if (remember && address !== location.hash) history.replaceState(null, "", address);
}

/// The stage that the chosen one's changes are against.
function previousChange(index) {
  for (let i = index - 1; i >= 0; --i) if (meta.stages[i].data !== meta.stages[index].data) return i;
  return index ? index - 1 : 0;
}

function drawView() {
  const bar = $("tabs"), view = $("view"), stage = loadStage(state.stage);
  const symbols = h("select", {id: "symbol", title: "Function or kernel", change: event => update({symbol: event.target.value, op: -1})},
    stage.symbols.filter(op => op.children.length).map(op => h("option", {value: op.s, selected: op.s === state.symbol}, "@" + op.s)));
  bar.replaceChildren(...Object.entries(tabs).map(([name, title]) => h("button" + (name === state.view ? ".current" : ""),
    {role: "tab", "data-view": name, "aria-selected": String(name === state.view), click: () => update({view: name})}, title)),
    h("span.space"), state.view === "diff" || state.view === "text" ? "" : symbols);
  view.replaceChildren();
  graph = null, textList = null;
  if (state.view === "graph") graph = new Graph(view);
  else if (state.view === "text") drawText(view);
  else if (state.view === "diff") drawDiff(view);
  else if (state.view === "memory") drawMemory(view);
  else if (state.view === "time") drawTimes(view);
  else drawKernels(view);
}

function drawHead() {
  $("title").textContent = meta.title;
  const config = Object.entries(meta.config || {}).filter(([, value]) => typeof value === "number" && value > 1);
  $("config").textContent = config.slice(0, 5).map(([name, value]) => `${name.replace(/_/g, " ")} ${value}`).join(" · ");
  $("config").title = meta.command + "\n" + Object.entries(meta.config || {}).map(([name, value]) => `${name} = ${JSON.stringify(value)}`).join("\n");
  const box = $("lengths");
  const preset = h("select", {id: "preset", "aria-label": "What runs", change: event => {
    const change = event.target.value.startsWith("run ") ? chooseRun(Number(event.target.value.slice(4))) : {redraw: true};
    if (!("symbol" in change)) setLengths(event.target.value === "prefill" ? {T: 512, past: 0} : {T: 1, past: 512});
    drawHead(), update(change);
  }}, h("option", {value: "", selected: true, hidden: true}, currentRun() ? runTitle(currentRun()) : lengths.past ? "decode" : "prefill"), h("option", {value: "prefill"}, "prefill: T 512"),
  h("option", {value: "decode"}, "decode: T 1 after 512"),
  measured ? h("optgroup", {label: "measured"}, measured.kinds.map((run, i) => h("option", {value: "run " + i}, `${runTitle(run)}: ${run.calls} call${run.calls > 1 ? "s" : ""}`))) : null);
  box.replaceChildren(preset, ...["T", "past", "B"].map(name => h("label", {}, name + " ",
    h("input", {type: "number", min: 0, value: lengths[name], "data-length": name, change: event => {
      setLengths({[name]: Math.max(0, Number(event.target.value) || 0)});
      drawHead(), update({redraw: true});
    }}))));
}

/// Lengths of no measured run; what followed from those of the last one follows from these.
function setLengths(change) {
  for (const name of currentRun() ? Object.keys(currentRun().lengths) : []) if (/^(past|cap)\b/.test(name) && name !== "past") delete lengths[name];
  Object.assign(lengths, change);
  state.run = -1;
}

function theme(dark) {
  document.documentElement.dataset.theme = dark ? "dark" : "light";
}

function listenKeys() {
  document.addEventListener("keydown", event => {
    if (event.target.matches("input, select") || event.ctrlKey || event.metaKey || event.altKey) return;
    const step = {ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60]}[event.key];
    const keys = {
      "/": () => $("search").focus(), g: () => update({view: "graph"}), t: () => update({view: "text"}), c: () => update({view: "diff"}), n: () => update({view: "kernels"}), m: () => update({view: "memory"}),
      p: () => measured && update({view: "time"}),
      j: () => update({stage: Math.min(meta.stages.length - 1, state.stage + 1)}), k: () => update({stage: Math.max(0, state.stage - 1)}),
      d: () => $("theme").click(), Escape: () => update({op: -1}),
      "+": () => graph && graph.zoom(1.3), "=": () => graph && graph.zoom(1.3), "-": () => graph && graph.zoom(1 / 1.3), "0": () => graph && graph.fit(),
      l: () => graph && graph.toggleAll(),
    };
    if (step && graph) { event.preventDefault(); graph.pan(...step); }
    else if (keys[event.key]) { event.preventDefault(); keys[event.key](); }
  });
}

function fromAddress() {
  const wish = new URLSearchParams(location.hash.slice(1));
  const stage = meta.stages.findIndex(one => one.name === wish.get("pass"));
  const compare = meta.stages.findIndex(one => one.name === wish.get("with"));
  const change = {stage: stage < 0 ? meta.stages.length - 1 : stage, view: wish.get("view") in tabs ? wish.get("view") : "graph", symbol: wish.get("in") || "",
    op: wish.has("op") ? Number(wish.get("op")) : -1, kernel: wish.get("kernel") || "", tab: wish.get("tab") || "loops", redraw: true, reveal: true};
  if (measured && wish.has("run") && Number(wish.get("run")) < measured.kinds.length) state.run = Number(wish.get("run"));
  if (currentRun()) Object.assign(lengths, currentRun().lengths);
  if (compare >= 0) change.compare = compare;
  else change.compare = Math.max(0, previousChange(change.stage));
  if (change.op >= loadStage(change.stage).ops.length) change.op = -1;
  drawHead();
  update(change);
}

theme(matchMedia("(prefers-color-scheme: dark)").matches);
$("theme").addEventListener("click", () => theme(document.documentElement.dataset.theme !== "dark"));
listenSearch();
listenKeys();
fromAddress();
window.addEventListener("hashchange", fromAddress);
document.documentElement.dataset.ready = String(Math.round(performance.now()));
