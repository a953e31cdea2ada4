"""Roles and workflows that need no configuration: written and read as those of a configuration file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from blueflame.model.attempt import CURATOR, MERGER, PLANNER, TRIAGER, VALIDATOR, WORKER

LEAD = "lead"
READ_ONLY_TOOLS = ("Read", "Glob", "Grep", "Bash")

DATABASE_PERSONA = """\
You are the database engineer of $project.
Make only what $task needs of the database: schema, migrations, queries, seed data.
A migration can be run twice and be undone, and it loses no data.
Leave the server and the user interface to the stages after you."""
BACKEND_PERSONA = """\
You are the backend engineer of $project.
Make what $task needs on the server: interfaces, rules, errors, access rights, with tests of your own.
Check every input at the border, and keep the interfaces that others rely on.
Leave the user interface to the stages after you."""
FRONTEND_PERSONA = """\
You are the frontend engineer of $project.
Make what $task needs on the screen, with the components and styles that the project has, and with tests of your own.
Show what is loading, what is empty and what went wrong; everything works with the keyboard.
Use the server as it is: if it lacks something, say so in your last message, and do not change it."""
DOCS_PERSONA = """\
You are the technical writer of $project.
Describe what $task changed, for the people who use it, where the project keeps its documentation.
Every command and every example that you write, you have run. Remove what is no longer true."""
REVIEW_PERSONA = """\
You review the code and the commits of $task for $project.
Look for mistakes, for missing tests, for security problems (injection, secrets, access rights, unsafe paths) and for
what does not fit this project. Each commit has one subject, and its message says what it does.
Fail what you would not merge, and name file and line. Your confidence is how sure you are that it can be merged as it
is: 1 means that you have checked everything, 0.5 that you have not."""
QA_PERSONA = """\
You test $task of $project as the person who asked for it.
Run the tests that it touches and try what was asked for, also with empty, wrong and large input.
Fail what does not do what was asked for, or breaks what worked before, and say how to see it. Your confidence is how
much of it you have seen work."""
SECURITY_PERSONA = """\
You look for security problems that $task brings to $project.
Follow every input from where it enters to where it is used: injection, access rights, secrets, unsafe paths,
deserialisation, dependencies. Fail what an attacker could use, and say how."""
BUILD_PERSONA = """\
You check whether $project still builds with $task.
Read the results of the checks, and run what they leave out: build, types, lint, start.
Judge nothing else. Fail only what does not build or start, with the message that you saw."""
VERIFY_PERSONA = """\
You check whether the program does what $task asks for.
Start it, or the part of it that $task changed, and use it as its users would; read its output and its logs.
Fail what you could not see work, and say what you did and what happened."""

BUILT_IN_ROLES: Mapping[str, Mapping[str, Any]] = {
    TRIAGER: {"duty": "size", "model": "haiku", "budget_usd": 0.25, "timeout": "3m", "tools": list(READ_ONLY_TOOLS)},
    PLANNER: {"duty": "plan", "model": "sonnet", "budget_usd": 2.00, "tools": list(READ_ONLY_TOOLS)},
    WORKER: {"duty": "make", "model": "sonnet", "budget_usd": 5.00},
    VALIDATOR: {"duty": "judge", "model": "sonnet", "budget_usd": 1.00, "tools": list(READ_ONLY_TOOLS)},
    MERGER: {"duty": "merge", "model": "sonnet", "budget_usd": 2.00},
    LEAD: {"duty": "make", "model": "sonnet", "budget_usd": 5.00},
    CURATOR: {"duty": "curate", "model": "sonnet", "budget_usd": 1.00, "tools": list(READ_ONLY_TOOLS)},
    "database": {"duty": "make", "budget_usd": 5.00, "persona": DATABASE_PERSONA},
    "backend": {
        "duty": "make",
        "budget_usd": 5.00,
        "skills": ["backend-patterns", "python-patterns"],
        "persona": BACKEND_PERSONA,
    },
    "frontend": {
        "duty": "make",
        "budget_usd": 5.00,
        "skills": ["frontend-patterns", "ui-ux-pro-max"],
        "persona": FRONTEND_PERSONA,
    },
    "docs": {"duty": "make", "budget_usd": 5.00, "persona": DOCS_PERSONA},
    "review-git": {
        "duty": "judge",
        "budget_usd": 1.00,
        "skills": ["code-review", "git-workflow", "security-review"],
        "persona": REVIEW_PERSONA,
    },
    "qa": {
        "duty": "judge",
        "budget_usd": 1.00,
        "skills": ["tdd-workflow", "e2e-testing"],
        "persona": QA_PERSONA,
    },
    "security": {"duty": "judge", "budget_usd": 1.00, "skills": ["security-review"], "persona": SECURITY_PERSONA},
    "build-validator": {"duty": "judge", "model": "haiku", "budget_usd": 0.50, "persona": BUILD_PERSONA},
    "verify-app": {"duty": "judge", "budget_usd": 1.00, "persona": VERIFY_PERSONA},
}

PIPELINE = "default"
"""The workflow whose settings others take where they have none of their own."""

BUILT_IN_WORKFLOWS: Mapping[str, Mapping[str, Any]] = {
    "waves": {"stages": ["plan", "work", "validate", "merge"], "barrier": True},
    "flow": {"stages": ["plan", "work", "validate", "merge"], "barrier": False},
    "single": {"stages": ["work", "check", "merge"]},
    "direct": {"stages": ["work", "check", "merge"], "role": LEAD},
    "curate": {"stages": ["curate"]},
    "single_verified": {"stages": ["work", "build-validator", "merge"]},
    "waves_verified": {"stages": ["plan", "work", "build-validator", "verify-app", "merge"], "barrier": True},
}

BUILT_IN_PIPELINES: Mapping[str, Mapping[str, Any]] = {
    PIPELINE: {
        "stages": ["backend", "review-git", "frontend", "review-git", "qa", "merge"],
        "review_threshold": 0.8,
        "max_retries": 3,
        "retry_backoff_base_ms": 30_000,
    },
    "backend_only": {"stages": ["backend", "review-git", "qa", "merge"], "review_threshold": 0.85},
    "frontend_only": {"stages": ["frontend", "review-git", "qa", "merge"], "review_threshold": 0.75},
    "full_stack": {
        "stages": ["backend", "review-git", "frontend", "review-git", "qa", "merge"],
        "database_first": True,
    },
}
"""Workflows that take what they do not set from `default`, also if the file does not write one."""
