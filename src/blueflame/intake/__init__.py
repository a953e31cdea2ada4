"""Where requests come from besides a terminal: plan files, feeds, schedules, webhooks, issues of a forge.

Each source turns what it finds into arrivals (`model/house/arrival.py`) and gives them to the house with the
cursor from which it continues. Belongs here: fetching, watching, listening, parsing what others wrote.
Does not belong here: whether a request may start work (dispatch/), sessions (house/), chats with people (chat/).
"""
