"""Sixty requests over seven shapes of repositories, with the tier that a person would give them.

None: the request alone does not tell. Write what people write; a row that the code gets wrong is changed in the code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from blueflame.model.sizing import CodeMap, Tier


class Shape(NamedTuple):
    """A repository: its files, and in which of them symbols are."""

    code: CodeMap
    symbols: Mapping[str, Sequence[str]]


def _make(files: str, symbols: Mapping[str, str], *, more: int = 0) -> Shape:
    paths = tuple(files.split())
    tests = frozenset(path for path in paths if "test" in path)
    sources = sum(path.endswith((".py", ".ts", ".tsx", ".js", ".go", ".rs", ".rb", ".sh", ".java")) for path in paths)
    found = {name: tuple(where.split()) for name, where in symbols.items()}
    return Shape(CodeMap(files=paths, tests=tests, sources=sources + more), found)


def _number(pattern: str, n: int) -> str:
    return " ".join(pattern.format(i) for i in range(n))


PYTHON = _make(
    "README.md CHANGELOG.md pyproject.toml .gitignore src/shop/__init__.py src/shop/cli/main.py "
    "src/shop/cli/options.py src/shop/orders/api.py src/shop/orders/models.py src/shop/orders/totals.py "
    "src/shop/billing/invoice.py "
    "src/shop/billing/tax.py src/shop/stock/ledger.py src/shop/stock/count.py tests/orders/test_totals.py "
    "tests/billing/test_tax.py docs/index.md docs/guide.md " + _number("src/shop/stock/part{}.py", 24),
    {
        "compute_total": "src/shop/orders/totals.py tests/orders/test_totals.py",
        "MAX_RETRIES": "src/shop/orders/api.py",
        "recieve": "src/shop/stock/ledger.py",
        "Ledger": " ".join(["src/shop/stock/ledger.py", *_number("src/shop/stock/part{}.py", 24).split()]),
        "TaxTable": "src/shop/billing/tax.py src/shop/billing/invoice.py",
    },
)
MONOREPO = _make(
    "README.md package.json apps/web/src/pages/login.tsx apps/web/src/pages/cart.tsx apps/web/src/api.ts "
    "apps/admin/src/index.tsx packages/ui/src/Button.tsx packages/ui/src/theme.ts packages/db/schema.sql "
    "packages/db/src/client.ts packages/auth/src/session.ts packages/auth/src/session.test.ts "
    "services/mail/src/send.ts .github/workflows/ci.yml " + _number("apps/web/src/components/C{}.tsx", 40),
    {
        "useCart": "apps/web/src/pages/cart.tsx",
        "sendMail": "services/mail/src/send.ts",
    },
)
GO = _make(
    "README.md Makefile go.mod cmd/server/main.go internal/http/router.go internal/http/middleware.go "
    "internal/store/store.go internal/store/store_test.go internal/queue/queue.go internal/auth/token.go "
    + _number("internal/store/q{}.go", 12),
    {"NewRouter": "internal/http/router.go cmd/server/main.go", "ErrExpired": "internal/auth/token.go"},
)
RUST = _make(
    "Cargo.toml README.md crates/core/src/lib.rs crates/core/src/parse.rs crates/core/src/eval.rs "
    "crates/cli/src/main.rs crates/lsp/src/server.rs crates/fmt/src/lib.rs "
    + _number("crates/core/src/ops/o{}.rs", 15),
    {"parse_expr": "crates/core/src/parse.rs", "Token": "crates/core/src/parse.rs crates/core/src/eval.rs"},
)
TINY = _make("README.md backup.sh restore.sh lib.sh test_backup.sh", {"rotate": "lib.sh backup.sh"})
RAILS = _make(
    "Gemfile app/controllers/users_controller.rb app/models/user.rb app/views/users/show.html.erb config/routes.rb "
    "db/schema.rb spec/models/user_spec.rb " + _number("app/models/m{}.rb", 20),
    {"full_name": "app/models/user.rb app/views/users/show.html.erb"},
)
EMPTY = _make("README.md", {})

ONE, TWO, THREE = Tier.DIRECT, Tier.SINGLE, Tier.PLANNED

REQUESTS: tuple[tuple[Shape, str, Tier | None], ...] = (
    # one obvious change in one place
    (PYTHON, "Fix the typo in README.md", ONE),
    (PYTHON, "There is a typo in the README: 'instal' should be 'install'.", ONE),
    (PYTHON, 'Fix the spelling of "recieve"', ONE),
    (PYTHON, "Change MAX_RETRIES from 3 to 5", ONE),
    (PYTHON, "Bump the version in pyproject.toml to 1.4.0", ONE),
    (PYTHON, "Remove the unused import in src/shop/billing/tax.py", ONE),
    (PYTHON, "please add *.log to .gitignore", ONE),
    (PYTHON, "Add a docstring to `compute_total`", ONE),
    (MONOREPO, "Update the copyright year in apps/web/src/pages/login.tsx", ONE),
    (MONOREPO, "In theme.ts, change the primary colour to #0055ff", ONE),
    (MONOREPO, "Fix the broken link in the README", ONE),
    (GO, "Raise the timeout in internal/http/middleware.go to 30s", ONE),
    (GO, "Correct the comment above ErrExpired", ONE),
    (RUST, "Remove the stray debug print in crates/core/src/eval.rs", ONE),
    (RUST, "Rename the local variable `tmp` in crates/fmt/src/lib.rs to something telling", ONE),
    (TINY, "Change the default port in backup.sh to 2222", ONE),
    (RAILS, "Reword the heading in app/views/users/show.html.erb", ONE),
    # one part, clear in scope
    (PYTHON, "compute_total rounds 0.005 down, it should round half up", TWO),
    (PYTHON, "Add a --json option to src/shop/cli/main.py and test it", TWO),
    (PYTHON, "Reject negative quantities in src/shop/orders/models.py with a clear error. Add tests.", TWO),
    (PYTHON, "Support reduced tax rates in TaxTable", TWO),
    (PYTHON, "Rename Ledger to StockLedger everywhere", TWO),
    (PYTHON, "Fix the crash when an order is empty", TWO),
    (PYTHON, "Fix typos throughout the documentation", TWO),
    (PYTHON, "Write unit tests for src/shop/billing/invoice.py", TWO),
    (MONOREPO, "useCart loses the last item when two tabs are open. Make it survive.", TWO),
    (MONOREPO, "Add a disabled state to packages/ui/src/Button.tsx", TWO),
    (MONOREPO, "Add a log line to sendMail with the recipient's domain", TWO),
    (MONOREPO, "session.ts: expire sessions after 30 days, and refresh them on use", TWO),
    (GO, "Refactor internal/http/router.go so that each group of routes has its own function", TWO),
    (GO, "The queue package drops messages when it is full; let it block instead", TWO),
    (GO, "Add a health endpoint", TWO),
    (GO, "In internal/auth/token.go:\n- accept bare tokens\n- return ErrExpired\n- log the key id\n- drop v1", TWO),
    (RUST, "parse_expr panics on an empty string instead of returning an error", TWO),
    (RUST, "Add support for hexadecimal literals to crates/core/src/parse.rs", TWO),
    (TINY, "Keep the last seven backups and delete older ones", TWO),
    (TINY, "Add an option to compress backups", TWO),
    (RAILS, "Add a method to user.rb that returns the initials, and show them in show.html.erb", TWO),
    # several parts: to be planned
    (PYTHON, "Migrate the whole code base from requests to httpx", THREE),
    (PYTHON, "Add type annotations to all functions and make mypy --strict pass across the project", THREE),
    (PYTHON, "Add coupons: a database table, an API endpoint to redeem them, and a page in the frontend", THREE),
    (PYTHON, "- add currencies to orders\n- convert prices\n- show rates in the cli\n- store daily rates", THREE),
    (PYTHON, "Refactor src/shop/stock so that storage is behind an interface", THREE),
    (PYTHON, "Make orders/api.py, billing/invoice.py and stock/ledger.py work with several currencies", THREE),
    (MONOREPO, "Build an admin panel with user management", THREE),
    (MONOREPO, "Add single sign-on: identities in the database, an API, and a button on the login page", THREE),
    (MONOREPO, "Internationalise all pages of the web app and add a language switch", THREE),
    (MONOREPO, "Upgrade every package to React 19, fix what breaks, and update the CI pipeline", THREE),
    (GO, "Add structured logging across the whole service and propagate request ids through every handler", THREE),
    (RUST, "Rewrite every module of the evaluator as a bytecode VM, from scratch", THREE),
    (RAILS, "Introduce roles: migrate the users table, restrict all controllers, and add an admin page", THREE),
    (EMPTY, "Create a web application for tracking expenses with charts and CSV export", THREE),
    # the request alone does not tell
    (PYTHON, "Make it faster", None),
    (PYTHON, "Improve error handling", None),
    (PYTHON, "Add OAuth login", None),
    (MONOREPO, "Support dark mode", None),
    (MONOREPO, "The build is flaky, please investigate", None),
    (GO, "Use a better cache", None),
    (GO, "Make the service production-ready", None),
    (RAILS, "Как сделать вход по телефону?", None),
)  # fmt: skip
