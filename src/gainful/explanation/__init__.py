"""Explanations: why a document has its score and its rank."""
