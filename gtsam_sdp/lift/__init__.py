"""From a reading to the lifted problem."""
