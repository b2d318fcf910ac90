"""Finding better values."""
