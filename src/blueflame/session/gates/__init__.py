"""Questions to people: what is asked (`questions`), which answer is accepted, and what follows from it (`answers`).

How a question is shown and how an answer arrives belongs to cli/ and orchestrator/.
"""
