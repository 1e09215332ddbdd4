"""gainful's own binary format, which can be mapped into memory."""
