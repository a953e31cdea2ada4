"""The decisions: pure functions from what happened to what happens next. No I/O, no clock, no chance."""
