"""Start, watch and end attempts."""
