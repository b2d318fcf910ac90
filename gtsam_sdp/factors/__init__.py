"""Factor adapters: one file a family; each turns factors of one type into terms, vectorised over the factors."""
