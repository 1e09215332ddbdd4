"""Models of other makers as rankers: LightGBM, XGBoost, CatBoost, RankLib, SVMrank, LIBLINEAR, lists of weights."""
