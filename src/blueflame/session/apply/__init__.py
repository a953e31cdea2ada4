"""How each event changes the state of a session: one handler per event, and the indexes that go with it.

Handlers only record; what follows from an event is decided in `session/consequences`.
"""
