"""The view of a running session: the frame, the feed of events, following from another terminal."""
