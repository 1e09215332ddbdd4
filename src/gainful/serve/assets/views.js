// Elements that show rankings and explanations.

function element(name, { text, ...settings } = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(settings)) {
    if (key.startsWith("on") || key === "className") made[key] = value;
    else if (value !== undefined) made.setAttribute(key, value);
  }
  if (text !== undefined) made.textContent = text;
  made.append(...children);
  return made;
}

// A name may go on in the next line after such a sign.
const breakable = (name) => String(name).split(/(?<=[_:=/])(?=\w)|(?<=\.)(?=[^\W\d])/).flatMap((part, i) => (i ? [element("wbr"), part] : [part]));
const figure = (value) => (value === null ? "missing" : typeof value === "string" ? value : String(Number(value.toPrecision(4))));
const signed = (value) => (value > 0 ? "+" : "") + figure(value);
const plural = (n, word) => `${n.toLocaleString("en")} ${word}${n === 1 ? "" : "s"}`;
const modelLine = ({ letter, facts }) => `${letter ? `${letter}: ` : ""}${facts.file}, ${facts.ranker}, ${plural(facts.n_features, "feature")}, `
  + `version ${facts.model_version}${facts.refused ? `; a newer file was refused: ${facts.refused}` : ""}`;

// -- rankings ------------------------------------------------------------------------------------------------------

const COLUMNS = {
  rank: { title: "#", label: "rank", cell: (row) => element("td", { className: "rank", text: row.rank }) },
  document: { title: "document" },
  moved: { title: "moved", cell: (row) => moveCell(row.moved) },
  grade: { title: "grade", cell: (row) => element("td", { className: "grade", text: row.grade === null ? "" : figure(row.grade) }) },
  score: { title: "score", cell: (row) => element("td", { className: "score", text: figure(row.score) }) },
};

function moveCell(moved) {
  if (moved === 0) return element("td", { className: "soft", text: "=", "aria-label": "same rank" });
  const up = moved > 0, n = Math.abs(moved);
  return element("td", { className: up ? "rose" : "fell", text: `${up ? "▲" : "▼"} ${n}`, "aria-label": `${up ? "up" : "down"} ${n}` });
}

// rows: {place, document, rank, score, grade, moved}; a click on a document calls choose(place).
function rankingTable(caption, rows, columns, choose) {
  const body = element("tbody");
  const lines = rows.map((row) => ({
    row,
    line: element("tr", { "data-place": row.place }, ...columns.map((name) => (name === "document"
      ? element("th", { scope: "row" }, element("button", { type: "button", className: "document", "aria-pressed": "false",
        title: row.document, onclick: () => choose(row.place), onkeydown: moveFocus }, element("span", {}, ...breakable(row.document))))
      : COLUMNS[name].cell(row)))),
  }));
  const heads = Object.fromEntries(columns.map((name) => [name, element("th", { scope: "col", className: name },
    element("button", { type: "button", text: COLUMNS[name].title, "aria-label": COLUMNS[name].label, onclick: () => sort(name) }))]));
  function sort(name) {
    // Best first: the largest score, grade and rise, but the smallest rank.
    const before = heads[name].getAttribute("aria-sort"), falls = ["score", "grade", "moved"].includes(name);
    const direction = before === null ? (falls ? "descending" : "ascending") : before === "ascending" ? "descending" : "ascending";
    for (const head of Object.values(heads)) head.removeAttribute("aria-sort");
    heads[name].setAttribute("aria-sort", direction);
    const sign = direction === "ascending" ? 1 : -1;
    lines.sort((a, b) => sign * compare(a.row[name], b.row[name]) || a.row.rank - b.row.rank);
    body.append(...lines.map(({ line }) => line));
  }
  sort("rank");
  return element("table", { className: "ranking" }, element("caption", { text: caption }),
    element("thead", {}, element("tr", {}, ...columns.map((name) => heads[name]))), body);
}

function compare(a, b) {
  if (a === null || b === null) return (a === null) - (b === null);
  return typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en", { numeric: true });
}

// Arrow keys go from document to document.
function moveFocus(event) {
  const step = { ArrowDown: "nextElementSibling", ArrowUp: "previousElementSibling" }[event.key];
  const line = step && event.currentTarget.closest("tr")[step];
  if (!line) return;
  event.preventDefault();
  line.querySelector("button").focus();
}

function markChosen(chosen) {
  for (const line of document.querySelectorAll("tr[data-place]")) {
    const isChosen = chosen.includes(Number(line.dataset.place));
    line.classList.toggle("chosen", isChosen);
    line.querySelector("button").setAttribute("aria-pressed", String(isChosen));
  }
}

// -- explanations --------------------------------------------------------------------------------------------------

function effect(value, most) {
  const bar = element("span", { className: value < 0 ? "down" : "up" });
  bar.style.width = `${most > 0 ? (50 * Math.abs(value)) / most : 0}%`;
  return element("td", { className: "effect" }, element("div", { className: "axis", "aria-hidden": "true" }, bar));
}

function effectTable(caption, heads, rows, sums) {
  const most = Math.max(...rows.map((row) => Math.abs(row.effect)), 0);
  const cells = ({ cells: [name, ...values] }) => [element("th", { scope: "row" }, ...breakable(name)), ...values.map((text) => element("td", { text }))];
  const head = [...heads, "adds"].map((text) => element("th", { text, title: text, scope: "col" }));
  return element("table", { className: "effects" }, element("caption", { text: caption }),
    element("thead", {}, element("tr", {}, ...head, element("td", { className: "effect" }))),
    element("tbody", {},
      ...rows.map((row) => element("tr", {}, ...cells(row), element("td", { text: signed(row.effect) }), effect(row.effect, most))),
      ...sums.map(([text, value]) => element("tr", { className: "sum" }, element("th", { text, scope: "row" }),
        ...heads.slice(1).map(() => element("td")), element("td", { text: value }), element("td")))));
}

function pairSentence(side, [a, b], names) {
  const [one, other] = [side.ranked[a], side.ranked[b]], gap = figure(Math.abs(one.score - other.score));
  return one.score === other.score ? `${names[0]} and ${names[1]} have the same score`
    : `${names[0]} is ${one.score > other.score ? "above" : "below"} ${names[1]}, by ${gap}`;
}

const restRow = (side, found) => (found.features.length < side.facts.n_features ? [["other features", signed(found.rest)]] : []);

function explanationTable(side, places, names, found) {
  if (places.length === 1) {
    const rows = found.features.map((f) => ({ cells: [f.feature, figure(f.value)], effect: f.contribution }));
    return effectTable(`${names[0]} is number ${side.ranked[places[0]].rank}, with a score of ${figure(found.score)}`, ["feature", "value"], rows,
      [...restRow(side, found), ["base, before any feature", signed(found.base)], ["score", figure(found.score)]]);
  }
  const rows = found.features.map((f) => ({ cells: [f.feature, figure(f.value_a), figure(f.value_b)], effect: f.difference }));
  return effectTable(pairSentence(side, places, names), ["feature", ...names], rows,
    [...restRow(side, found), ["difference", signed(found.difference)]]);
}

// For a model whose scores are not sums over features: the scores, and why there is no more.
function scoresOnly(side, places, names) {
  const said = places.length === 2 ? pairSentence(side, places, names)
    : `${names[0]} is number ${side.ranked[places[0]].rank}, with a score of ${figure(side.ranked[places[0]].score)}`;
  return [element("p", { text: `${said}.` }), element("p", { className: "soft", text: `No explanation: ${side.facts.why_no_contributions}.` })];
}
