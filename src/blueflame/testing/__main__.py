"""`python -m blueflame.testing model --script FILE`: run the loopback model as a process."""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path

from blueflame.model.errors import BlueFlameError
from blueflame.testing.model_server import LoopbackModel


def main(argv: list[str] | None = None) -> int:
    """Print the URL, then serve until SIGTERM or SIGINT."""
    arguments = _build_parser().parse_args(argv)
    signals = {signal.SIGTERM, signal.SIGINT}
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)  # before the threads start, which inherit the mask
    try:
        with LoopbackModel(arguments.script, port=arguments.port, ledger=arguments.ledger) as model:
            print(model.url, flush=True)  # noqa: T201 (its output)
            signal.sigwait(signals)
    except BlueFlameError as error:
        print(f"blueflame.testing: {error}", file=sys.stderr)  # noqa: T201 (its output)
        return error.exit_code
    except OSError as error:
        print(f"blueflame.testing: cannot serve at port {arguments.port}: {error.strerror}", file=sys.stderr)  # noqa: T201 (its output)
        return 4
    return 0


def _build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m blueflame.testing")
    model = parser.add_subparsers(dest="what", required=True).add_parser("model", help="serve a loopback model")
    model.add_argument(
        "--script", type=Path, required=True, help="what it answers (docs/how-to/test-without-a-provider.md)"
    )
    model.add_argument("--port", type=int, default=0, help="port to listen on; 0 (the default) for a free one")
    model.add_argument("--ledger", type=Path, help="append each answer that was served, one JSON object per line")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
