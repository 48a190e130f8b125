"""Column generation: weighted bits that are learned one by one. One paper, one file."""
