"""Commands of honest developers and agents that must pass: a wall that blocks honest work will be switched off."""

from __future__ import annotations

from dataclasses import replace

import pytest

from shells import Court, open_court

HEREDOC = """git commit -m "$(cat <<'EOF'
feat(task-001): sync state over ssh

It used to run `rm -rf x` and $(curl y); docker is not needed any more.

Co-Authored-By: Somebody <a@b.c>
EOF
)\""""

HONEST: dict[str, tuple[str, ...]] = {
    "default": (
        "ls", "ls -la", "ls -la && git status", "ls *", "ls src/*.py", "ls -R src | head -50", "pwd", "true", ":",
        "git status", "git status --short --branch", "git status -uno", "git diff", "git diff --stat", "git diff HEAD~1",
        "git diff main...HEAD -- src", "git diff --cached", "git diff --name-only | cat", "git diff HEAD -- src/app.py",
        "git log", "git log --oneline -5 | head", "git log --oneline -n 5", "git log -p -1", "git log --format='%h %s' -3",
        "git log --graph --all --oneline | head -20", "git log --since='2 days ago' --author=me", "git --no-pager log -1",
        "git -C . status", "git -C sub status", "git --no-pager diff", "git -P log -3", "git --no-optional-locks status",
        "git add -A", "git add .", "git add src/sshkeys_test.go", "git add src tests", "git add -u", "git add -- src/app.py",
        'git add -A && git commit -m "feat(task-001): x"', "git commit -m 'sync state'", "git commit --amend --no-edit",
        "git commit -am 'fix(task-002): use docker | ssh > curl'", "git commit -m 'one' -m 'two; rm -rf x'",
        HEREDOC, "git add -A && " + HEREDOC + " && git status",
        "git commit -F - <<'EOF'\nfeat(task-001): x\n\nbody with $(stuff) and `more`\nEOF",
        "git commit -F - <<EOF\nfeat(task-001): plain\nEOF", "git commit --allow-empty -m x", "git commit -F docs/message.md",
        "git commit --author='A B <a@b>' -m x", "git rev-parse HEAD", "git rev-parse --abbrev-ref HEAD", "git ls-files",
        "echo \"at $(git rev-parse --short HEAD)\"", "git --version",
        "make", "make test", "make -j4", "make -j 4 test", "make test VERBOSE=1", "make -C sub test", "make -k -s lint",
        "make docker-docs", "make -n", "make test 2>&1 | tail -50", "make build && make test", "make -f Makefile test",
        "make test TESTS='a b'", "make --version", "make -B all", "make CC=clang", "make CFLAGS='-O2 -g'",
        "cd sub && make test 2>&1 | tail -50", "cd sub && make && cd .. && make", "(cd sub && make)", "cd sub || exit 1; make",
        "cd sub; make; cd ..", "set -e\ncd sub\nmake\ncd ..\nmake", "set -euo pipefail\nmake", "pushd sub && make && popd",
        "cd \"$(git rev-parse --show-toplevel)\" && make", "cd src/app && ls", "cd ./sub && ls ..",
        "cat README.md", "cat docs/docker.md", "cat src/app.py | head -20", "cat -n src/app.py", "cat src/*.py",
        "cat README.md docs/docker.md", "head -5 README.md", "head -n 5 README.md", "tail -n +3 README.md", "tail -50 README.md",
        "wc -l src/*.py", "wc -l README.md", "wc -l < README.md", "sort README.md | uniq -c | sort -rn | head",
        "sort -k2,2 -t, docs/docker.md", "cut -d: -f1 README.md", "tr a-z A-Z < README.md", "nl README.md", "diff src/app.py README.md",
        "diff -u <(git show-ref) README.md || true" if False else "diff <(sort README.md) <(sort docs/docker.md)",
        "cmp src/app.py README.md", "basename src/app.py .py", "dirname src/app.py", "realpath src", "stat README.md", "file src/app.py",
        "du -sh src", "tree -L 2", "column -t README.md", "jq .name package.json", "jq -r '.scripts | keys[]' package.json",
        "grep -rn curl src", "grep -rn 'rm -rf' .", "grep -r x src/*", "grep -n 'def ' src/app.py", "grep -rIl TODO --include='*.py' .",
        "grep -c x README.md", "grep -v '^#' Makefile", "egrep 'a|b' README.md", "grep -e a -e b README.md", "rg TODO", "rg -n 'ssh|scp' src",
        "rg --files | head", "rg -tpy foo", "grep foo *.md", "grep -q x README.md && echo yes",
        "sed -n '1,20p' src/app.py", "sed -n 5p README.md", "sed 's/a/b/' README.md", "sed -n '/a/,/b/p' README.md",
        "sed -e 's/x/y/g' -e '1d' README.md", "sed '/^$/d; s/  */ /g' README.md", "sed -n '10,$p' README.md",
        "awk '{print $1}' README.md", "awk -F: '{print $2}' README.md", "awk 'NR>5 && NR<10' README.md", "awk '/a|b/ {print $1}' README.md",
        "awk '{s+=$1} END {print s}' README.md", "awk 'length > 80' src/app.py", "awk '{ if ($1 > 3) print $2 }' README.md",
        "find . -name '*.py'", "find src -type f -name '*.py' | head", "find . -path ./node_modules -prune -o -name '*.ts' -print",
        "find . -name '*.py' | xargs grep -n foo", "find src -name '*.py' | xargs wc -l", "find src -name '*.py' -exec grep -l x {} +",
        "find src -name '*.py' -exec wc -l {} \\;", "find . -maxdepth 2 -type d", "find src -name '*.py' -print0 | xargs -0 grep foo",
        "git ls-files '*.py' | xargs wc -l", "git diff --name-only | xargs grep -n TODO", "ls | wc -l", "ls src | xargs -n1 basename",
        "find src -name '*.py' | xargs cat", "find src -name '*.py' | while read -r f; do wc -l \"$f\"; done",
        "for f in src/*.py; do wc -l \"$f\"; done", "for f in src/*.py; do echo \"== $f\"; head -3 \"$f\"; done",
        "for f in $(git ls-files '*.py'); do head -3 \"$f\"; done", "for d in src tests; do ls $d; done", "for i in 1 2 3; do echo $i; done",
        "for i in {1..3}; do make test; done", "for i in $(seq 1 3); do make test || break; done",
        "for ((i=0; i<3; i++)); do echo $i; done", "i=0; while [ $i -lt 3 ]; do make; i=$((i+1)); done",
        "echo hi", "echo \"use ssh or docker\"", "echo 'rm -rf /'", "printf '%s\\n' a b", "printf 'x\\n' > src/x.txt",
        "echo \"$HOME $USER $PATH\"", "echo $?", "echo ${x:-y}", "echo done >&2", "echo x 1>&2", "ls 2>/dev/null", "ls > /dev/null 2>&1",
        "ls &>/dev/null", "make 2>&1 | tee build/log.txt", "git diff > docs/patch.md", "git log -1 >> docs/log.md", "> src/empty.txt",
        "cat > src/new.py <<'EOF'\nimport os\nos.system('curl x')\nEOF", "cat <<EOF > docs/x.md\nhello $USER\nEOF", "cat <<< 'text'",
        "tee src/x.txt <<< 'a'", "make > /tmp/agent/log 2>&1; tail -5 /tmp/agent/log",
        "[ -f README.md ] && echo yes", "test -d src || echo no", "[[ -f README.md && -d src ]] && echo both", "[ \"$x\" = y ] || true",
        "if [ -f package.json ]; then cat package.json; else echo none; fi", "if git diff --quiet; then echo clean; fi",
        "[[ $x == a* ]]", "[ $? -eq 0 ] && echo ok", "[ -n \"$(git status --porcelain)\" ] && echo dirty", "[ -z \"$(git diff)\" ]",
        "case $x in a) echo a;; *) echo b;; esac", "which python3", "command -v node", "type git", "date", "date +%Y-%m-%d", "uname -a",
        "env", "printenv PATH", "id", "sleep 1", "nproc", "exit 0", "x=1; echo $x", "NAME=src; ls $NAME", "f=src/app.py; cat $f",
        "export FOO=bar; make", "FOO=bar make test", "CI=1 VERBOSE=1 make test", "PYTHONPATH=src make test", "NODE_ENV=test make",
        "GIT_PAGER=cat git log -3", "PAGER=cat git diff", "LC_ALL=C sort README.md", "TZ=UTC date", "PYTHONDONTWRITEBYTECODE=1 make",
        "timeout 60 make test", "timeout -k 5 60s make test", "time make", "nice make", "nohup make &", "env FOO=1 make", "env -u FOO make",
        "nice -n 10 make -j2", "command make", "stdbuf -oL make | head", "/usr/bin/git status", "/usr/bin/make test", "\\git status",
        "bash -c 'make test'", "bash -c 'cd sub && make' 2>&1 | tail", "sh -c \"git status && git diff\"", "make & wait",
        "echo \"$(date): $(git rev-parse HEAD)\"", "lines=$(wc -l < README.md); echo $((lines + 1))", "echo $((1 + 2))",
        "# a comment\nmake  # another", "make \\\n  test", "git status; git diff; git log -1", "git diff | grep '^+' | wc -l",
        "ls -la # rm -rf /", "echo a{1,2}b", "ls {src,tests}", "read -r line < README.md; echo \"$line\"",
        "while IFS= read -r line; do echo \"$line\"; done < README.md", "git log -1 --format=%B | head -1", "tail -f README.md | head -1",
        "git diff --no-index src/app.py README.md", "ls .env", "test -f .env && echo there", "git commit -m \"fix: $(date +%F)\"",
        "seq 1 10 | paste -sd+ -", "md5sum README.md", "sha256sum src/app.py | cut -c1-8", "echo aGk= | base64 -d", "yes | head -3",
        "cd src && cat app.py && cd .. && git status", "cat \"$PWD/README.md\"", "ls \"$(pwd)/src\"", "cd sub && cat \"$PWD/../README.md\"",
        "git log --pretty=format:'%h %an %ad %s' --date=short | head -20", "git diff --word-diff=color HEAD~1 -- docs",
        "kill %1", "umask", "ulimit -n", "echo \"a\u00a0b\"", "echo 'привет мир'", "git commit -m 'feat(task-001): добавить «ё»'",
    ),
    "git": (
        "git show HEAD", "git show HEAD:src/app.py", "git branch -a", "git checkout -b feature/x", "git switch -c x", "git stash",
        "git stash pop", "git restore src/app.py", "git checkout -- src/app.py", "git reset --soft HEAD~1", "git rebase main",
        "git cherry-pick abc123", "git blame -L 1,5 src/app.py", "git grep -n foo", "git grep -l 'a|b' -- src", "git tag -l", "git tag v1 -m x",
        "git merge-base main HEAD", "git config --get user.name", "git config user.name", "git config --list", "git config user.name 'A B'",
        "git remote -v", "git fetch", "git describe --tags", "git ls-tree -r HEAD --name-only", "git shortlog -sn", "git rev-list --count HEAD",
        "git apply docs/x.patch", "git rm src/app.py", "git mv src/app.py src/b.py", "git clean -n", "git reflog", "git cat-file -p HEAD",
        "git diff-tree --no-commit-id --name-only -r HEAD", "git check-ignore -v x", "git format-patch -1 -o docs", "git show --stat HEAD~2",
        "git worktree list", "git submodule status", "git bisect start", "git revert --no-edit HEAD", "git log main..HEAD --oneline",
        "git show \"HEAD~1:README.md\"", "git difftool --help", "git help log", "git diff HEAD^ HEAD", "git diff HEAD@{1}",
        "git log $(git merge-base main HEAD)..HEAD --oneline",
    ),
    "python": (
        "pytest", "pytest -k \"a and not b\" -x", "pytest -q tests/test_app.py::test_x", "pytest -x -q --tb=short 2>&1 | tail -30",
        "pytest -n auto", "pytest -m 'not slow'", "pytest --cov=src --cov-report=term-missing", "pytest tests/ -vv --maxfail=1",
        "pytest --lf", "pytest -p no:cacheprovider", "pytest -W error", "pytest --durations=10", "pytest -rA", "pytest -s",
        "python -m pytest", "python3 -m pytest tests -q", "python -m pytest -k 'x or y'", "python -B -m pytest", "python --version",
        "python -m compileall src", "python src/app.py", "python -c 'print(1)'", "python3 -c \"import sys; print(sys.version)\"",
        "python -m json.tool package.json", "ruff check .", "ruff check --fix src", "ruff format src tests", "mypy src", "mypy --strict src",
        "mypy --config-file Makefile src" if False else "mypy -p app", "tox -e py311", "make lint && pytest",
        "PYTHONPATH=src pytest", "PYTHONPATH=src:tests python src/app.py", "python - <<'EOF'\nprint('x')\nEOF", "pytest --basetemp=/tmp/agent/x",
        "pytest tests/*.py", "pytest --junitxml=build/junit.xml", "cd src && python -m pytest ../tests", "timeout 300 pytest -x",
        "python -m unittest discover -s tests", "python -m venv --help", "python -X dev -m pytest", "python -W error src/app.py",
        "pytest --deselect tests/test_app.py::test_y", "pytest --ignore=tests/slow", "pytest -v -k ssh", "python -m http.server --help",
        "pytest -o log_cli=true" if False else "pytest --log-cli-level=INFO", "find tests -name 'test_*.py' | xargs pytest -q" if False else "pytest --co -q",
    ),
    "module": ("python -m pytest", "python3 -m pytest -q", "pytest -q", "python -m pytest tests -k x"),
    "node": (
        "npm test", "npm test -- --watch=false", "npm run build", "npm run build -- --mode production", "npm run lint --silent", "npm t",
        "npm run test:unit", "npm run-script build", "npm test --workspace=pkg", "yarn test", "yarn build", "yarn run lint", "pnpm test",
        "pnpm -r build", "pnpm --filter app test", "pnpm run build", "node src/index.js", "node --test", "node -e 'console.log(1)'", "node --version",
        "npx tsc --noEmit", "tsc --noEmit", "tsc -p sub", "jest", "jest --coverage", "jest src/a.test.js -t 'adds one'", "eslint src --ext .ts,.tsx",
        "eslint --fix src", "NODE_ENV=test npm test", "CI=true npm test 2>&1 | tail -40", "cd sub && npm test", "npm run build && npm test",
        "NODE_OPTIONS=--max-old-space-size=4096 npm test", "npm --prefix sub test", "npm run test -- -t 'renders <App />'", "yarn --silent test",
        "node --test --test-name-pattern=foo src", "npm run lint; npm test",
    ),
    "go": (
        "go test ./...", "go test ./... -run TestX -count=1", "go test ./internal/async", "go test -v -race ./...", "go test -run '^TestA$' ./pkg/...",
        "go build ./...", "go build -o build/app ./cmd/app", "go vet ./...", "go test -coverprofile=coverage/c.out ./...", "go test -bench=. -benchmem ./...",
        "go run ./cmd/app", "go run . --help", "gofmt -l .", "gofmt -d src", "go test -short -timeout 30s ./...", "CGO_ENABLED=0 go build ./...",
        "GOOS=linux GOARCH=amd64 go build ./...", "go test -tags integration ./...", "go build -ldflags '-X main.version=1' ./...",
        "go test ./... 2>&1 | grep -v '^ok'", "go test -json ./... | head", "cd sub && go test ./...", "go test -count 1 -run TestSSH ./internal/ssh",
    ),
    "rust": (
        "cargo test", "cargo test --package x", "cargo build --release", "cargo check", "cargo clippy -- -D warnings", "cargo fmt --check", "cargo run -- --help",
        "cargo test -p x test_name -- --nocapture", "RUST_BACKTRACE=1 cargo test", "cargo build --features a,b", "cargo tree", "cargo doc --no-deps",
        "RUSTFLAGS='-D warnings' cargo build", "cargo test --workspace --all-features 2>&1 | tail -20", "cargo bench", "cargo metadata --format-version 1 | jq .packages",
        "cargo build --target-dir build/target", "CARGO_TERM_COLOR=never cargo test",
    ),
    "files": (
        "mkdir -p src/new", "touch src/new/__init__.py", "cp src/app.py src/b.py", "mv src/app.py src/b.py", "rm src/b.py", "rm -f src/b.py", "cp -r src/app docs/app",
        "ln -s app.py src/link.py" if False else "ln -s src/app.py src/link.py", "sed -i 's/a/b/g' src/app.py", "sed -i.bak -e 's/a/b/' src/app.py",
        "cp README.md docs/", "mkdir -p /tmp/agent/x && cp src/app.py /tmp/agent/x", "./run.sh", "./run.sh --fast src", "bin/tool check", "frob --level=3 src/app.py",
        "tar czf build/x.tgz src", "tar -xzf docs/x.tgz -C build/out", "unzip docs/x.zip -d build/out", "patch -p1 < docs/x.patch", "dd if=src/app.py of=src/b bs=1",
        "rm -r src/old", "bash scripts/build.sh", "mkdir -p src/{a,b,c}", "mv src/{a,b}.py src/app/", "cp -t src README.md", "truncate -s 0 src/log.txt",
        "for d in a b; do mkdir -p src/$d; done", "rsync -a src/ docs/", "perl -pe 's/a/b/' src/app.py",
    ),
    "build": (
        "make build", "make test", "make build test", "make -j4 test", "make test -s", "cmake -S . -B build", "cmake --build build -j 4", "cmake -DCMAKE_BUILD_TYPE=Release -B build",
        "ninja -C build", "gradle test", "./gradlew test --info", "mvn -q test", "mvn -Dtest=Foo test", "just test", "tox -e lint", "npm run test", "make test V=1",
    ),
    "wrap": (
        "uv run pytest", "uv run pytest -x -q", "uv run --frozen pytest", "uv run -m pytest", "uv run python -m pytest", "bundle exec rspec spec/x_spec.rb", "poetry run pytest",
        "pytest", "timeout 60 uv run pytest", "uv run --extra dev pytest tests",
    ),
    "any": (
        "python x.py", "$x", "\"$CMD\" --all", "for c in a b; do $c; done", "f() { ls; }; f", "bash script.sh", "cat /etc/os-release", "git -c a.b=c status",
        "node -e 'x'", "./anything --goes", "eval \"$x\"", "source x.sh", "make -f other.mk", "PATH=$PATH:x y", "ls ~", "xargs rm", "find . -delete", "sed -i s/a/b/ src/app.py",
        "echo x > src/y", "cd /usr && ls", "git rebase -i HEAD~1", "awk 'BEGIN{system(\"x\")}'", "rm src/x", "git commit -m 'use docker'", "trap 'echo x' EXIT",
    ),
    "none": ("ls", "cat README.md", "echo hi", "cd src && ls", "grep -rn x .", "find . -name '*.py'", "head -3 README.md | wc -l"),
}  # fmt: skip


@pytest.fixture(scope="module")
def court(tmp_path_factory: pytest.TempPathFactory) -> Court:
    return open_court(tmp_path_factory.mktemp("honest"))


CASES = [(config, command) for config, commands in HONEST.items() for command in commands]


@pytest.mark.parametrize(("config", "command"), CASES, ids=[f"{c[0]}: {c[1][:60]!r}" for c in CASES])
def test_an_honest_command_is_allowed(court: Court, config: str, command: str) -> None:
    decision = court.judge(command, config)

    assert decision.allowed, f"{decision.rule}: {decision.details}"


def test_there_are_enough_honest_commands() -> None:
    assert len(CASES) >= 150


def test_a_command_that_starts_in_a_folder_below_is_judged_from_there(court: Court) -> None:
    below = f"{court.policy.worktree}/sub"

    assert court.judge("cat ../README.md", cwd=below).allowed
    assert court.judge("cat ../../x", cwd=below).rule == "outside_worktree"
    assert court.judge('cat "$PWD/../README.md"', cwd=below).allowed


def test_a_role_that_only_reads_may_look_but_not_write(court: Court) -> None:
    reader = Court(replace(court.policy, read_only=True), court.world)

    assert reader.judge("git diff | head -20").allowed
    assert reader.judge("git diff > /tmp/agent/patch").allowed
    assert reader.judge("git diff > docs/patch.md").rule == "read_only_role"


def test_without_a_parser_for_texts_a_shell_in_a_shell_is_refused(court: Court) -> None:
    from blueflame.rules.bash import judge
    from blueflame.rules.policy_places import Places, bounds_of

    places = Places(bounds=bounds_of(court.policy), world=court.world, cwd=court.policy.worktree, shell=True)
    source = "bash -c 'make test'"
    policy = replace(court.policy, allowed_commands=("make",))

    assert judge(source, court.world.parse(source), policy, places, court.world.text).rule == "wrapper_refused"
