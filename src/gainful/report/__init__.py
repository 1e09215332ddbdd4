"""HTML pages of results: plots, tables and the page around them. They need no network."""
