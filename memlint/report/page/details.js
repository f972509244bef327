/* What an opened config shows: memory by phase, findings, assumptions. */
const details = (file) => [
  ...file.runs.filter((run) => run.phases.length || run.unknown.length).map((run) => memory(run)),
  file.findings.length ? make("section", {}, make("h4", {}, plural(file.findings.length, "finding")), file.findings.map(finding)) : null,
  ...file.runs.filter((run) => run.what_if).map((run) => whatIf(run)),
  ...file.runs.filter((run) => run.assumptions.length).map((run) => assumed(run)),
  file.runs.some((run) => run.phases.length) || file.findings.length ? null : make("p", { class: "figures" }, "Nothing to report: no finding, and nothing to estimate in this file alone."),
].filter(Boolean);

const memory = (run) => {
  const used = data.components.map((_, index) => index).filter((index) => run.phases.some((phase) => phase.parts[index] > 0));
  const scale = scaleOf(run);
  const head = make("tr", {}, make("th", { scope: "col" }, "phase"), make("td", { class: "wide" }), used.map((index) => make("th", { scope: "col" }, make("span", { class: `swatch c${index}`, "aria-hidden": "true" }), ` ${words(data.components[index])}`)), make("th", { scope: "col" }, "allocated"));
  const rows = run.phases.map((phase) => make(
    "tr", { class: phase.name === run.peak ? "peak" : null },
    make("th", { scope: "row" }, words(phase.name), phase.name === run.peak ? " (peak)" : ""),
    make("td", { class: "wide" }, track(phase.parts, run, scale, 0)),
    used.map((index) => make("td", { class: phase.parts[index] ? null : "zero" }, phase.parts[index] ? gib(phase.parts[index]) : "\u2013")),
    make("td", {}, gib(phase.total)),
  ));
  const fact = (name, value) => (value ? make("div", {}, make("dt", {}, name), make("dd", {}, value)) : null);
  return make(
    "section", {},
    make("h4", {}, "Memory of one GPU, GiB"),
    run.phases.length ? make("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "Phases and components" }, make("table", { class: "phases", "aria-label": "Memory by phase and component, GiB" }, make("thead", {}, head), make("tbody", {}, rows))) : null,
    make("dl", { class: "facts" },
      fact("model", run.model && run.parameters ? `${run.model} (${count(run.parameters)} parameters${run.trainable ? `, ${count(run.trainable)} train` : ""})` : run.model),
      fact("card", run.gpu ? `${card(run)}, ${gib(run.budget)} GiB usable` : ""),
      fact("peak on the card", run.figure),
      fact("reserved", run.reserved === null || run.reserved === undefined ? "" : `${gib(run.reserved)} GiB`),
      fact("host memory per node", run.host ? `${gib(run.host)} GiB in training` : ""),
      fact("smallest common cards", run.fits_on.join(", ")),
      fact("with", run.related.join(", ")),
      run.unknown.map(([field, reason]) => fact("unknown", `${field}: ${reason}`))),
  );
};

const finding = (item) => {
  const body = [make("p", {}, item.message)];
  if (item.excerpt) {
    const [line, from, to] = item.excerpt;
    body.push(make("pre", { tabindex: "0", "aria-label": `Line ${item.line}` }, make("span", { class: "no" }, `${item.line} | `), line.slice(0, from), make("mark", {}, line.slice(from, to) || " "), line.slice(to)));
  }
  body.push(...item.related.map(([path, line, label]) => make("p", { class: "related" }, make("code", {}, `${path}:${line}`), ` ${label}`)));
  if (item.fixes.length) body.push(make("ol", {}, item.fixes.map((fix) => make("li", {}, fix))));
  if (item.why !== null) body.push(make("details", { class: "small" }, make("summary", {}, "Why"), make("p", {}, data.whys[item.why])));
  return make(
    "article", { class: `finding ${item.severity}` },
    make("h5", {}, make("span", { class: `badge small ${TONES[item.severity]}-well` }, item.severity), make("b", {}, item.rule), item.name, make("code", {}, `${item.path}:${item.line}:${item.column}`)),
    body,
  );
};

const assumed = (run) => make(
  "details", { class: "small" },
  make("summary", {}, `${plural(run.assumptions.length, "assumption")} behind these figures`),
  make("ul", {}, run.assumptions.map(([field, value, origin]) => make("li", {}, make("code", {}, `${field} = ${value}`), ` (${origin})`))),
);
