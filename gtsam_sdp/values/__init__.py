"""Types of values: which rows of the lifted matrix each one owns."""
