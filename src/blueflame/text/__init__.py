"""Words for people: sanitized, formatted, one sentence for each event. Pure."""
