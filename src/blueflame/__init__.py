"""Blue Flame: a deterministic foreman for teams of AI coding agents."""

__version__ = "0.1.0"
