/* What if: another batch, length, checkpointing and attention, said in the words of a fix. */
const TONE_OF = { fits: "good", "barely fits": "good", tight: "warn", "likely out of memory": "warn", "out of memory": "bad", unknown: "none" };
const KIB = 1024;
const titles = (axes, from, to) => {
  const [batch, length, checkpointing, attention] = axes.map((axis, number) => (from[number] === to[number] ? null : [axis[from[number]], axis[to[number]]]));
  return [
    batch && `micro batch ${batch.join(" -> ")}`,
    length && `sequences of ${length.join(" -> ")} tokens`,
    checkpointing && (checkpointing[1] === "none" ? "turn off activation checkpointing" : `turn on activation checkpointing${checkpointing[1] === "full" ? "" : ` (${words(checkpointing[1])})`}`),
    attention && `use ${attention[1] === "flash_attention_2" ? "FlashAttention 2" : attention[1]} attention`,
  ].filter(Boolean);
};
const told = (run, before, after, changes) => {
  const [low, middle, high, word] = after;
  const [first, then] = [gib(before[1] * KIB), gib(middle * KIB)];
  const still = word === "out of memory" && changes.length && middle <= before[1] ? "still " : "";
  const range = `(${gib(low * KIB)} - ${gib(high * KIB)}${run.budget ? ` of ${gib(run.budget)}` : ""})`;
  const peak = `peak ${first === then ? "" : `${first} -> `}${then} GiB ${range}`;
  return [changes.join(", ") || "as it is now", peak, still + (run.budget ? word : "no card named")].join("; ");
};
const whatIf = (run) => {
  const { axes, now, cells } = run.what_if;
  const picked = [...now];
  const labels = ["micro batch", "tokens", "checkpointing", "attention"];
  const cell = (place) => cells[place.reduce((sum, index, axis) => sum * axes[axis].length + index, 0)];
  const tone = (found) => (found && run.budget ? TONE_OF[found[3]] ?? "none" : "none");
  const answer = make("p", { role: "status" });
  const selects = axes.map((axis, number) => make(
    "select", { onchange: (event) => { picked[number] = Number(event.target.value); redraw(); } },
    axis.map((value, index) => make("option", { value: String(index), selected: index === now[number] }, words(String(value)) + (index === now[number] ? " (now)" : ""))),
  ));
  const one = (batch, length) => {
    const pick = () => { picked[0] = batch; picked[1] = length; redraw(); };
    const value = make("span", {});
    const verdict = make("span", { class: "sr" });
    return { batch, length, value, verdict, button: make("button", { type: "button", onclick: pick }, value, verdict) };
  };
  const boxes = axes[0].map((_, batch) => axes[1].map((_, length) => one(batch, length)));
  const fill = ({ batch, length, value, verdict, button }) => {
    const here = [batch, length, picked[2], picked[3]];
    const found = cell(here);
    const isNow = here.every((index, axis) => index === now[axis]);
    button.className = `${tone(found)}-well${isNow ? " now" : ""}`;
    button.setAttribute("aria-pressed", String(batch === picked[0] && length === picked[1]));
    value.textContent = found ? ((found[1] * KIB) / GIB).toFixed(found[1] * KIB >= 100 * GIB ? 0 : 1) : "\u2013";
    verdict.textContent = `${found ? ` GiB, ${run.budget ? found[3] : "no card named"}` : " not estimated"}${isNow ? ", as it is now" : ""}`;
  };
  const redraw = () => {
    selects.forEach((select, number) => { select.value = String(picked[number]); });
    const found = cell(picked);
    answer.className = `answer ${tone(found)}-well`;
    answer.textContent = found && cell(now) ? told(run, cell(now), found, titles(axes, now, picked)) : "This combination cannot be estimated.";
    boxes.flat().forEach(fill);
  };
  const head = make("tr", {}, make("th", { scope: "col" }, "micro batch \\ tokens"), axes[1].map((length) => make("th", { scope: "col" }, String(length))));
  const body = boxes.map((cells, batch) => make("tr", {}, make("th", { scope: "row" }, String(axes[0][batch])), cells.map(({ button }) => make("td", {}, button))));
  redraw();
  return make(
    "section", { class: "whatif" }, make("h4", {}, "What if"),
    make("div", { class: "pick" }, selects.map((select, number) => make("label", {}, labels[number], select))),
    answer,
    make("div", { class: "scroll" }, make("table", { class: "grid" }, make("caption", {}, "GiB on the card by micro batch and tokens; dashed: as it is now"), make("thead", {}, head), make("tbody", {}, body))),
  );
};
