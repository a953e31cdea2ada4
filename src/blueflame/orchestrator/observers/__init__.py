"""Called with each event after it was recorded."""
