"""Column generation: weighted bits that are learned one by one, with one file per paper."""
