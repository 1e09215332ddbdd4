"""Fuzzing of everything that gainful reads: files, arrays and requests, damaged at random but repeatable by number.

This folder is not part of the installed package. ``make fuzz`` runs it; ``docs/fuzzing.md`` describes it.
"""
