"""Other tools that a model's life passes through. Nothing here is needed by gainful, nor brings anything in."""
