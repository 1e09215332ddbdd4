// Any two rankers, query by query: totals, bars, a list to search, the documents of a query, and why one moved.
// All text goes in as text, never as markup. Native lists and tables bring the keyboard with them.
const MOST_BARS = 380, MOST_LISTED = 300;
const seen = JSON.parse(document.getElementById("comparison").textContent).explorer;
// From a picture, because a page that loads nothing had better contain no address.
const SVG = document.createRange().createContextualFragment("<svg></svg>").firstChild.namespaceURI;

function make(tag, attributes = {}, ...children) {
  const svg = ["svg", "path", "rect", "text", "g", "title"].includes(tag);
  const element = svg ? document.createElementNS(SVG, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) if (value !== null) element.setAttribute(name, value);
  element.append(...children.filter((child) => child !== null));
  return element;
}

const figures = (value, digits = 4) => value === null ? "–" : value.toFixed(digits);
const signed = (value, digits = 4) => {
  if (value === null) return "–";
  const size = Math.abs(value).toFixed(digits);
  return Number(size) === 0 ? size : (value < 0 ? "−" : "+") + size;
};
// A name may go on in the next line after such a sign, as in parts.py.
const breakable = (name) => String(name).split(/(?<=[_:=/])(?=\w)|(?<=\.)(?=[^\W\d])/).flatMap((part, i) => i ? [make("wbr"), part] : [part]);
const choice = (options, chosen) => options.map(([value, text]) => {
  const option = make("option", { value }, text);
  option.selected = value === chosen;
  return option;
});

function explore(root) {
  const labels = seen.labels, state = { a: 0, b: Math.min(1, labels.length - 1), order: "won", text: "", segment: "", query: null };
  const named = labels.map((label, i) => [i, label]), noun = seen.noun[0].toUpperCase() + seen.noun.slice(1);
  const pickA = make("select", { id: "ranker-a" }, ...choice(named, state.a));
  const pickB = make("select", { id: "ranker-b" }, ...choice(named, state.b));
  const swap = make("button", { type: "button", id: "swap" }, "Swap");
  const total = make("p", { id: "pair-total", "aria-live": "polite" });
  const bars = make("figure", { id: "pair-bars" });
  const search = make("input", { type: "search", id: "query-search", autocomplete: "off", spellcheck: "false" });
  const order = make("select", { id: "query-order" });
  const names = seen.segments ? [...new Set(seen.segments)].sort() : [];
  const segment = make("select", { id: "query-segment" }, ...choice([["", "all"], ...names.map((name) => [name, name])], ""));
  const list = make("select", { id: "query-list", size: 8, "aria-label": "Queries" });
  const count = make("p", { id: "query-count", "aria-live": "polite" });
  const view = make("div", { id: "query-view" });
  const field = (text, control) => make("label", { class: "field" }, make("span", {}, text), control);
  root.append(
    make("div", { class: "controls" }, field(`${noun} A`, pickA), field(`${noun} B`, pickB), swap), total, bars,
    make("div", { class: "controls" }, field("Find a query", search), field("Order", order),
      seen.segments ? field("Segment", segment) : null),
    list, count, view);

  const difference = (q) => {
    const a = seen.values[state.a][q], b = seen.values[state.b][q];
    return a === null || b === null ? null : a - b;
  };
  const describe = (q, mark = "") => `${seen.ids[q]}${seen.folds ? `, fold ${seen.folds[q]}` : ""}${mark}: ` +
    `${signed(difference(q))} (A ${figures(seen.values[state.a][q])}, B ${figures(seen.values[state.b][q])})`;
  const words = (q) => `Query ${describe(q)}`;
  // What the page knows of each query; the list says so only where queries differ in it.
  const kinds = seen.ids.map((_, q) => seen.parts[q] ? ", explained" : seen.documents[q] ? ", with documents" : "");
  const differ = new Set(kinds).size > 1;

  function chosenQueries() {
    const text = state.text.toLowerCase();
    const found = seen.ids.map((_, q) => q).filter((q) => difference(q) !== null &&
      seen.ids[q].toLowerCase().includes(text) && (state.segment === "" || seen.segments[q] === state.segment));
    const keys = { won: (q) => -difference(q), lost: difference, most: (q) => -Math.abs(difference(q)), file: (q) => q };
    return found.sort((p, q) => keys[state.order](p) - keys[state.order](q) || p - q);
  }

  function showTotal() {
    const swapped = state.a > state.b, low = Math.min(state.a, state.b), high = Math.max(state.a, state.b);
    if (state.a === state.b) { total.textContent = "A and B are the same; choose another one."; return; }
    // Pairs (i, j), i < j, in order.
    const n = labels.length, pair = seen.pairs[low * n - low * (low + 1) / 2 + high - low - 1];
    const [mean, from, to] = swapped ? [-pair[0], pair[2] === null ? null : -pair[2], pair[1] === null ? null : -pair[1]] : pair;
    const [won, lost] = swapped ? [pair[5], pair[3]] : [pair[3], pair[5]];
    const interval = from === null ? "" : `, ${(100 * seen.level).toPrecision(3).replace(/\.?0+$/, "")} % interval [${signed(from)}, ${signed(to)}]`;
    total.replaceChildren(make("strong", {}, labels[state.a]), " minus ", make("strong", {}, labels[state.b]),
      ` on ${seen.measure}: ${signed(mean)}${interval}. A is better on ${won} queries, equal on ${pair[4]}, worse on ${lost}.`);
  }

  function showList(chosen) {
    const shown = chosen.slice(0, MOST_LISTED);
    if (state.query !== null && chosen.includes(state.query) && !shown.includes(state.query)) shown.push(state.query);
    list.replaceChildren(...choice(shown.map((q) => [q, describe(q, differ ? kinds[q] : "")]), state.query));
    const more = shown.length < chosen.length ? `; the first ${shown.length} are listed` : "";
    const left = seen.ids.length < seen.n_queries ? ` The page has ${seen.ids.length} of ${seen.n_queries} queries, those on which rankers differ most.` : "";
    count.textContent = `${chosen.length} ${chosen.length === 1 ? "query" : "queries"}${more}.${left}`;
  }

  function choose(q) {
    state.query = q;
    for (const option of list.options) option.selected = Number(option.value) === q;
    for (const bar of bars.querySelectorAll("rect")) bar.classList.toggle("chosen", Number(bar.dataset.query) === q);
    view.replaceChildren(...queryView(seen, state, difference));
  }

  function refresh() {
    const chosen = chosenQueries();
    if (!chosen.includes(state.query)) state.query = chosen[0] ?? null;
    showTotal();
    const sorted = chosen.slice().sort((p, q) => difference(q) - difference(p) || p - q);
    drawBars(bars, sorted, difference, words, choose, () => state.query);
    showList(chosen);
    if (state.query === null) view.replaceChildren(); else choose(state.query);
  }

  function nameOrders() {
    order.replaceChildren(...choice([["won", "A better by most"], ["lost", "B better by most"], ["most", "largest difference"],
      ["file", "as in the data"]], state.order));
  }

  const changes = { change: [[pickA, "a", Number], [pickB, "b", Number], [order, "order", String], [segment, "segment", String]],
    input: [[search, "text", String]] };
  for (const [event, controls] of Object.entries(changes)) {
    for (const [control, name, read] of controls) control.addEventListener(event, () => { state[name] = read(control.value); refresh(); });
  }
  swap.addEventListener("click", () => {
    [state.a, state.b] = [state.b, state.a];
    [pickA.value, pickB.value] = [state.a, state.b];
    refresh();
  });
  search.addEventListener("keydown", (event) => { if (event.key === "ArrowDown" || event.key === "Enter") { list.focus(); event.preventDefault(); } });
  list.addEventListener("change", () => choose(Number(list.value)));
  nameOrders();
  refresh();
}

// Thin bars are hard to hit, so the whole plot listens; the arrow keys walk along it.
function drawBars(figure, queries, difference, words, choose, current) {
  const step = Math.max(1, (queries.length - 1) / (MOST_BARS - 1));
  const shown = queries.length <= MOST_BARS ? queries : Array.from({ length: MOST_BARS }, (_, i) => queries[Math.round(i * step)]);
  if (!shown.length) { figure.replaceChildren(); return; }
  const values = shown.map(difference), width = 400, height = 200, left = 40, right = 8, top = 20, bottom = 28;
  const span = Math.max(...values.map(Math.abs)) || 1;
  const high = Math.max(0, ...values) + 0.05 * span, low = Math.min(0, ...values) - 0.05 * span;
  const y = (value) => height - bottom - (height - bottom - top) * (value - low) / (high - low);
  const each = (width - left - right) / shown.length, gap = each > 3 ? 0.2 * each : 0;
  const svg = make("svg", { class: "plot pick", viewBox: `0 0 ${width} ${height}`, role: "img", tabindex: 0,
    "aria-label": "Difference A minus B on each query, sorted. The arrow keys choose a query; the list below has the same queries." });
  const unit = 10 ** Math.floor(Math.log10((high - low) / 4)), tick = [1, 2, 5, 10].map((m) => m * unit).find((s) => (high - low) / s <= 5) ?? 10 * unit;
  for (let mark = Math.ceil(low / tick); mark * tick <= high; mark++) {
    const place = y(mark * tick).toFixed(1);
    svg.append(make("path", { class: "grid", d: `M${left} ${place}H${width - right}` }),
      make("text", { class: "end", x: left - 5, y: Number(place) + 4 }, String(Number((mark * tick).toPrecision(3))).replace("-", "−")));
  }
  svg.append(make("text", { class: "start name", x: 2, y: 11 }, `Δ ${seen.measure}`),
    make("text", { class: "middle name", x: (left + width - right) / 2, y: height - 8 }, queries.length === 1 ? "1 query" : `${queries.length} queries, sorted`));
  shown.forEach((q, i) => {
    const value = values[i], from = y(Math.max(value, 0)), tall = Math.max(Math.abs(y(value) - y(0)), 0.4);
    svg.append(make("rect", { class: value > 0 ? "won" : value < 0 ? "lost" : "same", x: (left + i * each + gap / 2).toFixed(2), y: from.toFixed(1),
      width: (each - gap).toFixed(2), height: tall.toFixed(1), "data-query": q }, make("title", {}, words(q))));
  });
  svg.append(make("path", { class: "zero", d: `M${left} ${y(0).toFixed(1)}H${width - right}` }));
  const tip = make("figcaption", { class: "tip", "aria-live": "polite" }, "Point at a bar to see its query; click it to open the query.");
  const at = (event) => {
    const box = svg.getBoundingClientRect();
    const i = Math.floor(((event.clientX - box.left) * width / box.width - left) / each);
    return i >= 0 && i < shown.length ? shown[i] : null;
  };
  svg.addEventListener("pointermove", (event) => { const q = at(event); if (q !== null) tip.textContent = words(q); });
  svg.addEventListener("click", (event) => { const q = at(event); if (q !== null) { choose(q); tip.textContent = words(q); } });
  svg.addEventListener("keydown", (event) => {
    const moves = { ArrowLeft: -1, ArrowRight: 1, Home: -shown.length, End: shown.length };
    if (!(event.key in moves)) return;
    const place = Math.max(0, shown.indexOf(current())) + moves[event.key];
    const q = shown[Math.min(shown.length - 1, Math.max(0, place))];
    choose(q);
    tip.textContent = words(q);
    event.preventDefault();
  });
  figure.replaceChildren(svg, tip);
}

// The documents of one query in the order of both rankers.
function queryView(data, state, difference) {
  const q = state.query, entry = data.documents[q], { a, b } = state;
  const title = make("h3", {}, `Query ${data.ids[q]}: A ${figures(data.values[a][q])}, B ${figures(data.values[b][q])} (${signed(difference(q))})`);
  if (!entry) {
    const why = Object.keys(data.documents).length ? "The page has no documents of this query; the list says of which queries it has." : null;
    return why ? [title, make("p", {}, why)] : [title];
  }
  const ranks = [entry.ranks[a], entry.ranks[b]], scores = [entry.scores[a], entry.scores[b]];
  const rows = entry.ids.map((_, i) => i).filter((i) => Math.min(ranks[0][i], ranks[1][i]) <= data.top);
  rows.sort((i, j) => ranks[0][i] - ranks[0][j] || ranks[1][i] - ranks[1][j]);
  const strip = (side) => make("div", { class: "strip" }, make("span", {}, `${"AB"[side]}: ${data.labels[[a, b][side]]}`),
    make("ol", { "aria-label": "Grades by rank" }, ...rows.filter((i) => ranks[side][i] <= data.top)
      .sort((i, j) => ranks[side][i] - ranks[side][j])
      .map((i) => make("li", { style: `--g:${(entry.grades[i] / data.grade).toFixed(2)}`, title: entry.ids[i] }, String(entry.grades[i])))));
  const why = make("div", { id: "why", "aria-live": "polite" });
  const explained = data.parts[q];
  const cell = (value, text = String(value)) => make("td", { "data-value": value }, text);
  const body = rows.map((i) => {
    const name = explained ? make("button", { type: "button", class: "why" }, ...breakable(entry.ids[i])) : make("span", {}, ...breakable(entry.ids[i]));
    if (explained) name.addEventListener("click", () => why.replaceChildren(...whyMoved(data, state, i)));
    const moved = ranks[1][i] - ranks[0][i];
    return make("tr", {}, make("th", { scope: "row", "data-value": entry.ids[i] }, name), cell(entry.grades[i]), cell(ranks[0][i]),
      cell(scores[0][i]), cell(ranks[1][i]), cell(scores[1][i]), cell(moved, moved > 0 ? `A ${moved} higher` : moved < 0 ? `B ${-moved} higher` : "–"));
  });
  const table = tableOf(["document", "grade", "rank A", "score A", "rank B", "score B", "moved"], body, "documents",
    `Documents of query ${data.ids[q]} in the top ${data.top} of A or B`);
  // A relevant document that moved says more about the measure than another one.
  const relevant = rows.filter((i) => entry.grades[i] > 0), told = relevant.length ? relevant : rows;
  const furthest = explained && told.length ? told.reduce((i, j) => Math.abs(ranks[1][j] - ranks[0][j]) > Math.abs(ranks[1][i] - ranks[0][i]) ? j : i) : null;
  if (furthest !== null) why.append(...whyMoved(data, state, furthest));
  const hint = explained ? make("p", { class: "tip" }, "Choose a document to see why A and B place it where they do.") : null;
  return [title, make("div", { class: "strips" }, strip(0), strip(1)), table, ...(hint ? [hint] : []), why];
}

function tableOf(head, rows, id, caption) {
  const headings = head.map((text) => make("th", { scope: "col", "aria-sort": "none" }, make("button", { type: "button" }, text)));
  const table = make("table", { id, class: "sortable" }, make("caption", {}, caption), make("thead", {}, make("tr", {}, ...headings)), make("tbody", {}, ...rows));
  makeSortable(table);
  return make("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": caption }, table);
}

// The contributions of both rankers to the place of one document, side by side.
function whyMoved(data, state, i) {
  const q = state.query, entry = data.documents[q], parts = data.parts[q];
  const sides = [state.a, state.b].map((ranker) => parts.rankers[ranker]);
  const names = [...parts.features.map((j) => data.features[j]), `${data.features.length - parts.features.length} other features`];
  const kept = names.map((_, j) => j).filter((j) => j < parts.features.length || data.features.length > parts.features.length);
  const value = (side, j) => sides[side] === null ? null : sides[side][i][j];
  const apart = (j) => (value(0, j) ?? 0) - (value(1, j) ?? 0);
  const rest = parts.features.length;
  kept.sort((j, k) => (j === rest) - (k === rest) || Math.abs(apart(k)) - Math.abs(apart(j)));
  const most = Math.max(...kept.flatMap((j) => [Math.abs(value(0, j) ?? 0), Math.abs(value(1, j) ?? 0)])) || 1;
  const bar = (v) => make("span", { class: "signed", "aria-hidden": "true" },
    make("span", { class: v < 0 ? "lost" : "won", style: `width:${(50 * Math.abs(v) / most).toFixed(1)}%;${v < 0 ? "right" : "left"}:50%` }));
  const cell = (v) => v === null ? make("td", {}, "–") : make("td", { "data-value": v }, bar(v), signed(v, 2));
  const rows = kept.map((j) => make("tr", {}, make("th", { scope: "row", "data-value": names[j] }, ...breakable(names[j])), cell(value(0, j)), cell(value(1, j)),
    sides.includes(null) ? make("td", {}, "–") : make("td", { "data-value": apart(j) }, signed(apart(j), 2))));
  const title = `Why document ${entry.ids[i]} is at rank ${entry.ranks[state.a][i]} of A and ${entry.ranks[state.b][i]} of B`;
  const silent = [state.a, state.b].filter((ranker) => parts.rankers[ranker] === null).map((ranker) => data.labels[ranker]);
  const note = "What each feature adds to the score, compared with the mean over the query's documents. Unit: the standard deviation of the ranker's scores on this query." +
    (silent.length ? ` No contributions are known of ${[...new Set(silent)].join(" and ")}.` : "");
  return [make("h3", {}, title), tableOf(["feature", "A", "B", "A − B"], rows, "contributions", title), make("p", {}, note)];
}

if (seen && document.getElementById("explorer")) explore(document.getElementById("explorer"));
