"""Engines: other people's learners driven through one narrow interface each."""
