"""What is in the image, as an SPDX 2.3 document."""

from __future__ import annotations

import re
import time
import uuid
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from images.wheels import PROCESSORS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from images.debian import Package
    from images.wheels import Wheel

UNKNOWN = "NOASSERTION"
IMAGE = "SPDXRef-image"


def spdx(
    *,
    name: str,
    version: str,
    digest: str,
    architecture: str,
    epoch: int,
    packages: Sequence[Package],
    wheels: Sequence[Wheel],
) -> dict[str, Any]:
    """Return the document about an image with this digest of its manifest."""
    contained = [
        *(_debian(package) for package in packages),
        *(_python(wheel) for wheel in wheels),
    ]
    image = {
        "SPDXID": IMAGE,
        "name": name,
        "versionInfo": version,
        "primaryPackagePurpose": "CONTAINER",
        "checksums": [_checksum(digest.removeprefix("sha256:"))],
        "comment": f"linux/{architecture} ({PROCESSORS[architecture]}); the checksum "
        "is that of the image's manifest",
        **_UNTOLD,
    }
    return {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": f"{name}-{version}-{architecture}",
        # A name of its own for each image, and the same for the same image.
        "documentNamespace": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_OID, digest)}",
        "creationInfo": {
            "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(epoch)),
            "creators": ["Tool: nriplugin hack/image"],
        },
        "packages": [image, *contained],
        "relationships": [
            _relation("SPDXRef-DOCUMENT", "DESCRIBES", IMAGE),
            *(_relation(IMAGE, "CONTAINS", one["SPDXID"]) for one in contained),
        ],
    }


_UNTOLD = {
    "downloadLocation": UNKNOWN,
    "filesAnalyzed": False,
    "licenseConcluded": UNKNOWN,
    "licenseDeclared": UNKNOWN,
    "copyrightText": UNKNOWN,
}


def _debian(package: Package) -> dict[str, Any]:
    located = f"pkg:deb/debian/{package.name}@{quote(package.version, safe='')}"
    return {
        **_UNTOLD,
        **_called("deb", package.name, package.version, package.sha256),
        "sourceInfo": f"built from the source package {package.source}",
        "externalRefs": [_purl(f"{located}?arch={package.architecture}")],
    }


def _python(wheel: Wheel) -> dict[str, Any]:
    normal = re.sub(r"[-_.]+", "-", wheel.name).lower()
    return {
        **_UNTOLD,
        **_called("python", wheel.name, wheel.version, wheel.sha256),
        "licenseDeclared": wheel.licence or UNKNOWN,
        "packageFileName": wheel.file.name,
        "externalRefs": [_purl(f"pkg:pypi/{normal}@{quote(wheel.version, safe='')}")],
    }


def _called(kind: str, name: str, version: str, sha256: str) -> dict[str, Any]:
    return {
        "SPDXID": f"SPDXRef-{kind}-{re.sub(r'[^a-zA-Z0-9.-]', '-', name)}",
        "name": name,
        "versionInfo": version,
        "checksums": [_checksum(sha256)],
    }


def _checksum(sha256: str) -> dict[str, str]:
    return {"algorithm": "SHA256", "checksumValue": sha256}


def _purl(locator: str) -> dict[str, str]:
    return {
        "referenceCategory": "PACKAGE-MANAGER",
        "referenceType": "purl",
        "referenceLocator": locator,
    }


def _relation(of: str, kind: str, to: str) -> dict[str, str]:
    return {
        "spdxElementId": of,
        "relationshipType": kind,
        "relatedSpdxElement": to,
    }
