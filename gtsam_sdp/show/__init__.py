"""Results as text and as tables."""
