"""LETOR and SVMlight text."""
