"""How to reach the API server: by a kubeconfig, or by a pod's service account.

Files are read again for every connection, because tokens and certificates are replaced
while the daemon runs. A kubeconfig that makes others run a program for a token is not
supported: the daemon runs no programs.
"""

from __future__ import annotations

import base64
import binascii
import os
import ssl
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from nriplugin.errors import ConfigError

SERVICE_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
# Tokens and kubeconfigs have kilobytes.
_MAX_FILE = 1 << 20


class ApiAccess(NamedTuple):
    """An API server, what proves that it is the right one, and who asks it."""

    host: str
    port: int
    prefix: str  # of every path
    context: ssl.SSLContext
    server_name: str
    token: str  # empty if a certificate says who asks

    @property
    def shown(self) -> str:
        """Return the address as a URL."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"https://{host}:{self.port}{self.prefix}"


def in_cluster(
    environ: Mapping[str, str], directory: str = SERVICE_ACCOUNT
) -> ApiAccess:
    """Return the access of the pod that this process runs in.

    Raises:
        ConfigError: it runs in no pod, or the pod has no service account.
    """
    host = environ.get("KUBERNETES_SERVICE_HOST", "")
    port = environ.get("KUBERNETES_SERVICE_PORT", "443")
    if not host or not port.isdecimal():
        raise ConfigError(
            f"KUBERNETES_SERVICE_HOST: {host!r:.60}, expected the environment of a pod"
        )
    context = _context(f"{directory}/ca.crt", None, insecure=False)
    token = _text(f"{directory}/token").strip()
    return ApiAccess(host, int(port), "", context, host, token)


def of_kubeconfig(path: str) -> ApiAccess:
    """Return the access of the current context of a kubeconfig.

    Raises:
        ConfigError: the file cannot be read, is malformed, or asks for what is not
            supported; the error names the field.
    """
    from nriplugin.documents import load_documents

    documents = load_documents(_text(path), path)
    config = _mapping(documents[0] if documents else None, path)
    context = _named(config, "contexts", "context", config.get("current-context"), path)
    cluster = _named(config, "clusters", "cluster", context.get("cluster"), path)
    user = _named(config, "users", "user", context.get("user"), path)
    for key in ("exec", "auth-provider", "username"):
        if key in user:
            raise ConfigError(
                f"{path}: user.{key}: not supported, expected token, tokenFile or a "
                "client certificate"
            )
    server = str(cluster.get("server") or "")
    url = urlsplit(server)
    try:
        host, port = url.hostname, url.port or 443
    except ValueError:
        host, port = None, 0
    if url.scheme != "https" or not host:
        raise ConfigError(f"{path}: server: {server!r:.60}, expected https://HOST:PORT")
    insecure = cluster.get("insecure-skip-tls-verify") is True
    directory = os.path.dirname(path)
    authority = _given(cluster, "certificate-authority", directory, path)
    made = _context(*_split(authority), insecure=insecure)
    certificate = _given(user, "client-certificate", directory, path)
    private = _given(user, "client-key", directory, path)
    if certificate is not None and private is not None:
        _load_pair(made, certificate, private, path)
    token = str(user.get("token") or "")
    if user.get("tokenFile"):
        token = _text(os.path.join(directory, str(user["tokenFile"]))).strip()
    name = str(cluster.get("tls-server-name") or host)
    return ApiAccess(host, port, url.path.rstrip("/"), made, name, token)


def _context(file: str | None, data: bytes | None, *, insecure: bool) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        return context
    try:
        if data is not None:
            context.load_verify_locations(cadata=data.decode("ascii", "replace"))
        elif file is not None:
            context.load_verify_locations(cafile=file)
        else:
            context.load_default_certs()
    except (OSError, ValueError) as exc:
        where = "certificate-authority-data" if data is not None else file
        raise ConfigError(f"{where}: {_reason(exc)}, expected certificates") from exc
    return context


def _load_pair(
    context: ssl.SSLContext, certificate: str | bytes, key: str | bytes, path: str
) -> None:
    """Load a client's certificate; OpenSSL takes files only, so data is made one.

    Such a file is in memory alone.
    """
    opened: list[int] = []
    try:
        first, second = (
            _in_memory(one, opened) if isinstance(one, bytes) else one
            for one in (certificate, key)
        )
        # A password that is not there is an error, and no question on the terminal.
        context.load_cert_chain(first, second, password="")
    except (OSError, ValueError) as exc:
        raise ConfigError(
            f"{path}: client-certificate: {_reason(exc)}, expected a certificate and "
            "its key"
        ) from exc
    finally:
        for file in opened:
            os.close(file)


def _in_memory(content: bytes, opened: list[int]) -> str:
    file = os.memfd_create("nriplugin-certificate", os.MFD_CLOEXEC)
    opened.append(file)
    os.write(file, content)
    return f"/proc/self/fd/{file}"


def _split(given: str | bytes | None) -> tuple[str | None, bytes | None]:
    """Return a file, or a content."""
    return (None, given) if isinstance(given, bytes) else (given, None)


def _given(
    section: Mapping[str, Any], key: str, directory: str, path: str
) -> str | bytes | None:
    """Return the content of KEY-data, else the path in KEY, else None."""
    data = section.get(f"{key}-data")
    if data:
        try:
            return base64.b64decode(str(data), validate=True)
        except binascii.Error as exc:
            raise ConfigError(f"{path}: {key}-data: {exc}, expected base64") from exc
    named = section.get(key)
    return os.path.join(directory, str(named)) if named else None


def _named(
    config: Mapping[str, Any], entries: str, key: str, name: object, path: str
) -> Mapping[str, Any]:
    """Return the entry of a list that has a name."""
    listed = config.get(entries)
    for entry in listed if isinstance(listed, list) else []:
        if isinstance(entry, Mapping) and name and entry.get("name") == name:
            return _mapping(entry.get(key), f"{path}: {entries}: {name}")
    raise ConfigError(f"{path}: {entries}: nothing is named {name!r:.60}")


def _mapping(given: object, where: str) -> Mapping[str, Any]:
    if not isinstance(given, Mapping):
        raise ConfigError(f"{where}: {given!r:.60}, expected fields")
    return given


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read(_MAX_FILE)
    except (OSError, UnicodeDecodeError) as exc:
        raise ConfigError(f"{path}: cannot be read: {_reason(exc)}") from exc


def _reason(exc: Exception) -> str:
    return getattr(exc, "strerror", None) or str(exc)
