"""Whatever a user passes as data: arrays and frames, paths, folders of shards, Dask collections, a cluster."""
