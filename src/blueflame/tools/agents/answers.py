"""Structured output from agents whose program cannot be held to a schema: asked for in words, found in words."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

FENCED = re.compile(r"^```(?:json)?[ \t]*\n(.*?)\n```[ \t]*$", re.DOTALL | re.MULTILINE)
LONGEST = 4 * 1024 * 1024  # characters

ASKED = """\
{prompt}

Your last message must be one JSON object and nothing else: no words before it, none after it.
It must fit this JSON schema:

```json
{schema}
```
"""


def with_schema(prompt: str, schema: Mapping[str, Any] | None) -> str:
    """The prompt, and what is to come back when something is."""
    return prompt if schema is None else ASKED.format(prompt=prompt.rstrip(), schema=json.dumps(schema, indent=1))


def object_in(text: str) -> Mapping[str, Any] | None:
    """The JSON object that a message is, bare or as its only block of code; None when it is anything else."""
    bare = text.strip()
    if len(bare) > LONGEST:
        return None
    blocks = FENCED.findall(bare)
    for candidate in (bare, *(blocks if len(blocks) == 1 else ())):
        try:
            found = json.loads(candidate)
        except (ValueError, RecursionError):
            continue
        if isinstance(found, dict):
            return found
    return None
