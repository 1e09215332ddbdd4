"""Boosted trees on LightGBM: growing, objectives, sampling, binning."""
