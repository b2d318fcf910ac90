"""The race of `solve` against the certifying solvers of the gtsam wheel."""
