"use strict";

// Rows as people have them (JSON, LETOR lines, CSV) → the body of a request; what is none of these is refused.

const EXPECTED = "give JSON, LETOR lines (grade qid:1 1:0.5 …), or CSV whose first line names the columns";
const MISSING = ["", "null", "nan", "na", "n/a", "none", "-nan"];

function readRows(text, model, roles) {
  if (!text.trim()) throw new Error("paste some rows first, open a file, or use the example");
  if (/^\s*[[{]/.test(text)) return readJson(text);
  const lines = text.split(/\r?\n/);
  const at = lines.findIndex((line) => line.split("#")[0].trim());
  if (at < 0) throw new Error("there are no rows");
  if (/(^|\s)(qid:\S|\d+:\S)/.test(lines[at].split("#")[0])) return readLetor(lines, model);
  if (/[,;\t]/.test(lines[at])) return readCsv(lines.map((line, i) => (i < at ? "" : line)).join("\n"), model, roles);
  throw new Error(`line ${at + 1} is not a row: ${shorten(lines[at])}; ${EXPECTED}`);
}

function readJson(text) {
  let given;
  try {
    given = JSON.parse(text);
  } catch (error) {
    throw new Error(`this is not JSON: ${error.message}`);
  }
  if (!Array.isArray(given)) return given;
  if (!given.length) throw new Error("there are no rows");
  const isDocument = (row) => row !== null && !Array.isArray(row) && typeof row === "object" && "features" in row;
  return { documents: given.map((row) => (isDocument(row) ? row : { features: row })) };
}

// Text leaves out features that are 0, as gainful's reader has it.
function readLetor(lines, model) {
  const rows = [];
  lines.forEach((line, at) => {
    const [left, ...comment] = line.split("#");
    const words = left.trim().split(/\s+/).filter(Boolean);
    if (!words.length) return;
    const place = `line ${at + 1}`;
    if (!words[0].includes(":")) numberOf(words.shift(), place, "the grade");
    if (!words.length) throw new Error(`${place} is not a row: ${shorten(line)}; ${EXPECTED}`);
    let qid = "";
    const features = new Array(model.n_features).fill(0);
    for (const word of words) {
      const [name, value, ...more] = word.split(":");
      if (name === "qid" && value) qid = [value, ...more].join(":");
      else features[featureOf(word, model, place)] = numberOf(value, place, `feature ${name}`);
    }
    const told = comment.join("#").trim();
    rows.push({ qid, id: told.match(/doc\s*id\s*[=:]\s*(\S+)/i)?.[1] ?? (told || place), features });
  });
  return byQuery(rows);
}

function featureOf(word, model, place) {
  const number = Number(word.match(/^(\d+):[^:]+$/)?.[1]);
  if (Number.isNaN(number)) throw new Error(`${place}: ${shorten(word)} is not a feature such as 3:0.5`);
  if (number < 1 || number > model.n_features)
    throw new Error(`${place}: feature ${number} is not one of 1 … ${model.n_features}`);
  return number - 1;
}

function readCsv(text, model, roles) {
  const first = text.trimStart().split(/\r?\n/)[0];
  const separator = ["\t", ";", ","].reduce((best, one) => (first.split(one).length > first.split(best).length ? one : best));
  const [head, ...rows] = csvRecords(text, separator);
  const names = head.fields;
  if (names.every((name) => name !== "" && Number.isFinite(Number(name))))
    throw new Error(`line ${head.line} must name the columns, but has only numbers; ${EXPECTED}`);
  const columnOf = Object.fromEntries(Object.entries(roles).map(([role, known]) =>
    [role, names.findIndex((name) => known.includes(name.toLowerCase()) && !model.feature_names?.includes(name))]));
  const columns = featureColumns(names, Object.values(columnOf), model);
  if (!rows.length) throw new Error("there are no rows, only column names");
  return byQuery(rows.map(({ fields, line }) => {
    if (fields.length !== names.length)
      throw new Error(`line ${line} has ${fields.length} fields, and the first line names ${names.length} columns`);
    return {
      qid: fields[columnOf.qid] ?? "",
      id: fields[columnOf.doc_id] || `line ${line}`,
      features: columns.map((column) =>
        (model.text_features ?? []).includes(names[column])
          ? fields[column] || null
          : numberOf(fields[column], `line ${line}`, names[column])),
    };
  }));
}

// The column of each feature: by name; in their order where the model has no names.
function featureColumns(names, taken, model) {
  const left = names.map((_, i) => i).filter((i) => !taken.includes(i));
  const wanted = model.feature_names ?? Array.from({ length: model.n_features }, (_, j) => `f${j + 1}`);
  const named = wanted.map((name) => names.indexOf(name));
  if (!named.includes(-1)) return named;
  if (model.feature_names === null && left.length === model.n_features) return left;
  if (model.feature_names === null)
    throw new Error(`the model has ${model.n_features} features, and there are ${left.length} columns for them`);
  throw new Error(`the feature ${wanted[named.indexOf(-1)]} is not among the columns ${shorten(names.join(", "), 80)}`);
}

// Records of fields; a field in quotes may hold separators, doubled quotes and line ends.
function csvRecords(text, separator) {
  const records = [];
  let field = "", fields = [], quoted = false, line = 1, start = 1;
  const end = () => {
    fields.push(field.trim());
    if (fields.length > 1 || fields[0]) records.push({ fields, line: start });
    [field, fields, start] = ["", [], line + 1];
  };
  for (let i = 0; i < text.length; i++) {
    const c = text[i];
    if (quoted && c === '"' && text[i + 1] === '"') { field += c; i++; }
    else if (c === '"' && (quoted || !field.trim())) quoted = !quoted;
    else if (!quoted && c === separator) { fields.push(field.trim()); field = ""; }
    else if (!quoted && c === "\n") { end(); line++; }
    else { field += c; if (c === "\n") line++; }
  }
  if (quoted) throw new Error(`line ${start}: a quoted field does not end`);
  end();
  return records;
}

function numberOf(text, place, what) {
  if (MISSING.includes(text.toLowerCase())) return null;
  const value = Number(text);
  if (!Number.isFinite(value)) throw new Error(`${place}: ${what} must be a number, was ${shorten(text)}`);
  return value;
}

function byQuery(rows) {
  const queries = new Map();
  for (const { qid, ...row } of rows) {
    if (!queries.has(qid)) queries.set(qid, []);
    queries.get(qid).push(row);
  }
  return { queries: [...queries].map(([id, documents]) => ({ id, documents })) };
}

function shorten(text, limit = 40) {
  const line = text.trim();
  return `"${line.length > limit ? `${line.slice(0, limit - 1)}…` : line}"`;
}
