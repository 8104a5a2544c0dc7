// The roofline (Williams, Waterman, Patterson 2009): operations a second that the machine allows, by operations per byte moved.

function roofOf(flops, bytes) {
  const machine = meta.machine;
  const bound = Math.max(flops / machine.flops, bytes / machine.bandwidth);
  return {seconds: bound, intensity: bytes ? flops / bytes : Infinity, memory: bytes / machine.bandwidth > flops / machine.flops,
    reached: bound ? flops / bound : 0};
}

/// points: [{name, kind, flops, bytes, took, share, chosen, click}]. What was measured (`took` seconds) stands at the height that
/// it reached, hanging from the roof.
function drawRoofline(points, width, height) {
  const {flops: peak, bandwidth} = meta.machine, ridge = peak / bandwidth;
  const margin = {left: 52, right: 22, top: 26, bottom: 34};
  const low = Math.min(0.05, ridge / 100), high = Math.max(1000, ridge * 30);
  const bottom = Math.min(low * bandwidth, peak / 1000), top = peak * 2.2;
  const at = (value, from, to, start, end) => start + (Math.log(value) - Math.log(from)) / (Math.log(to) - Math.log(from)) * (end - start);
  const x = value => at(Math.min(high, Math.max(low, value)), low, high, margin.left, width - margin.right);
  const y = value => at(Math.min(top, Math.max(bottom, value)), bottom, top, height - margin.bottom, margin.top);
  const tick = value => value < 1 ? String(value) : short(value).replace(/\.0+/, "");
  const root = svg("svg", {class: "roofline", width, height, viewBox: `0 0 ${width} ${height}`});
  const text = (content, px, py, kind, anchor = "middle") => {
    const element = svg("text", {x: px, y: py, class: kind, "text-anchor": anchor});
    element.textContent = content;
    root.append(element);
  };
  for (let power = Math.ceil(Math.log10(low)); power <= Math.log10(high); ++power) {
    root.append(svg("path", {class: "grid", d: `M${x(10 ** power)} ${margin.top}V${height - margin.bottom}`}));
    text(tick(10 ** power), x(10 ** power), height - margin.bottom + 14, "tick");
  }
  for (let power = Math.ceil(Math.log10(bottom)); power <= Math.log10(top); ++power) {
    root.append(svg("path", {class: "grid", d: `M${margin.left} ${y(10 ** power)}H${width - margin.right}`}));
    text(tick(10 ** power), margin.left - 6, y(10 ** power) + 4, "tick", "end");
  }
  root.append(svg("path", {class: "roof under", d: `M${x(low)} ${y(low * bandwidth)}L${x(ridge)} ${y(peak)}H${x(high)}V${height - margin.bottom}H${x(low)}Z`}));
  root.append(svg("path", {class: "roof", d: `M${x(low)} ${y(low * bandwidth)}L${x(ridge)} ${y(peak)}H${x(high)}`}));
  text(short(peak, "FLOP/s"), x(ridge) + 6, y(peak) + 15, "rooftext", "start"); // kernels that compute stand further right
  const slope = Math.atan2(y(ridge * bandwidth) - y(low * bandwidth), x(ridge) - x(low)) * 180 / Math.PI;
  const middle = Math.sqrt(low * ridge);
  const along = svg("text", {class: "rooftext", "text-anchor": "middle", transform: `translate(${x(middle)} ${y(middle * bandwidth) - 6}) rotate(${slope})`});
  along.textContent = short(bandwidth, "B/s");
  root.append(along);
  text("FLOP per byte", (margin.left + width - margin.right) / 2, height - 4, "axis");
  text("FLOP/s", margin.left - 6, margin.top - 10, "axis", "end");
  for (const point of [...points].sort((a, b) => (a.chosen ? 1 : 0) - (b.chosen ? 1 : 0) || b.share - a.share)) {
    if (!point.flops) continue;
    const roof = roofOf(point.flops, point.bytes);
    const radius = 4 + 14 * Math.sqrt(point.share || 0), reached = point.took ? point.flops / point.took : roof.reached;
    if (point.took) root.append(svg("path", {class: `hang k-${point.kind}`, d: `M${x(roof.intensity) - 4} ${y(roof.reached)}h8m-4 0V${y(reached)}`}));
    const dot = svg("circle", {class: `dot k-${point.kind}${point.chosen ? " chosen" : ""}`, cx: x(roof.intensity), cy: y(reached), r: radius,
      "data-kernel": point.name, "data-reached": reached});
    const hint = svg("title");
    hint.textContent = `${point.name}\n${short(roof.intensity)} FLOP per byte: at most ${short(roof.reached, "FLOP/s")}\n` +
      (roof.memory ? "memory is the limit" : "arithmetic is the limit") +
      (point.took ? `\nmeasured: ${short(reached, "FLOP/s")}, ${percent(reached / roof.reached)} of that` : "");
    dot.append(hint);
    if (point.click) dot.addEventListener("click", point.click);
    root.append(dot);
    if (point.chosen) text(point.name, x(roof.intensity), point.took ? y(reached) + radius + 14 : y(reached) - radius - 6, "dotname", x(roof.intensity) > width * 0.8 ? "end" : "middle");
  }
  return root;
}
