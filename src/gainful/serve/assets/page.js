const $ = (id) => document.getElementById(id);
let model = null;

// -- asking the server ---------------------------------------------------------------------------------------------

async function ask(path, body) {
  const headers = $("token").value ? { Authorization: `Bearer ${$("token").value}` } : {};
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const options = body === undefined ? { headers } : { method: "POST", headers, body: JSON.stringify(body) };
  let response;
  try {
    response = await fetch(path, options);
  } catch {
    throw new Error("the server does not answer");
  }
  const told = await response.json().catch(() => ({ error: `the server answered ${response.status}` }));
  if (response.status === 401) $("token-line").hidden = false;
  if (!response.ok) throw new Error(told.error);
  return told;
}

async function meet() {
  try {
    model = await ask("model");
  } catch (error) {
    $("model").textContent = error.message;
    if (!$("token-line").hidden) $("model").textContent = "This server wants its token.";
    return;
  }
  $("model").textContent = `${model.ranker}, ${model.n_features} features, version ${model.model_version}`
    + (model.contributions ? "" : `; ${model.why_no_contributions}`)
    + (model.refused ? `; a newer file was refused: ${model.refused}` : "");
}

function example() {
  const names = model.feature_names ?? Array.from({ length: model.n_features }, (_, j) => `f${j + 1}`);
  const documents = ["a", "b", "c", "d", "e"].map((id, i) => ({
    id,
    features: Object.fromEntries(names.map((name, j) => [name, Math.round(100 * Math.abs(Math.sin(1 + 3 * i + 7 * j))) / 100])),
  }));
  return JSON.stringify({ documents }, null, 1).replace(/\n {4,}/g, " ").replace(/\n {3}\}/g, " }");
}

// -- showing -------------------------------------------------------------------------------------------------------

function element(name, { text, ...settings } = {}, ...children) {
  const made = Object.assign(document.createElement(name), settings);
  if (text !== undefined) made.textContent = text;
  made.append(...children);
  return made;
}

const figure = (value) => (value === null ? "missing" : typeof value === "string" ? value : String(Number(value.toPrecision(4))));
const signed = (value) => (value > 0 ? "+" : "") + figure(value);

function effect(value, most) {
  const bar = element("span", { className: value < 0 ? "down" : "up" });
  bar.style.width = `${most > 0 ? (50 * Math.abs(value)) / most : 0}%`;
  return element("td", { className: "effect" }, element("div", { className: "axis", ariaHidden: "true" }, bar));
}

function table(caption, heads, rows, sums) {
  const most = Math.max(...rows.map((row) => Math.abs(row.effect)), 0);
  const cells = (row) => row.cells.map((text, i) => element(i ? "td" : "th", i ? { text } : { text, scope: "row" }));
  const head = [...heads, "adds"].map((text) => element("th", { text, scope: "col" }));
  return element("table", {}, element("caption", { text: caption }),
    element("thead", {}, element("tr", {}, ...head, element("td", { className: "effect" }))),
    element("tbody", {},
      ...rows.map((row) => element("tr", {}, ...cells(row), element("td", { text: signed(row.effect) }), effect(row.effect, most))),
      ...sums.map(([text, value]) => element("tr", { className: "sum" }, element("th", { text, scope: "row" }),
        ...heads.slice(1).map(() => element("td")), element("td", { text: signed(value) }), element("td")))));
}

function documentItem(found, open) {
  const line = [element("span", { className: "rank", text: `${found.rank}.` }), element("span", { text: String(found.id) }),
    element("span", { className: "score", text: figure(found.score) })];
  const told = found.explanation;
  if (!told) return element("li", {}, element("div", { className: "plain" }, ...line));
  const rows = told.features.map((f) => ({ cells: [f.feature, figure(f.value)], effect: f.contribution }));
  const sums = [["other features", told.rest], ["base", told.base]];
  return element("li", {}, element("details", { open }, element("summary", {}, ...line),
    table("What each feature adds to the score", ["feature", "value"], rows, sums)));
}

function pairTool(documents, query) {
  const choice = (label, at) => {
    const options = documents.map((found, i) => element("option", { text: String(found.id), value: found.place, selected: i === at }));
    return element("select", { ariaLabel: label }, ...options);
  };
  const [a, b] = [choice("document a", 0), choice("document b", 1)];
  const place = element("div", { role: "status", ariaLive: "polite" });
  const button = element("button", { type: "button", text: "Explain" });
  button.onclick = () => attempt(async () => {
    const limit = { top_features: Number($("top-features").value) || 8 };
    const [left, right] = [a, b].map((list) => query.documents[list.value].features);
    const [one, other] = [a, b].map((list) => list.selectedOptions[0].text);
    const told = await ask("pair", { a: left, b: right, ...limit });
    const where = told.difference > 0 ? "above" : told.difference < 0 ? "below" : "level with";
    const rows = told.features.map((f) => ({ cells: [f.feature, figure(f.value_a), figure(f.value_b)], effect: f.difference }));
    place.replaceChildren(table(`${one} is ${where} ${other} by ${figure(Math.abs(told.difference))}`,
      ["feature", one, other], rows, [["other features", told.rest], ["difference", told.difference]]));
  });
  return element("div", {}, element("div", { className: "pair" }, element("span", { text: "Why is" }), a,
    element("span", { text: "above" }), b, element("span", { text: "?" }), button), place);
}

function show(answer, request) {
  const asked = request.queries ?? [{ id: null, documents: request.documents }];
  const queries = answer.queries ?? [{ id: null, documents: answer.documents }];
  $("results").replaceChildren(...queries.flatMap((query, q) => {
    const title = query.id === null || query.id === "" ? "Ranking" : `Query ${query.id}`;
    const items = query.documents.map((found, i) => documentItem(found, q === 0 && i === 0));
    const parts = [element("h2", { text: title }), element("ol", { className: "ranking" }, ...items)];
    if (model.contributions && query.documents.length > 1) parts.push(pairTool(query.documents, asked[q]));
    return parts;
  }));
  const n = asked.reduce((sum, query) => sum + query.documents.length, 0);
  tell(`${n} ${n === 1 ? "document" : "documents"} ranked by version ${answer.model_version}`);
}

function tell(text, isError = false) {
  $("told").textContent = text;
  $("told").className = isError ? "error" : "soft";
}

// What is on the screen is about the rows in the box, never about those before.
function replaceRows(text) {
  $("rows").value = text;
  $("results").replaceChildren();
  tell("");
}

async function attempt(work) {
  try {
    await work();
  } catch (error) {
    tell(error.message, true);
  }
}

// -- the form ------------------------------------------------------------------------------------------------------

$("ask").onsubmit = (event) => {
  event.preventDefault();
  attempt(async () => {
    await meet();
    if (!model) throw new Error($("model").textContent);
    $("results").replaceChildren();
    const request = readRows($("rows").value, model, ROLES);
    tell("ranking …");
    const limits = { top: Number($("top").value) || null };
    if (model.contributions) Object.assign(limits, { contributions: true, top_features: Number($("top-features").value) || null });
    show(await ask("rank", { ...request, ...limits }), request);
  });
};
$("file").onchange = async () => {
  const [file] = $("file").files;
  if (file) replaceRows(await file.text());
  $("file").value = "";
};
$("example").onclick = () => attempt(async () => {
  if (!model) await meet();
  if (!model) throw new Error($("model").textContent);
  replaceRows(example());
});
$("token").onchange = meet;
meet();
