"""A secret that the processes of a cluster share, and the certificates that are made from it.

Every process that knows the secret derives the same certification authority from it, and signs its own
certificate with it. Both ends of every connection require a certificate of that authority. So a process
without the secret is rejected before it can send data. The secret itself is never sent. A started child
process gets a certificate, not the secret and not the authority.

Each cluster has a random salt. So an attacker cannot try secrets before seeing the cluster, or for two
clusters at once. The salt is public: it is part of the name in the certificates that a server shows.
"""

from __future__ import annotations

import base64
import datetime
import hashlib
import os
import re
import secrets
import socket
import ssl
import stat
from functools import cached_property
from typing import TYPE_CHECKING, TypedDict, TypeGuard

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.x509 import Certificate

#: Environment variables for the secret: the secret itself, or the path of a file that holds it.
VARIABLE, FILE_VARIABLE = "RAYCOMPAT_PASSWORD", "RAYCOMPAT_PASSWORD_FILE"

#: The cost of scrypt: 128 MB and about 0.4 s. It slows down guessing by those who saw a certificate.
_COST, _BLOCK, _LANES = 1 << 17, 8, 1
#: Makes these keys different from other keys derived from the same secret.
_PURPOSE = b"raycompat: certificates of a cluster, 2"
#: Bytes of a cluster's salt; prefix of the authority's name, which ends with the salt.
_SALT_BYTES, _NAME = 16, "raycompat cluster "
#: A secret with fewer characters can be guessed.
_SHORT = 12
#: Seconds for a server to show its certificate.
_SHOW_S = 5.0
#: Bytes of the authority's key (more than the curve needs, to avoid bias), and of the token.
_KEY_BYTES, _TOKEN_BYTES = 48, 32
#: The order of the curve P-256. Browsers, which open the dashboard, do not support Ed25519.
_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551

#: Certificates never expire, so that a wrong clock cannot lock a process out.
_SINCE = datetime.datetime(2000, 1, 1, tzinfo=datetime.UTC)
_UNTIL = datetime.datetime(9999, 12, 31, 23, 59, 59, tzinfo=datetime.UTC)


#: The parameter of a dashboard's URL that holds the token.
TOKEN_PARAMETER = "token"


class Token(TypedDict):
    """The token that gives access to the dashboard."""

    token: str


class Credentials(TypedDict):
    """A process's certificate and key, in PEM, and the token that gives access to the dashboard."""

    authority: str
    certificate: str
    key: str
    token: str


def has_password(credentials: Token | Credentials) -> TypeGuard[Credentials]:
    """Return whether these are the credentials of a cluster that has a password."""
    return "certificate" in credentials


def random_token() -> Token:
    """Return the token of a cluster that has no password."""
    return {"token": secrets.token_urlsafe(_TOKEN_BYTES)}


def find(given: object = None) -> str | None:
    """Return the given secret, or the one in the environment; None if there is none.

    Raises
    ------
    TypeError
        When the secret is not a string.
    ValueError
        When the secret is empty, or the file that the environment names is not usable (see `read`).
    """
    if given is None and VARIABLE in os.environ:
        given = os.environ[VARIABLE]
    if given is None and FILE_VARIABLE in os.environ:
        return read(os.environ[FILE_VARIABLE])
    if given is None:
        return None
    if not isinstance(given, str):
        raise TypeError(f"The password of a cluster must be a string, not {type(given)}.")
    if not given:
        raise ValueError(
            f"The password of the cluster is empty. Leave it out (and {VARIABLE} unset) for a cluster "
            "without one."
        )
    return given


def read(path: str | os.PathLike[str]) -> str:
    """Return the secret in a file that no other user can read.

    Raises
    ------
    ValueError
        When the file is missing, empty, not text, or readable by other users.
    """
    advice = f"Make one: (umask 077; openssl rand -hex 32 > {path})"
    try:
        with open(path, encoding="utf-8") as file:
            others = stat.S_IMODE(os.fstat(file.fileno()).st_mode) & 0o077
            secret = file.read().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"The password file {path} cannot be read: {error}. {advice}") from error
    if others:
        raise ValueError(
            f"Users other than the owner can use the password file {path}. Expected mode 0600: "
            f"chmod 600 {path}"
        )
    if not secret:
        raise ValueError(f"The password file {path} is empty. {advice}")
    return secret


def environment_without() -> dict[str, str]:
    """Return this process's environment without the secret, for a child process."""
    return {
        name: value for name, value in os.environ.items() if name not in (VARIABLE, FILE_VARIABLE)
    }


def salt_at(host: str, port: int) -> bytes | None:
    """Return the salt of a server's cluster; None if no server with a password answers.

    The salt of a false cluster does no harm: without the secret it cannot make a valid certificate, and
    this process shows its own only to servers with a valid one.
    """
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    try:
        with (
            socket.create_connection((host, port), _SHOW_S) as stream,
            context.wrap_socket(stream) as secured,
        ):
            shown = x509.load_der_x509_certificate(secured.getpeercert(binary_form=True) or b"")
        names = shown.issuer.get_attributes_for_oid(NameOID.COMMON_NAME)
    except (OSError, ValueError):  # no server, or not a raycompat server
        return None
    text = "".join(str(each.value) for each in names)
    found = re.fullmatch(rf"{_NAME}([0-9a-f]{{{2 * _SALT_BYTES}}})", text)
    return bytes.fromhex(found[1]) if found is not None else None


class Authority:
    """The certification authority of a cluster, derived from `secret` and a salt.

    Without a salt it is the authority of a new cluster.
    """

    def __init__(self, secret: str, salt: bytes | None = None) -> None:
        self._secret = secret
        self._salt = salt if salt is not None else secrets.token_bytes(_SALT_BYTES)

    @property
    def why_weak(self) -> str | None:
        """Return why the secret can be guessed; None if it is long enough."""
        if len(self._secret) >= _SHORT:
            return None
        return (
            f"the password of the cluster has {len(self._secret)} characters. Anyone who reaches its "
            f"ports can guess a short one: use {_SHORT} or more, random ones (openssl rand -hex 32)."
        )

    def join(self, host: str, port: int) -> None:
        """Use the salt of the server at `host` and `port`, if it has one, to join its cluster."""
        salt = salt_at(host, port)
        if salt is not None and salt != self._salt:
            self._salt = salt
            vars(self).pop("_made", None)

    @cached_property
    def _made(self) -> tuple[EllipticCurvePrivateKey, Certificate, str]:
        """The private key, the certificate, and the token. Making them takes half a second."""
        from cryptography.hazmat.primitives.asymmetric import ec

        key_bytes, token = _derive(self._secret, self._salt)
        number = int.from_bytes(key_bytes, "big") % (_ORDER - 1) + 1
        key = ec.derive_private_key(number, ec.SECP256R1())
        certificate = _certificate(key, key, serial=1, cluster=self._salt.hex())
        return key, certificate, base64.urlsafe_b64encode(token).decode().rstrip("=")

    def credentials(self) -> Credentials:
        """Return new credentials for one process."""
        from cryptography import x509
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ec

        own, authority, token = self._made
        key = ec.generate_private_key(ec.SECP256R1())
        serial = x509.random_serial_number()
        certificate = _certificate(key, own, serial=serial, cluster=self._salt.hex())
        return {
            "authority": _pem(authority),
            "certificate": _pem(certificate),
            "key": key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            ).decode(),
            "token": token,
        }


def _pem(certificate: Certificate) -> str:
    from cryptography.hazmat.primitives import serialization

    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def _derive(secret: str, salt: bytes) -> tuple[bytes, bytes]:
    """Return the bytes for the authority's key, and the token; neither reveals the other."""
    derived = hashlib.scrypt(
        secret.encode(),
        salt=_PURPOSE + salt,
        n=_COST,
        r=_BLOCK,
        p=_LANES,
        maxmem=2 * 128 * _COST * _BLOCK,
        dklen=_KEY_BYTES + _TOKEN_BYTES,
    )
    return derived[:_KEY_BYTES], derived[_KEY_BYTES:]


def _certificate(
    key: EllipticCurvePrivateKey,
    authority_key: EllipticCurvePrivateKey,
    serial: int,
    cluster: str,
) -> Certificate:
    """Return a certificate of `key`; self-signed if `key` is the authority's."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    is_authority = key is authority_key

    def name(text: str) -> x509.Name:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])

    usage = dict.fromkeys(
        (
            "content_commitment",
            "key_encipherment",
            "data_encipherment",
            "key_agreement",
            "crl_sign",
            "encipher_only",
            "decipher_only",
        ),
        False,
    )
    builder = (
        x509.CertificateBuilder()
        .subject_name(name(_NAME + cluster if is_authority else "raycompat process"))
        .issuer_name(name(_NAME + cluster))
        .public_key(key.public_key())
        .serial_number(serial)
        .not_valid_before(_SINCE)
        .not_valid_after(_UNTIL)
        .add_extension(
            x509.BasicConstraints(ca=is_authority, path_length=0 if is_authority else None),
            critical=True,
        )
        .add_extension(
            x509.KeyUsage(digital_signature=not is_authority, key_cert_sign=is_authority, **usage),
            critical=True,
        )
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()),
            critical=False,
        )
    )
    if not is_authority:
        purposes = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        builder = builder.add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
    return builder.sign(authority_key, hashes.SHA256())
