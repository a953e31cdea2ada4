"""Random fake secrets, made when they are needed, so that nothing in this repository looks like a secret."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from random import Random
from string import ascii_letters, ascii_uppercase, digits

ALNUM = ascii_letters + digits
URL = ALNUM + "-_"
BASE64 = ALNUM + "+/"
HEX = "0123456789abcdef"


class SecretGenerator:
    def __init__(self, seed: int = 7) -> None:
        self.random = Random(seed)

    def __call__(self, length: int, letters: str = ALNUM) -> str:
        """A digit at least at every seventh place, as real secrets have; chance alone may give none."""
        made = [self.random.choice(letters) for _ in range(length)]
        made[3::7] = [self.random.choice(HEX[2:10]) for _ in made[3::7]]
        return "".join(made)

    def uuid(self) -> str:
        return "-".join(self(n, HEX) for n in (8, 4, 4, 4, 12))


def build_pem(d: SecretGenerator, kind: str = "RSA ", lines: int = 4, between: str = "\n") -> str:
    marks = (f"-----BEGIN {kind}PRIVATE KEY-----", f"-----END {kind}PRIVATE KEY-----")
    return between.join([marks[0], *(d(64, BASE64) for _ in range(lines)), marks[1]])


def build_jwt(d: SecretGenerator) -> str:
    return "eyJ" + d(30, URL) + ".eyJ" + d(60, URL) + "." + d(43, URL)


MAKERS: Mapping[str, Callable[[SecretGenerator], str]] = {
    "private-key": build_pem,
    "private-key-base64": lambda d: "key: " + base64.b64encode(build_pem(d, "EC ").encode()).decode(),
    "putty-key": lambda d: f"Private-Lines: 14\n{d(64, BASE64)}",
    "age-key": lambda d: "AGE-SECRET-KEY-1" + d(58, "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L"),
    "kube-client-key": lambda d: "    client-key-data: " + d(120, BASE64),
    "aws-access-key-id": lambda d: f'id = "AKIA{d(16, ascii_uppercase + digits)}"',
    "aws-secret-key": lambda d: f"aws_secret_access_key={d(40, BASE64)}",
    "github-token": lambda d: f"curl -H 'Authorization: token ghp_{d(36)}'",
    "github-fine-token": lambda d: f"github_pat_{d(22)}_{d(59)}",
    "gitlab-token": lambda d: f"glpat-{d(20, URL)}",
    "slack-token": lambda d: f"xoxb-{d(12, digits)}-{d(12, digits)}-{d(24)}",
    "slack-app-token": lambda d: f"xapp-1-{d(11, ascii_uppercase + digits)}-{d(13, digits)}-{d(64, HEX)}",
    "slack-webhook": lambda d: f"https://hooks.slack.com/services/T{d(8)}/B{d(8)}/{d(24)}",
    "stripe-key": lambda d: f"sk_live_{d(24)}",
    "stripe-webhook-secret": lambda d: f"whsec_{d(32)}",
    "google-api-key": lambda d: f"AIza{d(35, URL)}",
    "google-client-secret": lambda d: f"GOCSPX-{d(28, URL)}",
    "openai-key": lambda d: f"sk-proj-{d(48, URL)}",
    "anthropic-key": lambda d: f"sk-ant-api03-{d(93, URL)}-{d(6)}AA",
    "sk-key": lambda d: f"sk-{d(48)}",
    "openrouter-key": lambda d: f"sk-or-v1-{d(64, HEX)}",
    "groq-key": lambda d: f"gsk_{d(52)}",
    "xai-key": lambda d: f"xai-{d(80)}",
    "replicate-token": lambda d: f"r8_{d(37)}",
    "npm-token": lambda d: f"//packages.example.net/:_authToken=npm_{d(36)}",
    "pypi-token": lambda d: f"pypi-AgEIcHlwaS5vcmc{d(90, URL)}",
    "docker-token": lambda d: f"dckr_pat_{d(27, URL)}",
    "twilio-key": lambda d: f"'SK{d(32, HEX)}'",
    "sendgrid-key": lambda d: f"SG.{d(22, URL)}.{d(43, URL)}",
    "mailgun-key": lambda d: f"key-{d(32, HEX)}",
    "digitalocean-token": lambda d: f"dop_v1_{d(64, HEX)}",
    "heroku-key": lambda d: f'HEROKU_API_KEY="{d.uuid()}"',
    "heroku-token": lambda d: f"HRKU-{d(58, URL)}",
    "azure-account-key": lambda d: f"DefaultEndpointsProtocol=https;AccountName=x;AccountKey={d(86, BASE64)}==",
    "azure-shared-key": lambda d: f"Endpoint=sb://x.servicebus.windows.net/;SharedAccessKey={d(43, BASE64)}=",
    "azure-signature": lambda d: f"https://x.blob.core.windows.net/c?sv=2026-01-01&sig={d(43)}%3D",
    "azure-client-secret": lambda d: f"{d(3)}8Q~{d(34)}",
    "jwt": build_jwt,
    "url-password": lambda d: f"postgres://app:{d(14)}@db.internal:5432/main",
    "telegram-token": lambda d: f"{d(9, digits)}:AA{d(33, URL)}",
    "discord-webhook": lambda d: f"https://discord.com/api/webhooks/{d(18, digits)}/{d(68, URL)}",
    "discord-token": lambda d: f"DISCORD = 'M{d(25)}.{d(6)}.{d(38, URL)}'",
    "databricks-token": lambda d: f"dapi{d(32, HEX)}",
    "huggingface-token": lambda d: f"hf_{d(34)}",
    "netrc": lambda d: f"machine git.internal login ada password {d(12)}",
    "shopify-token": lambda d: f"shpat_{d(32, HEX)}",
    "grafana-token": lambda d: f"glsa_{d(32)}_{d(8, HEX)}",
    "supabase-token": lambda d: f"sbp_{d(40, HEX)}",
    "rubygems-key": lambda d: f"rubygems_{d(48, HEX)}",
    "postman-key": lambda d: f"PMAK-{d(24, HEX)}-{d(34, HEX)}",
    "pulumi-token": lambda d: f"pul-{d(40, HEX)}",
    "newrelic-key": lambda d: f"NRAK-{d(27, ascii_uppercase + digits)}",
    "linear-key": lambda d: f"lin_api_{d(40)}",
    "assigned-secret": lambda d: f'db_password: str = "{d(20)}"',
    "configured-secret": lambda d: f"export SERVICE_TOKEN={d(32, HEX)}",
}
"""For every rule a text that it must find."""
