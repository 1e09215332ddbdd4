"""The papers' experiments again: our figures beside the published ones, under the papers' protocol and measure.

This folder is not part of the installed package. In a checkout, ``gainful reproduce`` runs it.
"""
