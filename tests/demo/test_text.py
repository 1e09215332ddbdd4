"""Sentences and terms."""

from __future__ import annotations

import pytest

from gainful.demo.text import sentences, stem, terms


@pytest.mark.parametrize(
    ("words", "stemmed"),
    [
        ("create creates created creating", {"creat"}),
        ("split splits splitting", {"split"}),
        ("copy copies", {"copy"}),
        ("class status this", {"class", "status", "this"}),
        ("call called calling", {"call"}),
        ("string red", {"string", "red"}),
    ],
)
def test_stems_join_forms_of_a_word_and_nothing_else(words, stemmed):
    assert {stem(word) for word in words.split()} == stemmed


def test_names_are_split_at_capitals_and_underscores():
    assert terms("HTTPServer.parse_XMLFile of the JSON2Text") == [
        "http",
        "server",
        "pars",
        "xml",
        "file",
        "json2",
        "text",
    ]


def test_sentences_leave_out_signature_examples_and_rules():
    doc = (
        "join(iterable, /) -> str\n\nConcatenate strings, e.g. words. The\nresult is new.\n\n"
        ">>> '-'.join('ab')\n'a-b'\n\nNotes\n-----\nIt is fast."
    )
    assert sentences(doc) == ["Concatenate strings, e.g. words.", "The result is new.", "Notes It is fast."]
    assert sentences("S.count(sub[, start]) -> int: Return the number of matches.") == ["Return the number of matches."]
    assert sentences("f(x)") == []
