/* The list of rules by words: rows that do not hold all of them are hidden, and so are families without a row left. */
"use strict";
addEventListener("DOMContentLoaded", () => {
  const input = document.getElementById("rules-filter");
  if (!input) return;
  const count = document.getElementById("rules-count");
  const sections = [...document.querySelectorAll("article section section")];
  const rows = sections.flatMap((section) => [...section.querySelectorAll("tbody tr")].map((row) => ({ row, text: `${section.id} ${row.textContent}`.toLowerCase() })));
  const filter = () => {
    const words = input.value.toLowerCase().split(/\s+/);
    for (const { row, text } of rows) row.hidden = !words.every((word) => text.includes(word));
    for (const section of sections) section.hidden = !section.querySelector("tbody tr:not([hidden])");
    count.textContent = `${rows.filter(({ row }) => !row.hidden).length} of ${rows.length} rules`;
    history.replaceState(null, "", input.value ? `?q=${encodeURIComponent(input.value)}` : location.pathname);
  };
  input.value = new URLSearchParams(location.search).get("q") ?? "";
  input.addEventListener("input", filter);
  filter();
});
