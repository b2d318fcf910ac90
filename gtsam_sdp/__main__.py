"""`python -m gtsam_sdp` is the command `gtsam-sdp`."""

import sys

from gtsam_sdp.cli import main

if __name__ == "__main__":
    sys.exit(main())
