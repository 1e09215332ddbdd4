"""The browser that reports are opened in."""

from browser import browse  # noqa: F401
