"""A small search engine over Python's own documentation: data, baseline, page, and the words of ``gainful demo``."""
