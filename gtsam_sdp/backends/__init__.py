"""Solvers for conic problems: one file each, one class each."""
