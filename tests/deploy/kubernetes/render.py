"""Renders a folder of kustomize, as far as the manifests of this project use it: bases, resources,
strategic merge patches (with `$patch: delete` in lists), generated ConfigMaps, images, and a
namespace. What else a
kustomization.yaml says is refused. So manifests can be looked at without kubectl, and stay within
what the kustomize of every kubectl since 1.14 knows."""
import copy
import pathlib
import subprocess

import yaml

KNOWN = {"apiVersion", "kind", "namespace", "bases", "resources", "patchesStrategicMerge",
         "configMapGenerator", "generatorOptions", "images"}
# Kinds of the manifests that are in no namespace.
CLUSTER_KINDS = {"Namespace"}
# Lists whose entries a patch finds by a field of theirs; all others it replaces.
MERGE_KEYS = {"containers": "name", "initContainers": "name", "volumes": "name", "env": "name",
              "volumeMounts": "mountPath", "topologySpreadConstraints": "topologyKey"}
# The same name, another key, going by where it is.
PORT_KEYS = {"container": "containerPort", "service": "port"}


def load_all(path):
    with open(path, encoding="utf-8") as file:
        return [document for document in yaml.safe_load_all(file) if document]


def key_of(document):
    return document["kind"], document["metadata"]["name"]


def _merge_key(name, where):
    if name == "ports":
        return PORT_KEYS["container" if where == "container" else "service"]
    return MERGE_KEYS.get(name)


def _merge_lists(base, patch, key, where):
    gone = {entry[key] for entry in patch if entry.get("$patch") == "delete"}
    if not gone <= {entry[key] for entry in base}:
        raise ValueError(f"nothing called {sorted(gone)} to take away")
    merged = {entry[key]: entry for entry in base if entry[key] not in gone}
    patch = [entry for entry in patch if entry[key] not in gone]
    # Kustomize puts what a patch adds in front.
    added = [entry for entry in patch if entry[key] not in merged]
    for entry in patch:
        if entry[key] in merged:
            merged[entry[key]] = merge(merged[entry[key]], entry, where)
    return added + list(merged.values())


def merge(base, patch, where=""):
    """A strategic merge patch; `null` takes a field away."""
    result = dict(base)
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        elif isinstance(value, dict) and isinstance(result.get(name), dict):
            result[name] = merge(result[name], value, where)
        elif isinstance(value, list) and isinstance(result.get(name), list) \
                and _merge_key(name, where):
            inside = "container" if name in ("containers", "initContainers") else where
            result[name] = _merge_lists(result[name], value, _merge_key(name, where), inside)
        else:
            result[name] = value
    return result


def _generate(folder, entries, documents):
    for entry in entries:
        unknown = set(entry) - {"name", "files", "behavior"}
        if unknown:
            raise ValueError(f"{folder}: configMapGenerator: {sorted(unknown)}")
        data = {}
        for name in entry["files"]:
            data[pathlib.PurePath(name).name] = (folder / name).read_text(encoding="utf-8")
        made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": entry["name"]},
                "data": data}
        known = [document for document in documents if key_of(document) == key_of(made)]
        if entry.get("behavior", "create") == "replace":
            if len(known) != 1:
                raise ValueError(f"{folder}: nothing called {entry['name']} to replace")
            known[0]["data"] = data
        elif known:
            raise ValueError(f"{folder}: {entry['name']} is there already")
        else:
            documents.append(made)


def _containers(node):
    if isinstance(node, dict):
        for name, value in node.items():
            if name in ("containers", "initContainers") and isinstance(value, list):
                yield from value
            else:
                yield from _containers(value)
    elif isinstance(node, list):
        for value in node:
            yield from _containers(value)


def _set_image(container, change):
    name, _, tag = container["image"].partition(":")
    if name == change["name"]:
        end = f"@{change['digest']}" if "digest" in change else f":{change.get('newTag', tag)}"
        container["image"] = f"{change.get('newName', name)}{end}"


def render(folder):
    """The documents of a folder, each a dictionary."""
    folder = pathlib.Path(folder)
    (settings,) = load_all(folder / "kustomization.yaml")
    unknown = set(settings) - KNOWN
    if unknown:
        raise ValueError(f"{folder}/kustomization.yaml: {sorted(unknown)} is not for every kubectl")
    if settings.get("configMapGenerator") and \
            settings.get("generatorOptions") != {"disableNameSuffixHash": True}:
        raise ValueError(f"{folder}: generated names must have no hash")
    documents = []
    for base in settings.get("bases", ()):
        documents += render(folder / base)
    for name in settings.get("resources", ()):
        documents += load_all(folder / name)
    for name in settings.get("patchesStrategicMerge", ()):
        for patch in load_all(folder / name):
            found = [i for i, document in enumerate(documents) if key_of(document) == key_of(patch)]
            if len(found) != 1:
                raise ValueError(f"{folder / name}: nothing called {key_of(patch)} to patch")
            documents[found[0]] = merge(documents[found[0]], patch)
    _generate(folder, settings.get("configMapGenerator", ()), documents)
    documents = copy.deepcopy(documents)
    for change in settings.get("images", ()):
        for document in documents:
            for container in _containers(document):
                _set_image(container, change)
    if "namespace" in settings:
        for document in documents:
            if document["kind"] not in CLUSTER_KINDS:
                document["metadata"]["namespace"] = settings["namespace"]
    return documents


def render_with(kubectl, folder):
    """The same by kubectl's own kustomize."""
    done = subprocess.run([kubectl, "kustomize", str(folder)], capture_output=True, text=True,
                          check=False, timeout=300)
    if done.returncode != 0:
        raise ValueError(f"kubectl kustomize {folder}: {done.stderr}")
    documents = [document for document in yaml.safe_load_all(done.stdout) if document]
    for document in documents:
        # Old ones write what is empty.
        document["metadata"] = {key: value for key, value in document["metadata"].items() if value}
    return documents
