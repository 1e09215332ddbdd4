"""Clicks: logs of result pages, models of the users who click, judgments from both, and simulated users."""
