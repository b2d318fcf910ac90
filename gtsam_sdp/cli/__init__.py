"""The command `gtsam-sdp`: reads graphs, optimises them with GTSAM or searches, and certifies the results."""

from gtsam_sdp.cli.command import main

__all__ = ["main"]
