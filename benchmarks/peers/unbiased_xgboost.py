"""XGBoost's lambdarank_unbiased on clicks: python unbiased_xgboost.py CLICKS.npz SETTINGS.

It writes the scores to CLICKS.npz.scores.npy.
"""

from __future__ import annotations

import json
import sys

import numpy as np
import xgboost

path, settings = sys.argv[1], json.loads(sys.argv[2])
given = np.load(path)
data = xgboost.DMatrix(given["X"], given["y"])
data.set_group(given["group"])
params = {
    "objective": "rank:ndcg", "ndcg_exp_gain": False, "lambdarank_unbiased": True, "lambdarank_pair_method": "topk",
    "lambdarank_num_pair_per_sample": 50, "tree_method": "hist", "grow_policy": "lossguide", "max_depth": 0,
    "max_leaves": settings["n_leaves"], "eta": settings["learning_rate"], "nthread": 1,
}  # fmt: skip
model = xgboost.train(params, data, settings["n_trees"])
np.save(f"{path}.scores.npy", model.predict(xgboost.DMatrix(given["test"])))
