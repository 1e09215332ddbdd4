// CSV, TSV and the like: the first line names the columns, in any order.

function readCsv(text, start, model) {
  const first = text.slice(start).split(/\r?\n/)[0];
  const separator = ["\t", ";", ","].reduce((best, one) => (first.split(one).length > first.split(best).length ? one : best));
  const [head, ...records] = csvRecords(text, start, separator);
  const names = head.map((field) => field.value);
  const refuseName = (i, message) => refuse(text, head[i].start, message, names[i].length);
  if (names.every((name) => NUMBER.test(name))) refuseName(0, `expected the names of the columns, found only numbers; ${EXPECTED}`);
  names.forEach((name, i) => {
    if (names.indexOf(name) < i && name) refuseName(i, `expected each column once, found ${shorten(name)} again`);
  });
  const roles = rolesOf(names, model, refuseName);
  const columns = featureColumns(names, roles, model, refuseName);
  if (!records.length) refuse(text, text.length, "expected a row below the names of the columns, found none");
  const taken = new Set([...columns, ...Object.values(roles)]);
  return {
    queries: byQuery(records.map((fields, i) => csvRow(text, fields, i, { names, roles, columns, model }))),
    unused: names.filter((name, i) => !taken.has(i) && !hasRole(name)),
  };
}

function csvRow(text, fields, i, { names, roles, columns, model }) {
  if (fields.length !== names.length)
    refuse(text, fields[0].start, `expected ${names.length} fields, as the first line has, found ${fields.length}`, 1);
  const role = (name) => fields[roles[name]]?.value || null;
  const grade = fields[roles.grade];
  return {
    qid: role("qid"),
    id: role("doc_id") ?? `row ${i + 1}`,
    grade: grade?.value ? numberAt(text, grade.start, grade.value, names[roles.grade], model) : null,
    features: columns.map((column) => {
      const { value, start } = fields[column];
      return model.text_features?.includes(names[column]) ? value || null : numberAt(text, start, value, names[column], model);
    }),
  };
}

// The column of each feature: by name; in their order where the model has no names.
function featureColumns(names, roles, model, refuseName) {
  const named = namesOf(model).map((name) => names.indexOf(name));
  if (!named.includes(-1)) return named;
  const left = names.map((_, i) => i).filter((i) => !Object.values(roles).includes(i) && !hasRole(names[i]));
  if (model.feature_names !== null)
    refuseName(0, `expected a column for the feature ${namesOf(model)[named.indexOf(-1)]}, found the columns ${shorten(names.join(", "), 80)}`);
  if (left.length !== model.n_features)
    refuseName(0, `expected ${model.n_features} columns of features, as the model has, found ${left.length}`);
  return left;
}

// Records of fields with their positions; a field in quotes may hold separators, doubled quotes and line ends.
function csvRecords(text, from, separator) {
  const records = [];
  let field = "", fields = [], quoted = false, opened = from, start = from;
  const endField = (next) => {
    const blank = text.slice(start).search(/\S/);
    fields.push({ value: field.trim(), start: field.trim() && blank > 0 ? start + blank : start });
    [field, start] = ["", next];
  };
  const endRecord = (next) => {
    endField(next);
    if (fields.length > 1 || fields[0].value) records.push(fields);
    fields = [];
  };
  for (let i = from; i < text.length; i++) {
    const c = text[i];
    if (quoted && c === '"' && text[i + 1] === '"') { field += c; i++; }
    else if (c === '"' && (quoted || !field.trim())) { quoted = !quoted; opened = i; }
    else if (!quoted && c === separator) endField(i + 1);
    else if (!quoted && c === "\n") endRecord(i + 1);
    else field += c;
  }
  if (quoted) refuse(text, opened, "expected a quote that ends this field, found none");
  endRecord(text.length);
  return records;
}
