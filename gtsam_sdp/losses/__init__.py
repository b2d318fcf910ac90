"""Robust losses of GTSAM, and parabolas that are never above them on an interval."""
