from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blueflame.checks.secrets.rules import load_rules
from blueflame.checks.secrets.scan import (
    AddedLine,
    BadAllowFile,
    SecretAllowList,
    SecretFinding,
    Unscanned,
    find_secrets,
    judge_findings,
    parse_allow_file,
    scan_lines,
)
from blueflame.model.changes import Commit
from support.fake_secrets import BASE64, HEX, MAKERS, SecretGenerator, build_jwt, build_pem


def found(text: str, path: str = "src/мой файл.py") -> list[tuple[str, int]]:
    return [(one.rule, one.line) for one in find_secrets(path, enumerate(text.split("\n"), start=1))]


# --- what is found


def test_every_rule_has_an_example_here_and_a_unique_name() -> None:
    assert set(MAKERS) == {rule.name for rule in load_rules().rules}
    assert len(MAKERS) == len(load_rules().rules)


@pytest.mark.parametrize("rule", MAKERS)
def test_a_secret_of_each_kind_is_found_by_its_rule_and_line(rule: str) -> None:
    path = "deploy/.env" if rule == "configured-secret" else "src/app.py"
    for seed in range(5):
        text = f"# первая строка\n{MAKERS[rule](SecretGenerator(seed))}\n"
        assert [(name, line if rule not in MULTILINE else 2) for name, line in found(text, path)] == [(rule, 2)], seed


MULTILINE = ("private-key", "putty-key")  # the line is that of the key's first letters, below its header


@pytest.mark.parametrize("rule", MAKERS)
def test_a_secret_is_found_in_the_middle_of_a_minified_file(rule: str) -> None:
    if rule in ("configured-secret", *MULTILINE):
        return  # these need line ends
    filler = "var a=function(b,c){return b?c:0};" * 5000
    assert [name for name, _ in found(f"{filler} {MAKERS[rule](SecretGenerator())} {filler}")] == [rule]


@pytest.mark.parametrize("kind", ["", "RSA ", "EC ", "DSA ", "OPENSSH ", "ENCRYPTED "])
@pytest.mark.parametrize("between", ["\n", "\\n", '\\n" +\n    "', "\n# "])
def test_private_keys_of_all_kinds_are_found_in_files_and_in_strings(kind: str, between: str) -> None:
    assert [name for name, _ in found(build_pem(SecretGenerator(), kind, between=between))] == ["private-key"]


def test_a_private_key_with_headers_is_found() -> None:
    text = build_pem(SecretGenerator()).replace(
        "KEY-----\n", "KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,0A1B\n\n", 1
    )
    assert [name for name, _ in found(text)] == ["private-key"]


def test_a_service_account_is_found_by_its_key() -> None:
    text = '{"type": "service_account", "private_key": "' + build_pem(SecretGenerator(), "", between="\\n") + '\\n"}'
    assert [name for name, _ in found(text, "account.json")] == ["private-key"]


@pytest.mark.parametrize(
    "form",
    [
        "{name} = '{value}'",
        '{name}: str = "{value}"',
        '"{name}": "{value}",',
        "{name} := `{value}`",
        'config["{name}"] = "{value}"',
        "{name}=>'{value}'",
        'connect({name}="{value}")',
        '{name} == "{value}"',
    ],
)
@pytest.mark.parametrize(
    "name", ["password", "DB_PASSWORD", "apiKey", "api-key", "clientSecret", "auth_token", "access_key"]
)
def test_values_that_are_given_to_secret_names_are_found(form: str, name: str) -> None:
    assert [rule for rule, _ in found(form.format(name=name, value=SecretGenerator()(24)))] == ["assigned-secret"]


@pytest.mark.parametrize(
    "path", [".env", "deploy/.env.production", "a.yaml", "x.ini", "Dockerfile", "setup.cfg", ".npmrc"]
)
def test_in_settings_files_a_value_needs_no_quotes(path: str) -> None:
    assert [rule for rule, _ in found(f"SERVICE_TOKEN={SecretGenerator()(32)}", path)] == ["configured-secret"]


def test_the_most_telling_rule_names_what_several_see() -> None:
    assert [rule for rule, _ in found(f'api_key = "ghp_{SecretGenerator()(36)}"')] == ["github-token"]
    assert [rule for rule, _ in found(f'password = "{build_jwt(SecretGenerator())}"')] == ["jwt"]


def test_a_secret_that_occurs_twice_is_reported_once_at_its_first_place() -> None:
    secret = MAKERS["stripe-key"](SecretGenerator())
    assert found(f"a\n{secret}\nb\n{secret}") == [("stripe-key", 2)]


def test_letters_that_grow_when_made_small_move_nothing() -> None:
    text = "İ" * 50 + f'\nPASSWORD = "{SecretGenerator()(24)}"'
    assert found(text) == [("assigned-secret", 2)]


def test_files_larger_than_one_piece_are_searched_whole() -> None:
    lines = ["nothing to see here, only words"] * 80_000
    for at in (0, 40_000, 79_999):
        lines[at] = MAKERS["npm-token"](SecretGenerator(at))
    assert found("\n".join(lines)) == [("npm-token", 1), ("npm-token", 40_001), ("npm-token", 80_000)]


@given(st.integers(0, 2**32), st.sampled_from(sorted(set(MAKERS) - {"configured-secret"})), st.data())
@settings(max_examples=60)
def test_no_words_around_a_secret_hide_it(seed: int, rule: str, data: st.DataObject) -> None:
    words = st.lists(st.sampled_from(["def", "return", "# слово", "x = 1", "{}", "<p>", "'a'"]), max_size=20)
    before, after = data.draw(words), data.draw(words)
    text = "\n".join([*before, MAKERS[rule](SecretGenerator(seed)), *after])
    assert rule in [name for name, _ in found(text)]


# --- what is not a secret


@pytest.mark.parametrize(
    "line",
    [
        "AKIAIOSFODNN7EXAMPLE",
        "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
        "ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        "token = 'ghp_your_token_here_please_now'",
        'password = "changeme-changeme-1"',
        'password = "${DB_PASSWORD_FROM_VAULT_1}"',
        'api_key = os.environ["SERVICE_API_KEY_V2"]',
        "api_key = process.env.SERVICE_API_KEY_V2",
        'password = "{{ vault_db_password_1 }}"',
        'password = "<insert your password 1>"',
        'token_url = "https://auth.internal/oauth2/v1/token"',
        'token_name = "x9f3kq0zv7b2m4n8"',
        'password_hash = "x9f3kq0zv7b2m4n8x9f3kq0zv7b2m4n8"',
        'secret_path = "kv2/data/team-7/service"',
        'token = "test-token-1234567"',
        'secret = "correct-horse-battery-staple-9"',
        'tokenizer = "bert-base-uncased-v2-large"',
        'access_token: "refresh_token_expired_error_2"',
        "if '-----BEGIN RSA PRIVATE KEY-----' in text: raise ValueError(text)",
        "-----BEGIN CERTIFICATE-----\nMIIDdzCCAl+gAwIBAgIEAgAAuTANBgkqhkiG9w0BAQUFADBaMQswCQYDVQQGEwJJ",
        "postgres://postgres:postgres@db:5432/app",
        "postgres://app:s3cr3tpw9x@localhost:5432/app",
        "https://user:password@host.internal/",
        "https://user:${TOKEN}@host.internal/",
        "https://git.internal/a/b.git",
        "task-001 disk-usage risk-assessment sk-learn",
        "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        'integrity "sha512-v2kDEe57lecTulaDIuNTPy3Ry4gLGJ6Z1O3vE1krgXZNrsQ+LFTGHVxVjcXPs17LhbZVGedAJv8XZ1tvj5FvSg=="',
        "550e8400-e29b-41d4-a716-446655440000",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIiwibmFtZSI6IkpvaG4gRG9lIn0.SflKxwRJSMeKKF2QT4fwpMeJf36POk6yJV_adQssw5c",
        "def password_reset_token_expired_error_handler(self): ...",
        "SECRET_ROTATION_INTERVAL_SECONDS = 86400",
        "machine learning login page password field",
    ],
)
def test_what_is_no_secret_is_left_alone(line: str) -> None:
    assert found(line) == []
    assert found(line, "settings.yaml") == []


def test_own_source_holds_nothing_that_looks_like_a_secret() -> None:
    for rule in load_rules().rules:
        assert found(rule.pattern.pattern) == []


# --- time


@pytest.mark.parametrize(
    "piece",
    [
        "-----BEGIN RSA PRIVATE KEY-----",
        "-----BEGIN PRIVATE KEY-----" + " " * 70,
        "eyJ",
        "eyJaaaaaaaaaaaa.",
        "token",
        "password_",
        "api_key=",
        "secret: ",
        "://a:",
        "machine a login ",
        "sk-",
        "discord ",
        "xoxb-1",
        "A",
        "_aaaaaaaaaaaaaa",
        "Q~",
        "LS0tLS1CRUdJTiBSU0EgUFJJVkFURSBL",
    ],
)
def test_a_megabyte_on_one_line_made_to_confuse_is_read_to_its_end(piece: str) -> None:
    """No clock: a pattern that needs quadratic time here would not finish while anybody is watching."""
    text = piece * (1_000_000 // len(piece))
    secret = MAKERS["npm-token"](SecretGenerator())
    assert "npm-token" in [rule for rule, _ in found(f"{text}\n{secret}")]


# --- what is reported


def test_a_finding_never_carries_the_secret() -> None:
    secret = SecretGenerator()(36)
    (finding,) = find_secrets("a.py", [(3, f"ghp_{secret}")])
    assert secret[:8] not in repr(finding)
    (violation,) = judge_findings(scan_lines([AddedLine("a.py", 3, f"ghp_{secret}")]), SecretAllowList())
    assert secret[:8] not in repr(violation)
    assert (violation.rule, violation.path, violation.line) == ("sensitive_content", "a.py", 3)
    assert violation.detail.startswith("GitHub token (ghp_..., 40 characters)")
    assert finding.fingerprint in violation.detail


def test_control_characters_of_a_secret_do_not_reach_the_screen() -> None:
    (finding,) = find_secrets(".netrc", [(1, "machine a.internal login b password \x1b[31mk9xq2")])
    assert "\x1b" not in finding.preview


def test_the_fingerprint_depends_on_the_secret_and_not_on_its_place() -> None:
    secret = f"ghp_{SecretGenerator()(36)}"
    one, other = (find_secrets(path, [(n, f"x {secret}")])[0] for path, n in (("a", 1), ("б", 9)))
    assert (
        one.fingerprint == other.fingerprint != find_secrets("a", [(1, f"ghp_{SecretGenerator(8)(36)}")])[0].fingerprint
    )


def test_a_secret_of_the_result_is_not_reported_again_for_its_history() -> None:
    secret = f"ghp_{SecretGenerator()(36)}"
    looked = scan_lines(
        [
            AddedLine("a.py", 5, secret),
            AddedLine("a.py", 1, secret, "c0ffee"),
            AddedLine("b.py", 2, secret, "c0ffee" * 6),
        ]
    )
    result = judge_findings(looked, SecretAllowList())
    assert [(one.path, one.line, "history" in one.detail) for one in result] == [("a.py", 5, False), ("b.py", 2, True)]
    assert "added by c0ffeec0ffee and still in the history" in result[1].detail


def test_commit_messages_and_authors_are_searched() -> None:
    secret = f"ghp_{SecretGenerator()(36)}"
    commit = Commit(sha="abc123", author="ада", subject="feat: x", message=f"feat: x\n\nuse {secret}")
    signed = Commit(sha="def456", author=secret, subject="feat: y", message="feat: y")
    result = judge_findings(scan_lines([], [commit, signed]), SecretAllowList())
    assert [(one.path, one.line) for one in result] == [("abc123", 3), ("def456", 2)]


def test_a_file_that_was_not_scanned_is_a_violation() -> None:
    (result,) = judge_findings(scan_lines([Unscanned("huge.bin", "too large")]), SecretAllowList())
    assert (result.rule, result.path, result.detail) == ("sensitive_content", "huge.bin", "too large")


def test_of_very_many_secrets_the_first_hundred_are_listed_and_the_others_counted() -> None:
    lines = [AddedLine("a.py", n, f"ghp_{SecretGenerator(n)(36)}") for n in range(1, 151)]
    result = judge_findings(scan_lines(lines), SecretAllowList())
    assert len(result) == 101
    assert (result[-1].line, result[-1].detail) == (101, "and 50 more secrets, from here on")


# --- the allow file


def finding(text: str, path: str = "tests/fixtures/мой ключ.py") -> SecretFinding:
    (one,) = find_secrets(path, [(1, text)])
    return one


def covers(allowed: SecretAllowList, one: SecretFinding) -> bool:
    return allowed.covers(one.rule, one.path, one.fingerprint)


def test_findings_are_let_through_by_fingerprint_path_or_path_and_rule() -> None:
    one = finding(f"ghp_{SecretGenerator()(36)}")
    assert covers(parse_allow_file(f"# наш\n\n{one.fingerprint}  # made by dice\n"), one)
    assert covers(parse_allow_file("tests/fixtures/**"), one)
    assert covers(parse_allow_file("tests/fixtures/**:github-token"), one)
    assert not covers(parse_allow_file("tests/fixtures/**:jwt"), one)
    assert not covers(parse_allow_file("src/**"), one)
    assert not covers(parse_allow_file("0123456789abcdef"), one)
    assert not covers(parse_allow_file(""), one)


def test_the_rules_of_the_full_scanner_can_be_named_too() -> None:
    assert parse_allow_file("docs/**:kingfisher.github-pat").covers("kingfisher.github-pat", "docs/a.md", "")


def test_a_path_that_is_allowed_need_not_be_looked_through() -> None:
    assert judge_findings(scan_lines([Unscanned("assets/model.bin", "too large")]), parse_allow_file("assets/**")) == ()


def test_every_bad_line_is_named() -> None:
    with pytest.raises(BadAllowFile) as caught:
        parse_allow_file("docs/**\na/**:no-such-rule\n!src/**\n\n[unfinished\n")
    assert [problem.split(":")[0] for problem in caught.value.problems] == ["line 2", "line 3", "line 5"]
    assert "'a/**:no-such-rule' does not end in a known rule" in caught.value.problems[0]


@given(st.text(max_size=200))
def test_any_text_is_an_allow_file_or_a_clear_refusal(text: str) -> None:
    try:
        allowed = parse_allow_file(text)
    except BadAllowFile as error:
        assert all(problem.startswith("line ") for problem in error.problems)
    else:
        assert isinstance(allowed, SecretAllowList)


@given(st.text(alphabet=st.characters(codec=None), max_size=300))
def test_any_text_at_all_can_be_searched(text: str) -> None:
    lines = text.split("\n")
    for one in find_secrets("a.yaml", enumerate(lines, start=1)):
        assert 1 <= one.line <= len(lines)


def test_unicode_forms_of_paths_do_not_matter_to_finding() -> None:
    path = unicodedata.normalize("NFD", "й/.env")
    assert found(f"API_TOKEN={SecretGenerator()(32, HEX)}", path) == [("configured-secret", 1)]
    assert found(f"API_TOKEN={SecretGenerator()(32, BASE64)}", "й.py") == []
