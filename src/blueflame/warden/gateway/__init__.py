"""The box's only exit: a process of its own per attempt that lets an agent reach the hosts its person has listed.

process.py   start it, give it listeners, end it; all that the warden knows of it
orders.py    what it is told: the allow list, read before anything is started
serve.py     the process itself: listeners come in by the control socket, requests are told apart
requests.py  the head of a request, read strictly          replies.py    what is said back, in words to act on
tunnel.py    CONNECT                                       plain.py      http://host/... where that is listed
roads.py     name to checked address to connection         addresses.py  which addresses are public
hello.py     the server name in a TLS ClientHello          relay.py      bytes both ways
local.py     the gateway's own pages                       book.py       gateway.jsonl, one line for each request
counter.py   what every request is served with             model/        calls to a model, metered
"""

from blueflame.warden.gateway.process import Gateway, start

__all__ = ["Gateway", "start"]
