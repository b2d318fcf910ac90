"""What a factor contributes to the lifted problem."""
