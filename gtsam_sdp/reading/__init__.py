"""GTSAM objects to plain arrays: the graph, noise models, values, and the checks on them."""
