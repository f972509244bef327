/* What every part uses: the data, words, and how nodes are made. */
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
