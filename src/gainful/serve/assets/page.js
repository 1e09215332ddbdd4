// The page: what is on the screen is about the rows in the box and the models that ranked them, never about others.

let sides = null; // the models: {path, letter, facts, queries, version, ranked}
let unused = []; // names of columns that no model uses
let chosen = []; // places of at most two documents
let turn = 0; // of what was asked last; answers to earlier requests are dropped

function say(text, isError = false) {
  $("message").textContent = text;
  $("message").className = isError ? "error" : "soft";
}

function clearRanking() {
  turn++;
  chosen = [];
  $("rankings").replaceChildren();
  $("why").replaceChildren();
}

function clearAll() {
  clearRanking();
  $("picker").hidden = true;
  say("");
}

// Runs work, which gets a function that tells whether something newer was asked meanwhile; shows its mistake.
async function attempt(work) {
  const mine = ++turn;
  const isOld = () => mine !== turn;
  try {
    await work(isOld);
  } catch (error) {
    if (isOld()) return;
    clearRanking();
    say(error.message, true);
    if (error.start === undefined) return;
    $("rows").focus();
    $("rows").setSelectionRange(error.start, error.end);
  }
}

const count = (id) => Math.floor(Math.max(0, Number($(id).value))) || null;

// -- models, rows, rankings ----------------------------------------------------------------------------------------

async function meetModels() {
  try {
    sides = await askForModels();
  } catch (error) {
    sides = null;
    $("models").replaceChildren(element("li", { text: error.message }));
    throw error;
  }
  $("title").textContent = sides.length > 1 ? "Try the models" : "Try the model";
  $("models").replaceChildren(...sides.map((side) => element("li", { text: modelLine(side) })));
}

async function rankRows(isOld) {
  await meetModels();
  if (isOld()) return;
  await readForAll($("rows").value);
  unused = sides[0].unused.filter((name) => sides.every((side) => side.unused.includes(name)));
  const { queries } = sides[0];
  $("query").replaceChildren(...queries.map((query, q) =>
    element("option", { value: q, text: `${query.id ?? "without id"} (${plural(query.documents.length, "document")})` })));
  $("picker").hidden = queries.length < 2;
  await rankPicked(isOld);
}

// A mistake that every model finds is one of the rows; another one says whose it is.
async function readForAll(text) {
  const found = sides.map((side) => {
    try {
      return { rows: readRows(text, side.facts) };
    } catch (error) {
      return { error };
    }
  });
  const [first] = found;
  if (first.error && found.every(({ error }) => error?.message === first.error.message)) throw first.error;
  for (const [i, { rows, error }] of found.entries()) {
    await blame(sides[i], () => {
      if (error) throw error;
      Object.assign(sides[i], rows);
    });
  }
}

async function rankPicked(isOld) {
  const q = $("query").selectedIndex;
  $("previous").disabled = q === 0;
  $("next").disabled = q === sides[0].queries.length - 1;
  say("ranking …");
  const found = await Promise.all(sides.map((side) => blame(side, () => rankQuery(side, q))));
  if (isOld()) return;
  sides.forEach((side, i) => Object.assign(side, found[i]));
  showRankings();
}

const pickedQuery = () => sides[0].queries[$("query").selectedIndex];

function showRankings() {
  const { id, documents } = pickedQuery(), top = count("top") ?? documents.length;
  const graded = documents.some(({ grade }) => (grade ?? null) !== null);
  $("results").className = sides.length > 1 ? "" : "one";
  $("rankings").className = sides.length > 1 ? "two" : "";
  $("rankings").replaceChildren(...sides.map((side, s) => {
    const rows = documents.map(({ id: document, grade = null }, place) =>
      ({ place, document, grade, ...side.ranked[place], moved: sides[0].ranked[place].rank - side.ranked[place].rank }));
    const columns = ["rank", "document", ...(s ? ["moved"] : []), ...(graded ? ["grade"] : []), "score"];
    const caption = side.letter ? `${side.letter}: ${side.facts.file}` : "Ranking";
    return rankingTable(caption, rows.filter((row) => row.rank <= top), columns, choose);
  }));
  markChosen(chosen);
  const parts = [`${plural(documents.length, "document")}${id === null ? "" : ` of query ${id}`} ranked`];
  if (sides.length > 1) {
    const moved = documents.filter((_, i) => sides[0].ranked[i].rank !== sides[1].ranked[i].rank).length;
    parts.push(moved ? `${moved} moved from A to B` : "both models agree on the order");
  }
  if (unused.length) parts.push(`columns not used: ${unused.join(", ")}`);
  say(`${parts.join("; ")}.`);
  if (!chosen.length) $("why").replaceChildren(element("p", { className: "soft", text: "Choose a document to see what makes its score; choose a second one to see why one is above the other." }));
}

// -- explanations --------------------------------------------------------------------------------------------------

function choose(place) {
  chosen = chosen.includes(place) ? chosen.filter((one) => one !== place) : [...chosen.slice(-1), place];
  markChosen(chosen);
  attempt(explainChosen);
}

async function explainChosen(isOld) {
  if (!chosen.length) {
    showRankings();
    return;
  }
  const documents = chosen.map((place) => pickedQuery().documents[place]), names = documents.map(({ id }) => String(id));
  const parts = await Promise.all(sides.map((side) => blame(side, async () => {
    if (!side.facts.contributions) return scoresOnly(side, chosen, names);
    const asked = chosen.map((place) => side.queries[$("query").selectedIndex].documents[place]);
    return [explanationTable(side, chosen, names, await explain(side, asked, count("top-features")))];
  })));
  if (isOld()) return;
  const title = names.length === 1 ? `Why ${names[0]} is where it is` : `${names[0]} against ${names[1]}`;
  $("why").replaceChildren(element("h2", { text: title, role: "status" }), element("div", { className: sides.length > 1 ? "two" : "" },
    ...parts.map((part, i) => element("div", {}, ...(sides[i].letter ? [element("h3", { text: `${sides[i].letter}: ${sides[i].facts.file}` })] : []), ...part))));
  $("why").scrollIntoView({ block: "nearest" });
}

// -- events --------------------------------------------------------------------------------------------------------

function startRanking() {
  clearAll();
  return attempt(rankRows);
}

function replaceRows(text) {
  $("rows").value = text;
  return startRanking();
}

function openFile(file) {
  clearAll();
  return attempt(async (isOld) => {
    const text = await readFile(file);
    if (!isOld()) await replaceRows(text);
  });
}

function pick(q) {
  $("query").selectedIndex = q;
  clearRanking();
  return attempt(rankPicked);
}

$("form").onsubmit = (event) => {
  event.preventDefault();
  startRanking();
};
$("rows").oninput = clearAll;
$("rows").onkeydown = (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) startRanking();
};
$("file").onchange = () => {
  const [file] = $("file").files;
  $("file").value = "";
  return file && openFile(file);
};
$("example").onclick = () => {
  clearAll();
  return attempt(async (isOld) => {
    await meetModels();
    if (!isOld()) await replaceRows(exampleRows(sides));
  });
};
$("query").onchange = () => pick($("query").selectedIndex);
$("previous").onclick = () => pick($("query").selectedIndex - 1);
$("next").onclick = () => pick($("query").selectedIndex + 1);
$("top").onchange = () => $("rankings").hasChildNodes() && showRankings();
$("top-features").onchange = () => chosen.length && attempt(explainChosen);
$("token").onchange = startMeeting;
$("token").onkeydown = (event) => {
  if (event.key !== "Enter") return;
  event.preventDefault(); // the rows may still be empty
  startMeeting();
};
document.onkeydown = (event) => {
  if (event.key !== "Escape" || !chosen.length) return;
  chosen = [];
  turn++;
  showRankings();
};
document.ondragover = (event) => {
  if (event.dataTransfer.types.includes("Files")) event.preventDefault();
};
document.ondrop = (event) => {
  const [file] = event.dataTransfer.files;
  if (!file) return undefined; // dropped text goes where the browser puts it
  event.preventDefault();
  return openFile(file);
};

function startMeeting() {
  clearAll();
  return attempt(meetModels);
}

startMeeting();
