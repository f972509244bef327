/* The list: configs in groups. A row is drawn when it comes near the window, so that thousands cost what a few do. */
const NEAR = "900px"; // how far beyond the window rows are drawn
const OPEN_UP_TO = 60; // with more rows than this, groups start closed
const GROUP_FROM = 40; // with more configs than this, they are grouped from the start

const EMPTY = { verdict: "unknown", phases: [], device: null, low: null, high: null, model: "", summary: "", gpu: null, budget: null, related: [], fits_on: [], unknown: [], assumptions: [], what_if: null };
const worst = (runs) => [...runs].sort((a, b) => ORDER.indexOf(a.verdict) - ORDER.indexOf(b.verdict))[0];
const items = data.files.map((file, index) => {
  const estimated = file.runs.filter((run) => run.phases.length);
  const run = worst(estimated.length ? estimated : file.runs) ?? EMPTY;
  const text = [file.path, run.model, run.summary, run.gpu ?? "", ...run.related, ...file.findings.flatMap((found) => [found.rule, found.name, found.message])];
  return { file, run, index, rank: ORDER.indexOf(run.verdict), share: run.budget && run.high ? run.high / run.budget : 0, text: text.join("\n").toLowerCase(), node: null };
});
const SORTS = {
  verdict: ["worst first", (a, b) => a.rank - b.rank || b.share - a.share],
  peak: ["highest peak", (a, b) => (b.run.device ?? -1) - (a.run.device ?? -1)],
  share: ["fullest card", (a, b) => b.share - a.share],
  findings: ["most findings", (a, b) => b.file.findings.length - a.file.findings.length],
  path: ["path", () => 0],
};
const GROUPS = {
  none: ["nothing", () => ""],
  folder: ["folder", ({ file }) => file.path.slice(0, Math.max(0, file.path.lastIndexOf("/"))) || "."],
  model: ["model", ({ run }) => run.model || "no model named"],
  card: ["card", ({ run }) => card(run)],
};
const state = { verdicts: new Set(), search: "", rule: "", sort: "verdict", group: items.length > GROUP_FROM ? "folder" : "none" };
const choices = new Map(); // group -> whether the reader opened or closed it

/* one config */
const sizeOf = (file) => ["error", "warning", "info"].map((level) => [level, file.findings.filter((found) => found.severity === level).length]).filter(([, number]) => number);
const row = ({ file, run, index }) => {
  const marks = sizeOf(file).map(([level, number]) => make("span", { class: `badge small ${TONES[level]}-well` }, plural(number, level)));
  const panel = `more-${index}`;
  const button = make(
    "button", { type: "button", class: "row", "aria-expanded": "false", "aria-controls": panel },
    make("span", {}, make("span", { class: "head" }, make("span", { class: "name mono" }, file.path), marks),
      make("span", { class: "sub" }, [run.model, run.summary].filter(Boolean).join(" \u00b7 "), " ", make("span", { class: "whole" }, `${run.model || run.summary ? "\u00b7 " : ""}${run.phases.length ? card(run) : file.format}`))),
    meter(run),
    badge(run),
  );
  button.addEventListener("click", () => {
    const open = button.getAttribute("aria-expanded") === "true";
    button.setAttribute("aria-expanded", String(!open));
    let more = byId(panel);
    if (!more) button.closest(".config").append((more = make("div", { class: "more", id: panel }, details(file))));
    more.hidden = open;
  });
  return make("h3", {}, button);
};
const draw = (item) => {
  if (!item.node.firstChild) item.node.append(row(item));
  return item.node;
};
const near = new IntersectionObserver((seen) => {
  for (const { isIntersecting, target } of seen) {
    if (!isIntersecting) continue;
    near.unobserve(target);
    draw(items[target.dataset.index]);
  }
}, { rootMargin: `${NEAR} 0px` });
const placed = (item) => {
  if (!item.node) {
    item.node = make("li", { class: "config", "data-index": item.index, "data-path": item.file.path });
    near.observe(item.node);
  }
  return item.node;
};

/* one group */
const verdictsOf = (members) => ORDER.map((verdict) => [verdict, members.filter((item) => item.run.verdict === verdict).length]).filter(([, number]) => number);
const isOpen = (name, shown) => choices.get(name) ?? shown <= OPEN_UP_TO;
const group = (name, members, shown, number) => {
  const body = make("ul", { class: "rows", id: `group-${number}`, role: "list" });
  const set = (open) => {
    body.hidden = !open;
    if (open && !body.firstChild) body.append(...members.map(placed));
  };
  set(!name || isOpen(name, shown));
  if (!name) return make("div", { class: "group" }, make("h2", { class: "sr" }, "Configs"), body);
  const tell = ([verdict, many]) => make("span", { class: `badge small ${VERDICTS[verdict].tone}-well` }, make("span", { "aria-hidden": "true" }, VERDICTS[verdict].mark), `${many} ${VERDICTS[verdict].word}`);
  const button = make(
    "button", { type: "button", class: "fold", "aria-expanded": String(!body.hidden), "aria-controls": body.id },
    make("span", { class: "name mono" }, name), make("span", { class: "sub" }, plural(members.length, "config")), make("span", { class: "tally" }, verdictsOf(members).map(tell)),
  );
  button.addEventListener("click", () => {
    const open = body.hidden;
    choices.set(name, open);
    button.setAttribute("aria-expanded", String(open));
    set(open);
  });
  return make("div", { class: "group" }, make("h2", { class: "stick" }, button), body);
};

/* all of them */
const matches = (item) =>
  (!state.verdicts.size || state.verdicts.has(item.run.verdict)) &&
  (!state.rule || item.file.findings.some((found) => found.rule === state.rule)) &&
  state.search.split(/\s+/).every((word) => item.text.includes(word));
const grouped = (shown) => {
  const groups = new Map();
  for (const item of shown) {
    const name = GROUPS[state.group][1](item);
    if (groups.has(name)) groups.get(name).push(item);
    else groups.set(name, [item]);
  }
  return state.sort === "path" ? [...groups].sort(([a], [b]) => (a < b ? -1 : 1)) : [...groups];
};
const list = () => {
  const shown = items.filter(matches).sort((a, b) => SORTS[state.sort][1](a, b) || (a.file.path < b.file.path ? -1 : a.file.path > b.file.path ? 1 : a.index - b.index));
  byId("configs").replaceChildren(...grouped(shown).map(([name, members], number) => group(name, members, shown.length, number)));
  byId("none").hidden = shown.length > 0;
  byId("fold").hidden = state.group === "none";
  byId("count").textContent = shown.length === items.length ? plural(items.length, "config") : `${shown.length} of ${plural(items.length, "config")}`;
  for (const tile of document.querySelectorAll(".tile")) tile.setAttribute("aria-pressed", String(state.verdicts.has(tile.dataset.verdict)));
};
const foldAll = () => {
  const folds = [...document.querySelectorAll(".fold")];
  const open = folds.some((fold) => fold.getAttribute("aria-expanded") === "false");
  for (const fold of folds) if ((fold.getAttribute("aria-expanded") === "true") !== open) fold.click();
};
const drawAll = () => {
  for (const node of document.querySelectorAll(".config")) draw(items[node.dataset.index]);
};

/* Arrow keys, Home and End go from row to row. */
const MOVES = { ArrowDown: (at) => at + 1, ArrowUp: (at) => at - 1, Home: () => 0, End: (_, last) => last };
const walk = (event) => {
  const from = event.target.closest(".fold, .row");
  if (!MOVES[event.key] || !from || event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
  const stops = [...document.querySelectorAll(".fold, .rows:not([hidden]) > .config")];
  const last = stops.length - 1;
  const to = stops[Math.min(last, Math.max(0, MOVES[event.key](stops.indexOf(from.closest(".fold, .config")), last)))];
  event.preventDefault();
  const target = to.matches(".config") ? draw(items[to.dataset.index]).querySelector(".row") : to;
  target.focus({ preventScroll: true });
  target.scrollIntoView({ block: "nearest" });
};
