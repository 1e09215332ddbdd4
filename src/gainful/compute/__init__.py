"""What the numerical code shares: the loop over queries, feature products, threads, memory, devices."""
