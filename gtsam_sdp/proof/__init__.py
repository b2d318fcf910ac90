"""Lower bounds that are proven in floating point."""
