"""Providers behind TLS: only trusted ones, with one handshake for many calls."""

from __future__ import annotations

import shutil
import ssl
import subprocess
from pathlib import Path

import pytest

from support.model_gateways import SECRET, build_model_options, start_model_gateway
from support.model_providers import answer_json, build_message, start_provider

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="certificates are made with openssl")
FINE = answer_json(200, build_message())


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[ssl.SSLContext, str]:
    """Make a self-signed certificate for localhost."""
    folder = tmp_path_factory.mktemp("tls")
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    made = ("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost")
    names = ("-addext", "subjectAltName=DNS:localhost")
    subprocess.run([*made, *names, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return context, str(certificate)


def test_a_trusted_provider_is_asked_over_one_connection(
    tmp_path: Path, certificate: tuple[ssl.SSLContext, str]
) -> None:
    context, trusted = certificate
    with (
        start_provider(FINE, tls=context) as provider,
        start_model_gateway(
            tmp_path / "a", build_model_options(f"https://localhost:{provider.port}"), SSL_CERT_FILE=trusted
        ) as gateway,
    ):
        answers = [gateway.send_call().status for _ in range(2)]

    assert (answers, len(provider.asked), provider.connections) == ([200, 200], 2, 1)
    assert provider.asked[0].headers["x-api-key"] == SECRET


@pytest.mark.parametrize(("host", "trusts"), [("localhost", False), ("127.0.0.1", True)])
def test_an_untrusted_provider_gets_no_byte_of_the_request(
    tmp_path: Path, certificate: tuple[ssl.SSLContext, str], host: str, *, trusts: bool
) -> None:
    """Its certificate is self-signed, or for another name."""
    context, trusted = certificate
    options = {"outage_wait": 0.0}
    with (
        start_provider(FINE, tls=context) as provider,
        start_model_gateway(
            tmp_path / "a",
            build_model_options(f"https://{host}:{provider.port}", **options),
            SSL_CERT_FILE=trusted if trusts else "/dev/null",
        ) as gateway,
    ):
        received = gateway.send_call()

    assert received.status == 503
    assert "its certificate cannot be trusted" in received.content["error"]["message"]
    assert provider.asked == []
