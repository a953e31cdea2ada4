"""`blueflame demo`: a whole session on a throw-away repository, with scripted agents."""

from __future__ import annotations

import tempfile
from pathlib import Path

import click

from blueflame.cli.options import PATH, json_option, quiet_option
from blueflame.cli.output import print_text
from blueflame.demo import REQUEST, create_demo
from blueflame.git.command import build_identity_environment, run_git
from blueflame.model.errors import UsageError
from blueflame.orchestrator.project import open_project


@click.command()
@click.option("--ask", is_flag=True, help="Answer the gates yourself instead of using the demo's decisions.")
@click.option(
    "--workflow",
    "-w",
    type=click.Choice(["waves", "flow"]),
    default="waves",
    show_default=True,
    help="waves, or flow: no barrier between stages.",
)
@click.option("--in", "folder", type=PATH, help="Create the repository in this empty folder, and keep it.")
@json_option
@quiet_option
def demo(ask: bool, workflow: str, folder: Path | None, as_json: bool, quiet: bool) -> int:
    """Run six tasks with scripted agents: one attempt fails, one changeset lands only in the second cycle."""
    if folder is not None:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise UsageError(f"{folder} is not an empty folder: pass another one with --in")
        folder.mkdir(parents=True, exist_ok=True)
        return _run_demo(folder, ask=ask, workflow=workflow, as_json=as_json, quiet=quiet, kept=True)
    with tempfile.TemporaryDirectory(prefix="blueflame-demo-") as made:
        return _run_demo(Path(made), ask=ask, workflow=workflow, as_json=as_json, quiet=quiet, kept=False)


def _run_demo(folder: Path, *, ask: bool, workflow: str, as_json: bool, quiet: bool, kept: bool) -> int:
    from blueflame.cli.foreground import RunOptions, run_session
    from blueflame.documents.decisions import load_decisions
    from blueflame.orchestrator.lifecycle import lock_project, open_session
    from blueflame.orchestrator.trust import list_needed, revoke_trust, trust_settings

    sample = create_demo(folder.resolve())
    _disable_sandbox_if_unavailable(sample.repo / "blueflame.yaml", quiet=as_json or quiet)
    project = open_project(sample.repo / "blueflame.yaml")
    trust_settings(project, list_needed(project))  # our own file: it asks for something only without a sandbox
    decisions = None if ask else load_decisions(sample.decisions)
    options = RunOptions(script=sample.script, decisions=decisions, as_json=as_json, quiet=quiet, kept=kept)
    if not as_json:
        print_text(f"Sample repository: {sample.repo}\nRequest: {REQUEST}\n")
    with lock_project(project) as journal:
        session = open_session(project, journal, request=REQUEST, workflow=workflow, scripted=True)
        code = run_session(project, journal, session, options, also={"log": lambda: _read_git_log(sample.repo)})
    if not kept:
        revoke_trust(project)
    if not as_json:
        _print_history(sample.repo, kept=kept)
    return code


def _disable_sandbox_if_unavailable(config: Path, *, quiet: bool) -> None:
    """Allow the demo on a machine without a sandbox: its agents only play our script."""
    from blueflame.orchestrator.foreground_sandbox import find_sandbox_problems

    problems = find_sandbox_problems("standard")
    if not problems:
        return
    config.write_text(f"{config.read_text()}\nsandbox: {{ level: off }}  # not available on this machine\n")
    run_git(config.parent, "commit", "-qam", "Disable the sandbox", env=build_identity_environment(config.parent))
    if not quiet:
        print_text(f"No sandbox on this machine ({problems[0].words}): enough for a demo, not for real agents.\n")


def _print_history(repo: Path, *, kept: bool) -> None:
    print_text("\n$ git log --graph --oneline main")
    print_text("\n".join(_read_git_log(repo)))
    if kept:
        print_text(f"\nExplore {repo}: blueflame status, blueflame log, cat .blueflame/tasks.yaml")


def _read_git_log(repo: Path) -> list[str]:
    return run_git(repo, "log", "--graph", "--oneline", "--no-decorate", "main").splitlines()
