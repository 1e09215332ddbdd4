"""Helpers that kernels of several folders share."""
# mypy: ignore-errors

from __future__ import annotations

from gainful.compute.compiled import helper


@helper
def sort_falling(values, base, rows, at, n, spare):
    """Sort rows[at : at + n] by falling values[base + row], stably: insertion in runs of 16, then merging.

    ``spare`` has room for n rows.
    """
    run, end = 16, at + n
    for start in range(at, end, run):
        for place in range(start, start + run if start + run < end else end):
            row, to = rows[place], place
            x = values[base + row]
            while to > start and x > values[base + rows[to - 1]]:
                rows[to] = rows[to - 1]
                to -= 1
            rows[to] = row
    while run < n:
        for start in range(at, end - run, 2 * run):
            b, to = start + run, start
            stop = b + run if b + run < end else end
            for a in range(run):
                spare[a] = rows[start + a]
            a = 0
            left, right = values[base + spare[0]], values[base + rows[b]]
            while True:
                if right > left:
                    rows[to] = rows[b]
                    b += 1
                    if b == stop:
                        break
                    right = values[base + rows[b]]
                else:
                    rows[to] = spare[a]
                    a += 1
                    if a == run:
                        break
                    left = values[base + spare[a]]
                to += 1
            to += 1
            while a < run:
                rows[to] = spare[a]
                a += 1
                to += 1
        run *= 2
