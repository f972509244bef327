/* The page: tiles, choices, theme, and the start. */
const tiles = () => ORDER.filter((verdict) => verdict !== "part").map((verdict) => {
  const { tone, mark, word } = VERDICTS[verdict];
  const number = items.filter((item) => item.run.verdict === verdict).length;
  const toggle = () => {
    if (!state.verdicts.delete(verdict)) state.verdicts.add(verdict);
    list();
  };
  return make("li", {}, make("button", { type: "button", class: `tile ${tone}`, "aria-pressed": "false", "data-verdict": verdict, onclick: toggle }, make("b", {}, String(number)), " ", make("span", {}, make("span", { "aria-hidden": "true" }, `${mark} `), word)));
});
const rules = () => {
  const used = new Map();
  for (const { file } of items) for (const found of file.findings) used.set(found.rule, [found.name, (used.get(found.rule)?.[1] ?? 0) + 1]);
  return [...used].sort(([a], [b]) => (a < b ? -1 : 1)).map(([rule, [name, number]]) => make("option", { value: rule }, `${rule} ${name} (${number})`));
};
const legend = () => [
  ...data.components.map((name, index) => make("span", {}, make("i", { class: `swatch c${index}`, "aria-hidden": "true" }), words(name))),
  make("span", {}, make("i", { class: "swatch cx", "aria-hidden": "true" }), "allocator and CUDA context"),
  make("span", {}, make("i", { class: "span-key", "aria-hidden": "true" }), "where the peak may lie"),
  make("span", {}, make("i", { class: "edge-key", "aria-hidden": "true" }), "the card's end"),
];
const options = (table) => Object.entries(table).map(([name, [label]]) => make("option", { value: name }, label));

/* The theme is the system's until the button is pressed; a browser may refuse to remember it. */
const THEME = "memlint-theme";
const remembered = () => {
  try {
    return localStorage.getItem(THEME);
  } catch {
    return null;
  }
};
const remember = (name) => {
  try {
    localStorage.setItem(THEME, name);
  } catch {
    /* a page from a file may have no storage */
  }
};
const theme = (name) => {
  document.documentElement.dataset.theme = name;
  byId("theme").setAttribute("aria-pressed", String(name === "dark"));
};
const startTheme = () => {
  const system = matchMedia("(prefers-color-scheme: dark)");
  const follow = () => theme(remembered() ?? (system.matches ? "dark" : "light"));
  follow();
  system.addEventListener("change", follow);
  byId("theme").addEventListener("click", () => {
    theme(document.documentElement.dataset.theme === "dark" ? "light" : "dark");
    remember(document.documentElement.dataset.theme);
  });
};

const listen = () => {
  const { sort, group: by } = state;
  byId("search").addEventListener("input", (event) => { state.search = event.target.value.trim().toLowerCase(); list(); });
  for (const name of ["rule", "sort", "group"]) byId(name).addEventListener("change", (event) => { state[name] = event.target.value; list(); });
  byId("tools").addEventListener("submit", (event) => event.preventDefault());
  byId("tools").addEventListener("reset", () => {
    state.verdicts.clear();
    choices.clear();
    Object.assign(state, { search: "", rule: "", sort, group: by });
    setTimeout(() => { byId("group").value = by; list(); });
  });
  byId("fold").addEventListener("click", foldAll);
  byId("configs").addEventListener("keydown", walk);
  addEventListener("beforeprint", drawAll);
  addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.target.closest("input, select")) return;
    event.preventDefault();
    byId("search").focus();
  });
};
const start = () => {
  const found = Object.entries(data.totals.severities).filter(([, number]) => number).map(([level, number]) => plural(number, level));
  byId("headline").textContent = `${plural(data.totals.files, "file")}, ${plural(items.length, "config")}: ${found.join(", ") || "no findings"}`;
  byId("tiles").append(...tiles());
  byId("rule").append(make("option", { value: "" }, "all"), ...rules());
  byId("sort").append(...options(SORTS));
  byId("group").append(...options(GROUPS));
  byId("group").value = state.group;
  byId("legend").append(...legend());
  byId("footer").append(`memlint ${data.version}. Estimates of one GPU; 1 GiB is 2\u00b3\u2070 bytes. ${data.how_to_read}`, ...data.notes.map((note) => make("p", {}, note)));
  startTheme();
  listen();
  list();
};
start();
