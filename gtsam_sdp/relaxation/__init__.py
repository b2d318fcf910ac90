"""The semidefinite relaxation, decomposed on the cliques of GTSAM's Bayes tree."""
