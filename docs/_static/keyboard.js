/* What the theme leaves to do for keyboards and screen readers: regions that scroll, captions, empty headers, the two sidebars. */
"use strict";
addEventListener("DOMContentLoaded", () => {
  const all = (selector, change) => document.querySelectorAll(selector).forEach(change);
  all("article pre, .table-wrapper", (node) => { node.tabIndex = 0; });
  all("p.caption[role=heading]", (node) => node.setAttribute("aria-level", "2"));
  all("th", (node) => { if (!node.textContent.trim()) node.replaceWith(document.createElement("td")); });
  all("aside.sidebar-drawer", (node) => node.setAttribute("aria-label", "Pages"));
  all("aside.toc-drawer", (node) => node.setAttribute("aria-label", "On this page"));
});
