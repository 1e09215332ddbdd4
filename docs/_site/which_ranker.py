"""The drawing "which ranker when" of docs/choosing.md: printed as SVG; ``make pictures`` puts it in its place.

One question after the other, from the top; the first that is answered with yes names the rankers to try.
"""

from __future__ import annotations

from html import escape

# question, rankers to try, why
QUESTIONS = (
    ("You want the best ranking, and have an hour?", "auto", "trains many, blends the best"),
    ("Are values missing, or categories?", "lambdamart · mcrank-ordinal", "trees take them as they are"),
    ("Does a result's worth depend on the others?", "list-net", "scores the list as a whole"),
    ("A few hundred queries or fewer?", "regression · ranksvm · listnet", "few examples, few parameters"),
    ("Does every feature cost time at query time?", "rsrank-sparse", "a path from all features to few"),
    ("You need proof that training is finished?", "ranksvm · rankmm-1", "convex, with a certificate"),
    ("You have a measure or a loss of your own?", "coordinate-ascent · linear · boosted", "any function drives them"),
)
OTHERWISE = ("lambdamart · mcrank-ordinal · ranksvm", "compare them on your queries")

WIDTH, ROW, TOP = 860, 62, 16
QUESTION, ANSWER = (16, 372), (452, 392)  # left edge and width of the boxes
STYLE = """
  text { font: 14px system-ui, sans-serif; fill: #1b2a2a }
  .why { font-size: 12px; fill: #5b6b6b }
  .name { font-weight: 600 }
  .box { fill: #fff; stroke: #8aa6a3 }
  .answer { fill: #e3f2f0; stroke: #00796b }
  path { stroke: #8aa6a3; fill: none }
  @media (prefers-color-scheme: dark) {
    text { fill: #e4eceb } .why { fill: #a9b8b6 }
    .box { fill: #1f2a2a; stroke: #5f7a77 } .answer { fill: #103b36; stroke: #4db6ac }
  }
"""


def draw() -> str:
    height = TOP + ROW * (len(QUESTIONS) + 1)
    alt = "Which ranker when: " + " ".join(f"{q} {names}." for q, names, _ in QUESTIONS)
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
             f'aria-label="{escape(alt)}">', f"<style>{STYLE}</style>"]  # fmt: skip
    middle = QUESTION[0] + QUESTION[1] / 2
    for i, (question, names, why) in enumerate(QUESTIONS):
        y = TOP + ROW * i
        lines += [*box("box", QUESTION, y, question), *answer(y, names, why)]
        lines.append(f'<path d="M{QUESTION[0] + QUESTION[1]} {y + 22}H{ANSWER[0]}"/>')
        lines.append(f'<text class="why" x="{QUESTION[0] + QUESTION[1] + 28}" y="{y + 17}">yes</text>')
        lines.append(f'<path d="M{middle:g} {y + 44}v{ROW - 44}"/>')
        lines.append(f'<text class="why" x="{middle + 6:g}" y="{y + 57}">no</text>')
    y = TOP + ROW * len(QUESTIONS)
    lines += [*box("box", QUESTION, y, "Everything else"), *answer(y, *OTHERWISE)]
    lines.append(f'<path d="M{QUESTION[0] + QUESTION[1]} {y + 22}H{ANSWER[0]}"/>')
    return "\n".join([*lines, "</svg>"])


def box(kind: str, place: tuple[int, int], y: int, text: str) -> list[str]:
    x, width = place
    return [f'<rect class="{kind}" x="{x}" y="{y}" width="{width}" height="44" rx="8"/>',
            f'<text x="{x + 14}" y="{y + 27}">{escape(text)}</text>']  # fmt: skip


def answer(y: int, names: str, why: str) -> list[str]:
    x, width = ANSWER
    return [f'<rect class="answer" x="{x}" y="{y}" width="{width}" height="44" rx="8"/>',
            f'<text class="name" x="{x + 14}" y="{y + 19}">{escape(names)}</text>',
            f'<text class="why" x="{x + 14}" y="{y + 36}">{escape(why)}</text>']  # fmt: skip


if __name__ == "__main__":
    print(draw())
