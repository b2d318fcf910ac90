"""gtsam_sdp: is the solution of a GTSAM factor graph the best there is?"""

from . import plot as plot
from .backends.base import Backend
from .backends.clarabel_ import ClarabelBackend
from .backends.conic import ConicProblem
from .backends.mosek_ import MosekBackend
from .certify import certify
from .errors import (
    BackendNotInstalledError,
    DatasetError,
    GtsamSdpError,
    InvalidGraphError,
    InvalidTermError,
    LicenseError,
    MatplotlibNotInstalledError,
    PandasNotInstalledError,
    ProblemTooLargeError,
    SolveFailedError,
    SuspiciousInputWarning,
    UnsupportedFactorError,
    UnsupportedNoiseError,
)
from .factors.registry import register_term, unregister_term
from .files.datasets import load_g2o, load_pyfg
from .files.writing import write_g2o
from .lift.check import check_term
from .lift.qcqp import Constraint, Qcqp
from .losses.truncated import truncated_least_squares
from .relax import relax
from .relaxation.relaxation import Relaxation
from .relaxation.tree import Clique, CliqueTree
from .results.certificate import Certificate, CertificateStatus, FactorTerm, FactorTerms
from .results.sdp_solution import SdpSolution
from .results.solution import Solution, Stage
from .solve import refine, solve
from .terms.terms import Exactness
from .terms.user import Residual, Term
from .values.layout import Layout

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
    "PandasNotInstalledError",
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
    "plot",
    "refine",
    "register_term",
    "relax",
    "solve",
    "truncated_least_squares",
    "unregister_term",
    "write_g2o",
]
__version__: str
