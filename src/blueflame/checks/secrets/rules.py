"""What a secret looks like: one row for each kind. The names are stable, because allow files are written with them.

A rule is tried only where one of its anchors stands in the text, and its pattern is matched there and nowhere else,
with bounds on every repetition: the time is linear in the text, however long a line is and whoever wrote it.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from blueflame.checks.secrets.entropy import is_example, is_placeholder, is_random

MatchCheck = Callable[[re.Match[str]], bool]


@dataclass(frozen=True, slots=True)
class SecretRule:
    """The pattern begins at the anchor, and its group `secret` is what must not be there."""

    name: str
    about: str
    anchors: tuple[str, ...]
    pattern: re.Pattern[str]
    check: MatchCheck
    fold: bool = False  # anchors are written in small letters, and letter case does not count
    config_only: bool = False  # tried only in files that hold settings: elsewhere it would see names, not values


def _is_vendor_token(found: re.Match[str]) -> bool:
    """Its shape says what it is; only what is plainly written for a manual is let go."""
    secret = found["secret"]
    return len(set(secret)) >= 8 and not is_example(secret)


def _is_random_value(found: re.Match[str]) -> bool:
    """Its name says what it is, and nobody thought of the value."""
    return not is_example(found["secret"]) and is_random(found["secret"])


def _is_random_not_placeholder(found: re.Match[str]) -> bool:
    secret = found["secret"]
    return not is_placeholder(secret) and is_random(secret)


HARMLESS_SUFFIX = re.compile(
    r"(?i)hash|digest|name|path|file|ur[il]|header|type|field|label|regex|pattern|hint|prompt|policy|ttl|limit|size|"
    r"count|length|expir|placeholder|template|endpoint|scope|version|format|prefix|(?:^|[_.-])ids?$|^i[sz]"
)


def _is_assigned_secret(found: re.Match[str]) -> bool:
    """`token_name` and `password_hash` hold no secret, whatever they are set to."""
    return not HARMLESS_SUFFIX.search(found["rest"]) and _is_random_not_placeholder(found)


COMMON_PASSWORDS = re.compile(
    r"(?i)postgres|passw(?:or)?d|pass|root|admin|guest|secret|user(?:name)?|mysql|redis|rabbitmq|mongo|token|changeit"
)
TEST_HOSTS = re.compile(
    r"(?i)(localhost|127\.|0\.0\.0\.0|\[?::1|example\.|[\w.-]*\.example\b|[\w.-]*\.(test|invalid)\b)"
)


def _is_url_password(found: re.Match[str]) -> bool:
    """A password of the local test database is none; one that equals its user is no secret either."""
    secret, user = found["secret"], found["user"]
    plain = COMMON_PASSWORDS.fullmatch(secret) or secret.lower() == user.lower() or is_placeholder(secret)
    return not plain and len(set(secret)) >= 5 and not TEST_HOSTS.match(found["host"])


def _is_netrc_password(found: re.Match[str]) -> bool:
    secret = found["secret"]
    return not COMMON_PASSWORDS.fullmatch(secret) and not is_placeholder(secret)


def _shaped(
    name: str, about: str, anchors: str, pattern: str, *, fold: bool = False, check: MatchCheck = _is_vendor_token
) -> SecretRule:
    return SecretRule(name, about, tuple(anchors.split()), re.compile(pattern), check, fold=fold)


EDGE: Final = r"(?<![A-Za-z0-9_])"
STOP: Final = r"(?![A-Za-z0-9_])"
SET: Final = r"[\"'`\]]{0,2}[ \t]{0,8}(?::[ \t]{0,4}[\w\[\]|. ]{1,30}=|=>|:=|\?=|={1,3}|:)[ \t]{0,8}"
BODY: Final = r"(?:\\[nrt]|[bruf](?=[\"'])|[\s\"'`+\\,()>#*|;.-]|[A-Z][A-Za-z-]{2,20}:[ ][^\n\\]{0,100}){1,80}"
UUID: Final = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"

KEY_KINDS = ("", "RSA ", "EC ", "DSA ", "OPENSSH ", "ENCRYPTED ", "PGP ")


def _build_base64_heads() -> str:
    """`-----BEGIN RSA PRIVATE` and its like in base64, as far as the letters are certain."""
    heads = (f"-----BEGIN {kind}PRIVATE".encode() for kind in KEY_KINDS)
    return "|".join(re.escape(b64encode(head).decode()[: len(head) * 8 // 6]) for head in heads)


# By its last word where that tells enough; a key is a secret only when the word before it says so.
NAME_ANCHORS: Final = ("passw", "passphrase", "secret", "token", "credential", "key")
KEY: Final = "|".join(
    rf"(?<={word}[_-])key|(?<={word})key" for word in ("api", "access", "private", "auth", "secret", "encryption")
)
NAMED: Final = rf"(?i:passw(?:or)?d|passphrase|secret|token|credential|{KEY})(?P<rest>[\w.-]{{0,30}}){SET}"

KEYWORD_RULES: Final = (
    _shaped(
        "private-key",
        "private key",
        "-----BEGIN",
        r"-----BEGIN (?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY(?: BLOCK)?-----"
        rf"{BODY}(?P<secret>[A-Za-z0-9+/=]{{40,100}})",
    ),
    _shaped(
        "private-key-base64",
        "private key in base64",
        "LS0tLS1CRUdJTi",
        rf"(?P<secret>(?:{_build_base64_heads()})[A-Za-z0-9+/=]{{40,100}})",
    ),
    _shaped(
        "putty-key",
        "PuTTY private key",
        "Private-Lines:",
        r"Private-Lines: \d{1,4}(?:\\[nr]|\s){1,4}(?P<secret>[A-Za-z0-9+/=]{40,100})",
    ),
    _shaped("age-key", "age secret key", "AGE-SECRET-KEY-1", rf"(?P<secret>AGE-SECRET-KEY-1[0-9A-Z]{{58}}){STOP}"),
    _shaped(
        "kube-client-key",
        "client key of a kubeconfig",
        "client-key-data",
        r"client-key-data\"?:[ \t]{0,8}\"?(?P<secret>[A-Za-z0-9+/=]{40,200})",
    ),
    _shaped("aws-access-key-id", "AWS access key id", "AKIA ASIA", rf"{EDGE}(?P<secret>A[KS]IA[A-Z0-9]{{16}}){STOP}"),
    _shaped(
        "aws-secret-key",
        "AWS secret key",
        "secret",
        rf"(?i:(?<=aws_)secret|(?<=aws)secret|secret[_-]?access)[\w-]{{0,20}}{SET}[\"'`]?(?P<secret>[A-Za-z0-9/+]{{40}})(?![A-Za-z0-9/+=])",
        fold=True,
        check=_is_random_value,
    ),
    _shaped("gitlab-token", "GitLab token", "glpat-", r"(?<![\w-])(?P<secret>glpat-[A-Za-z0-9_.-]{20,100})"),
    _shaped("slack-token", "Slack token", "xox", r"(?<![\w-])(?P<secret>xox[abeoprs]-[0-9][A-Za-z0-9-]{16,250})"),
    _shaped(
        "slack-app-token",
        "Slack app token",
        "xapp-",
        rf"{EDGE}(?P<secret>xapp-\d-[A-Z0-9]{{8,20}}-[0-9]{{8,20}}-[0-9a-f]{{32,100}})",
    ),
    _shaped(
        "slack-webhook",
        "Slack webhook",
        "hooks.slack.com/",
        r"hooks\.slack\.com/(?:services|workflows|triggers)/(?P<secret>[A-Za-z0-9+/]{36,120})",
    ),
    _shaped("google-api-key", "Google API key", "AIza", r"(?<![\w-])(?P<secret>AIza[A-Za-z0-9_-]{35})(?![\w-])"),
    _shaped(
        "google-client-secret",
        "Google OAuth client secret",
        "GOCSPX-",
        r"(?P<secret>GOCSPX-[A-Za-z0-9_-]{28})(?![\w-])",
    ),
    _shaped(
        "anthropic-key",
        "Anthropic key",
        "sk-",
        r"(?<![\w-])(?P<secret>sk-ant-[a-z0-9]{3,12}-[A-Za-z0-9_-]{24,200})",
    ),
    _shaped(
        "openai-key",
        "OpenAI key",
        "sk-",
        r"(?<![\w-])(?P<secret>sk-(?:proj|svcacct|admin)-[A-Za-z0-9_-]{32,250})",
    ),
    _shaped("pypi-token", "PyPI token", "pypi-AgE", r"(?P<secret>pypi-AgE[A-Za-z0-9_-]{50,300})"),
    _shaped("docker-token", "Docker token", "dckr_", r"(?P<secret>dckr_[po]at_[A-Za-z0-9_-]{27,80})"),
    _shaped("twilio-key", "Twilio key", "SK", rf"{EDGE}(?P<secret>SK[0-9a-f]{{32}}){STOP}"),
    _shaped(
        "sendgrid-key", "SendGrid key", "SG.", rf"{EDGE}(?P<secret>SG\.[A-Za-z0-9_-]{{16,32}}\.[A-Za-z0-9_-]{{30,64}})"
    ),
    _shaped("azure-account-key", "Azure account key", "AccountKey=", r"AccountKey=(?P<secret>[A-Za-z0-9+/]{86}==)"),
    _shaped(
        "azure-shared-key",
        "Azure shared access key",
        "SharedAccessKey=",
        r"SharedAccessKey=(?P<secret>[A-Za-z0-9+/]{43}=)",
    ),
    _shaped(
        "azure-signature",
        "Azure shared access signature",
        "sig=",
        r"(?<=[?&;])sig=(?P<secret>[A-Za-z0-9%+/]{40,100}(?:%3[dD]|=))",
    ),
    _shaped(
        "azure-client-secret",
        "Azure client secret",
        "Q~",
        r"(?<=[A-Za-z0-9_~.]{3}\d)(?P<secret>Q~[A-Za-z0-9_~.-]{31,34})(?![\w~.-])",
    ),
    _shaped(
        "jwt",
        "JSON web token",
        "eyJ",
        r"(?<![\w-])(?P<secret>eyJ[A-Za-z0-9_-]{10,4000}\.eyJ[A-Za-z0-9_-]{10,8000}\.[A-Za-z0-9_-]{16,2000})",
    ),
    _shaped("telegram-token", "Telegram bot token", ":AA", r"(?<=\d{8})(?P<secret>:AA[A-Za-z0-9_-]{32,33})(?![\w-])"),
    _shaped(
        "discord-webhook",
        "Discord webhook",
        "/api/webhooks/",
        r"/api/webhooks/\d{16,20}/(?P<secret>[A-Za-z0-9_-]{60,80})",
    ),
    _shaped(
        "discord-token",
        "Discord bot token",
        "discord",
        r"(?i:discord)[^\n]{0,60}?(?<![\w.-])(?P<secret>[MNO][A-Za-z0-9_-]{23,27}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,40})",
        fold=True,
    ),
    _shaped("databricks-token", "Databricks token", "dapi", rf"{EDGE}(?P<secret>dapi[0-9a-f]{{32}}(?:-\d)?){STOP}"),
    _shaped(
        "heroku-key",
        "Heroku key",
        "heroku",
        rf"(?i:heroku)[\w.-]{{0,20}}(?i:key|token|secret){SET}[\"'`]?(?P<secret>{UUID})",
        fold=True,
    ),
    _shaped("heroku-token", "Heroku token", "HRKU-", r"(?P<secret>HRKU-[A-Za-z0-9_-]{30,80})"),
    _shaped(
        "netrc",
        "password in netrc form",
        "machine",
        r"machine[ \t]{1,8}\S{1,100}[ \t]{1,8}login[ \t]{1,8}\S{1,100}"
        r"[ \t]{1,8}password[ \t]{1,8}(?P<secret>\S{6,200})",
        check=_is_netrc_password,
    ),
    _shaped(
        "url-password",
        "password in a URL",
        "://",
        r"://(?P<user>[^\s:/@\"'`<>{}$%]{0,80}):(?P<secret>[^\s/@\"'`<>{}$\\]{6,200})@(?P<host>[\w.\[\]:-]{1,100})",
        check=_is_url_password,
    ),
    SecretRule(
        "assigned-secret",
        "value that looks like a secret",
        NAME_ANCHORS,
        re.compile(
            rf"{NAMED}[brufBRUF@]{{0,2}}(?P<quote>[\"'`])(?P<secret>[^\s\"'`<>(){{}}\[\],;$]{{16,200}})(?P=quote)"
        ),
        _is_assigned_secret,
        fold=True,
    ),
    SecretRule(
        "configured-secret",
        "setting that looks like a secret",
        NAME_ANCHORS,
        re.compile(rf"{NAMED}(?P<secret>[^\s\"'`<>(){{}}\[\],;$]{{16,200}})(?=\s|\Z)"),
        _is_assigned_secret,
        fold=True,
        config_only=True,
    ),
)

TAIL: Final = re.compile(r"[_-][A-Za-z0-9]{14}")
"""After their prefix these go on with letters and digits only: one look for this finds the places of all of them."""

PREFIX_RULES: Final = (
    _shaped(
        "github-token",
        "GitHub token",
        "ghp_ gho_ ghu_ ghs_ ghr_",
        rf"{EDGE}(?P<secret>gh[pousr]_[A-Za-z0-9]{{36,255}}){STOP}",
    ),
    _shaped(
        "github-fine-token",
        "GitHub fine-grained token",
        "github_pat_",
        rf"{EDGE}(?P<secret>github_pat_[A-Za-z0-9_]{{60,255}}){STOP}",
    ),
    _shaped(
        "stripe-key", "Stripe key", "sk_live_ rk_live_", rf"{EDGE}(?P<secret>[sr]k_live_[A-Za-z0-9]{{16,247}}){STOP}"
    ),
    _shaped(
        "stripe-webhook-secret", "Stripe webhook secret", "whsec_", rf"{EDGE}(?P<secret>whsec_[A-Za-z0-9+/=]{{32,100}})"
    ),
    _shaped("npm-token", "npm token", "npm_", rf"{EDGE}(?P<secret>npm_[A-Za-z0-9]{{36}}){STOP}"),
    _shaped("mailgun-key", "Mailgun key", "key-", r"(?<![\w-])(?P<secret>key-[0-9a-f]{32})(?![\w-])"),
    _shaped(
        "digitalocean-token",
        "DigitalOcean token",
        "dop_v1_ doo_v1_ dor_v1_",
        rf"{EDGE}(?P<secret>do[por]_v1_[0-9a-f]{{64}}){STOP}",
    ),
    _shaped("huggingface-token", "Hugging Face token", "hf_", rf"{EDGE}(?P<secret>hf_[A-Za-z0-9]{{34,40}}){STOP}"),
    _shaped(
        "sk-key",
        "key of a model provider",
        "sk-",
        r"(?<![\w-])(?P<secret>sk-[A-Za-z0-9]{32,64})(?![\w-])",
        check=_is_random_value,
    ),
    _shaped("openrouter-key", "OpenRouter key", "sk-or-v1-", r"(?<![\w-])(?P<secret>sk-or-v1-[0-9a-f]{64})(?![\w-])"),
    _shaped("groq-key", "Groq key", "gsk_", rf"{EDGE}(?P<secret>gsk_[A-Za-z0-9]{{48,60}}){STOP}"),
    _shaped("xai-key", "xAI key", "xai-", r"(?<![\w-])(?P<secret>xai-[A-Za-z0-9]{70,90})(?![\w-])"),
    _shaped("replicate-token", "Replicate token", "r8_", rf"{EDGE}(?P<secret>r8_[A-Za-z0-9]{{37,40}}){STOP}"),
    _shaped(
        "shopify-token",
        "Shopify token",
        "shpat_ shpca_ shppa_ shpss_",
        rf"{EDGE}(?P<secret>shp(?:at|ca|pa|ss)_[0-9a-fA-F]{{32}}){STOP}",
    ),
    _shaped(
        "grafana-token", "Grafana token", "glsa_", rf"{EDGE}(?P<secret>glsa_[A-Za-z0-9]{{32}}_[0-9a-fA-F]{{8}}){STOP}"
    ),
    _shaped("supabase-token", "Supabase token", "sbp_", rf"{EDGE}(?P<secret>sbp_[0-9a-f]{{40}}){STOP}"),
    _shaped("rubygems-key", "RubyGems key", "rubygems_", rf"{EDGE}(?P<secret>rubygems_[0-9a-f]{{48}}){STOP}"),
    _shaped("postman-key", "Postman key", "PMAK-", rf"{EDGE}(?P<secret>PMAK-[0-9a-f]{{24}}-[0-9a-f]{{34}}){STOP}"),
    _shaped("pulumi-token", "Pulumi token", "pul-", r"(?<![\w-])(?P<secret>pul-[0-9a-f]{40})(?![\w-])"),
    _shaped("newrelic-key", "New Relic key", "NRAK-", rf"{EDGE}(?P<secret>NRAK-[A-Z0-9]{{27}}){STOP}"),
    _shaped("linear-key", "Linear key", "lin_api_", rf"{EDGE}(?P<secret>lin_api_[A-Za-z0-9]{{40}}){STOP}"),
)

RULES: Final = (*KEYWORD_RULES[:-2], *PREFIX_RULES, *KEYWORD_RULES[-2:])
"""The more a rule knows, the earlier it stands: of two that see the same letters the first names them."""

RULE_DESCRIPTIONS: Final = {rule.name: rule.about for rule in RULES}

CONFIG_FILE = re.compile(
    r"(?i)(?:^|/)(?:\.env[^/]*|[^/]*\.(?:env|ya?ml|ini|cfg|conf|config|properties|toml|tfvars|sh|bash|zsh|service|txt|"
    r"npmrc|pypirc|pgpass)|\.npmrc|\.pypirc|\.netrc|\.bashrc|\.profile|credentials|dockerfile[^/]*|makefile)$"
)
