"""gtsam_sdp: is the solution of a GTSAM factor graph the best there is?"""

from gtsam_sdp._version import VERSION
from gtsam_sdp.certificate import Certificate, CertificateStatus, FactorTerm, FactorTerms
from gtsam_sdp.certify import certify
from gtsam_sdp.datasets import load_g2o
from gtsam_sdp.errors import (
    DatasetError,
    GtsamSdpError,
    InvalidGraphError,
    InvalidTermError,
    SuspiciousInputWarning,
    UnsupportedFactorError,
    UnsupportedNoiseError,
)
from gtsam_sdp.factors.check import check_term
from gtsam_sdp.factors.registry import register_term, unregister_term
from gtsam_sdp.qcqp import Constraint, Qcqp
from gtsam_sdp.terms import Exactness, Residual, Term
from gtsam_sdp.variables import Layout

__all__ = [
    "Certificate",
    "CertificateStatus",
    "Constraint",
    "DatasetError",
    "Exactness",
    "FactorTerm",
    "FactorTerms",
    "GtsamSdpError",
    "InvalidGraphError",
    "InvalidTermError",
    "Layout",
    "Qcqp",
    "Residual",
    "SuspiciousInputWarning",
    "Term",
    "UnsupportedFactorError",
    "UnsupportedNoiseError",
    "certify",
    "check_term",
    "load_g2o",
    "register_term",
    "unregister_term",
]
__version__ = VERSION
