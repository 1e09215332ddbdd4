// JSON: the bodies that the server reads, lists of rows, and objects with feature names, also one per line.

const SETTINGS = ["top", "contributions", "top_features"]; // of a request; the page has its own
const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value);
const isPlain = (value) => value === null || typeof value !== "object";
const inWords = (value) => (Array.isArray(value) ? "a list" : isObject(value) ? "an object" : JSON.stringify(value) ?? "nothing");

function readJson(text, model) {
  const { value, places } = parseJson(text);
  const refuseAt = (path, message) => {
    const [start, end] = places(path);
    return refuse(text, start, message, end - start);
  };
  return new JsonReader(model, refuseAt).read(value);
}

class JsonReader {
  constructor(model, refuseAt) {
    Object.assign(this, { model, refuseAt, names: namesOf(model), unused: new Set() });
  }

  read(given) {
    const queries = Array.isArray(given) ? this.list(given, []) : this.body(given);
    if (!queries.some((query) => query.documents.length)) this.refuseAt([], "expected documents, found none");
    return { queries, unused: [...this.unused] };
  }

  // The body of a request to /rank, /score or /pair, or one row.
  body(given) {
    const known = ["documents", "queries", "rows"].filter((name) => name in given && !this.names.includes(name));
    if (known.length > 1) this.refuseAt([known[1]], `expected ${known[0]} or ${known[1]}, found both`);
    if (!known.length && "a" in given && "b" in given && !this.names.includes("a"))
      return [{ id: null, documents: ["a", "b"].map((id) => ({ id, grade: null, features: this.features(given[id], [id]) })) }];
    if (!known.length) return this.list([given], null);
    const [name] = known;
    for (const other of Object.keys(given))
      if (other !== name && !SETTINGS.includes(other)) this.refuseAt([other], `expected only ${name} and settings of a request, found ${other}`);
    if (!Array.isArray(given[name])) this.refuseAt([name], `expected a list, found ${inWords(given[name])}`);
    return this.list(given[name], [name], name === "queries");
  }

  list(rows, path, areQueries = rows.length > 0 && rows.every((row) => isObject(row) && "documents" in row)) {
    const pathOf = (i) => (path === null ? [] : [...path, i]);
    if (areQueries) return rows.map((row, i) => this.query(row, pathOf(i)));
    return byQuery(rows.map((row, i) => this.row(row, pathOf(i), i)));
  }

  query(query, path) {
    if (!isObject(query) || !Array.isArray(query.documents)) this.refuseAt(path, "expected a query with a list of documents");
    const documents = query.documents.map((row, i) => this.row(row, [...path, "documents", i], i));
    return { id: this.id(query.id ?? null, [...path, "id"]), documents: documents.map(({ qid, ...row }) => row) };
  }

  row(row, path, i) {
    if (Array.isArray(row)) return { qid: null, id: i, grade: null, features: this.features(row, path) };
    if (!isObject(row)) this.refuseAt(path, `expected a list of numbers or an object, found ${inWords(row)}; one row is [[1, 2, …]]`);
    if ("features" in row && !isPlain(row.features)) {
      const more = Object.keys(row).find((name) => name !== "id" && name !== "features" && !hasRole(name));
      if (more !== undefined) this.refuseAt([...path, more], `expected id and features of a document, found ${more}`);
      return { ...this.roles(row, path, i), features: this.features(row.features, [...path, "features"]) };
    }
    const given = {};
    for (const [name, value] of Object.entries(row)) {
      if (this.names.includes(name)) given[name] = value;
      else if (name !== "id" && !hasRole(name)) this.unused.add(name);
    }
    if (!Object.keys(given).length)
      this.refuseAt(path, `expected features such as ${shorten(this.names[0])}, found ${shorten(Object.keys(row).join(", ") || "no names")}`);
    return { ...this.roles(row, path, i), features: this.features(given, path) };
  }

  roles(row, path, i) {
    const names = Object.keys(row);
    const roles = rolesOf(names, this.model, (at, message) => this.refuseAt([...path, names[at]], message));
    const value = (role) => row[names[roles[role]]] ?? null;
    const grade = value("grade");
    if (grade !== null && typeof grade !== "number")
      this.refuseAt([...path, names[roles.grade]], `expected a number as grade, found ${inWords(grade)}`);
    const id = (this.names.includes("id") ? null : row.id ?? null) ?? value("doc_id") ?? i;
    const idName = row.id === id ? "id" : names[roles.doc_id];
    return { qid: this.id(value("qid"), [...path, names[roles.qid]]), id: this.id(id, [...path, idName]), grade };
  }

  id(value, path) {
    if (!isPlain(value)) this.refuseAt(path, `expected text or a number, found ${inWords(value)}`);
    return value;
  }

  features(given, path) {
    const { n_features: n } = this.model;
    if (Array.isArray(given)) {
      if (given.length !== n) this.refuseAt(path, `expected ${n} features, as the model has, found ${given.length}`);
      return given.map((value, j) => this.number(value, this.names[j], [...path, j]));
    }
    if (!isObject(given)) this.refuseAt(path, `expected a list of features or an object with their names, found ${inWords(given)}`);
    const unknown = Object.keys(given).find((name) => !this.names.includes(name));
    if (unknown !== undefined)
      this.refuseAt([...path, unknown], `expected a feature of the model, such as ${shorten(this.names[0])}, found ${shorten(unknown)}`);
    return this.names.map((name) => (Object.hasOwn(given, name)
      ? this.number(given[name], name, [...path, name]) : this.number(null, name, path)));
  }

  number(value, name, path) {
    if (value === null && this.model.accepts_missing) return null;
    if (this.model.text_features?.includes(name) && typeof value === "string") return value;
    if (value === null) this.refuseAt(path, `expected a number for ${name}: ${this.model.ranker} needs every feature`);
    if (typeof value !== "number" || !Number.isFinite(value)) this.refuseAt(path, `expected a number for ${name}, found ${inWords(value)}`);
    return value;
  }
}

// -- where a value stands ------------------------------------------------------------------------------------------

// The value of a text, and a function from a path in it to a start and end in the text. Objects on lines of their own
// become a list.
function parseJson(text) {
  try {
    return { value: JSON.parse(text), places: (path) => locate(text, path, 0) };
  } catch {
    const lines = text.trimEnd().split("\n");
    if (lines.length < 2 || !lines.every((line) => /^\s*(\{.*\})?\s*$/.test(line))) throw findSyntaxMistake(text);
  }
  // Of the same length but for the bracket in front, so that places stay the same.
  const joined = `[${text.trimEnd().replace(/\n(\s*)(?=\{)/g, ",$1")}]`;
  try {
    return { value: JSON.parse(joined), places: (path) => locate(joined, path, 1) };
  } catch {
    throw findSyntaxMistake(text, true);
  }
}

function locate(text, path, shift) {
  let found = [0, text.length];
  walkJson(text, (at, start, end) => {
    if (at.length === path.length && at.every((part, i) => part === path[i])) found = [start, end];
  });
  return found.map((place) => Math.max(0, place - shift));
}

// Browsers word and place these mistakes each in their own way, or not at all.
function findSyntaxMistake(text, byLine = false) {
  let from = 0;
  try {
    for (const part of byLine ? text.split("\n") : [text]) {
      if (part.trim()) walkJson(part, () => {}, (at, message, length) => refuse(text, from + at, message, length));
      from += part.length + 1;
    }
  } catch (error) {
    return error;
  }
  return new Error("this is not JSON");
}

const DEEPEST = 100;
const TOKENS = /[\s]*(?:([[\]{},:])|("(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*")|(-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w.])|(?:true|false|null)\b))/y;

// Calls visit(path, start, end) for each value, and fail(position, message) at the first mistake.
function walkJson(text, visit, fail = () => {}) {
  let at = 0, token = null, start = 0;
  const wrong = (expected) => {
    start = at + text.slice(at).match(/^\s*/)[0].length;
    const rest = text.slice(start).match(/^("[^\n]*|[^\s,[\]{}:]+|.?)/s)[0];
    fail(start, `expected ${expected}, found ${rest ? shorten(rest, 20) : "the end"}`, rest.length);
    throw new Error("this is not JSON");
  };
  const peek = () => {
    TOKENS.lastIndex = at;
    token = TOKENS.exec(text);
    return token?.[1] ?? (token ? "value" : null);
  };
  const take = (expected, words) => {
    if (!expected.includes(peek())) wrong(words);
    start = TOKENS.lastIndex - (token[1] ?? token[2] ?? token[3]).length;
    at = TOKENS.lastIndex;
    return token[1] ?? "value";
  };
  const members = (path, close, member) => {
    if (path.length >= DEEPEST) wrong(`at most ${DEEPEST} levels`);
    if (peek() === close) return take([close]);
    do member(); while (take([",", close], `a comma or ${close}`) === ",");
    return close;
  };
  const value = (path) => {
    const kind = take(["[", "{", "value"], "a value"), from = start;
    let i = 0;
    if (kind === "[") members(path, "]", () => value([...path, i++]));
    if (kind === "{") members(path, "}", () => {
      if (peek() !== "value" || !token[2]) wrong("a name in quotes");
      take(["value"]);
      const name = JSON.parse(token[2]);
      take([":"], "a colon");
      value([...path, name]);
    });
    visit(path, from, at);
  };
  value([]);
  if (text.slice(at).trim()) wrong("nothing after the end");
}
