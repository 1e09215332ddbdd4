"""Parquet, Arrow, CSV and TSV tables."""
