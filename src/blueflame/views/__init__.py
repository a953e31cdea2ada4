"""What every face shows, as plain data: dataclasses to draw and the objects that --json prints.

Built from values alone: no rich, no click, no terminal, no file. A face (the terminal, later web, chat and MCP) takes
a view and draws it; it makes texts safe for its own screen (`text.sanitize`, HTML escapes), because agents wrote them.
Not here: colours and columns (cli/render), the report of a session (report/, which builds on this package).
"""
