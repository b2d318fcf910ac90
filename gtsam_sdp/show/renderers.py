"""Gives every result its renderers."""

from gtsam_sdp.lift.qcqp import Qcqp
from gtsam_sdp.relaxation.relaxation import Relaxation
from gtsam_sdp.relaxation.tree import CliqueTree
from gtsam_sdp.relaxation.vector import VectorQcqp
from gtsam_sdp.results.certificate import Certificate, FactorTerm, FactorTerms
from gtsam_sdp.results.region import RobustRegion
from gtsam_sdp.results.sdp_solution import SdpSolution
from gtsam_sdp.results.solution import Solution
from gtsam_sdp.show import html, text
from gtsam_sdp.show.rows import counts_text
from gtsam_sdp.shown import show_with

show_with(Certificate, text.certificate_text, lambda c: f"<Certificate {text.headline(c)}>", html.certificate_html)
show_with(Solution, text.solution_text, text.solution_text, html.solution_html)
show_with(FactorTerm, text.term_text, lambda term: f"<FactorTerm: {term}>", text.term_text)
show_with(FactorTerms, text.terms_text, lambda t: f"<FactorTerms: {counts_text(t)}>", html.factor_terms_html)
show_with(RobustRegion, text.region_text, lambda r: f"<RobustRegion: {r}>", text.region_text)
show_with(SdpSolution, text.sdp_solution_text, text.sdp_solution_text, html.sdp_solution_html)
show_with(Relaxation, text.relaxation_text, text.relaxation_text, html.relaxation_html)
show_with(CliqueTree, text.tree_text, text.tree_text, html.tree_html)
for _kind in (Qcqp, VectorQcqp):
    show_with(_kind, text.qcqp_text, lambda qcqp: f"<{qcqp}>", html.qcqp_html)
