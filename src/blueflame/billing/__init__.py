"""What a model call used, and what it costs. Pure: no I/O, no clock.

`sse` cuts an answer into parts as it streams, `usage_formats` reads the token counts of each API, and `usage` joins the
two; `price_table` and `prices` turn tokens into millionths of a dollar. Budgets of a running agent are kept in
`gateway/model_api/budget`, those of a session in `session/`.
"""
