"""Words for people and programs: sanitized text, formatted numbers, one sentence per event, notifications. Pure.

Belongs here: a sentence or a format that more than one package shows. Does not belong here: colours, tables and
screens (cli/), view models (views/), prompts for agents (orchestrator/prompts/).
"""
