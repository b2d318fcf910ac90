"""Draws the picture that README opens with: a map coloured by what its factors cost, and the headline beside it.

.venv/bin/python docs/site/opening_picture.py    # writes docs/opening.png
"""

from __future__ import annotations

import textwrap
import warnings
from pathlib import Path

import gtsam
import matplotlib as mpl

import gtsam_sdp

mpl.use("Agg")
_FILE = Path(__file__).parent.parent / "opening.png"
_ROWS = 5
"""Rows of the report that stand beside the map, its headline apart."""


def main() -> None:
    """Optimises and certifies w10000, a graph of 10,000 poses that ships with GTSAM."""
    from matplotlib import pyplot as plt

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", gtsam_sdp.SuspiciousInputWarning)  # lines that GTSAM leaves out too
        graph, initial = gtsam_sdp.load_g2o(gtsam.findExampleDataFile("w10000"))
    values = gtsam.LevenbergMarquardtOptimizer(graph, initial).optimize()
    certificate = gtsam_sdp.certify(graph, values)
    headline, *rows = str(certificate).splitlines()
    figure = plt.figure(figsize=(11, 4.4))
    ax, side = figure.add_axes((0.06, 0.13, 0.5, 0.78)), figure.add_axes((0.6, 0, 0.4, 1))
    gtsam_sdp.plot.plot_trajectory(graph, values, certificate, ax=ax)
    ax.set_title(f"w10000: {values.size()} poses, {graph.size()} factors", fontsize="medium")
    side.axis("off")
    verdict, _, rest = headline.partition(": ")
    side.text(0, 0.8, verdict, fontsize=22, weight="bold", color="#1a7f37")
    side.text(0, 0.72, "\n".join(textwrap.wrap(rest, 44)), fontsize=13, va="center")
    report = "\n".join(row[2:] for row in rows[:_ROWS])
    side.text(0, 0.62, report, family="monospace", fontsize=8.5, va="top", linespacing=1.7)
    figure.savefig(_FILE, dpi=110)


if __name__ == "__main__":
    main()
