// The passes: phases as headings, one row a pass with the time it took and how many lines it changed; runs of passes that
// changed nothing are folded away.

const openFolds = new Set();

function drawPasses() {
  const nav = $("passes");
  nav.replaceChildren();
  const longest = Math.max(1e-9, ...meta.stages.map(stage => stage.seconds));
  const total = meta.stages.reduce((sum, stage) => sum + stage.seconds, 0);
  nav.append(h("div.heading", {}, h("span", {}, "passes"), h("span.dim", {title: "All passes together"}, seconds(total))));
  let phase = null;
  for (let i = 0; i < meta.stages.length;) {
    const stage = meta.stages[i];
    if (stage.phase !== phase) {
      phase = stage.phase;
      nav.append(h("div.phase", {title: (meta.phases || {})[phase]}, phase));
    }
    let end = i;
    while (end < meta.stages.length && !meta.stages[end].changed && meta.stages[end].phase === phase) ++end;
    const fold = end > i, open = openFolds.has(i) || (fold && state.stage >= i && state.stage < end);
    if (fold) {
      const from = i;
      nav.append(h("button.fold", {"aria-expanded": String(open), "data-fold": i, click: () => {
        openFolds.has(from) ? openFolds.delete(from) : openFolds.add(from);
        drawPasses();
      }}, (open ? "▾ " : "▸ ") + (end - i === 1 ? "1 pass" : end - i + " passes") + " changed nothing"));
    }
    for (const stop = fold ? end : i + 1; i < stop; ++i) if (!fold || open) nav.append(passRow(i, longest));
  }
  nav.append(drawLegend());
}


function passRow(index, longest) {
  const stage = meta.stages[index];
  const changes = [];
  if (stage.added) changes.push(h("span.added", {}, "+" + stage.added));
  if (stage.removed) changes.push(h("span.removed", {}, "−" + stage.removed));
  return h("button.pass" + (index === state.stage ? ".current" : "") + (stage.changed ? "" : ".same"), {
    "data-stage": index, title: stage.meaning + (stage.seconds ? "\n" + seconds(stage.seconds) : ""),
    "aria-current": index === state.stage, click: () => update({stage: index}),
  },
  h("span.name", {}, stage.name), h("span.changes", {}, changes),
  h("span.time", {}, stage.seconds ? seconds(stage.seconds) : ""),
  h("span.bar", {style: `width:${(100 * stage.seconds / longest).toFixed(1)}%`}));
}

function drawLegend() {
  return h("div.legend", {}, Object.entries(kinds).map(([kind, meaning]) => h("div", {}, h("i.k-" + kind), meaning)));
}
