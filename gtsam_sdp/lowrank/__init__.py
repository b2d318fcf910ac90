"""Local methods on matrices Y of low rank: polishing a solution of the lifted problem."""
