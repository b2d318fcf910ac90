"""What can be proven about values."""
