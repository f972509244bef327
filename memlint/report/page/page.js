"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const GIB = 2 ** 30;
  const VERDICTS = {
    stopped: { word: "will not start", mark: "\u2715", tone: "bad" },
    out_of_memory: { word: "out of memory", mark: "\u2715", tone: "bad" },
    tight: { word: "tight", mark: "!", tone: "warn" },
    fits: { word: "fits", mark: "\u2713", tone: "good" },
    unknown: { word: "unknown", mark: "?", tone: "none" },
    part: { word: "part of a run", mark: "\u00b7", tone: "none" },
  };
  const ORDER = Object.keys(VERDICTS);
  const TONES = { error: "bad", warning: "warn", info: "info" };
  const SORTS = {
    verdict: ["worst first", (a, b) => a.rank - b.rank || b.share - a.share],
    peak: ["highest peak", (a, b) => (b.run.device ?? -1) - (a.run.device ?? -1)],
    share: ["fullest card", (a, b) => b.share - a.share],
    findings: ["most findings", (a, b) => b.file.findings.length - a.file.findings.length],
    path: ["path", () => 0],
  };

  /* Every node is made here and every text is a text node: nothing from a config is ever read as markup. */
  const make = (tag, attributes = {}, ...children) => {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (value === false || value === null || value === undefined) continue;
      if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
      else node.setAttribute(name, value === true ? "" : value);
    }
    node.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== ""));
    return node;
  };
  const byId = (id) => document.getElementById(id);
  const words = (name) => name.replaceAll("_", " ");
  const gib = (bytes) => {
    if (bytes === null || bytes === undefined) return "?";
    const value = bytes / GIB;
    return value >= 100 ? value.toFixed(1) : value.toFixed(2);
  };
  const count = (number) => {
    for (const [unit, scale] of [["T", 1e12], ["B", 1e9], ["M", 1e6], ["K", 1e3]])
      if (number >= scale) return `${(number / scale).toFixed(2)} ${unit}`;
    return String(number);
  };
  const plural = (number, word) => `${number} ${word}${number === 1 || word === "info" ? "" : "s"}`;
  const badge = (run) => {
    const { tone, mark, word } = VERDICTS[run.verdict];
    return make("span", { class: `badge ${tone}-well` }, make("span", { "aria-hidden": "true" }, mark), run.words ?? word);
  };
  const card = (run) => (run.gpu ? `${run.gpus ?? "?"} \u00d7 ${run.gpu}` : "no card named");

  const EMPTY = { verdict: "unknown", phases: [], device: null, low: null, high: null, model: "", summary: "", gpu: null, budget: null, related: [], fits_on: [], unknown: [], assumptions: [], what_if: null };
  const items = data.files.map((file, index) => {
    const runs = file.runs.filter((run) => run.phases.length);
    const run = [...(runs.length ? runs : file.runs)].sort((a, b) => ORDER.indexOf(a.verdict) - ORDER.indexOf(b.verdict))[0] ?? EMPTY;
    const text = [file.path, run.model, run.summary, run.gpu ?? "", ...run.related, ...file.findings.flatMap((f) => [f.rule, f.name, f.message])];
    return { file, run, index, rank: ORDER.indexOf(run.verdict), share: run.budget && run.high ? run.high / run.budget : 0, text: text.join("\n").toLowerCase(), node: null };
  });

  const state = { verdicts: new Set(), search: "", rule: "", sort: "verdict" };

  /* bars */
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

  /* one config */
  const row = (item) => {
    const { file, run } = item;
    const severities = ["error", "warning", "info"].map((level) => [level, file.findings.filter((f) => f.severity === level).length]);
    const marks = severities.filter(([, number]) => number).map(([level, number]) => make("span", { class: `badge small ${TONES[level]}-well` }, plural(number, level)));
    const panel = `more-${item.index}`;
    const button = make(
      "button", { type: "button", class: "row", "aria-expanded": "false", "aria-controls": panel },
      make("span", {}, make("span", { class: "head" }, make("span", { class: "name mono" }, file.path), marks),
        make("span", { class: "sub" }, [run.model, run.summary].filter(Boolean).map((text) => `${text} \u00b7 `), make("span", { class: "whole" }, run.phases.length ? card(run) : file.format))),
      meter(run),
      badge(run),
    );
    const node = make("article", { class: "config" }, make("h2", {}, button));
    button.addEventListener("click", () => {
      const open = button.getAttribute("aria-expanded") === "true";
      button.setAttribute("aria-expanded", String(!open));
      let more = document.getElementById(panel);
      if (!more) node.append((more = make("div", { class: "more", id: panel }, details(file))));
      more.hidden = open;
    });
    return node;
  };

  const details = (file) => [
    ...file.runs.filter((run) => run.phases.length || run.unknown.length).map((run) => memory(run)),
    file.findings.length ? make("section", { "aria-label": "Findings" }, make("h3", {}, plural(file.findings.length, "finding")), file.findings.map(finding)) : null,
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
      "section", { "aria-label": "Memory" },
      make("h3", {}, "Memory of one GPU, GiB"),
      run.phases.length ? make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Phases and components" }, make("table", { class: "phases", "aria-label": "Memory by phase and component, GiB" }, make("thead", {}, head), make("tbody", {}, rows))) : null,
      make("dl", { class: "facts" },
        fact("model", run.model && run.parameters ? `${run.model} (${count(run.parameters)} parameters${run.trainable ? `, ${count(run.trainable)} train` : ""})` : run.model),
        fact("card", run.gpu ? `${card(run)}, ${gib(run.budget)} GiB usable` : ""),
        fact("peak on the card", run.figure),
        fact("reserved", run.reserved === null || run.reserved === undefined ? "" : `${gib(run.reserved)} GiB`),
        fact("host memory", run.host ? `${gib(run.host)} GiB a node` : ""),
        fact("smallest common cards", run.verdict !== "fits" ? run.fits_on.slice(0, 4).join(", ") : ""),
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
    if (item.why) body.push(make("details", { class: "small" }, make("summary", {}, "Why"), make("p", {}, item.why)));
    return make(
      "article", { class: `finding ${item.severity}` },
      make("h4", {}, make("span", { class: `badge small ${TONES[item.severity]}-well` }, item.severity), make("b", {}, item.rule), item.name, make("code", {}, `${item.path}:${item.line}:${item.column}`)),
      body,
    );
  };

  const assumed = (run) => make(
    "details", { class: "small" },
    make("summary", {}, `${plural(run.assumptions.length, "assumption")} behind these figures`),
    make("ul", {}, run.assumptions.map(([field, value, origin]) => make("li", {}, make("code", {}, `${field} = ${value}`), ` (${origin})`))),
  );

  /* what if */
  const whatIf = (run) => {
    const { axes, now, cells } = run.what_if;
    const picked = [...now];
    const labels = ["micro batch", "tokens", "checkpointing", "attention"];
    const cell = (place) => cells[place.reduce((sum, index, axis) => sum * axes[axis].length + index, 0)];
    const answer = make("p", { class: "answer", role: "status" });
    const table = make("table", { class: "grid" });
    const selects = axes.map((axis, number) => make(
      "select", { onchange: (event) => { picked[number] = Number(event.target.value); draw(); } },
      axis.map((value, index) => make("option", { value: String(index), selected: index === now[number] }, words(String(value)) + (index === now[number] ? " (now)" : ""))),
    ));
    const draw = () => {
      selects.forEach((select, number) => { select.value = String(picked[number]); });
      const told = cell(picked);
      const before = cell(now);
      const tone = told ? VERDICTS[told[3]].tone : "none";
      answer.className = `answer ${tone}-well`;
      const change = told && before ? (told[1] - before[1]) / 1024 : 0;
      answer.textContent = told
        ? `${(told[0] / 1024).toFixed(2)} \u2013 ${(told[2] / 1024).toFixed(2)} GiB${run.budget ? ` of ${gib(run.budget)}` : ""}: ${VERDICTS[told[3]].word}${Math.abs(change) >= 0.005 ? ` (${change > 0 ? "+" : "\u2212"}${Math.abs(change).toFixed(2)} GiB)` : ", as it is now"}`
        : "This combination cannot be estimated.";
      const rows = axes[0].map((batch, b) => make(
        "tr", {}, make("th", { scope: "row" }, String(batch)),
        axes[1].map((length, l) => {
          const value = cell([b, l, picked[2], picked[3]]);
          const here = [b, l, picked[2], picked[3]];
          const classes = [value ? `${VERDICTS[value[3]].tone}-well` : "none-well"];
          if (here.every((index, axis) => index === now[axis])) classes.push("now");
          if (b === picked[0] && l === picked[1]) classes.push("picked");
          return make("td", { class: classes.join(" "), onclick: () => { picked[0] = b; picked[1] = l; draw(); } },
            value ? (value[1] / 1024).toFixed(value[1] >= 102400 ? 0 : 1) : "\u2013", make("span", { class: "sr" }, value ? ` GiB, ${VERDICTS[value[3]].word}` : " not estimated"));
        }),
      ));
      const head = make("tr", {}, make("th", { scope: "col" }, "micro batch \\ tokens"), axes[1].map((length) => make("th", { scope: "col" }, String(length))));
      table.replaceChildren(make("caption", {}, "GiB on the card by micro batch and tokens; dashed: as it is now"), make("thead", {}, head), make("tbody", {}, rows));
    };
    draw();
    return make(
      "section", { class: "whatif", "aria-label": "What if" }, make("h3", {}, "What if"),
      make("div", { class: "pick" }, selects.map((select, number) => make("label", {}, labels[number], select))),
      answer, make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Grid of estimates" }, table),
    );
  };

  /* the list */
  const matches = (item) =>
    (!state.verdicts.size || state.verdicts.has(item.run.verdict)) &&
    (!state.rule || item.file.findings.some((found) => found.rule === state.rule)) &&
    state.search.split(/\s+/).every((word) => item.text.includes(word));
  const list = () => {
    const shown = items.filter(matches).sort((a, b) => SORTS[state.sort][1](a, b) || (a.file.path < b.file.path ? -1 : a.file.path > b.file.path ? 1 : a.index - b.index));
    byId("configs").replaceChildren(...shown.map((item) => (item.node ??= row(item))));
    byId("count").textContent = shown.length === items.length ? plural(items.length, "config") : `${shown.length} of ${plural(items.length, "config")}`;
    for (const tile of document.querySelectorAll(".tile")) tile.setAttribute("aria-pressed", String(state.verdicts.has(tile.dataset.verdict)));
  };

  const tiles = () => ORDER.filter((verdict) => verdict !== "part").map((verdict) => {
    const told = VERDICTS[verdict];
    const number = items.filter((item) => item.run.verdict === verdict).length;
    const toggle = () => { if (!state.verdicts.delete(verdict)) state.verdicts.add(verdict); list(); };
    return make("li", {}, make("button", { type: "button", class: `tile ${told.tone}`, "aria-pressed": "false", "data-verdict": verdict, onclick: toggle }, make("b", {}, String(number)), make("span", {}, make("span", { "aria-hidden": "true" }, `${told.mark} `), told.word)));
  });

  const rules = () => {
    const used = new Map();
    for (const { file } of items) for (const found of file.findings) used.set(found.rule, [found.name, (used.get(found.rule)?.[1] ?? 0) + 1]);
    return [...used].sort(([a], [b]) => (a < b ? -1 : 1)).map(([rule, [name, number]]) => make("option", { value: rule }, `${rule} ${name} (${number})`));
  };

  const theme = (dark) => {
    document.documentElement.dataset.theme = dark ? "dark" : "light";
    byId("theme").setAttribute("aria-pressed", String(dark));
  };

  const start = () => {
    const found = Object.entries(data.totals.severities).filter(([, number]) => number).map(([level, number]) => plural(number, level));
    byId("headline").textContent = `${plural(data.totals.files, "file")}, ${plural(items.length, "config")}: ${found.join(", ") || "no findings"}`;
    byId("tiles").append(...tiles());
    byId("rule").append(make("option", { value: "" }, "all"), ...rules());
    byId("sort").append(...Object.entries(SORTS).map(([name, [label]]) => make("option", { value: name }, label)));
    byId("legend").append(...data.components.map((name, index) => make("span", {}, make("i", { class: `swatch c${index}`, "aria-hidden": "true" }), words(name))),
      make("span", {}, make("i", { class: "swatch cx", "aria-hidden": "true" }), "allocator and CUDA context"), make("span", {}, make("i", { class: "span-key", "aria-hidden": "true" }), "where the peak may lie"),
      make("span", {}, make("i", { class: "edge-key", "aria-hidden": "true" }), "the card's end"));
    byId("footer").append(`memlint ${data.version}. Estimates of one GPU; 1 GiB is 2\u00b3\u2070 bytes. ${data.how_to_read}`, ...data.notes.map((note) => make("p", {}, note)));
    byId("search").addEventListener("input", (event) => { state.search = event.target.value.trim().toLowerCase(); list(); });
    byId("rule").addEventListener("change", (event) => { state.rule = event.target.value; list(); });
    byId("sort").addEventListener("change", (event) => { state.sort = event.target.value; list(); });
    byId("tools").addEventListener("submit", (event) => event.preventDefault());
    byId("tools").addEventListener("reset", () => { state.verdicts.clear(); Object.assign(state, { search: "", rule: "", sort: "verdict" }); setTimeout(list); });
    const preference = matchMedia("(prefers-color-scheme: dark)");
    theme(preference.matches);
    preference.addEventListener("change", (event) => theme(event.matches));
    byId("theme").addEventListener("click", () => theme(document.documentElement.dataset.theme !== "dark"));
    list();
  };
  start();
})();
