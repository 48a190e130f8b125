"""Deep hashers: torch encoders trained on an objective. One paper, one file."""
