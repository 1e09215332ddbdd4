"""Estimates of what training costs."""
