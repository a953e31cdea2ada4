"""What happens in a session: events to state, state to the next events and to the effects that should be running.

`replay` builds the state from the journal, `decide` gives the next facts, `consequences` what follows from a fact,
`effects` what should be running. Pure: the time and the machine's capacity are passed in.
Belongs here: a rule about tasks, attempts, gates, changesets or budgets of a session.
Does not belong here: anything that reads, writes, waits or prints (orchestrator/), sentences for people (text/).
"""
