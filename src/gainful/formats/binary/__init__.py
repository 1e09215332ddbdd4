"""gainful's own binary form, which maps into memory."""
