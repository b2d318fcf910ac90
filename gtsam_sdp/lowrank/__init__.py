"""Local methods on matrices Y of few columns: initialisation, descent, staircase."""
