"""The report of a session, for every face: data, JSON and one self-contained HTML page.

`build` makes the data from the journal, `evidence` adds diffs and audit logs, `page` renders the HTML.
Not here: the short report of the terminal (cli/render/report).
"""
