"""Valid values of parameters, and the ranges that tuning searches."""
