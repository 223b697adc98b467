"""JSON schemas of Kubernetes' objects for kubeconform, which would else download them.

They are made from the OpenAPI document of the Kubernetes release that the nodes have,
and from the definitions of custom resources of the Prometheus operator and of
OpenShift, all from the Go module proxy. They are strict: an unknown field is an error.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from nodes.cache import built, digest
from nodes.programs import MODULES, go_environment
from nodes.shell import run

if TYPE_CHECKING:
    from collections.abc import Mapping

# How kubeconform finds the file of a kind below the directory.
LOCATION = "{{.ResourceKind}}-{{.Group}}-{{.ResourceAPIVersion}}.json"
# The kinds that a chart may need, by their API.
BUILT_IN = {
    "io.k8s.api.core.v1": ("ConfigMap", "Pod", "Service", "ServiceAccount"),
    "io.k8s.api.apps.v1": ("DaemonSet",),
    "io.k8s.api.networking.v1": ("NetworkPolicy",),
    "io.k8s.api.rbac.v1": (
        *("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"),
    ),
}
CUSTOM = {
    "github.com/prometheus-operator/prometheus-operator": (
        "example/prometheus-operator-crd/monitoring.coreos.com_podmonitors.yaml",
        "example/prometheus-operator-crd/monitoring.coreos.com_prometheusrules.yaml",
    ),
    "github.com/openshift/api": (
        "payload-manifests/crds/"
        "0000_03_config-operator_01_securitycontextconstraints.crd.yaml",
    ),
}
# Types whose JSON has more than one form, which OpenAPI version 2 cannot say.
FORMS = {
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": ("string", "integer"),
    "io.k8s.apimachinery.pkg.api.resource.Quantity": ("string", "number"),
}


def kube_schemas() -> Path:
    """Return the directory with the schemas, which is made if it is not there."""

    def build(directory: Path) -> None:
        source = _module("kubernetes", "k8s.io/kubernetes")
        document = json.loads((source / "api/openapi-spec/swagger.json").read_text())
        for api, kinds in BUILT_IN.items():
            for kind in kinds:
                name = f"{api}.{kind}"
                schema = _inlined(document["definitions"], name)
                (named,) = document["definitions"][name][
                    "x-kubernetes-group-version-kind"
                ]
                _write(directory, named, schema)
        for module, files in CUSTOM.items():
            for file in files:
                _custom(directory, _module("custom-resources", module) / file)

    modules = (MODULES / "kubernetes", MODULES / "custom-resources")
    key = digest(*modules, Path(__file__))
    return built("kube-schemas", key, "kube-schemas: making JSON schemas", build)


def _module(where: str, module: str) -> Path:
    """Return where Go keeps a module that one of ours pins."""
    found = run(
        *("go", "mod", "download", "-json", module),
        cwd=MODULES / where,
        env=go_environment(),
    )
    return Path(json.loads(found)["Dir"])


def _inlined(definitions: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return a definition with everything that it refers to in it."""
    if name in FORMS:
        return {"type": list(FORMS[name])}
    return _strict(definitions[name], definitions)


def _strict(
    schema: Mapping[str, Any], definitions: Mapping[str, Any]
) -> dict[str, Any]:
    """Return a schema without references that accepts no unknown field."""
    if "$ref" in schema:
        return _inlined(definitions, schema["$ref"].rpartition("/")[2])
    strict = {key: value for key, value in schema.items() if not key.startswith("x-")}
    # Texts for people, and names of formats that only Kubernetes knows.
    for key in ("description", "format", "default"):
        strict.pop(key, None)
    if "properties" in schema:
        strict["properties"] = {
            key: _strict(value, definitions)
            for key, value in schema["properties"].items()
        }
        if not schema.get("x-kubernetes-preserve-unknown-fields"):
            strict.setdefault("additionalProperties", False)
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            strict[key] = _strict(schema[key], definitions)
    return strict


def _custom(directory: Path, file: Path) -> None:
    specification = yaml.safe_load(file.read_text())["spec"]
    for version in specification["versions"]:
        named = {
            "group": specification["group"],
            "version": version["name"],
            "kind": specification["names"]["kind"],
        }
        _write(directory, named, _strict(version["schema"]["openAPIV3Schema"], {}))


def _write(directory: Path, named: Mapping[str, str], schema: object) -> None:
    name = LOCATION.replace("{{.ResourceKind}}", named["kind"].lower())
    # kubeconform takes `v1`, which has no group, for one.
    name = name.replace("{{.Group}}", named["group"] or named["version"])
    name = name.replace("{{.ResourceAPIVersion}}", named["version"])
    (directory / name).write_text(json.dumps(schema))
