// Search in the chosen stage: names of operations, parameters and kernels first, then the text, then the lines of the spec; Enter
// goes on to the next.

function searchStage(text) {
  const stage = loadStage(state.stage), words = text.toLowerCase();
  if (!stage.lower) stage.lower = stage.lines.map(line => readable(line).toLowerCase());
  const named = [], inText = [], inSpec = [];
  for (const op of stage.ops) {
    const name = (titleOf(op) + " " + (op.n === "launch" ? op.k : op.n) + " " + (op.v || "")).toLowerCase();
    if (name.includes(words)) named.push(op);
    else if (stage.lower[op.l - 1] && stage.lower[op.l - 1].includes(words)) inText.push(op);
    else if (specText(op.o).includes(words)) inSpec.push(op);
  }
  return [...named, ...inText, ...inSpec];
}

let results = [], resultAt = -1;
function drawSearch() {
  const box = $("found"), text = $("search").value.trim();
  box.replaceChildren();
  box.hidden = !text;
  if (!text) return;
  results = searchStage(text);
  resultAt = -1;
  const stage = loadStage(state.stage);
  box.append(h("div.count", {}, results.length ? `${results.length} of ${stage.ops.length} operations after ${meta.stages[state.stage].name}` : "nothing found"));
  if (!results.length) return;
  const list = new VirtualList(box, 24, index => {
    const op = results[index];
    return h("div.result" + (index === resultAt ? ".current" : ""), {"data-result": index, click: () => choose(index, true)}, h("i.k-" + kindOf(op, stage)),
      h("span", {}, op.n === "param" ? op.v : titleOf(op)), h("span.dim", {}, `@${symbolOf(op, stage).s || ""} · ${lineOf(op.o)}`));
  });
  list.outer.style.height = Math.min(14, results.length) * 24 + 4 + "px";
  list.reset(results.length);
  const choose = (index, close) => {
    resultAt = index;
    update({op: results[index].id, symbol: symbolOf(results[index], stage).s, reveal: true, keepSearch: true});
    if (close) box.hidden = true;
    else { box.hidden = false; list.refresh(); list.show(index, false); }
  };
  box.choose = choose;
}

function listenSearch() {
  const input = $("search");
  input.addEventListener("input", drawSearch);
  input.addEventListener("focus", () => { if (input.value.trim()) drawSearch(); });
  input.addEventListener("keydown", event => {
    if (event.key === "Enter" || event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      if (results.length) $("found").choose((resultAt + (event.key === "ArrowUp" || event.shiftKey ? results.length - 1 : 1)) % results.length, false);
    }
    if (event.key === "Escape") { $("found").hidden = true; input.blur(); event.stopPropagation(); }
  });
  document.addEventListener("pointerdown", event => { if (!event.target.closest(".search")) $("found").hidden = true; });
}
