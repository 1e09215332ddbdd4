"""Click models told as stories: every course that a page can take, with its probability. Slow, and nothing is shared
with the compiled loops.

A story yields (probability, clicks, trials): a trial is (parameter, success), a hidden or visible draw that mattered.
Parameters are ("attractiveness", query, document) and so on, looked up in a dictionary.
"""

from __future__ import annotations

import math
from collections import defaultdict
from itertools import product

PAIR = ("attractiveness", "satisfaction")


def story_pbm(theta, page):
    query, documents, positions = page
    for draws in product((0, 1), repeat=2 * len(documents)):
        yield _independent(theta, draws, query, documents, lambda r, clicks: ("examination", positions[r]))


def story_ubm(theta, page):
    query, documents, positions = page

    def slot(r, clicks):
        last = max((positions[i] for i in range(r) if clicks[i]), default=0)
        return ("examination", positions[r], last)

    for draws in product((0, 1), repeat=2 * len(documents)):
        yield _independent(theta, draws, query, documents, slot)


def _independent(theta, draws, query, documents, slot):
    chance, clicks, trials = 1.0, [], []
    for r, document in enumerate(documents):
        for key, drawn in ((("attractiveness", query, document), draws[2 * r]), (slot(r, clicks), draws[2 * r + 1])):
            chance *= theta[key] if drawn else 1.0 - theta[key]
            trials.append((key, drawn))
        clicks.append(draws[2 * r] * draws[2 * r + 1])
    return chance, tuple(clicks), trials


def story_chain(theta, page, stop_by_pair, r=0):
    """From document r on, which is examined."""
    query, documents, positions = page
    rest = len(documents) - r - 1
    attraction = ("attractiveness", query, documents[r])
    stop = ("satisfaction", query, documents[r]) if stop_by_pair else ("stop", positions[r])
    go_on = ("continuation",)

    def later(chance, click, trials):
        """After a document that did not satisfy: give up, or read on."""
        yield chance * (1.0 - theta[go_on]), (click, *(0,) * rest), [*trials, (go_on, 0)]
        for more, clicks, others in story_chain(theta, page, stop_by_pair, r + 1):
            yield chance * theta[go_on] * more, (click, *clicks), [*trials, (go_on, 1), *others]

    a = theta[attraction]
    if rest == 0:
        yield a, (1,), [(attraction, 1)]
        yield 1.0 - a, (0,), [(attraction, 0)]
        return
    yield a * theta[stop], (1, *(0,) * rest), [(attraction, 1), (stop, 1)]
    yield from later(a * (1.0 - theta[stop]), 1, [(attraction, 1), (stop, 0)])
    yield from later(1.0 - a, 0, [(attraction, 0)])


def story_rate(theta, page, key):
    query, documents, positions = page
    for clicks in product((0, 1), repeat=len(documents)):
        trials = [(key(query, documents[r], positions[r]), clicks[r]) for r in range(len(documents))]
        yield math.prod(theta[one] if hit else 1.0 - theta[one] for one, hit in trials), clicks, trials


def story_cascade(theta, page, slip):
    query, documents, _ = page
    for clicks in product((0, 1), repeat=len(documents)):
        chance, trials = 1.0, []
        for r, document in enumerate(documents):
            if any(clicks[:r]):
                chance *= slip if clicks[r] else 1.0 - slip
                continue
            trials.append((("attractiveness", query, document), clicks[r]))
            a = theta[trials[-1][0]]
            chance *= a if clicks[r] else 1.0 - a
        yield chance, clicks, trials


STORIES = {
    "ctr": lambda theta, page: story_rate(theta, page, lambda q, d, r: ("rate", 1)),
    "rank-ctr": lambda theta, page: story_rate(theta, page, lambda q, d, r: ("rate", r)),
    "document-ctr": lambda theta, page: story_rate(theta, page, lambda q, d, r: ("attractiveness", q, d)),
    "pbm": story_pbm,
    "ubm": story_ubm,
    "cascade": lambda theta, page: story_cascade(theta, page, 1e-6),
    "dcm": lambda theta, page: story_chain(theta, page, stop_by_pair=False),
    "sdbn": lambda theta, page: story_chain(theta, page, stop_by_pair=True),
    "dbn": lambda theta, page: story_chain(theta, page, stop_by_pair=True),
}


# -- between the arrays of a model and dictionaries --------------------------------------------------------------------


def pages_of(log):
    """((query, documents, positions), clicks) of each page."""
    for i in range(log.n_pages):
        rows = slice(int(log.offsets[i]), int(log.offsets[i + 1]))
        documents = log.document_ids[log.document[rows]].tolist()
        page = (log.query_ids[log.query[i]].item(), documents, log.position[rows].tolist())
        yield page, tuple(int(c) for c in log.clicked[rows])


def keys_of(model, name, n):
    """The keys of the n entries of a parameter, in the order of the model's arrays."""
    if name in PAIR:
        pairs = model.pairs_
        queries, documents = pairs.query_ids[pairs.query].tolist(), pairs.document_ids[pairs.document].tolist()
        return [(name, query, document) for query, document in zip(queries, documents, strict=True)]
    if name == "continuation":
        return [("continuation",)]
    if model.name == "ubm":
        return [(name, r, last) for r in range(1, n + 1) for last in range(r)][:n]
    return [(name, r) for r in range(1, n + 1)]


def theta_of(model):
    found = {}
    for name, values in model.theta_.items():
        values = values[:-1] if name in PAIR else values
        found |= dict(zip(keys_of(model, name, len(values)), values.tolist(), strict=True))
    return found


# -- what the stories say ----------------------------------------------------------------------------------------------


def page_chance(story, theta, page, clicks):
    return math.fsum(chance for chance, others, _ in story(theta, page) if others == clicks)


def log_likelihood(story, theta, log):
    return math.fsum(math.log(page_chance(story, theta, page, clicks)) for page, clicks in pages_of(log))


def objective(story, theta, log, priors):
    """The log-likelihood and the log of the priors: key → (successes, failures)."""
    prior = math.fsum(a * math.log(theta[key]) + b * math.log1p(-theta[key]) for key, (a, b) in priors.items())
    return log_likelihood(story, theta, log) + prior


def em_step(story, theta, log, priors):
    """The next parameters, for those with a prior."""
    hits, trials = defaultdict(float), defaultdict(float)
    for page, clicks in pages_of(log):
        courses = [course for course in story(theta, page) if course[1] == clicks]
        total = math.fsum(chance for chance, _, _ in courses)
        for chance, _, drawn in courses:
            for key, success in drawn:
                trials[key] += chance / total
                hits[key] += success * chance / total
    return theta | {key: (hits[key] + a) / (trials[key] + a + b) for key, (a, b) in priors.items()}


def click_chances(story, theta, log, conditional):
    """The probability of a click on each row, by adding up all courses of the page."""
    found = []
    for page, clicks in pages_of(log):
        courses = list(story(theta, page))
        for r in range(len(clicks)):
            held = [c for c in courses if not conditional or c[1][:r] == clicks[:r]]
            found.append(math.fsum(c[0] for c in held if c[1][r]) / math.fsum(c[0] for c in held))
    return found
