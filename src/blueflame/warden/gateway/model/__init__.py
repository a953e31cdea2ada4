"""The model door: an agent's calls to its model, with the credential put in, metered, held to budgets and parked.

orders.py      what it is told, read before anything is started       endpoints.py  which paths are passed on, and how
door.py        one call, from its head to its line in the record      bodies.py     a request's body, length or chunks
requesting.py  the request as the provider gets it                    upstream.py   connections to the provider
answers.py     an answer's head and body, as they come                passing.py    on to the agent, with a copy read
hints.py       when a refused call may come again                     parking.py    who waits, and who is told of it
purse.py       budgets: who may go on, and who waits for whom         ledger.py     usage.jsonl, one line for each call
shapes.py      errors in each API's own shape                         telling.py    lines to the warden
agent.py       the agent's end of a call, soothing.py keeps it quiet  troubles.py   limits, outages, networks
"""
