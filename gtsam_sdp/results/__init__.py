"""What the package returns."""
