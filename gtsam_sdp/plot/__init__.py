"""Pictures. Each function takes axes or makes them, and returns them; matplotlib is imported when it is called."""

from gtsam_sdp.plot.relaxation import plot_eigenvalue_ratios, plot_sparsity, plot_spectrum
from gtsam_sdp.plot.stages import plot_stages
from gtsam_sdp.plot.trajectory import plot_comparison, plot_trajectory
from gtsam_sdp.plot.tree import plot_tree

__all__ = [
    "plot_comparison",
    "plot_eigenvalue_ratios",
    "plot_sparsity",
    "plot_spectrum",
    "plot_stages",
    "plot_trajectory",
    "plot_tree",
]
