"""Chats in which people ask for work and answer gates: Telegram.

Belongs here: messages, buttons, commands of a chat. Does not belong here: what they show (views/), who may (dispatch/).
"""
