"""The service over several repositories: takes requests from every source, starts sessions, shares the agents.

A session is run by a process of its own, the same `blueflame run` that a person starts; the house only starts it,
reads its journal and puts answers into its inbox.
Belongs here: the loop of the service, its journal's use, supervision of session processes.
Does not belong here: decisions (dispatch/), sources (intake/), what people see (views/, chat/).
"""
