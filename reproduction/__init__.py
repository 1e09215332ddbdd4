"""The papers' experiments repeated: our figures next to the published ones, with the papers' protocol and measure.

This folder is not part of the installed package. In a checkout, ``gainful reproduce`` runs it.
"""
