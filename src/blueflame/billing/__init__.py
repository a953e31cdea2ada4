"""What a model call used and what it costs. Pure."""
