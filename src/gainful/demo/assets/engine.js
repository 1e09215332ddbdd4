"use strict";
// The search itself, without the page: terms, inverted indexes, features and scores, as gainful computes them in Python.

function makeEngine(corpus) {
  const set = corpus.settings, stop = new Set(set.stop_words);
  const CAMEL = /([a-z0-9])(?=[A-Z])|([A-Z])(?=[A-Z][a-z])/g, WORD = /[A-Za-z0-9]+/g, VOWEL = /[aeiouy]/;

  function stem(word) {
    if (word.length > 4 && word.endsWith("ies")) word = word.slice(0, -3) + "y";
    else if (word.length > 3 && word.endsWith("s") && !"sui".includes(word.at(-2))) word = word.slice(0, -1);
    for (const ending of ["ing", "ed"]) {
      const rest = word.slice(0, -ending.length);
      if (word.length > ending.length + 2 && word.endsWith(ending) && VOWEL.test(rest)) {
        word = rest;
        if (word.at(-1) === word.at(-2) && !"lsz".includes(word.at(-1))) word = word.slice(0, -1);
        break;
      }
    }
    return word.length > 4 && word.endsWith("e") ? word.slice(0, -1) : word;
  }
  const stems = new Map();
  function stemOnce(word) {
    let found = stems.get(word);
    if (found === undefined) stems.set(word, found = stem(word));
    return found;
  }
  function terms(text) {
    const words = text.replace(CAMEL, "$1$2 ").match(WORD) ?? [], found = [];
    for (const one of words) {
      const word = one.toLowerCase();
      if (word.length > 1 && !stop.has(word)) found.push(stemOnce(word));
    }
    return found;
  }
  const distinct = (list) => [...new Set(list)];
  const beginnings = (list) => list.map((one) => one.slice(0, set.beginning));
  const neighbours = (list) => list.slice(1).map((one, i) => `${list[i]} ${one}`);
  const sum = (list) => list.reduce((a, b) => a + b, 0);

  // -- documents and their fields -----------------------------------------------------------------------------------

  const documents = corpus.documents.map(([name, kind, module, parent, parameters, members, code, sentences, heldOut, imports, uses]) =>
    ({ name, kind, module, parent, parameters, members, code, sentences, heldOut, imports, uses,
       short: kind === "module" ? name : name.slice(name.lastIndexOf(".") + 1), spoken: sentences.map(terms) }));
  const place = new Map(documents.map((one, d) => [one.name, d])), inside = new Map();
  documents.forEach((one, d) => { if (!inside.has(one.parent)) inside.set(one.parent, []); inside.get(one.parent).push(d); });

  const termsOfAll = (names) => names.flatMap(terms);
  const spokenBy = (list, n) => list.flatMap((d) => documents[d].spoken.slice(0, n).flat());
  for (const one of documents) {
    const parts = one.name.split("."), holds = one.kind === "class" || one.kind === "module";
    const around = distinct([one.parent, one.module]).filter((name) => place.has(name) && name !== one.name);
    const beside = one.kind === "module" ? [] : inside.get(one.parent).filter((d) => documents[d].name !== one.name);
    const fields = {
      name: terms(one.short),
      path: termsOfAll(one.kind === "module" ? parts : parts.slice(0, -1)),
      parameters: termsOfAll(one.parameters ?? []),
      summary: one.spoken[0] ?? [],
      body: one.spoken.slice(1).flat(),
      members: termsOfAll(one.members),
      code: termsOfAll(one.code),
      parents: spokenBy(around.map((name) => place.get(name)), set.parent_sentences),
      siblings: spokenBy(beside.concat(holds ? inside.get(one.name) ?? [] : []), 1),
    };
    fields.all = [fields.name, fields.path, fields.parameters, fields.summary, fields.body, fields.members].flat();
    one.fields = fields;
    one.parentTerms = terms(one.parent.slice(one.parent.lastIndexOf(".") + 1));
    one.letters = one.short.toLowerCase().replaceAll("_", "").replaceAll(".", "");
    one.figures = {
      summary_length: fields.summary.length, body_length: Math.log1p(fields.body.length),
      name_length: fields.name.length, n_parameters: (one.parameters ?? []).length,
      n_members: Math.log1p(one.members.length), module_imports: Math.log1p(one.imports), name_uses: Math.log1p(one.uses),
    };
    for (const kind of set.kinds) one.figures[`is_${kind}`] = Number(one.kind === kind);
  }

  // -- inverted indexes ---------------------------------------------------------------------------------------------

  const N = documents.length;
  class FieldIndex {
    constructor(texts) {
      this.postings = new Map();
      this.lengths = Float64Array.from(texts, (text) => text.length);
      texts.forEach((text, d) => {
        for (const term of text) {
          const entry = this.postings.get(term);
          if (entry === undefined) this.postings.set(term, [[d], [1]]);
          else if (entry[0].at(-1) === d) entry[1][entry[1].length - 1] += 1;
          else { entry[0].push(d); entry[1].push(1); }
        }
      });
      const filled = texts.filter((text) => text.length > 0).length;
      this.words = sum([...this.lengths]);
      this.mean = filled ? this.words / filled : 1;
    }
    idf(term) {
      const df = this.postings.get(term)?.[0].length ?? 0;
      return Math.log(1 + (N - df + 0.5) / (df + 0.5));
    }
    each(query, visit) {  // visit(document, count, term)
      for (const term of query) {
        const entry = this.postings.get(term);
        if (entry !== undefined) entry[0].forEach((d, i) => visit(d, entry[1][i], term));
      }
    }
    bm25(query) {
      const total = new Float64Array(N), idf = new Map(query.map((term) => [term, this.idf(term)]));
      this.each(query, (d, tf, term) => {
        const norm = set.k1 * (1 - set.b + set.b * this.lengths[d] / this.mean);
        total[d] += idf.get(term) * tf * (set.k1 + 1) / (tf + norm);
      });
      return total;
    }
    share(query) {
      const total = new Float64Array(N), idf = new Map(query.map((term) => [term, this.idf(term)]));
      this.each(query, (d, _, term) => { total[d] += idf.get(term); });
      const whole = sum([...idf.values()]);
      return whole > 0 ? total.map((value) => value / whole) : total;
    }
    count(query) {
      const total = new Float64Array(N);
      this.each(query, (d) => { total[d] += 1; });
      return total;
    }
    likelihood(query) {
      const known = query.filter((term) => this.postings.has(term)), total = new Float64Array(N);
      for (const term of known) {
        const [docs, counts] = this.postings.get(term), all = sum(counts);
        docs.forEach((d, i) => { total[d] += Math.log1p(counts[i] * this.words / (this.mean * all)); });
      }
      if (!known.length) return total;
      return total.map((value, d) => value / known.length - Math.log((this.lengths[d] + this.mean) / (2 * this.mean)));
    }
  }
  const indexes = {};
  for (const field of [...set.searched, "all"]) indexes[field] = new FieldIndex(documents.map((one) => one.fields[field]));
  const pairs = new FieldIndex(documents.map((one) => one.spoken.flatMap(neighbours)));
  const begun = new FieldIndex(documents.map((one) => beginnings(one.fields.all)));
  const nameBegun = new FieldIndex(documents.map((one) => beginnings(one.fields.name)));

  // -- features -----------------------------------------------------------------------------------------------------

  // What each term of the query adds to BM25 over weighted fields, one row per document.
  function termScores(query, chosen, weights, k1, b) {
    const where = new Int32Array(N).fill(-1), rows = chosen.map(() => new Float64Array(query.length));
    chosen.forEach((d, i) => { where[d] = i; });
    const slot = new Map(query.map((term, t) => [term, t]));
    for (const field of set.searched) {
      const index = indexes[field];
      index.each(query, (d, tf, term) => {
        if (where[d] >= 0) rows[where[d]][slot.get(term)] += weights[field] / (1 - b + b * index.lengths[d] / index.mean) * tf;
      });
    }
    return rows.map((row) => row.map((z, t) => indexes.all.idf(query[t]) * (z * (k1 + 1) / (z + k1))));
  }
  function covered(name, words) {
    return name.length ? name.filter((term) => words.has(term)).length / name.length : 0;
  }
  function lettersCovered(letters, query) {
    const marked = new Uint8Array(letters.length);
    for (const term of query) {
      if (term.length < set.shortest_part) continue;
      for (let at = letters.indexOf(term); at >= 0; at = letters.indexOf(term, at + 1)) marked.fill(1, at, at + term.length);
    }
    return marked.length ? sum([...marked]) / marked.length : 0;
  }
  function bestSentence(spoken, weights, whole) {
    let best = 0;
    for (const one of spoken) {
      let share = 0;
      for (const [term, weight] of weights) if (one.includes(term)) share += weight;
      best = Math.max(best, share);
    }
    return whole > 0 ? best / whole : 0;
  }
  function support(groups, scores) {
    const totals = new Map();
    groups.forEach((group, i) => totals.set(group, (totals.get(group) ?? 0) + scores[i]));
    const whole = Math.max(sum(scores), 1e-12);
    return groups.map((group, i) => (totals.get(group) - scores[i]) / whole);
  }
  function featuresOf(text, query, chosen) {
    const usual = termScores(query, chosen, set.usual_weights, set.k1, set.b).map((row) => sum([...row]));
    const best = Math.max(...usual, 1e-12), at = (values) => chosen.map((d) => values[d]);
    const words = new Set(query), weights = new Map(query.map((term) => [term, indexes.all.idf(term)]));
    const whole = sum([...weights.values()]), start = distinct(beginnings(query));
    const columns = { bm25: usual, bm25_relative: usual.map((value) => value / best) };
    for (const field of [...set.searched, "all"]) columns[`bm25_${field}`] = at(indexes[field].bm25(query));
    for (const field of set.shared) columns[`share_${field}`] = at(indexes[field].share(query));
    columns.likelihood = at(indexes.all.likelihood(query));
    columns.pairs = at(pairs.count(distinct(neighbours(terms(text)))));
    columns.beginnings = at(begun.bm25(start));
    columns.name_beginnings = at(nameBegun.bm25(start));
    const of = (value) => chosen.map((d) => value(documents[d]));
    columns.share_sentence = of((one) => bestSentence(one.spoken, weights, whole));
    columns.name_covered = of((one) => covered(one.fields.name, words));
    columns.parent_covered = of((one) => covered(one.parentTerms, words));
    columns.name_letters = of((one) => lettersCovered(one.letters, query));
    columns.class_support = support(of((one) => one.parent), usual);
    columns.module_support = support(of((one) => one.module), usual);
    return chosen.map((d, i) => corpus.features.map((name) => name in columns ? columns[name][i] : documents[d].figures[name]));
  }

  // -- search -------------------------------------------------------------------------------------------------------

  // The candidates of a query: document, features, score of BM25 and of the model, and the places these give.
  function search(text) {
    const query = distinct(terms(text)), first = indexes.all.bm25(query);
    const chosen = documents.map((_, d) => d).filter((d) => first[d] > 0).sort((a, b) => first[b] - first[a] || a - b)
      .slice(0, set.candidates);
    const { weights, k1, b } = corpus.bm25, parts = termScores(query, chosen, weights, k1, b);
    const found = featuresOf(text, query, chosen).map((features, i) => ({
      document: documents[chosen[i]], features, terms: [...parts[i]], bm25: sum([...parts[i]]),
      learned: corpus.model.intercept + sum(features.map((value, j) => corpus.model.weights[j] * value)),
    }));
    const order = (key) => [...found].sort((a, b) => b[key] - a[key]);
    const byBm25 = order("bm25"), byLearned = order("learned");
    byBm25.forEach((one, i) => { one.bm25Place = i + 1; });
    byLearned.forEach((one, i) => { one.learnedPlace = i + 1; });
    const means = corpus.features.map((_, j) => sum(found.map((one) => one.features[j])) / Math.max(1, found.length));
    for (const one of found) {
      one.shares = one.features.map((value, j) => ({ feature: corpus.features[j], share: corpus.model.weights[j] * (value - means[j]) }))
        .sort((a, b) => Math.abs(b.share) - Math.abs(a.share));
    }
    return { query, found, byBm25, byLearned };
  }
  return { search, terms, size: N };
}
