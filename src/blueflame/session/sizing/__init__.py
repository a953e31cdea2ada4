"""How large a request is, before anything is planned: by what it says, the map of the code and earlier requests.

Values in, values out: `orchestrator/triage` reads the repository and the memory, `size_request` decides. What the code
cannot decide takes the planned workflow, the one that a person approves before it costs much.
"""
