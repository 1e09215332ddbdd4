"use strict";
// The page: typing, examples, two lists, and why each document stands where it does.

window.addEventListener("error", (event) => { document.documentElement.dataset.error = event.message; });

const corpus = JSON.parse(document.getElementById("corpus").textContent);
const SHOWN = 10, WORDS_SHOWN = 6, SHARES_SHOWN = 6;
const box = document.getElementById("query"), state = document.getElementById("state"), main = document.getElementById("results");
let engine, answers = new Map();

function make(tag, className, ...inside) {
  const one = document.createElement(tag);
  if (className) one.className = className;
  one.append(...inside);
  return one;
}

function signed(value) {
  return (value < 0 ? "−" : "+") + Math.abs(value).toFixed(2);
}

function title(one) {
  return one.parameters === null ? one.name : `${one.name}(${one.parameters.join(", ")})`;
}

function shareRows(rows) {
  const most = Math.max(...rows.map(([, value]) => Math.abs(value)), 1e-12), body = make("tbody");
  for (const [words, value, text] of rows) {
    const bar = make("span", value < 0 ? "bar less" : "bar");
    bar.style.width = `${100 * Math.abs(value) / most}%`;
    body.append(make("tr", "", make("td", "number", text), make("td", "picture", bar), make("td", "", words)));
  }
  return make("table", "", body);
}

function whyBm25(one, found) {
  const typed = new Map((found.text.match(/[A-Za-z0-9_]+/g) ?? []).reverse().flatMap((word) => engine.terms(word).map((term) => [term, word])));
  const rows = found.query.map((term, t) => [`“${typed.get(term) ?? term}”`, one.terms[t], one.terms[t].toFixed(2)])
    .filter(([, value]) => value > 0).sort((a, b) => b[1] - a[1]).slice(0, WORDS_SHOWN);
  return [make("p", "", `BM25 score ${one.bm25.toFixed(2)}. What the words of the query add:`), shareRows(rows)];
}

function whyLearned(one) {
  const rows = one.shares.slice(0, SHARES_SHOWN).map(({ feature, share }) => [corpus.words[feature], share, signed(share)]);
  const total = one.shares.reduce((a, b) => a + b.share, 0), rest = total - rows.reduce((a, b) => a + b[1], 0);
  rows.push([`all other ${one.shares.length - rows.length} features`, rest, signed(rest)]);
  return [make("p", "", `Score ${signed(total)} against the mean of the ${corpus.settings.candidates} documents compared. What adds to it and what takes away:`),
    shareRows(rows)];
}

function result(one, list, found) {
  const own = list === "bm25" ? one.bm25Place : one.learnedPlace, other = list === "bm25" ? one.learnedPlace : one.bm25Place;
  const is = one.document, isAnswer = answers.get(found.text) === is.name;
  const name = make("span", "name", title(is));
  if (isAnswer) name.append(make("span", "star", " ★ the right answer"));
  const moved = make("span", "moved");
  if (list === "learned" && other !== own) {
    moved.textContent = other > own ? `▲ from ${other}` : `▼ from ${other}`;
    moved.classList.add(other > own ? "up" : "down");
  }
  const summary = make("summary", "", make("span", "place", String(own)), name, moved,
    make("span", "line", is.sentences[0] ?? `${is.kind} without a sentence left`));
  const item = make("details", isAnswer ? "right" : "", summary);
  item.dataset.name = is.name;
  item.addEventListener("toggle", () => {
    if (!item.open || item.querySelector(".why")) return;
    const why = make("div", "why", ...(list === "bm25" ? whyBm25(one, found) : whyLearned(one)));
    why.append(make("p", "", `${is.kind}: ${is.sentences.slice(0, 4).join(" ")}`));
    if (is.heldOut) why.append(make("p", "", make("em", "", `Left out of the search, to test it: “${is.heldOut}”`)));
    item.append(why);
  });
  const light = (on) => {
    for (const twin of main.querySelectorAll("details")) twin.classList.toggle("same", on && twin.dataset.name === is.name);
  };
  for (const event of ["pointerenter", "focusin"]) item.addEventListener(event, () => light(true));
  for (const event of ["pointerleave", "focusout"]) item.addEventListener(event, () => light(false));
  return make("li", "", item);
}

function show() {
  const text = box.value.trim();
  if (!text) {
    main.hidden = true;
    state.textContent = `Type a few words. ${engine.size.toLocaleString("en")} modules, classes, functions and methods are searched.`;
    return;
  }
  const found = { ...engine.search(text), text };
  main.hidden = !found.found.length;
  for (const [id, list] of [["bm25", found.byBm25], ["learned", found.byLearned]]) {
    document.getElementById(id).replaceChildren(...list.slice(0, SHOWN).map((one) => result(one, id, found)));
  }
  if (!found.query.length) state.textContent = "These words are too common to search for. Add some that say more.";
  else if (!found.found.length) state.textContent = "No document has any of these words.";
  else state.textContent = describe(found);
}

function describe(found) {
  const answer = found.found.find((one) => one.document.name === answers.get(found.text));
  if (answer === undefined) return `Both lists rank the same ${found.found.length} documents. Open a result to see why it stands where it does.`;
  return `The right answer, ${answer.document.name}, is at place ${answer.bm25Place} by BM25 and at place ${answer.learnedPlace} by the learned ranking.`;
}

function begin() {
  if (engine) return;
  engine = makeEngine(corpus);
  window.gainfulSearch = engine;
  answers = new Map(corpus.examples.map(([text, name]) => [text, name]));
  const examples = document.getElementById("examples");
  for (const [text] of corpus.examples) {
    const button = make("button", "", text);
    button.type = "button";
    button.addEventListener("click", () => { box.value = text; show(); });
    examples.append(button);
  }
  const asked = new URLSearchParams(location.hash.slice(1));  // search.html#q=words&open
  box.value = asked.get("q") ?? corpus.examples[0]?.[0] ?? "";
  show();
  if (asked.has("open")) main.querySelector("#learned details").open = true;
  let waiting;
  box.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(show, 60); });
  document.getElementById("form").addEventListener("submit", (event) => { event.preventDefault(); show(); });
}

document.addEventListener("keydown", (event) => {
  if (event.key === "/" && document.activeElement !== box && !event.ctrlKey && !event.metaKey) {
    event.preventDefault();
    box.focus();
    box.select();
    return;
  }
  if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
  const own = document.activeElement.closest?.("ol") ?? document.getElementById("bm25");
  const stops = [box, ...[...own.querySelectorAll("summary")].filter((one) => one.offsetParent !== null)];
  const at = stops.indexOf(document.activeElement) + (event.key === "ArrowDown" ? 1 : -1);
  if (at < 0 || at >= stops.length || (!stops.includes(document.activeElement) && event.key === "ArrowUp")) return;
  event.preventDefault();
  stops[at].focus();
});

setTimeout(begin, 0);  // after the first paint
