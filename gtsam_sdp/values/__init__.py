"""Types of values: what each one is made of, and which rows of the lifted matrix it owns."""
