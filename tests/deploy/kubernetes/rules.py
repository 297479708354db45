"""Rules for manifests that schemas can't express: each gives one line for what breaks it."""
import json
import re
import urllib.parse

WORKLOADS = ("Deployment", "StatefulSet", "DaemonSet", "Job")
LONG_LIVED = ("Deployment", "StatefulSet", "DaemonSet")


def name_of(document):
    return f"{document['kind']}/{document['metadata']['name']}"


def workloads(documents):
    return [document for document in documents if document["kind"] in WORKLOADS]


def pod_of(document):
    return document["spec"]["template"]["spec"]


def labels_of(document):
    return document["spec"]["template"].get("metadata", {}).get("labels", {})


def containers_of(pod):
    return pod.get("initContainers", []) + pod["containers"]


def is_sidecar(container):
    return container.get("restartPolicy") == "Always"


def selects(selector, labels):
    """Whether a selector of labels, which must not be a list of expressions, selects a pod."""
    wanted = selector.get("matchLabels", {}) if "matchLabels" in selector or not selector \
        else selector
    return all(labels.get(key) == value for key, value in wanted.items())


def namespace_of(document):
    return document["metadata"].get("namespace")


def each_container(documents):
    for document in workloads(documents):
        for container in containers_of(pod_of(document)):
            yield document, container, f"{name_of(document)} {container['name']}"


def security(documents):
    for document in workloads(documents):
        pod, where = pod_of(document), name_of(document)
        context = pod.get("securityContext", {})
        if context.get("runAsNonRoot") is not True or context.get("runAsUser", 0) == 0:
            yield f"{where}: runAsNonRoot and runAsUser"
        if context.get("seccompProfile", {}).get("type") != "RuntimeDefault":
            yield f"{where}: seccompProfile must be RuntimeDefault"
        if pod.get("automountServiceAccountToken") is not False:
            yield f"{where}: automountServiceAccountToken must be false"
        for field in ("hostNetwork", "hostPID", "hostIPC"):
            if pod.get(field):
                yield f"{where}: {field}"
        if any("hostPath" in volume for volume in pod.get("volumes", ())):
            yield f"{where}: hostPath"
    for _, container, where in each_container(documents):
        context = container.get("securityContext", {})
        if context.get("allowPrivilegeEscalation") is not False:
            yield f"{where}: allowPrivilegeEscalation must be false"
        if context.get("readOnlyRootFilesystem") is not True:
            yield f"{where}: readOnlyRootFilesystem must be true"
        if context.get("capabilities", {}).get("drop") != ["ALL"] or \
                context["capabilities"].get("add"):
            yield f"{where}: capabilities must drop ALL"
        if context.get("privileged") or context.get("runAsUser") == 0:
            yield f"{where}: privileged"


def is_by_digest(image):
    return re.fullmatch(r"[^@\s]+@sha256:[0-9a-f]{64}", image) is not None


def images(documents):
    """A tag can be moved by everyone who can write to the registry; a digest cannot be moved."""
    for _, container, where in each_container(documents):
        image = container.get("image", "")
        if not is_by_digest(image):
            yield f"{where}: image `{image}` must be named by its digest"


def tags(documents):
    """The rule for a trial, which may name images by tags."""
    for _, container, where in each_container(documents):
        image = container.get("image", "")
        tag = image.rpartition("/")[2].partition(":")[2]
        if not is_by_digest(image) and (not tag or tag == "latest" or "@" in image):
            yield f"{where}: image `{image}` needs a tag or a digest"


def probes(documents):
    for document, container, where in each_container(documents):
        declared = {port["containerPort"] for port in container.get("ports", ())}
        found = [name for name in ("startupProbe", "readinessProbe", "livenessProbe")
                 if name in container]
        if (document["kind"] in LONG_LIVED or is_sidecar(container)) and \
                not {"startupProbe", "livenessProbe"} <= set(found):
            yield f"{where}: startupProbe and livenessProbe"
        for name in found:
            handler = next((container[name][kind] for kind in ("grpc", "httpGet", "tcpSocket")
                            if kind in container[name]), {})
            port = handler.get("port")
            if isinstance(port, bool) or not isinstance(port, int):
                yield f"{where}: {name}: port `{port}` must be a number"
            elif port not in declared:
                yield f"{where}: {name}: port {port} is not among the ports of the container"


def ports(documents):
    for document in workloads(documents):
        taken = set()
        for container in containers_of(pod_of(document)):
            for port in container.get("ports", ()):
                for key in (port["containerPort"], port.get("name")):
                    if key in taken:
                        yield f"{name_of(document)}: port {key} twice"
                    taken.add(key)


def volumes(documents):
    made = {name_of(document) for document in documents}
    for document in workloads(documents):
        pod, where = pod_of(document), name_of(document)
        known = [volume["name"] for volume in pod.get("volumes", ())]
        known += [claim["metadata"]["name"]
                  for claim in document["spec"].get("volumeClaimTemplates", ())]
        mounted = set()
        for container in containers_of(pod):
            paths = [mount["mountPath"] for mount in container.get("volumeMounts", ())]
            if len(paths) != len(set(paths)):
                yield f"{where} {container['name']}: two mounts at one path"
            for mount in container.get("volumeMounts", ()):
                mounted.add(mount["name"])
                if mount["name"] not in known:
                    yield f"{where} {container['name']}: no volume `{mount['name']}`"
        for name in known:
            if known.count(name) > 1:
                yield f"{where}: volume `{name}` twice"
            if name not in mounted:
                yield f"{where}: volume `{name}` is mounted nowhere"
        for volume in pod.get("volumes", ()):
            config = volume.get("configMap", {}).get("name")
            # Those that an administrator makes are named in docs/kubernetes.md.
            if config and config != "parplan-trust" and f"ConfigMap/{config}" not in made:
                yield f"{where}: no ConfigMap `{config}`"
            claim = volume.get("persistentVolumeClaim", {}).get("claimName")
            if claim and f"PersistentVolumeClaim/{claim}" not in made:
                yield f"{where}: no PersistentVolumeClaim `{claim}`"
            replicas = document["spec"].get("replicas", 1)
            if claim and replicas > 1 and not all(
                    "ReadWriteMany" in other["spec"]["accessModes"] for other in documents
                    if name_of(other) == f"PersistentVolumeClaim/{claim}"):
                yield f"{where}: {replicas} pods can't mount `{claim}`"
            if "emptyDir" in volume and "sizeLimit" not in volume["emptyDir"]:
                yield f"{where}: emptyDir `{volume['name']}` needs a sizeLimit"
        account = pod.get("serviceAccountName")
        if not account or f"ServiceAccount/{account}" not in made:
            yield f"{where}: no ServiceAccount `{account}`"


def resources(documents):
    for _, container, where in each_container(documents):
        asked = container.get("resources", {})
        if not {"cpu", "memory"} <= set(asked.get("requests", {})):
            yield f"{where}: requests of cpu and memory"
        if "memory" not in asked.get("limits", {}):
            yield f"{where}: limit of memory"


def selectors(documents):
    for document in workloads(documents):
        selector = document["spec"].get("selector")
        if selector is not None and not selects(selector, labels_of(document)):
            yield f"{name_of(document)}: its selector does not select its own pods"
        headless = document["spec"].get("serviceName") or pod_of(document).get("subdomain")
        if headless and not any(
                other["kind"] == "Service" and other["metadata"]["name"] == headless
                and other["spec"].get("clusterIP") == "None"
                for other in documents):
            yield f"{name_of(document)}: no headless Service `{headless}`"
    for document in documents:
        if document["kind"] != "Service":
            continue
        chosen = [other for other in workloads(documents)
                  if namespace_of(other) == namespace_of(document)
                  and selects(document["spec"]["selector"], labels_of(other))]
        if not chosen:
            yield f"{name_of(document)}: selects no pod"
        for port in document["spec"]["ports"]:
            target = port.get("targetPort", port["port"])
            for other in chosen:
                known = {value for container in containers_of(pod_of(other))
                         for one in container.get("ports", ())
                         for value in (one["containerPort"], one.get("name"))}
                if target not in known:
                    yield f"{name_of(document)}: {name_of(other)} has no port `{target}`"


def disruption(documents):
    budgets = [document for document in documents if document["kind"] == "PodDisruptionBudget"]
    for budget in budgets:
        chosen = [document for document in workloads(documents)
                  if selects(budget["spec"]["selector"], labels_of(document))]
        if not chosen:
            yield f"{name_of(budget)}: selects no pod"
        for document in chosen:
            replicas = document["spec"].get("replicas", 1)
            least, most = budget["spec"].get("minAvailable"), budget["spec"].get("maxUnavailable")
            if (least is None) == (most is None):
                yield f"{name_of(budget)}: one of minAvailable and maxUnavailable"
            elif least is not None and least >= replicas or most == 0:
                yield f"{name_of(budget)}: nodes of {name_of(document)} could never be drained"
    for document in workloads(documents):
        if document["kind"] in ("Deployment", "StatefulSet") and not any(
                selects(budget["spec"]["selector"], labels_of(document)) for budget in budgets):
            yield f"{name_of(document)}: no PodDisruptionBudget"


def _allowed_ports(policies):
    """Numbers of ports that some rule names."""
    allowed = set()
    for policy in policies:
        for rule in policy["spec"].get("ingress", ()):
            allowed |= {port["port"] for port in rule.get("ports", ())}
    return allowed


def network(documents):
    policies = [document for document in documents if document["kind"] == "NetworkPolicy"]
    for document in workloads(documents):
        own = [policy for policy in policies if namespace_of(policy) == namespace_of(document)
               and policy["spec"]["podSelector"]
               and selects(policy["spec"]["podSelector"], labels_of(document))]
        where = name_of(document)
        kinds = {kind for policy in own for kind in policy["spec"].get("policyTypes", ())}
        if kinds != {"Ingress", "Egress"}:
            yield f"{where}: a NetworkPolicy for Ingress and Egress"
            continue
        allowed = _allowed_ports(own)
        among_themselves = any(
            "ports" not in rule and rule.get("from") and all(
                selects(peer.get("podSelector", {"-": "-"}), labels_of(document))
                and "namespaceSelector" not in peer for peer in rule["from"])
            for policy in own for rule in policy["spec"].get("ingress", ()))
        for container in containers_of(pod_of(document)):
            probed = {handler.get("port") for probe in
                      ("startupProbe", "readinessProbe", "livenessProbe")
                      for handler in container.get(probe, {}).values()
                      if isinstance(handler, dict)}
            for port in container.get("ports", ()):
                # Kubelets probe from the node, which no policy keeps out.
                if port["containerPort"] in probed or port["containerPort"] in allowed:
                    continue
                if port.get("name") == "rendezvous" and among_themselves:
                    continue
                yield f"{where}: no rule lets anybody reach port {port['containerPort']}"
        for policy in own:
            for rule in policy["spec"].get("ingress", ()):
                if not rule.get("from"):
                    yield f"{name_of(policy)}: a rule lets everybody in"
            if not any(port.get("port") == 53 for rule in policy["spec"].get("egress", ())
                       for port in rule.get("ports", ())):
                yield f"{name_of(policy)}: names must be looked up: port 53"
    declared = {port["containerPort"] for document in workloads(documents)
                for container in containers_of(pod_of(document))
                for port in container.get("ports", ())}
    for policy in policies:
        for port in _allowed_ports([policy]) - declared:
            yield f"{name_of(policy)}: lets in port {port}, which nobody has"


def _peers(policy):
    for direction, field in (("ingress", "from"), ("egress", "to")):
        for rule in policy["spec"].get(direction, ()):
            for peer in rule.get(field, ()):
                yield direction, peer


def tenants(documents):
    """Namespaces are let in by labels, which an administrator gives, and roles end at a cluster."""
    for policy in documents:
        if policy["kind"] != "NetworkPolicy":
            continue
        for direction, peer in _peers(policy):
            chosen = peer.get("namespaceSelector")
            if chosen is not None and not chosen.get("matchLabels"):
                yield f"{name_of(policy)}: {direction} of pods of every namespace"
    namespaces = {document["metadata"]["name"]: document["metadata"].get("labels", {})
                  for document in documents if document["kind"] == "Namespace"}
    for document in workloads(documents):
        if "parplan.io/client" in labels_of(document) and namespaces.get(
                namespace_of(document), {}).get("parplan.io/tenant") != "true":
            yield f"{name_of(document)}: the namespace `{namespace_of(document)}` is no tenant"
    for name, config in server_configs(documents):
        for grant in config.get("authorization", {}).get("grants", ()):
            if grant["role"] in ("agent", "planner", "executor") and \
                    "*" in grant.get("clusters", ()):
                yield f"{name}: {grant['identities']} is {grant['role']} in every cluster"


def server_configs(documents):
    """The configurations of servers, each with the name of its ConfigMap."""
    for document in documents:
        if document["kind"] == "ConfigMap":
            for text in document["data"].values():
                if text.startswith("{") and "listen" in (config := json.loads(text)):
                    yield name_of(document), config


def stores(documents):
    """A password is sent to the database that has the name and a certificate for it."""
    for name, config in server_configs(documents):
        store = urllib.parse.urlsplit(config.get("store", ""))
        options = urllib.parse.parse_qs(store.query)
        if store.scheme in ("postgres", "postgresql") and (
                options.get("sslmode") != ["verify-full"] or "sslrootcert" not in options):
            yield f"{name}: the store needs sslmode=verify-full and sslrootcert"


def transport(documents):
    """Servers use TLS, know who calls, and say what callers may."""
    for name, config in server_configs(documents):
        if config.get("insecure") or not {"tls_certificate", "tls_key"} <= set(config):
            yield f"{name}: the server needs TLS"
        access = config.get("authorization", {})
        if "tls_client_ca" not in config and "service_accounts" not in access:
            yield f"{name}: callers need certificates (tls_client_ca) or service_accounts"
        if not access.get("grants"):
            yield f"{name}: authorization needs grants"


def monitors(documents):
    services = [document for document in documents if document["kind"] == "Service"]
    read = set()
    for monitor in documents:
        if monitor["kind"] != "ServiceMonitor":
            continue
        everywhere = monitor["spec"].get("namespaceSelector", {}).get("any") is True
        chosen = [service for service in services
                  if (everywhere or namespace_of(service) == namespace_of(monitor))
                  and selects(monitor["spec"]["selector"], service["metadata"].get("labels", {}))]
        if len(chosen) != 1:
            yield f"{name_of(monitor)}: selects {len(chosen)} Services"
        for service in chosen:
            names = {port["name"] for port in service["spec"]["ports"]}
            for endpoint in monitor["spec"]["endpoints"]:
                read.add((namespace_of(service), name_of(service), endpoint.get("port")))
                if endpoint.get("port") not in names:
                    yield f"{name_of(monitor)}: {name_of(service)} has no port {endpoint}"
    for document, container, where in each_container(documents):
        for port in container.get("ports", ()):
            if port.get("name") == "metrics" and not any(
                    (namespace_of(service), name_of(service), entry["name"]) in read
                    and entry.get("targetPort", entry["port"]) in ("metrics",
                                                                   port["containerPort"])
                    and namespace_of(service) == namespace_of(document)
                    and selects(service["spec"]["selector"], labels_of(document))
                    for service in services for entry in service["spec"]["ports"]):
                yield f"{where}: no ServiceMonitor reads its metrics"


def _seconds(text):
    return float(re.fullmatch(r"([\d.]+)s", text).group(1))


def ends(documents):
    """Programs that drain have the time to."""
    configs = {document["metadata"]["name"]: document["data"] for document in documents
               if document["kind"] == "ConfigMap"}
    for document in workloads(documents):
        grace = pod_of(document).get("terminationGracePeriodSeconds", 30)
        for volume in pod_of(document).get("volumes", ()):
            data = configs.get(volume.get("configMap", {}).get("name"), {})
            for text in data.values():
                if text.startswith("{") and "drain_time" in (config := json.loads(text)):
                    if grace < _seconds(config["drain_time"]) + 10:
                        yield f"{name_of(document)}: terminationGracePeriodSeconds is too short"


ALL = (security, images, probes, ports, volumes, resources, selectors, disruption, network,
       tenants, stores, transport, monitors, ends)
# Only a trial may do without these.
STRICT = (images, transport)
TRIAL = (*(rule for rule in ALL if rule not in STRICT), tags)


def broken(documents, kept=ALL):
    """`rule: what` for everything that is wrong."""
    return [f"{rule.__name__}: {message}" for rule in kept for message in rule(documents)]
