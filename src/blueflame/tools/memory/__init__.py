"""Memory across sessions: one interface, a store of our own as the first copy, and mirrors of it."""
