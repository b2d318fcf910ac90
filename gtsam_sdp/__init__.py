"""gtsam_sdp: is the solution of a GTSAM factor graph the best there is?

Names are imported when they are used first: `__init__.pyi` says where they are.
"""

import lazy_loader

from gtsam_sdp._version import VERSION

# functions whose modules have the same name: imported here, so that the name is never the module
from gtsam_sdp.certify import certify as certify
from gtsam_sdp.relax import relax as relax
from gtsam_sdp.solve import refine as refine
from gtsam_sdp.solve import solve as solve

__version__ = VERSION
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
