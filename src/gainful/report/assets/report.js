// Sort tables, colour rankers, open everything for print. Without this script the page is complete but static.
"use strict";
window.addEventListener("error", (event) => { document.documentElement.dataset.error = event.message; });

function sortKey(cell) {
  const text = cell.dataset.value ?? cell.textContent.trim();
  const number = Number(text);
  return text !== "" && !Number.isNaN(number) ? number : text;
}

function compareKeys(a, b) {
  if (typeof a === "number" && typeof b === "number") return a - b;
  if (typeof a !== typeof b) return typeof a === "number" ? -1 : 1;
  return a.localeCompare(b, undefined, { numeric: true });
}

function sortBy(table, heading) {
  const column = heading.cellIndex;
  const body = table.tBodies[0];
  const rows = [...body.rows].map((row) => [sortKey(row.cells[column]), row]);
  const known = rows.filter(([key]) => key !== "" && key !== "–");
  const unknown = rows.filter(([key]) => key === "" || key === "–");
  // Figures are sorted from the highest first, names from A.
  const figures = known.length > 0 && typeof known[0][0] === "number";
  const current = heading.getAttribute("aria-sort");
  const order = current === "none" ? (figures ? "descending" : "ascending")
    : current === "ascending" ? "descending" : "ascending";
  const sign = order === "ascending" ? 1 : -1;
  known.sort(([a], [b]) => sign * compareKeys(a, b));
  for (const other of table.tHead.rows[0].cells) other.setAttribute("aria-sort", "none");
  heading.setAttribute("aria-sort", order);
  body.append(...[...known, ...unknown].map(([, row]) => row));
}

function makeSortable(table) {
  for (const heading of table.tHead.rows[0].cells) {
    heading.querySelector("button").addEventListener("click", () => sortBy(table, heading));
  }
}
document.querySelectorAll("table.sortable").forEach(makeSortable);

// At most one ranker per colour; one more takes the colour of the ranker chosen longest ago.
// Pointing at a name, or focusing it, shows its band: more than two bands at once would be unreadable.
const SLOTS = 6;
const chosen = new Map();  // key → colour, in order of selection
const toggles = [...document.querySelectorAll(".toggle")];

function paint(key, slot) {
  for (const element of document.querySelectorAll(`[data-key="${key}"]`)) {
    element.classList.remove("on", "off", ...Array.from({ length: SLOTS }, (_, i) => `c${i}`));
    element.classList.add(...(slot === null ? ["off"] : ["on", `c${slot}`]));
    const box = element.querySelector("input");
    if (box) box.checked = slot !== null;
    else if (slot !== null) element.parentNode.append(element);  // in front of the grey ones
  }
  if (slot === null) chosen.delete(key); else chosen.set(key, slot);
}

for (const toggle of toggles) {
  const slot = [...toggle.classList].find((name) => /^c\d$/.test(name));
  if (slot) chosen.set(toggle.dataset.key, Number(slot[1]));
  const light = (on) => {
    for (const line of document.querySelectorAll(`.line[data-key="${toggle.dataset.key}"]`)) line.classList.toggle("lit", on);
  };
  for (const name of ["pointerenter", "focusin"]) toggle.addEventListener(name, () => light(true));
  for (const name of ["pointerleave", "focusout"]) toggle.addEventListener(name, () => light(false));
  toggle.querySelector("input").addEventListener("change", (event) => {
    const key = toggle.dataset.key;
    if (!event.target.checked) { paint(key, null); return; }
    if (chosen.size >= SLOTS) paint(chosen.keys().next().value, null);
    const used = new Set(chosen.values());
    paint(key, [...Array(SLOTS).keys()].find((i) => !used.has(i)));
  });
}

const opened = [];
window.addEventListener("beforeprint", () => {
  for (const details of document.querySelectorAll("details:not([open])")) { details.open = true; opened.push(details); }
});
window.addEventListener("afterprint", () => { while (opened.length) opened.pop().open = false; });
