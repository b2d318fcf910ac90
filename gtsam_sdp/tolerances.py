"""Numerical thresholds that several modules share or that a user may ask about, with their reasons."""

NEGLIGIBLE = 1e-13
"""Relative size below which a part of an information matrix is rounding: the matrix then counts as isotropic."""

COEFFICIENT_ROUNDOFFS = 16
"""Roundoffs granted to a coefficient of a term: the longest chain of operations that computes one is shorter."""

EIGENVALUE_ROUNDOFFS = 16
"""Roundoffs, relative to the matrix, granted to the smallest eigenvalue of a small information matrix."""

FACTORISATION_EXTRA = 8
"""Roundoffs granted to an entry of an LDL^T beyond its number of products (reciprocal pivots, the shift)."""

DIGITS = 1e-5
"""Residuals below this share of what they measure are how the data was written: exact data of 6 digits has them."""

WHOLE_TURN = 1.0
"""Sum of all residual angles [rad] up to which no ring of poses can have a turn too many: that takes 2 pi."""

SAME_COST = 1e-9
"""Costs whose difference is a smaller share than this are the same."""

NOISE_FLOOR = 1e-13
"""Some tens of times the share of the terms' size that rounding takes from a bound: polishing aims no lower."""

MAX_TANGENT_ANGLE = 3.0
"""Tangent angle of theta^2 is at most this [rad]: its slope 2 theta / sin(theta) is infinite at pi."""

MIXING_LADDER = (0.05, 0.2, 0.02, 0.5)
"""Shares of the smallest translation information that a pose term may move into its tangent part (beta)."""

FIXED_VALUE_TOLERANCE = 1e-6
"""Largest whitened-by-nothing error [m or rad] at which values still count as satisfying a hard constraint."""

MANIFOLD_TOLERANCE = 1e-7
"""Largest entry of R R^T - I at which a matrix still counts as a rotation that rounding took off SO(d)."""

PROBING_TOLERANCE = 1e-9
"""Largest relative misfit at which a factor's error, evaluated at random values, still counts as linear."""

EXACT_LOSS = 1e-7
"""Share of its factor's cost that a term called exact may give up, for the rounding of what was read."""

TERM_VIOLATION = 1e-11
"""A term may exceed its factor's cost by this share of the terms' size, for rounding, before it is refused."""

POLISH_DECREASE = 1e-11
"""Polishing ends when a Newton step predicts a smaller relative decrease of the cost."""

FAR_FROM_OPTIMUM = 1e-3
"""Above this relative decrease of the cost by one more iteration the report advises to optimise first."""

LARGE_GAP = 0.2
"""Above this relative gap the report says that the values may be a wrong minimum."""

WORTH_A_STEP = 0.1
"""A step that gains more than this share of the gap, or of the tolerance, is worth taking and worth telling."""

SHORT_RELAXATION = 5.0
"""`certify` goes on to the relaxation by itself where it is predicted to take no longer [s]."""

ABOVE_COST = 1e-3
"""A bound may be above graph.error by this share for GTSAM's rounding (angles near 1e-10 rad lose 1e-6)."""

POLISHING_GAIN = 0.1
"""Polishing is worth its time if it may close this share of the gap, and of the tolerance."""

MEMORY_FACTOR = 8
"""Memory of an interior-point method by that of the cones' dense blocks, measured with Clarabel on public files."""

MEMORY_SHARE = 0.7
"""Share of the machine's memory that a solver may be predicted to need before it is refused."""

MAX_FLOPS_FIRST = 3e10
"""Flops of an iteration up to which the relaxation is tried before the staircase: about a minute in all."""
