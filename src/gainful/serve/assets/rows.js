// Rows as people have them (LETOR lines, CSV, JSON) → {queries: [{id, documents: [{id, grade, features}]}], unused}.
// Features are in the order of training. What cannot be read is refused with its line and character: a column is a field of CSV.

const EXPECTED = "give JSON, LETOR lines (grade qid:1 1:0.5 …), or CSV whose first line names the columns";
const MISSING = ["", "null", "nan", "na", "n/a", "none", "-nan"];
const NUMBER = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i;

class Refusal extends Error {
  // start and end: what is wrong, as positions in the text
  constructor(message, start, end) {
    super(message);
    Object.assign(this, { start, end });
  }
}

function refuse(text, start, message, length = 1) {
  const before = text.slice(0, start).split("\n");
  throw new Refusal(`line ${before.length}, character ${before.at(-1).length + 1}: ${message}`, start, start + Math.max(1, length));
}

function readRows(text, model) {
  if (!text.trim()) throw new Error("there are no rows yet: paste some, drop or open a file, or take the example");
  if (/^\s*[[{]/.test(text)) return readJson(text, model);
  const lines = linesOf(text);
  const first = lines.find(({ line }) => line.split("#")[0].trim());
  if (!first) throw new Error(`there are only comments, and no rows; ${EXPECTED}`);
  if (/(^|\s)(qid:\S|\d+:\S)/.test(first.line.split("#")[0])) return readLetor(text, lines, model);
  if (/[,;\t]/.test(first.line)) return readCsv(text, first.start, model);
  return refuse(text, first.start, `${EXPECTED}; found ${shorten(first.line)}`, first.line.length);
}

function linesOf(text) {
  let start = 0;
  return text.split("\n").map((line) => {
    const found = { line: line.replace(/\r$/, ""), start };
    start += line.length + 1;
    return found;
  });
}

// Features that LETOR leaves out are 0, as for gainful's own reader.
function readLetor(text, lines, model) {
  const rows = [];
  lines.forEach(({ line, start }, at) => {
    const [left, ...comment] = line.split("#");
    const words = [...left.matchAll(/\S+/g)].map((found) => ({ word: found[0], start: start + found.index }));
    if (!words.length) return;
    const grade = words[0].word.includes(":") ? null : letorGrade(text, words.shift());
    const features = new Array(model.n_features).fill(0), seen = new Set();
    let qid = null;
    for (const { word, start: place } of words) {
      if (/^qid:\S/.test(word)) { qid = word.slice(4); continue; }
      const j = letorFeature(text, place, word, model);
      if (seen.has(j)) refuse(text, place, `expected each feature once, found feature ${j + 1} again`, word.length);
      seen.add(j);
      const after = word.indexOf(":") + 1;
      features[j] = numberAt(text, place + after, word.slice(after), `feature ${j + 1}`, model);
    }
    if (!words.length) refuse(text, start, `expected qid:… or features after the grade, found ${shorten(line)}`, line.length);
    const told = comment.join("#").trim();
    rows.push({ qid, id: told.match(/doc\s*id\s*[=:]\s*(\S+)/i)?.[1] ?? (told || `line ${at + 1}`), grade, features });
  });
  return { queries: byQuery(rows), unused: [] };
}

function letorGrade(text, { word, start }) {
  if (!NUMBER.test(word)) refuse(text, start, `expected a number as grade, found ${shorten(word)}`, word.length);
  return Number(word);
}

function letorFeature(text, start, word, model) {
  const found = word.match(/^(\d+):[^:]+$/);
  if (!found) refuse(text, start, `expected a feature such as 3:0.5, found ${shorten(word)}`, word.length);
  const number = Number(found[1]);
  if (number < 1 || number > model.n_features)
    refuse(text, start, `expected a feature from 1 to ${model.n_features}, as the model has, found ${number}`, word.length);
  return number - 1;
}

// -- what the formats share ----------------------------------------------------------------------------------------

const namesOf = (model) => model.feature_names ?? Array.from({ length: model.n_features }, (_, j) => `f${j + 1}`);

// Which of these names holds the query, the grade and the document, for names that are not features.
function rolesOf(names, model, refuseName) {
  const features = new Set(model.feature_names ?? []), found = {};
  for (const role of ["qid", "grade", "doc_id"]) {
    const columns = names.map((name, i) => i).filter((i) => ROLES[role].includes(names[i].toLowerCase()) && !features.has(names[i]));
    if (columns.length > 1)
      refuseName(columns[1], `expected one column for the ${ROLE_WORDS[role]}, found ${names[columns[0]]} and ${names[columns[1]]}; rename one`);
    found[role] = columns[0] ?? -1;
  }
  return found;
}
const ROLE_WORDS = { qid: "query", grade: "grade", doc_id: "document" };

// Columns that say something about a row without being a feature.
const hasRole = (name) => Object.values(ROLES).some((known) => known.includes(name.toLowerCase()));

function numberAt(text, start, found, what, model) {
  if (MISSING.includes(found.toLowerCase())) {
    if (!model.accepts_missing) refuse(text, start, `expected a number for ${what}: ${model.ranker} needs every feature`, found.length);
    return null;
  }
  const value = NUMBER.test(found) ? Number(found) : NaN;
  if (!Number.isFinite(value)) refuse(text, start, `expected a number for ${what}, found ${shorten(found)}`, found.length);
  return value;
}

function byQuery(rows) {
  const queries = new Map();
  for (const { qid, ...row } of rows) {
    if (!queries.has(qid)) queries.set(qid, []);
    queries.get(qid).push(row);
  }
  return [...queries].map(([id, documents]) => ({ id, documents }));
}

function shorten(text, limit = 40) {
  const line = String(text).trim();
  return `"${line.length > limit ? `${line.slice(0, limit - 1)}…` : line}"`;
}
