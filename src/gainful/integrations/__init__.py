"""Integrations with other tools. None of them is a dependency of gainful."""
