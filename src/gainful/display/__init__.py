"""How results look outside a terminal: HTML for notebooks, plots, progress bars. Each result decides what it shows."""
