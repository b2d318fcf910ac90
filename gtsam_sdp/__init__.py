"""gtsam_sdp: is the solution of a GTSAM factor graph the best there is?"""

from gtsam_sdp._version import VERSION
from gtsam_sdp.backends.base import Backend
from gtsam_sdp.backends.clarabel_ import ClarabelBackend
from gtsam_sdp.backends.conic import ConicProblem
from gtsam_sdp.backends.mosek_ import MosekBackend
from gtsam_sdp.certify import certify
from gtsam_sdp.errors import (
    BackendNotInstalledError,
    DatasetError,
    GtsamSdpError,
    InvalidGraphError,
    InvalidTermError,
    LicenseError,
    MatplotlibNotInstalledError,
    ProblemTooLargeError,
    SolveFailedError,
    SuspiciousInputWarning,
    UnsupportedFactorError,
    UnsupportedNoiseError,
)
from gtsam_sdp.factors.registry import register_term, unregister_term
from gtsam_sdp.files.datasets import load_g2o, load_pyfg
from gtsam_sdp.lift.check import check_term
from gtsam_sdp.lift.qcqp import Constraint, Qcqp
from gtsam_sdp.losses.truncated import truncated_least_squares
from gtsam_sdp.relax import relax
from gtsam_sdp.relaxation.relaxation import Relaxation
from gtsam_sdp.relaxation.tree import Clique, CliqueTree
from gtsam_sdp.results.certificate import Certificate, CertificateStatus, FactorTerm, FactorTerms
from gtsam_sdp.results.sdp_solution import SdpSolution
from gtsam_sdp.results.solution import Solution, Stage
from gtsam_sdp.show import renderers as _renderers  # noqa: F401  (gives every result its renderers)
from gtsam_sdp.solve import refine, solve
from gtsam_sdp.terms.terms import Exactness
from gtsam_sdp.terms.user import Residual, Term
from gtsam_sdp.values.layout import Layout

__all__ = [
    "Backend",
    "BackendNotInstalledError",
    "Certificate",
    "CertificateStatus",
    "ClarabelBackend",
    "Clique",
    "CliqueTree",
    "ConicProblem",
    "Constraint",
    "DatasetError",
    "Exactness",
    "FactorTerm",
    "FactorTerms",
    "GtsamSdpError",
    "InvalidGraphError",
    "InvalidTermError",
    "Layout",
    "LicenseError",
    "MatplotlibNotInstalledError",
    "MosekBackend",
    "ProblemTooLargeError",
    "Qcqp",
    "Relaxation",
    "Residual",
    "SdpSolution",
    "Solution",
    "SolveFailedError",
    "Stage",
    "SuspiciousInputWarning",
    "Term",
    "UnsupportedFactorError",
    "UnsupportedNoiseError",
    "certify",
    "check_term",
    "load_g2o",
    "load_pyfg",
    "refine",
    "register_term",
    "relax",
    "solve",
    "truncated_least_squares",
    "unregister_term",
]
__version__ = VERSION
