"""A secret that the processes of a cluster share, and the certificates that are made from it.

Whoever knows the secret makes the same certification authority from it, and has it sign a certificate
of their own. Both ends of every connection then ask for a certificate of that authority, so whoever
does not know the secret is turned away before a byte of theirs is read. The secret itself is sent
nowhere; processes that are started are given a certificate, not the secret and not the authority.

Each cluster has a random salt, so that nobody can try secrets before they have seen the cluster, nor on
two clusters at once. It is no secret: it stands in the names of the certificates, which a server shows.
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
from typing import TYPE_CHECKING, Any, TypedDict, TypeGuard

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.x509 import Certificate

#: Where a program finds the secret that was not given to it: the secret itself, or a file that has it.
VARIABLE, FILE_VARIABLE = "RAYCOMPAT_PASSWORD", "RAYCOMPAT_PASSWORD_FILE"

#: What scrypt costs: 128 MB and some 0.4 s. Whoever has seen a certificate may try secrets at home.
_COST, _BLOCK, _LANES = 1 << 17, 8, 1
#: Sets these keys apart from others that may be made of the same secret.
_PURPOSE = b"raycompat: certificates of a cluster, 2"
#: Bytes of a cluster's salt, and the name of its authority, which ends with them.
_SALT_BYTES, _NAME = 16, "raycompat cluster "
#: A secret of fewer characters can be found by trying.
_SHORT = 12
#: Seconds that a server has to show its certificate.
_SHOW_S = 5.0
#: Bytes of the authority's key, more than the curve needs so that none is likelier; and of the token.
_KEY_BYTES, _TOKEN_BYTES = 48, 32
#: The order of the curve P-256. (Not Ed25519: browsers do not take it, and they open dashboards.)
_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551

#: A certificate is good as long as its secret is: clocks that are wrong must not keep anybody out.
_SINCE = datetime.datetime(2000, 1, 1, tzinfo=datetime.UTC)
_UNTIL = datetime.datetime(9999, 12, 31, 23, 59, 59, tzinfo=datetime.UTC)


#: What brings the token to a dashboard, in its address.
TOKEN_PARAMETER = "token"


class Token(TypedDict):
    """What opens the dashboard."""

    token: str


class Credentials(TypedDict):
    """What a process shows to the others, in PEM, and the token that opens the dashboard."""

    authority: str
    certificate: str
    key: str
    token: str


def has_password(credentials: Token | Credentials) -> TypeGuard[Credentials]:
    """Whether these are the credentials of a cluster that has a password."""
    return "certificate" in credentials


def random_token() -> Token:
    """Return the token of a cluster that has no password."""
    return {"token": secrets.token_urlsafe(_TOKEN_BYTES)}


def find(given: Any = None) -> str | None:
    """Return the secret that was given, or the environment's; None if there is none.

    Raises
    ------
    TypeError
        When it is no string.
    ValueError
        When it is empty, or the environment names a file that cannot be used (see `read`).
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
    """Return the secret in a file that nobody else may read.

    Raises
    ------
    ValueError
        When it is not there, empty, no text, or others may read it.
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
            f"Others than its owner may use the password file {path}. Expected mode 0600: "
            f"chmod 600 {path}"
        )
    if not secret:
        raise ValueError(f"The password file {path} is empty. {advice}")
    return secret


def environment_without() -> dict[str, str]:
    """Return this process's environment for a child, which is told what it needs in another way."""
    return {
        name: value for name, value in os.environ.items() if name not in (VARIABLE, FILE_VARIABLE)
    }


def salt_at(host: str, port: int) -> bytes | None:
    """Return the salt of the cluster of which a server is one; None if none with a password answers.

    Another cluster's salt does no harm: who does not know the secret has no certificate made from both,
    and this process shows its own to nobody else.
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
    except (OSError, ValueError):  # there is none, or it is not one of ours
        return None
    text = "".join(str(each.value) for each in names)
    found = re.fullmatch(rf"{_NAME}([0-9a-f]{{{2 * _SALT_BYTES}}})", text)
    return bytes.fromhex(found[1]) if found is not None else None


class Authority:
    """The certification authority of a cluster, which everybody makes who knows `secret`.

    It is that of a new cluster, unless it is given the salt of one that is there.
    """

    def __init__(self, secret: str, salt: bytes | None = None) -> None:
        self._secret = secret
        self._salt = salt if salt is not None else secrets.token_bytes(_SALT_BYTES)

    @property
    def why_weak(self) -> str | None:
        """Why others could find the secret by trying; None if it is long enough."""
        if len(self._secret) >= _SHORT:
            return None
        return (
            f"the password of the cluster has {len(self._secret)} characters. Who reaches its ports "
            f"can try short ones at home: take {_SHORT} or more, best at random (openssl rand -hex 32)."
        )

    def join(self, host: str, port: int) -> None:
        """Become the authority of the cluster of the server at `host` and `port`, if that has one."""
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
        """Return new credentials, for one process."""
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
    """Return what the authority's key is made of, and the token; neither tells of the other."""
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
    """Return the certificate of `key`: the authority's own, if that is its key."""
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
