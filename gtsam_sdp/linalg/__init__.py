"""Linear algebra that knows its rounding errors."""
