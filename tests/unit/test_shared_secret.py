"""Certificates made from a secret, and where secrets come from."""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
import tempfile
import threading

import pytest

from raycompat._protocol import shared_secret
from raycompat._protocol.shared_secret import Authority, Credentials

SALT = bytes(range(16))


@pytest.fixture(autouse=True)
def cheap(monkeypatch):
    """Reduce the cost of the derivation, which these tests do not check."""
    monkeypatch.setattr(shared_secret, "_COST", 16)


def context(credentials: Credentials, *, is_server: bool) -> ssl.SSLContext:
    protocol = ssl.PROTOCOL_TLS_SERVER if is_server else ssl.PROTOCOL_TLS_CLIENT
    made = ssl.SSLContext(protocol)
    made.check_hostname = False
    made.verify_mode = ssl.CERT_REQUIRED
    made.verify_flags |= ssl.VERIFY_X509_STRICT
    made.load_verify_locations(cadata=credentials["authority"])
    with tempfile.NamedTemporaryFile("w") as file:
        file.write(credentials["key"] + credentials["certificate"])
        file.flush()
        made.load_cert_chain(file.name)
    return made


def shake_hands(client: Credentials, server: Credentials) -> str:
    """Let the two meet; return what the client hears."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = context(client, is_server=False).wrap_bio(to_client, to_server)
    theirs = context(server, is_server=True).wrap_bio(to_server, to_client, server_side=True)
    for _ in range(4):
        for end in (ours, theirs):
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
    theirs.write(b"welcome")
    return ours.read(100).decode()


def test_who_knows_the_secret_is_let_in_and_lets_in():
    first, second = Authority("secret", SALT).credentials(), Authority("secret", SALT).credentials()
    assert first["key"] != second["key"]
    assert shake_hands(first, second) == "welcome"
    assert shake_hands(second, first) == "welcome"


def test_who_knows_another_is_not():
    first, second = Authority("secret", SALT).credentials(), Authority("Secret", SALT).credentials()
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(first, second)


def test_clusters_with_the_same_secret_have_nothing_in_common():
    first, second = Authority("secret").credentials(), Authority("secret").credentials()
    assert first["token"] != second["token"]
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(first, second)


@pytest.fixture
def server():
    """Where a server of a cluster listens that has the secret and the salt."""
    made = context(Authority("secret", SALT).credentials(), is_server=True)
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            stream, _ = listener.accept()
            with stream, contextlib.suppress(OSError):
                made.wrap_socket(stream, server_side=True).close()

        thread = threading.Thread(target=serve)
        thread.start()
        yield listener.getsockname()
        thread.join()


def test_a_cluster_that_is_joined_shows_its_salt(server):
    joining = Authority("secret")
    joining.join(*server)
    token = Authority("secret", SALT).credentials()["token"]
    assert joining.credentials()["token"] == token


def test_what_is_no_cluster_with_a_password_has_no_salt():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        place = listener.getsockname()
        thread = threading.Thread(target=lambda: listener.accept()[0].close())
        thread.start()
        assert shared_secret.salt_at(*place) is None
        thread.join()
    assert shared_secret.salt_at(*place) is None  # nothing listens


@pytest.mark.parametrize(("secret", "is_weak"), [("x" * 11, True), ("x" * 12, False)])
def test_a_short_secret_is_called_weak(secret, is_weak):
    assert (Authority(secret).why_weak is not None) == is_weak


def test_the_authoritys_key_is_in_no_credentials():
    """Whoever has a process's certificate cannot make one."""
    from cryptography.hazmat.primitives import serialization

    credentials = Authority("secret", SALT).credentials()
    key = serialization.load_pem_private_key(credentials["key"].encode(), None)
    authority = Authority("secret", SALT)._made[0]
    assert key.private_numbers() != authority.private_numbers()
    forged = {**credentials, "authority": credentials["certificate"]}
    with pytest.raises(ssl.SSLError):
        shake_hands(forged, Authority("secret", SALT).credentials())


def test_the_token_is_the_secrets_and_does_not_tell_it():
    token = Authority("secret", SALT).credentials()["token"]
    assert token == Authority("secret", SALT).credentials()["token"]
    assert token != Authority("other", SALT).credentials()["token"]
    assert len(token) >= 43  # 256 bits


def test_guessing_is_dear(monkeypatch):
    monkeypatch.undo()
    assert 128 * shared_secret._COST * shared_secret._BLOCK >= 64 << 20  # bytes of memory a guess


@pytest.fixture
def bare(monkeypatch):
    for name in (shared_secret.VARIABLE, shared_secret.FILE_VARIABLE):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


def test_what_is_given_goes_before_the_environment(bare, tmp_path):
    file = tmp_path / "file"
    file.touch(mode=0o600)
    file.write_text("in the file\n")
    assert shared_secret.find() is None
    bare.setenv(shared_secret.FILE_VARIABLE, str(file))
    assert shared_secret.find() == "in the file"
    bare.setenv(shared_secret.VARIABLE, "in the environment")
    assert shared_secret.find() == "in the environment"
    assert shared_secret.find("given") == "given"
    assert not any(
        name.startswith("RAYCOMPAT_PASSWORD") for name in shared_secret.environment_without()
    )
    assert shared_secret.environment_without().items() <= dict(os.environ).items()


def test_what_is_no_secret_is_refused(bare):
    with pytest.raises(TypeError, match="must be a string"):
        shared_secret.find(5)
    with pytest.raises(ValueError, match="is empty"):
        shared_secret.find("")
    bare.setenv(shared_secret.VARIABLE, "")
    with pytest.raises(ValueError, match="is empty"):
        shared_secret.find()


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o644])
def test_a_file_that_others_may_read_is_refused(tmp_path, mode):
    path = tmp_path / "file"
    path.write_text("secret")
    path.chmod(mode)
    with pytest.raises(ValueError, match="chmod 600"):
        shared_secret.read(path)


def test_a_file_that_is_none_is_refused(tmp_path):
    path = tmp_path / "file"
    with pytest.raises(ValueError, match="cannot be read"):
        shared_secret.read(path)
    path.touch(mode=0o600)
    with pytest.raises(ValueError, match="is empty"):
        shared_secret.read(path)
    path.write_bytes(b"\xff\xfe\xff")
    with pytest.raises(ValueError, match="cannot be read"):
        shared_secret.read(path)
