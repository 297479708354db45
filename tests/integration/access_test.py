#!/usr/bin/python3
"""Roles by certificate and the audit log, with a real server and real certificates: who is who,
deny by default, the attacks of one certificate on what belongs to others, and what is remembered.

    access_test.py SERVER
"""
import json
import os
import pathlib
import resource
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import grpc

import parplan_process as parplan

SERVER = None
AGENTS = "parplan.v1.AgentService"
CALIBRATIONS = "parplan.v1.CalibrationService"
EXECUTIONS = "parplan.v1.ExecutionService"
PLANS = "parplan.v1.PlanService"
PROFILES = "parplan.v1.ProfileService"
DENIED = grpc.StatusCode.PERMISSION_DENIED

# Name of the files: subject and alternative names of a certificate.
CALLERS = {
    "agent-a": ("/CN=agent", "URI:spiffe://lab.example/node/node-a"),
    "agent-b": ("/CN=agent", "URI:spiffe://lab.example/node/node-b"),
    "slurm": ("/CN=slurm", "DNS:Slurm.lab.example"),
    "stranger": ("/CN=stranger", "DNS:stranger.lab.example"),
    "job-1": ("/CN=job", "URI:spiffe://lab.example/job/job-1"),
    "job-2": ("/CN=job", "URI:spiffe://lab.example/job/job-2"),
    "reader": ("/CN=reader", None),
    "boss": ("/CN=boss", None),
    # Two SPIFFE ids are none, and the common name does not stand in for them.
    "two-ids": ("/CN=boss", "URI:spiffe://lab.example/node/node-a,URI:spiffe://lab.example/job/x"),
    "wild": ("/CN=boss", "DNS:*.lab.example"),
    "nameless": ("/", None),
}
GRANTS = [
    {"identities": ["spiffe://lab.example/node/{node}"], "role": "agent", "clusters": ["lab"]},
    {"identities": ["dns:slurm.lab.example", "dns:stranger.lab.example"], "role": "planner",
     "clusters": ["lab"]},
    {"identities": ["spiffe://lab.example/job/{job}"], "role": "executor", "clusters": ["lab"]},
    {"identities": ["cn:reader"], "role": "reader", "clusters": ["lab"]},
    {"identities": ["cn:boss"], "role": "operator", "clusters": ["lab"]},
]


def make_callers(folder):
    """Certificates of all callers, of the CA that is there."""
    def run(*arguments):
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)

    for name, (subject, names) in CALLERS.items():
        run("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
            "-subj", subject, "-keyout", f"{name}.key", "-out", f"{name}.csr")
        (folder / f"{name}.ext").write_text(
            "basicConstraints=CA:FALSE\n" + (f"subjectAltName={names}\n" if names else ""))
        run("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key",
            "-CAcreateserial", "-days", "2", "-extfile", f"{name}.ext", "-out", f"{name}.pem")


class Access(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.certificates = parplan.make_certificates(folder.name)
        make_callers(cls.certificates)

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.config = self.folder / "server.json"
        self.audit = self.folder / "audit.jsonl"

    def serve(self, *flags, grants=None, **settings):
        """A server with mutual TLS, which grants roles if there are any."""
        content = {"audit_file": str(self.audit), **settings}
        if grants is not None:
            content["authorization"] = {"grants": grants}
        self.config.write_text(json.dumps(content))
        server = parplan.Server(
            SERVER, self.folder, "--tls-certificate", self.certificates / "server.pem",
            "--tls-key", self.certificates / "server.key", "--tls-client-ca",
            self.certificates / "ca.pem", "--config", self.config, *flags).start()
        self.addCleanup(server.__exit__)
        return server

    def client(self, server, name):
        read = lambda file: (self.certificates / file).read_bytes()  # noqa: E731
        client = parplan.Client(server.address, grpc.ssl_channel_credentials(
            read("ca.pem"), read(f"{name}.key"), read(f"{name}.pem")))
        self.addCleanup(client.__exit__)
        return client

    def refused(self, client, service, method, request):
        """The facts of a call that must be refused for want of a role."""
        with self.assertRaises(grpc.RpcError) as raised:
            client.call(service, method, request)
        self.assertEqual(raised.exception.code(), DENIED, raised.exception.details())
        info = client.error_info(raised.exception)
        self.assertEqual(info.reason, "ROLE_REQUIRED")
        return dict(info.metadata), raised.exception.details()

    def command(self, *arguments):
        return subprocess.run([SERVER, *map(str, arguments)], capture_output=True, text=True,
                              timeout=60, check=False)

    def lines(self):
        return [json.loads(line) for line in self.audit.read_text().splitlines()]

    def test_without_grants_only_capabilities_answer(self):
        server = self.serve()
        self.assertIn("nobody may call", server.log())
        boss = self.client(server, "boss")
        boss.call(PLANS, "GetCapabilities", {})
        facts, _ = self.refused(boss, PLANS, "ListPlans", {"parent": "clusters/lab"})
        self.assertEqual((facts["identity"], facts["heldRoles"]), ("cn:boss", ""))
        self.assertEqual(server.end(), 0)

    def test_one_flag_lets_every_certificate_do_everything(self):
        server = self.serve("--allow-all-callers")
        self.assertNotIn("nobody may call", server.log())
        stranger = self.client(server, "stranger")
        stranger.upload("clusters/lab/nodes/node-a", "r", parplan.small_profile())
        self.assertEqual(self.lines()[0]["identity"], "dns:stranger.lab.example")

    def test_each_certificate_has_its_identity(self):
        server = self.serve(grants=[])
        for name, identity in (("agent-a", "spiffe://lab.example/node/node-a"),
                               ("slurm", "dns:slurm.lab.example"), ("reader", "cn:reader"),
                               ("two-ids", "unnamed"), ("wild", "unnamed"),
                               ("nameless", "unnamed")):
            with self.subTest(name):
                facts, _ = self.refused(self.client(server, name), PLANS, "ListPlans",
                                        {"parent": "clusters/lab"})
                self.assertEqual(facts["identity"], identity)

    def test_one_certificate_does_nothing_to_others(self):
        """The attacks of the review with an agent's, a job's and a planner's certificate."""
        server = self.serve(grants=GRANTS)
        clients = {name: self.client(server, name) for name in CALLERS}
        agent, slurm, stranger = clients["agent-a"], clients["slurm"], clients["stranger"]
        agent.upload("clusters/lab/nodes/node-a", "r", parplan.small_profile())
        profile = agent.call(PROFILES, "ListProfiles",
                             {"parent": "clusters/lab/nodes/node-a"}).profiles[0].name

        # An agent is its node, in its cluster, and nothing else.
        header = {"request_id": "x", "device_kind": "Test GPU"}
        for parent in ("clusters/lab/nodes/node-b", "clusters/other/nodes/node-a"):
            self.refused(agent, PROFILES, "UploadProfile",
                         [{"header": {**header, "parent": parent}}])
        for name in ("agent-b", "slurm", "job-1", "reader", "two-ids", "wild"):
            self.refused(clients[name], PROFILES, "DeleteProfile", {"name": profile})
        self.refused(agent, PLANS, "CreatePlan", parplan.small_question())

        # A plan is its owner's and its job's.
        plan = slurm.call(PLANS, "CreatePlan",
                          parplan.small_question(job_id="job-1", request_id="follows-from-facts"))
        for name in ("slurm", "job-1", "reader", "boss"):
            clients[name].call(PLANS, "GetPlan", {"name": plan.name})
            listed = clients[name].call(PLANS, "ListPlans", {"parent": "clusters/lab"}).plans
            self.assertEqual([one.name for one in listed], [plan.name], name)
        for name in ("stranger", "job-2"):
            _, text = self.refused(clients[name], PLANS, "GetPlan", {"name": plan.name})
            self.assertNotIn("slurm", text)
            self.assertEqual(len(clients[name].call(
                PLANS, "ListPlans", {"parent": "clusters/lab"}).plans), 0)

        # Another planner neither changes the plan of the job nor takes the request id.
        self.refused(stranger, PLANS, "CreatePlan", parplan.small_question(4, job_id="job-1"))
        self.refused(stranger, PLANS, "CreatePlan", parplan.small_question(job_id="job-1"))
        other = stranger.call(PLANS, "CreatePlan", parplan.small_question(
            job_id="elsewhere", request_id="follows-from-facts"))
        self.assertNotEqual(other.name, plan.name)
        again = slurm.call(PLANS, "CreatePlan", parplan.small_question(
            job_id="job-1", request_id="follows-from-facts"))
        self.assertEqual(again.name, plan.name)

        # Executions are the job's; a planner may end those of its plans.
        self.refused(clients["job-2"], EXECUTIONS, "CreateExecution",
                     {"parent": plan.name, "request_id": "1"})
        execution = clients["job-1"].call(EXECUTIONS, "CreateExecution",
                                          {"parent": plan.name, "request_id": "1"}).name
        for name in ("job-2", "stranger", "reader", "agent-a"):
            self.refused(clients[name], EXECUTIONS, "FailExecution", {"name": execution})
        self.refused(clients["job-2"], EXECUTIONS, "ReportMetrics", [{"execution": execution}])
        slurm.call(EXECUTIONS, "FailExecution", {"name": execution, "reason": "the job ended"})

        # What changes the whole cluster is for operators.
        self.refused(clients["job-1"], CALIBRATIONS, "ActivateCalibration",
                     {"parent": "clusters/lab"})
        clients["boss"].call(CALIBRATIONS, "ActivateCalibration", {"parent": "clusters/lab"})
        self.refused(clients["boss"], CALIBRATIONS, "ActivateCalibration",
                     {"parent": "clusters/other"})
        self.assertEqual(server.end(), 0)

        # All of it can be found out afterwards.
        lines = self.lines()
        signatures = [line for line in lines if line["event"] == "signature"]
        self.assertEqual([(line["identity"], line["plan"], line["job_id"]) for line in signatures],
                         [("dns:slurm.lab.example", plan.name, "job-1"),
                          ("dns:stranger.lab.example", other.name, "elsewhere")])
        self.assertEqual(signatures[0]["key_ids"],
                         [one.key_id for one in plan.signed_plan.signatures])
        changes = [(line["identity"], line["role"], line["method"]) for line in lines
                   if line["event"] == "call"]
        self.assertEqual(changes, [
            ("spiffe://lab.example/node/node-a", "agent", "UploadProfile"),
            ("spiffe://lab.example/job/job-1", "executor", "CreateExecution"),
            ("dns:slurm.lab.example", "planner", "FailExecution"),
            ("cn:boss", "operator", "ActivateCalibration")])
        self.assertEqual(sum(line["event"] == "refusal" for line in lines), 21)

    def test_an_agent_connects_as_its_node(self):
        server = self.serve(grants=GRANTS)

        def hello(name, node):
            client = self.client(server, name)
            method = client.service(AGENTS).FindMethodByName("ConnectAgent")
            request = client.message("parplan.v1.ConnectAgentRequest")
            answer = client.message("parplan.v1.ConnectAgentResponse")
            self.assertEqual(method.input_type.full_name, "parplan.v1.ConnectAgentRequest")
            sent = request()
            sent.hello.node = f"clusters/lab/nodes/{node}"
            sent.hello.instance_id, sent.hello.host = "one", "127.0.0.1"
            sent.hello.device_kind, sent.hello.device_count = "CPU", 1
            call = client.channel.stream_stream(
                f"/{AGENTS}/ConnectAgent", request.SerializeToString, answer.FromString)
            return [one.WhichOneof("message") for one in call(iter([sent]), timeout=30)]

        self.assertEqual(hello("agent-a", "node-a"), ["welcome"])
        for name, node in (("agent-a", "node-b"), ("boss", "node-a"), ("two-ids", "node-a")):
            with self.assertRaises(grpc.RpcError) as raised:
                hello(name, node)
            self.assertEqual(raised.exception.code(), DENIED)

    def test_grants_are_read_again(self):
        server = self.serve(grants=[])
        reader = self.client(server, "reader")
        self.refused(reader, PLANS, "ListPlans", {"parent": "clusters/lab"})

        def reload(grants, event):
            count = server.log().count(event)
            self.config.write_text(json.dumps({"authorization": {"grants": grants}}))
            server.process.send_signal(signal.SIGHUP)
            end = time.monotonic() + 60
            while server.log().count(event) == count:
                self.assertLess(time.monotonic(), end)
                time.sleep(0.05)

        reload(GRANTS, '"event":"keys read again"')
        reader.call(PLANS, "ListPlans", {"parent": "clusters/lab"})
        # A mistake changes nothing.
        reload([{"role": "reader"}], '"event":"configuration not read again"')
        reader.call(PLANS, "ListPlans", {"parent": "clusters/lab"})
        reload([], '"event":"keys read again"')
        self.refused(reader, PLANS, "ListPlans", {"parent": "clusters/lab"})

    def test_files_of_tls_are_those_of_the_start(self):
        files = {"tls_certificate": str(self.certificates / "server.pem"),
                 "tls_key": str(self.certificates / "server.key"),
                 "tls_client_ca": str(self.certificates / "ca.pem")}
        self.config.write_text(json.dumps(files))
        server = parplan.Server(SERVER, self.folder, "--config", self.config).start()
        self.addCleanup(server.__exit__)
        boss = self.client(server, "boss")
        self.refused(boss, PLANS, "ListPlans", {"parent": "clusters/lab"})

        def reload(content):
            count = server.log().count('"event":"keys read again"')
            self.config.write_text(json.dumps(content))
            server.process.send_signal(signal.SIGHUP)
            end = time.monotonic() + 60
            while server.log().count('"event":"keys read again"') == count:
                self.assertLess(time.monotonic(), end)
                time.sleep(0.05)

        # A server that starts with the last two asks for no certificate and restricts no caller.
        for content in (files, {key: files[key] for key in ("tls_certificate", "tls_key")}, {}):
            reload(content)
            self.assertEqual("tls settings not read again" in server.log(), content != files)
            self.refused(boss, PLANS, "ListPlans", {"parent": "clusters/lab"})
        # The other settings of the file take effect all the same.
        reload({"authorization": {"grants": GRANTS}})
        boss.call(PLANS, "ListPlans", {"parent": "clusters/lab"})

    def test_without_certificates_grants_are_for_anonymous_callers(self):
        self.config.write_text(json.dumps({"authorization": {"grants": [
            {"identities": ["anonymous"], "role": "reader", "clusters": ["lab"]}]}}))
        with parplan.Server(SERVER, self.folder, "--config", self.config) as server:
            with parplan.Client(server.address) as client:
                client.call(PLANS, "ListPlans", {"parent": "clusters/lab"})
                self.refused(client, PLANS, "CreatePlan", parplan.small_question())
                self.refused(client, PLANS, "ListPlans", {"parent": "clusters/other"})

    def test_mistakes_in_grants_are_named(self):
        for content, field in (
                ({"authorization": {"grants": [{"identities": ["a"], "role": "reader",
                                                "clusters": ["*"]}]}}, "grants[0].identities"),
                ({"authorization": {"grants": [{"identities": ["cn:a"], "role": "admin",
                                                "clusters": ["*"]}]}}, "grants[0].role"),
                ({"authorization": {"certificate_names": ["email"]}}, "certificate_names"),
                ({"authorization": {}, "allow_all_callers": True}, "allow_all_callers"),
                ({"audit_required": True}, "audit_required")):
            self.config.write_text(json.dumps(content))
            done = self.command("--check-config", "--config", self.config)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(field, done.stderr)

    def test_quotas_are_checked_and_may_be_without_limit(self):
        for kind in ("identity", "cluster"):
            for quota in ("stored_bytes", "execution_bytes", "plans", "agents",
                          "running_searches", "queued_searches"):
                for value, code in ((-1, 2), (0, 0), (7, 0)):
                    self.config.write_text(json.dumps({"quotas": {kind: {quota: value}}}))
                    done = self.command("--check-config", "--config", self.config)
                    self.assertEqual(done.returncode, code, done.stderr)
                    if code != 0:
                        self.assertIn(f"quotas.{kind}.{quota}: is -1", done.stderr)

    def test_an_identity_at_its_quota_is_refused_alone_and_told_when_to_come_back(self):
        server = self.serve(grants=GRANTS, quotas={"identity": {"plans": 1}})
        self.client(server, "agent-a").upload("clusters/lab/nodes/node-a", "r",
                                              parplan.small_profile())
        slurm, stranger = self.client(server, "slurm"), self.client(server, "stranger")
        question = parplan.small_question(batch=16)
        slurm.call(PLANS, "CreatePlan", question)
        with self.assertRaises(grpc.RpcError) as raised:
            slurm.call(PLANS, "CreatePlan", parplan.small_question(batch=32))
        self.assertEqual(raised.exception.code(), grpc.StatusCode.RESOURCE_EXHAUSTED)
        info = slurm.error_info(raised.exception)
        self.assertEqual(info.reason, "QUOTA_EXCEEDED")
        self.assertEqual(dict(info.metadata), {
            "quota": "identity.plans", "holder": "dns:slurm.lab.example", "limit": "1",
            "value": "2"})
        details = dict(raised.exception.trailing_metadata())["grpc-status-details-bin"]
        retry = slurm.message("parplan.v1.RpcStatus").FromString(details).details[1]
        self.assertEqual(retry.type_url, "type.googleapis.com/google.rpc.RetryInfo")
        self.assertEqual(
            slurm.message("parplan.v1.RetryInfo").FromString(retry.value).retry_duration.seconds,
            600)
        self.assertIn("QUOTA_EXCEEDED", server.log())
        # What it has is answered, and others are as before.
        self.assertTrue(slurm.call(PLANS, "CreatePlan", question).from_cache)
        stranger.call(PLANS, "CreatePlan", parplan.small_question(batch=32))

    def test_one_identity_at_many_times_its_share_leaves_others_unrefused(self):
        server = self.serve("--workers", "2", "--queue-length", "8", grants=GRANTS)
        self.client(server, "agent-a").upload("clusters/lab/nodes/node-a", "r",
                                              parplan.small_profile())
        slurm, stranger = self.client(server, "slurm"), self.client(server, "stranger")
        batches = iter(range(8, 80000, 8))
        noisy, refused = [], 0
        for _ in range(20):
            noisy += [slurm.start(PLANS, "CreatePlan", parplan.small_question(batch=next(batches)),
                                  timeout=200) for _ in range(20)]
            # Fewer than its share of the places, which are four.
            quiet = [stranger.start(PLANS, "CreatePlan",
                                    parplan.small_question(batch=next(batches)), timeout=200)
                     for _ in range(3)]
            for answer in quiet:
                answer.result()
        for answer in noisy:
            try:
                answer.result()
            except grpc.RpcError as error:
                self.assertEqual(error.code(), grpc.StatusCode.RESOURCE_EXHAUSTED)
                refused += 1
        # Whether it was refused depends on the machine; the others were not.
        self.assertLess(refused, len(noisy))

    def test_the_roles_of_a_certificate_are_shown(self):
        self.config.write_text(json.dumps({"authorization": {"grants": GRANTS}}))
        done = self.command("access", "show", "--config", self.config,
                            "--uri", "spiffe://lab.example/node/node-a", "--cn", "boss")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout, "spiffe://lab.example/node/node-a\n"
                                      "  agent in clusters lab, nodes node-a\n")
        done = self.command("--format", "json", "access", "show", "--config", self.config,
                            "--dns", "none.example")
        self.assertEqual(json.loads(done.stdout), {
            "identity": "dns:none.example", "may_do_everything": False, "roles": []})
        done = self.command("access", "table")
        self.assertIn("| `PlanService` | `CreatePlan` | yes |", done.stdout)

    def test_an_altered_audit_log_shows(self):
        server = self.serve(grants=GRANTS)
        reader = self.client(server, "reader")
        for _ in range(3):
            self.refused(reader, PLANS, "CreatePlan", parplan.small_question())
        self.assertEqual(server.end(), 0)
        head = [json.loads(line) for line in server.log().splitlines()
                if '"event":"audit"' in line][-1]
        self.assertEqual(head["last_sequence"], 3)
        whole = self.audit.read_text()
        done = self.command("--format", "json", "audit", "verify", self.audit)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads(done.stdout), {
            "line_count": 3, "first_sequence": 1, "last_sequence": 3, "head": head["head"]})
        lines = whole.splitlines(keepends=True)
        for altered in (whole.replace("cn:reader", "cn:boss!!", 1), lines[0] + lines[2],
                        lines[0] + whole, "".join(reversed(lines)), whole[:-1]):
            self.audit.write_text(altered)
            done = self.command("audit", "verify", self.audit)
            self.assertEqual(done.returncode, 5, done.stdout)
        # Lines that are missing at the end show against the log of the server.
        self.audit.write_text("".join(lines[:2]))
        self.assertEqual(self.command("audit", "verify", self.audit).returncode, 0)
        done = self.command("audit", "verify", self.audit, "--head", head["head"])
        self.assertEqual(done.returncode, 5, done.stdout)
        self.assertEqual(self.command("audit", "verify", self.folder / "none").returncode, 7)

    def test_nothing_changes_while_a_required_log_cannot_be_written(self):
        server = self.serve("--audit-required", grants=GRANTS)
        slurm = self.client(server, "slurm")
        agent = self.client(server, "agent-a")
        agent.upload("clusters/lab/nodes/node-a", "r", parplan.small_profile())
        # Files of the server cannot grow beyond a byte more than its log has.
        size = self.audit.stat().st_size
        pid = server.process.pid
        before = resource.prlimit(pid, resource.RLIMIT_FSIZE)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (size + 1, before[1]))
        for client, service, method, request in (
                (slurm, PLANS, "CreatePlan", parplan.small_question()),
                (self.client(server, "boss"), CALIBRATIONS, "ActivateCalibration",
                 {"parent": "clusters/lab"})):
            with self.assertRaises(grpc.RpcError) as raised:
                client.call(service, method, request)
            self.assertEqual(raised.exception.code(), grpc.StatusCode.UNAVAILABLE)
            self.assertEqual(client.error_info(raised.exception).reason, "AUDIT_UNAVAILABLE")
        self.assertEqual(len(slurm.call(PLANS, "ListPlans", {"parent": "clusters/lab"}).plans), 0)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, before)
        plan = slurm.call(PLANS, "CreatePlan", parplan.small_question())
        self.assertEqual(self.lines()[-1]["plan"], plan.name)
        self.assertEqual(server.end(), 0)
        self.assertEqual(self.command("audit", "verify", self.audit).returncode, 0)

    def test_a_rotated_log_goes_on(self):
        server = self.serve(grants=GRANTS)
        reader = self.client(server, "reader")
        self.refused(reader, PLANS, "CreatePlan", parplan.small_question())
        older = self.folder / "audit.jsonl.1"
        os.rename(self.audit, older)
        server.process.send_signal(signal.SIGHUP)
        end = time.monotonic() + 60
        while not self.audit.exists():
            self.assertLess(time.monotonic(), end)
            time.sleep(0.05)
        self.refused(reader, PLANS, "CreatePlan", parplan.small_question())
        self.assertEqual(server.end(), 0)
        self.assertEqual(self.command("audit", "verify", older, self.audit).returncode, 0)
        self.assertEqual(self.command("audit", "verify", self.audit, older).returncode, 5)


if __name__ == "__main__":
    SERVER = sys.argv.pop()
    unittest.main(verbosity=2)
