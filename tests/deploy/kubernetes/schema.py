"""The schemas of Kubernetes and of the kinds of jobs on it, read strictly: a field that is in none
is an error, as for an API server that is asked for fieldValidation=Strict."""
import gzip
import json
import pathlib

import jsonschema
import yaml

DATA = pathlib.Path(__file__).resolve().parent / "data"
QUANTITY = r"^[+-]?(\d+|\d*\.\d+|\d+\.)(([KMGTPE]i)|[numkMGTPE]|[eE][+-]?\d+)?$"


def _read(name):
    with gzip.open(DATA / name, "rt", encoding="utf-8") as file:
        return file.read()


def _without_formats(node):
    """Formats of Kubernetes' own mean nothing to a validator of JSON Schema."""
    if isinstance(node, dict):
        if isinstance(node.get("format"), str):
            node.pop("format")
        for value in node.values():
            _without_formats(value)
    elif isinstance(node, list):
        for value in node:
            _without_formats(value)


def _strict_crd(node):
    if isinstance(node, dict):
        if node.get("x-kubernetes-int-or-string"):
            node.pop("anyOf", None)
            node["type"] = ["integer", "string"]
        if node.get("type") == "object" and "properties" in node \
                and not node.get("x-kubernetes-preserve-unknown-fields"):
            node.setdefault("additionalProperties", False)
        for value in node.values():
            _strict_crd(value)
    elif isinstance(node, list):
        for value in node:
            _strict_crd(value)


class Schemas:
    def __init__(self):
        definitions = json.loads(_read("swagger.json.gz"))["definitions"]
        self._names = {}
        for name, definition in definitions.items():
            if "properties" in definition:
                definition.setdefault("additionalProperties", False)
            for kind in definition.get("x-kubernetes-group-version-kind", ()):
                self._names.setdefault((kind["group"], kind["version"], kind["kind"]), name)
        _without_formats(definitions)
        definitions["io.k8s.apimachinery.pkg.util.intstr.IntOrString"] = {
            "type": ["integer", "string"]}
        definitions["io.k8s.apimachinery.pkg.api.resource.Quantity"] = {
            "anyOf": [{"type": "number"}, {"type": "string", "pattern": QUANTITY}]}
        self._definitions = definitions
        crd = yaml.load(_read("servicemonitor-crd.yaml.gz"), Loader=yaml.CSafeLoader)
        names, version = crd["spec"]["names"], crd["spec"]["versions"][0]
        schema = version["schema"]["openAPIV3Schema"]
        _without_formats(schema)
        _strict_crd(schema)
        schema["properties"]["metadata"] = {"$ref": "#/definitions/" + self._name_of_metadata()}
        self._custom = {(crd["spec"]["group"], version["name"], names["kind"]): schema}
        jobs = json.loads((DATA / "jobs.schema.json").read_text(encoding="utf-8"))
        definitions.update(jobs["definitions"])
        for kind, name in jobs["kinds"].items():
            self._names[tuple(kind.split("/"))] = name

    @staticmethod
    def _name_of_metadata():
        return "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"

    def errors(self, document):
        """One line an error; none for a good document."""
        group, _, version = document.get("apiVersion", "").rpartition("/")
        kind = (group, version, document.get("kind"))
        if kind in self._custom:
            schema = {**self._custom[kind], "definitions": self._definitions}
        elif kind in self._names:
            schema = {"$ref": "#/definitions/" + self._names[kind],
                      "definitions": self._definitions}
        else:
            return [f"{document.get('apiVersion')} {document.get('kind')}: no such kind"]
        return [f"{'.'.join(map(str, error.absolute_path))}: {error.message[:200]}"
                for error in jsonschema.Draft7Validator(schema).iter_errors(document)]
