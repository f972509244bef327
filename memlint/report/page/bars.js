/* Bars: components of the peak on the scale of the card. */
const track = (parts, run, scale, total) => {
  const box = make("div", { class: "track", "aria-hidden": "true" });
  parts.forEach((bytes, index) => {
    if (bytes <= 0) return;
    const piece = make("i", { class: `c${index}`, title: `${words(data.components[index])} ${gib(bytes)} GiB` });
    piece.style.width = `${(100 * bytes) / scale}%`;
    box.append(piece);
  });
  if (total > parts.reduce((sum, bytes) => sum + bytes, 0)) {
    const rest = make("i", { class: "cx", title: "allocator and CUDA context" });
    rest.style.width = `${(100 * (total - parts.reduce((sum, bytes) => sum + bytes, 0))) / scale}%`;
    box.append(rest);
  }
  if (run.budget && run.budget < scale) {
    const edge = make("span", { class: "edge", title: `${run.gpu}: ${gib(run.budget)} GiB usable` });
    edge.style.left = `calc(${(100 * run.budget) / scale}% - 1px)`;
    box.append(edge);
  }
  if (total && run.high > run.low) {
    const span = make("span", { class: "span", title: `${gib(run.low)} to ${gib(run.high)} GiB on the card` });
    span.style.left = `${(100 * run.low) / scale}%`;
    span.style.width = `${(100 * (run.high - run.low)) / scale}%`;
    box.append(span);
  }
  return box;
};
const scaleOf = (run) => 1.02 * Math.max(run.budget ?? 0, run.high ?? 0, ...run.phases.map((phase) => phase.total), 1);
const meter = (run) => {
  if (!run.phases.length) return make("span", { class: "figures meter" }, run.unknown.length ? "not estimated" : "");
  const peak = run.phases.find((phase) => phase.name === run.peak) ?? run.phases[0];
  return make("span", { class: "meter" }, track(peak.parts, run, scaleOf(run), run.device ?? 0), make("span", { class: "figures" }, run.figure));
};
