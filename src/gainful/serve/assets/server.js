// Requests to the server that the page comes from.

const $ = (id) => document.getElementById(id);
const MEBIBYTE = 1 << 20;
const LARGEST_FILE = 16 * MEBIBYTE;

async function ask(path, body) {
  const headers = $("token").value ? { Authorization: `Bearer ${$("token").value}` } : {};
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const options = body === undefined ? { headers } : { method: "POST", headers, body: JSON.stringify(body) };
  let response;
  try {
    response = await fetch(path, options);
  } catch {
    throw new Error("the server does not answer; is it still running?");
  }
  const answer = await response.json().catch(() => ({ error: `the server answered ${response.status}` }));
  if (response.status === 401) {
    $("token-line").hidden = false;
    throw new Error($("token").value ? "this is not the server's token" : "this server asks for its token");
  }
  if (!response.ok) throw new Error(answer.error);
  return answer;
}

// The models to show: one, or two side by side.
async function askForModels() {
  const facts = await ask("model");
  if (facts.beside === null) return [{ path: "", letter: "", facts }];
  return [{ path: "a/", letter: "A", facts }, { path: "b/", letter: "B", facts: facts.beside }];
}

// Work for one of the models; where there are two, a mistake says whose it is.
async function blame(side, work) {
  try {
    return await work();
  } catch (error) {
    if (side.letter) error.message = `${side.letter}: ${error.message}`;
    throw error;
  }
}

// The rank and score of each document of a query, by its place among them.
async function rankQuery(side, q) {
  const documents = side.queries[q].documents.map(({ features }) => ({ features }));
  const answer = await ask(`${side.path}rank`, { documents });
  const ranked = new Array(documents.length);
  for (const { place, rank, score } of answer.documents) ranked[place] = { rank, score };
  return { version: answer.model_version, ranked };
}

// What the features add to one score, or to the difference of two.
async function explain(side, documents, limit) {
  const features = documents.map((one) => one.features);
  const answer = features.length === 1
    ? await ask(`${side.path}score`, { rows: features, contributions: true, top_features: limit })
    : await ask(`${side.path}pair`, { a: features[0], b: features[1], top_features: limit });
  if (answer.model_version !== side.version) throw new Error("the model was replaced since this ranking; rank again");
  return answer.explanations?.[0] ?? answer;
}

async function readFile(file) {
  const refusal = (why) => new Error(`${file.name} ${why}; the page reads CSV, JSON and LETOR text`);
  if (file.size > LARGEST_FILE) throw refusal(`has more than ${LARGEST_FILE / MEBIBYTE} MiB`);
  const bytes = await file.arrayBuffer();
  if (new Uint8Array(bytes).includes(0)) throw refusal("is not text");
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    throw refusal("is not text in UTF-8");
  }
}

// Made-up documents of two queries, with the features of all models.
function exampleRows(sides) {
  const names = [...new Set(sides.flatMap(({ facts }) => namesOf(facts)))];
  const texts = new Set(sides.flatMap(({ facts }) => facts.text_features ?? []));
  const quote = (name) => (/[",;\t\n]/.test(name) ? `"${name.replaceAll('"', '""')}"` : name);
  const rows = ["a", "b", "c", "d", "e", "f", "g"].map((id, i) => [i < 4 ? 1 : 2, id,
    ...names.map((name, j) => (texts.has(name) ? "" : Math.round(100 * Math.abs(Math.sin(1 + 3 * i + 7 * j))) / 100))]);
  return [["qid", "doc_id", ...names.map(quote)], ...rows].map((row) => `${row.join(",")}\n`).join("");
}
