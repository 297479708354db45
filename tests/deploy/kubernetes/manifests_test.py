#!/usr/bin/python3
"""The manifests of deploy/kubernetes: valid by Kubernetes' own schemas, kept by our rules, the same
from every kustomize, and with command lines that the programs take.

    manifests_test.py --source FOLDER --bin FOLDER
"""
import argparse
import copy
import itertools
import json
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import tomllib
import unittest

import yaml

import render
import rules
import schema

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "integration"))
import parplan_process

FLAGS = argparse.Namespace()
FOLDERS = ("base", "overlays/single", "overlays/replicas", "overlays/replicas-tokens",
           "overlays/trial-plaintext", "agent", "agent-tokens", "job", "job-tokens", "monitoring")
# Folders that are checked together, since one cluster has them.
CLUSTERS = {
    "single": ("overlays/single", "agent", "monitoring", "job"),
    "replicas": ("overlays/replicas", "agent", "monitoring", "job"),
    "replicas-tokens": ("overlays/replicas-tokens", "agent-tokens", "monitoring", "job-tokens"),
    "trial-plaintext": ("overlays/trial-plaintext", "agent", "monitoring", "job"),
}
# The only one that may use plain text and tags.
TRIAL = "trial-plaintext"
# A public key of P-256: the generator.
KEY_SET = {"keys": [{"kty": "EC", "use": "sig", "alg": "ES256", "kid": "one", "crv": "P-256",
                     "x": "axfR8uEsQkf4vOblY6RA8ncDfYEt6zOg9KE5RdiYwpY",
                     "y": "T-NC4v4af5uO5-tKfA-eFivOM1drMV7Oy7ZAaDe_UfU"}]}
SCHEMAS = schema.Schemas()
FIGURES = {}


def manifests(*names):
    return [document for name in names
            for document in render.render(FLAGS.source / "deploy" / "kubernetes" / name)]


def find(documents, kind, name):
    (found,) = [document for document in documents
                if (document["kind"], document["metadata"]["name"]) == (kind, name)]
    return found


def pod(documents, kind, name):
    return find(documents, kind, name)["spec"]["template"]["spec"]


def container_of(spec, name):
    (found,) = [one for one in rules.containers_of(spec) if one["name"] == name]
    return found


def token_paths(spec, name):
    """Paths of the service account tokens that a container of a pod can read."""
    volumes = {volume["name"]: volume for volume in spec["volumes"]}
    return [f"{mount['mountPath']}/{source['serviceAccountToken']['path']}"
            for mount in container_of(spec, name)["volumeMounts"]
            for source in volumes.get(mount["name"], {}).get("projected", {}).get("sources", ())
            if "serviceAccountToken" in source]


class Valid(unittest.TestCase):
    def test_every_manifest_fits_its_schema(self):
        count = 0
        for folder in FOLDERS:
            for document in manifests(folder):
                self.assertEqual(SCHEMAS.errors(document), [],
                                 f"{folder}: {rules.name_of(document)}")
                count += 1
        self.assertGreater(count, 40)
        FIGURES["manifests valid by Kubernetes' schemas"] = count

    def test_every_cluster_keeps_the_rules(self):
        for cluster, folders in CLUSTERS.items():
            kept = rules.TRIAL if cluster == TRIAL else rules.ALL
            self.assertEqual(rules.broken(manifests(*folders), kept), [], cluster)
        FIGURES["rules"] = len(rules.ALL)

    def test_the_trial_is_the_only_one_that_breaks_the_strict_rules(self):
        found = rules.broken(manifests(*CLUSTERS[TRIAL]))
        for words in ("must be named by its digest", "the server needs TLS", "callers need",
                      "authorization needs grants"):
            self.assertTrue(any(words in line for line in found), words)
        # Every overlay is in a cluster of which the rules are asked.
        looked_at = {folder for folders in CLUSTERS.values() for folder in folders}
        overlays = FLAGS.source / "deploy" / "kubernetes" / "overlays"
        self.assertEqual({f"overlays/{path.name}" for path in overlays.iterdir()},
                         {folder for folder in looked_at if folder.startswith("overlays/")})

    def test_the_grants_are_for_the_cluster_of_the_agents_and_the_job(self):
        for name, folders in CLUSTERS.items():
            documents = manifests(*folders)
            agent = tomllib.loads(find(documents, "ConfigMap", "parplan-agent")["data"]
                                  ["parplan-agent.toml"])
            for _, config in rules.server_configs(documents):
                for grant in config.get("authorization", {}).get("grants", ()):
                    clusters = grant.get("clusters", [agent["cluster"]])
                    self.assertTrue({agent["cluster"], "*"} & set(clusters), f"{name}: {grant}")

    def test_no_file_is_left_out(self):
        used = {"kustomization.yaml"}
        for folder in FOLDERS:
            path = FLAGS.source / "deploy" / "kubernetes" / folder
            settings = yaml.safe_load((path / "kustomization.yaml").read_text())
            used = {"kustomization.yaml"}
            used |= set(settings.get("resources", ())) | set(
                settings.get("patchesStrategicMerge", ()))
            for entry in settings.get("configMapGenerator", ()):
                used |= set(entry["files"])
            self.assertEqual({file.name for file in path.iterdir() if file.is_file()}, used, folder)

    def test_kubectl_renders_the_same(self):
        kubectl = shutil.which("kubectl")
        if kubectl is None:
            self.skipTest("there is no kubectl here")
        for folder in FOLDERS:
            path = FLAGS.source / "deploy" / "kubernetes" / folder
            ours = {render.key_of(document): document for document in render.render(path)}
            theirs = {render.key_of(document): document
                      for document in render.render_with(kubectl, path)}
            self.assertEqual(theirs, ours, folder)


def plant(change):
    """All documents of a cluster, with a mistake."""
    documents = copy.deepcopy(manifests(*CLUSTERS["replicas"]))
    change(documents)
    return documents


def reconfigure(change):
    """A change of the server's configuration."""
    def apply(documents):
        data = find(documents, "ConfigMap", "parplan-server")["data"]
        config = json.loads(data["parplan-server.json"])
        change(config)
        data["parplan-server.json"] = json.dumps(config)
    return apply


def policy(documents, name="parplan-server"):
    return find(documents, "NetworkPolicy", name)["spec"]


def server(documents):
    return pod(documents, "StatefulSet", "parplan-server")


class Planted(unittest.TestCase):
    """A mistake of each kind is seen, by whom it should be."""

    def test_schemas_see_what_is_misspelt(self):
        for words, change in (
                ("readOnlyRootFilesytem", lambda d: server(d)["containers"][0]["securityContext"]
                 .update(readOnlyRootFilesytem=True)),
                ("replica", lambda d: find(d, "StatefulSet", "parplan-server")["spec"]
                 .update(replica=3)),
                ("'one' is not", lambda d: find(d, "StatefulSet", "parplan-server")["spec"]
                 .update(replicas="one")),
                ("2 Gigabytes", lambda d: server(d)["containers"][0]["resources"]["limits"]
                 .update(memory="2 Gigabytes")),
                ("no such kind", lambda d: find(d, "PodDisruptionBudget", "parplan-server")
                 .update(apiVersion="policy/v1beta2")),
                ("intervall", lambda d: find(d, "ServiceMonitor", "parplan-server")["spec"]
                 ["endpoints"][0].update(intervall="15s")),
                ("podSelectors", lambda d: find(d, "NetworkPolicy", "parplan-server")["spec"]
                 .update(podSelectors={}))):
            with self.subTest(words=words):
                found = [error for document in plant(change) for error in SCHEMAS.errors(document)]
                self.assertTrue(any(words in error for error in found), found)

    def test_rules_see_what_is_wrong(self):
        def container(documents):
            return server(documents)["containers"][0]

        def trainer(documents):
            return pod(documents, "Job", "llama2-7b")["containers"][0]

        planted = {
            "security": [
                ("runAsNonRoot", lambda d: server(d)["securityContext"].pop("runAsNonRoot")),
                ("seccompProfile", lambda d: server(d)["securityContext"].pop("seccompProfile")),
                ("automount", lambda d: server(d).pop("automountServiceAccountToken")),
                ("hostNetwork", lambda d: server(d).update(hostNetwork=True)),
                ("hostPath", lambda d: server(d)["volumes"].append(
                    {"name": "host", "hostPath": {"path": "/"}})),
                ("readOnlyRootFilesystem", lambda d: trainer(d)["securityContext"].update(
                    readOnlyRootFilesystem=False)),
                ("allowPrivilegeEscalation", lambda d: trainer(d)["securityContext"].pop(
                    "allowPrivilegeEscalation")),
                ("capabilities", lambda d: trainer(d)["securityContext"]["capabilities"].update(
                    add=["SYS_ADMIN"])),
                ("privileged", lambda d: trainer(d)["securityContext"].update(privileged=True))],
            "images": [
                ("by its digest", lambda d: container(d).update(image="parplan-server")),
                ("by its digest", lambda d: container(d).update(image="a:5000/parplan-server")),
                ("by its digest", lambda d: container(d).update(image="parplan-server:0.1.0")),
                ("by its digest", lambda d: trainer(d).update(image="parplan-trainer:latest")),
                ("by its digest", lambda d: container(d).update(
                    image=container(d)["image"][:-1]))],
            "tenants": [
                ("ingress of pods of every", lambda d: policy(d)["ingress"][0]["from"][0].update(
                    namespaceSelector={})),
                ("egress of pods of every", lambda d: policy(d, "llama2-7b")["egress"][0]["to"][0]
                 .update(namespaceSelector={"matchLabels": {}})),
                ("`training` is no tenant", lambda d: find(d, "Namespace", "training")["metadata"]
                 ["labels"].pop("parplan.io/tenant")),
                ("`parplan` is no tenant", lambda d: find(d, "Namespace", "parplan")["metadata"]
                 ["labels"].update({"parplan.io/tenant": "false"})),
                ("executor in every cluster", reconfigure(
                    lambda c: c["authorization"]["grants"][2].update(clusters=["*"])))],
            "stores": [
                ("verify-full", reconfigure(
                    lambda c: c.update(store=c["store"].replace("verify-full", "require")))),
                ("verify-full", reconfigure(
                    lambda c: c.update(store=c["store"].replace("verify-full", "verify-ca")))),
                ("sslrootcert", reconfigure(
                    lambda c: c.update(store=c["store"].partition("&")[0]))),
                ("verify-full", reconfigure(
                    lambda c: c.update(store="postgresql://db/parplan")))],
            "transport": [
                ("needs TLS", reconfigure(lambda c: c.update(insecure=True))),
                ("needs TLS", reconfigure(lambda c: c.pop("tls_key"))),
                ("tls_client_ca", reconfigure(lambda c: c.pop("tls_client_ca"))),
                ("needs grants", reconfigure(lambda c: c["authorization"].pop("grants"))),
                ("needs grants", reconfigure(lambda c: c.pop("authorization")))],
            "probes": [
                ("must be a number", lambda d: container(d)["livenessProbe"]["grpc"].update(
                    port="health")),
                ("not among the ports", lambda d: container(d)["livenessProbe"]["grpc"].update(
                    port=9475)),
                ("startupProbe and livenessProbe", lambda d: container(d).pop("livenessProbe")),
                ("startupProbe and livenessProbe", lambda d: pod(d, "Job", "llama2-7b")
                 ["initContainers"][1].pop("startupProbe"))],
            "ports": [
                ("9477 twice", lambda d: container(d)["ports"].append({"containerPort": 9477}))],
            "volumes": [
                ("no volume `data`", lambda d: server(d)["volumes"].remove(
                    next(v for v in server(d)["volumes"] if v["name"] == "data"))),
                ("no PersistentVolumeClaim", lambda d: d.remove(
                    find(d, "PersistentVolumeClaim", "parplan-keys"))),
                ("3 pods can't mount", lambda d: find(d, "PersistentVolumeClaim", "parplan-keys")
                 ["spec"].update(accessModes=["ReadWriteOnce"])),
                ("no volume `tls`", lambda d: server(d)["volumes"].remove(
                    next(v for v in server(d)["volumes"] if v["name"] == "tls"))),
                ("mounted nowhere", lambda d: server(d)["volumes"].append(
                    {"name": "spare", "emptyDir": {"sizeLimit": "1Mi"}})),
                ("no ConfigMap", lambda d: d.remove(find(d, "ConfigMap", "parplan-server"))),
                ("no ServiceAccount", lambda d: server(d).update(serviceAccountName="default")),
                ("sizeLimit", lambda d: pod(d, "Job", "llama2-7b")["volumes"][0]["emptyDir"].pop(
                    "sizeLimit")),
                ("two mounts", lambda d: container(d)["volumeMounts"].append(
                    {"name": "data", "mountPath": "/etc/parplan"}))],
            "resources": [
                ("requests", lambda d: container(d)["resources"]["requests"].pop("cpu")),
                ("limit of memory", lambda d: trainer(d)["resources"]["limits"].pop("memory"))],
            "selectors": [
                ("its own pods", lambda d: find(d, "StatefulSet", "parplan-server")["spec"]
                 ["selector"]["matchLabels"].update({"app.kubernetes.io/component": "srv"})),
                ("headless Service", lambda d: find(d, "Service", "parplan-server")["spec"].pop(
                    "clusterIP")),
                ("selects no pod", lambda d: find(d, "Service", "parplan-server")["spec"]
                 ["selector"].update({"app.kubernetes.io/component": "srv"})),
                ("has no port `grcp`", lambda d: find(d, "Service", "parplan-server")["spec"]
                 ["ports"][0].update(targetPort="grcp"))],
            "disruption": [
                ("never be drained", lambda d: find(d, "PodDisruptionBudget", "parplan-server")
                 ["spec"].update(minAvailable=3)),
                ("one of", lambda d: find(d, "PodDisruptionBudget", "parplan-server")["spec"]
                 .update(maxUnavailable=1)),
                ("no PodDisruptionBudget", lambda d: d.remove(
                    find(d, "PodDisruptionBudget", "parplan-server"))),
                ("selects no pod", lambda d: find(d, "PodDisruptionBudget", "parplan-server")
                 ["spec"]["selector"]["matchLabels"].update(
                     {"app.kubernetes.io/component": "srv"}))],
            "network": [
                ("reach port 9477", lambda d: find(d, "NetworkPolicy", "parplan-server")["spec"]
                 ["ingress"].pop(0)),
                ("reach port 9482", lambda d: find(d, "NetworkPolicy", "llama2-7b")["spec"]
                 ["ingress"].pop(1)),
                ("reach port 29500", lambda d: find(d, "NetworkPolicy", "llama2-7b")["spec"]
                 ["ingress"].pop(0)),
                ("lets everybody in", lambda d: find(d, "NetworkPolicy", "parplan-server")["spec"]
                 ["ingress"][0].pop("from")),
                ("which nobody has", lambda d: find(d, "NetworkPolicy", "parplan-server")["spec"]
                 ["ingress"][0]["ports"][0].update(port=9470)),
                ("port 53", lambda d: find(d, "NetworkPolicy", "parplan-agent")["spec"]
                 ["egress"].pop(0)),
                ("for Ingress and Egress", lambda d: find(d, "NetworkPolicy", "parplan-agent")
                 ["spec"].update(policyTypes=["Ingress"]))],
            "monitors": [
                ("has no port", lambda d: find(d, "ServiceMonitor", "parplan-agent")["spec"]
                 ["endpoints"][0].update(port="http")),
                ("selects 0", lambda d: find(d, "ServiceMonitor", "parplan-agent")["spec"]
                 ["selector"]["matchLabels"].update({"app.kubernetes.io/component": "agents"})),
                ("reads its metrics", lambda d: d.remove(
                    find(d, "ServiceMonitor", "parplan-sidecar")))],
            "ends": [
                ("too short", lambda d: server(d).update(terminationGracePeriodSeconds=30))],
        }
        self.assertEqual(set(planted), {rule.__name__ for rule in rules.ALL})
        count = 0
        for rule, mistakes in planted.items():
            for words, change in mistakes:
                with self.subTest(rule=rule, words=words):
                    found = rules.broken(plant(change))
                    self.assertTrue(any(line.startswith(f"{rule}: ") and words in line
                                        for line in found), found)
                    count += 1
        FIGURES["planted mistakes caught"] = count

    def test_a_trial_needs_a_tag(self):
        for image, is_good in (("parplan-server", False), ("parplan-server:latest", False),
                               ("a:5000/parplan-server", False), ("parplan-server@sha256:0", False),
                               ("a:5000/parplan-server:0.1.0", True)):
            with self.subTest(image=image):
                documents = plant(lambda d: server(d)["containers"][0].update(image=image))
                self.assertEqual(rules.broken(documents, (rules.tags,)) == [], is_good)

    def test_a_patch_takes_away_what_is_there(self):
        taken = render.merge({"volumes": [{"name": "a"}, {"name": "b"}]},
                             {"volumes": [{"name": "a", "$patch": "delete"}]})
        self.assertEqual(taken, {"volumes": [{"name": "b"}]})
        with self.assertRaisesRegex(ValueError, "nothing called"):
            render.merge({"volumes": [{"name": "a"}]},
                         {"volumes": [{"name": "c", "$patch": "delete"}]})

    def test_what_old_kustomize_does_not_know_is_refused(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            (folder / "kustomization.yaml").write_text("components: [x]\n")
            with self.assertRaisesRegex(ValueError, "components"):
                render.render(folder)


class CommandLines(unittest.TestCase):
    """Programs accept the arguments with which containers start them."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def run_as(self, documents, kind, name, container, program, *more):
        """Runs the program with the arguments of a container, its ConfigMaps where it looks for
        them and its variables replaced."""
        spec = pod(documents, kind, name)
        given = container_of(spec, container)
        arguments = [re.sub(r"\$\((\w+)\)", r"value-of-\1".lower(), argument).replace("_", "-")
                     if argument.startswith("--") and "$(" in argument else argument
                     for argument in given["args"]]
        volumes = {volume["name"]: volume for volume in spec.get("volumes", ())}
        mounts = {mount["mountPath"]: volumes[mount["name"]] for mount in given["volumeMounts"]
                  if mount["name"] in volumes}
        here = {path: self.folder / path.strip("/") for path, volume in mounts.items()
                if "secret" in volume or "projected" in volume
                or volume.get("configMap", {}).get("name", "parplan-trust") != "parplan-trust"}

        def localized(text):
            for path, target in here.items():
                text = text.replace(f"{path}/", f"{target}/")
            return text

        for path, target in here.items():
            target.mkdir(parents=True, exist_ok=True)
            if "projected" in mounts[path]:
                (target / "token").write_text("token")
                continue
            if "secret" in mounts[path]:
                (target / "jwks.json").write_text(json.dumps(KEY_SET))
                for file, made in (("tls.crt", "server.pem"), ("tls.key", "server.key"),
                                   ("ca.crt", "ca.pem")):
                    shutil.copy(self.certificates() / made, target / file)
                continue
            config = find(documents, "ConfigMap", mounts[path]["configMap"]["name"])
            for file, text in config["data"].items():
                (target / file).write_text(localized(text))
        arguments = [localized(argument) for argument in arguments]
        return subprocess.run([FLAGS.bin / program, *arguments, *more], capture_output=True,
                              text=True, check=False, timeout=300,
                              env={"HOME": str(self.folder), "PATH": "/usr/bin:/bin",
                                   "JOB_COMPLETION_INDEX": "1"})

    def certificates(self):
        folder = self.folder / "certificates"
        return folder if folder.exists() else parplan_process.make_certificates(folder)

    def check(self, done):
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_the_server_takes_its_configuration(self):
        for cluster, folders in CLUSTERS.items():
            with self.subTest(cluster=cluster):
                documents = manifests(*folders)
                self.check(self.run_as(documents, "StatefulSet", "parplan-server", "server",
                                       "parplan-server", "--check-config"))
                config = find(documents, "ConfigMap", "parplan-server")
                text = config["data"]["parplan-server.json"]
                config["data"]["parplan-server.json"] = text.replace("drain_time", "drain_tme")
                done = self.run_as(documents, "StatefulSet", "parplan-server", "server",
                                   "parplan-server", "--check-config")
                self.assertEqual(done.returncode, 2)
                self.assertIn("drain_tme", done.stderr)

    def test_certificates_with_dns_names_have_the_roles_of_their_common_names(self):
        config = find(manifests(*CLUSTERS["replicas"]), "ConfigMap", "parplan-server")
        path = self.folder / "roles.json"
        path.write_text(config["data"]["parplan-server.json"])
        for name, role in (("agent", "agent"), ("job", "executor"), ("planner", "planner"),
                           ("reader", "reader"), ("operator", "operator")):
            # These are the names that cert-manager issues.
            done = subprocess.run(
                [FLAGS.bin / "parplan-server", "--format", "json", "access", "show", "--config",
                 path, "--cn", f"parplan-{name}", "--dns", f"parplan-{name}.parplan.svc"],
                capture_output=True, text=True, check=False, timeout=60)
            self.check(done)
            self.assertEqual([one["role"] for one in json.loads(done.stdout)["roles"]], [role])

    def test_ports_are_those_of_the_configuration(self):
        for folders in CLUSTERS.values():
            documents = manifests(*folders)
            config = json.loads(find(documents, "ConfigMap", "parplan-server")["data"]
                                ["parplan-server.json"])
            (container,) = server(documents)["containers"]
            listened = {key: int(config[key].rpartition(":")[2])
                        for key in ("listen", "metrics_listen", "health_listen")}
            declared = {port["name"]: port["containerPort"] for port in container["ports"]}
            self.assertEqual(listened, {"listen": declared["grpc"],
                                        "metrics_listen": declared["metrics"],
                                        "health_listen": declared["health"]})

    def test_service_accounts_have_the_roles_of_their_pods(self):
        documents = manifests(*CLUSTERS["replicas-tokens"])
        config = json.loads(find(documents, "ConfigMap", "parplan-server")["data"]
                            ["parplan-server.json"])
        granted = {}
        for grant in config["authorization"]["grants"]:
            for identity in grant["identities"]:
                granted.setdefault(identity, set()).add(grant["role"])
        audience = config["authorization"]["service_accounts"]["audience"]
        for kind, name, roles in (("DaemonSet", "parplan-agent", {"agent"}),
                                  ("Job", "llama2-7b", {"planner", "executor"})):
            namespace = find(documents, kind, name)["metadata"]["namespace"]
            spec = pod(documents, kind, name)
            self.assertEqual(granted[f"k8s:{namespace}/{spec['serviceAccountName']}"], roles)
            (token,) = [source["serviceAccountToken"] for volume in spec["volumes"]
                        for source in volume.get("projected", {}).get("sources", ())]
            self.assertEqual(token["audience"], audience)
            # A token that leaks can be used until it expires.
            self.assertLessEqual(token["expirationSeconds"], 600)
        # The trainer, which runs code of the job's owner, has no token.
        (trainer,) = spec["containers"]
        self.assertNotIn("token", {mount["name"] for mount in trainer["volumeMounts"]})

    def test_tokens_are_read_where_they_are_mounted(self):
        documents = manifests(*CLUSTERS["replicas-tokens"])
        settings = tomllib.loads(find(documents, "ConfigMap", "parplan-agent")["data"]
                                 ["parplan-agent.toml"])
        agent, job = (pod(documents, "DaemonSet", "parplan-agent"),
                      pod(documents, "Job", "llama2-7b"))
        self.assertIn(settings["token-file"], token_paths(agent, "agent"))
        for name in ("fetch-plan", "sidecar"):
            (path,) = [argument.partition("=")[2] for argument in container_of(job, name)["args"]
                       if argument.startswith("--token-file=")]
            self.assertIn(path, token_paths(job, name), name)
        (mount,) = [one for one in container_of(job, "sidecar")["volumeMounts"]
                    if one["name"] == "token"]
        mount["mountPath"] = "/tokens"
        self.assertNotIn(path, token_paths(job, "sidecar"))

    def test_the_agent_takes_its_configuration(self):
        for cluster in ("replicas-tokens", "single"):
            documents = manifests(*CLUSTERS[cluster])
            self.check(self.run_as(documents, "DaemonSet", "parplan-agent", "agent",
                                   "parplan-agent", "--inventory"))
        config = find(documents, "ConfigMap", "parplan-agent")
        config["data"]["parplan-agent.toml"] += "\nbudgt = \"1m\"\n"
        done = self.run_as(documents, "DaemonSet", "parplan-agent", "agent", "parplan-agent",
                           "--inventory")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("budgt", done.stderr)

    def test_the_sidecar_takes_its_flags(self):
        for container, folder in itertools.product(("fetch-plan", "sidecar"),
                                                   ("job", "job-tokens")):
            documents = manifests(folder)
            self.check(self.run_as(documents, "Job", "llama2-7b", container, "parplan-sidecar",
                                   "--check-config"))
            (given,) = [one for one in pod(documents, "Job", "llama2-7b")["initContainers"]
                        if one["name"] == container]
            given["args"].append("--voluem=/plan")
            done = self.run_as(documents, "Job", "llama2-7b", container, "parplan-sidecar",
                               "--check-config")
            self.assertEqual(done.returncode, 2)
            self.assertIn("--voluem", done.stderr)

    def test_the_trainer_takes_its_flags(self):
        (script,) = pod(manifests("job"), "Job", "llama2-7b")["containers"][0]["args"]
        words = shlex.split(script.replace("\\\n", " "))
        flags = words[words.index("parplan-exec") + 1:]

        def start(arguments):
            return subprocess.run([FLAGS.bin / "parplan-exec", *arguments, "--ranks", "1"],
                                  capture_output=True, text=True, check=False, timeout=300)

        # The flags are good and the files are not there.
        done = start(flags)
        self.assertEqual(done.returncode, 2)
        self.assertIn("/trust/trust-bundle.jwks.json", done.stderr)
        done = start([*flags, "--stepz", "1"])
        self.assertEqual(done.returncode, 2)
        self.assertIn("--stepz", done.stderr)
        # The script sets no variable of its own, and reads those that docs/launch.md lists.
        told = (FLAGS.source / "docs" / "launch.md").read_text()
        for name in set(re.findall(r"\$(\w+)", script)):
            self.assertIn(f"`{name}`", told)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--source", type=pathlib.Path, required=True)
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    _, rest = parser.parse_known_args(namespace=FLAGS)
    FLAGS.source, FLAGS.bin = FLAGS.source.resolve(), FLAGS.bin.resolve()
    program = unittest.main(argv=[sys.argv[0], *rest], exit=False)
    for what, figure in FIGURES.items():
        print(f"{figure} {what}")
    sys.exit(not program.result.wasSuccessful())


if __name__ == "__main__":
    main()
