"""A parplan-server of its own process, and a client that knows nothing of it but
what server reflection tells: no generated code, only Debian's python3-grpcio."""
import json
import os
import pathlib
import signal
import subprocess
import time

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory

CHANNEL_OPTIONS = (("grpc.enable_http_proxy", 0), ("grpc.use_local_subchannel_pool", 1))
SERVICES = ("parplan.v1.AgentService", "parplan.v1.CalibrationService",
            "parplan.v1.ExecutionService", "parplan.v1.PlanService", "parplan.v1.ProfileService")


class Server:
    """Starts in `start`, ends at the latest with the `with` block."""

    def __init__(self, binary, folder, *flags):
        self.binary = str(binary)
        self.folder = pathlib.Path(folder)
        self.flags = [str(flag) for flag in flags]
        self.process = None
        self.log_path = self.folder / "server.log"

    def __enter__(self):
        return self.start()

    def __exit__(self, *unused):
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def start(self):
        for name in ("port", "metrics-port"):
            (self.folder / name).unlink(missing_ok=True)
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(
                [self.binary, "--listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0",
                 "--data-dir", str(self.folder / "data"),
                 "--port-file", str(self.folder / "port"),
                 "--metrics-port-file", str(self.folder / "metrics-port"), *self.flags],
                stdout=subprocess.DEVNULL, stderr=log)
        end = time.monotonic() + 300
        while not (self.folder / "metrics-port").exists():
            if self.process.poll() is not None:
                raise AssertionError(f"the server ended with {self.process.returncode}: {self.log()}")
            if time.monotonic() > end:
                raise AssertionError(f"the server did not start: {self.log()}")
            time.sleep(0.01)
        self.port = int((self.folder / "port").read_text())
        self.metrics_port = int((self.folder / "metrics-port").read_text())
        self.address = f"127.0.0.1:{self.port}"
        return self

    def log(self):
        return self.log_path.read_text(errors="replace")

    def kill(self):
        """Ends the server like a power cut: no chance to clean up."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def end(self, number=signal.SIGTERM, timeout=40):
        """The exit code after a signal."""
        self.process.send_signal(number)
        return self.process.wait(timeout)


def _reflection_messages():
    """grpc.reflection.v1alpha, by its published field numbers."""
    field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(
        name="reflection_by_hand.proto", package="by_hand", syntax="proto3")

    def message(name, *fields):
        proto = file.message_type.add(name=name)
        for number, field_name, kind, repeated, type_name in fields:
            proto.field.add(name=field_name, number=number, type=kind,
                            label=field.LABEL_REPEATED if repeated else field.LABEL_OPTIONAL,
                            type_name=type_name or None)

    text, bytes_, nested = field.TYPE_STRING, field.TYPE_BYTES, field.TYPE_MESSAGE
    # `list_services` is one of a oneof on the wire, so it must be sent even if empty;
    # the tests send "*", which the server does not look at.
    message("Request", (3, "file_by_filename", text, False, ""),
            (4, "file_containing_symbol", text, False, ""), (7, "list_services", text, False, ""))
    message("Files", (1, "file_descriptor_proto", bytes_, True, ""))
    message("Service", (1, "name", text, False, ""))
    message("Services", (1, "service", nested, True, ".by_hand.Service"))
    message("Error", (1, "error_code", field.TYPE_INT32, False, ""),
            (2, "error_message", text, False, ""))
    message("Response", (4, "files", nested, False, ".by_hand.Files"),
            (6, "services", nested, False, ".by_hand.Services"),
            (7, "error", nested, False, ".by_hand.Error"))
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    factory = message_factory.MessageFactory(pool)
    return (factory.GetPrototype(pool.FindMessageTypeByName("by_hand.Request")),
            factory.GetPrototype(pool.FindMessageTypeByName("by_hand.Response")))


class Client:
    """Calls any method with plain dictionaries, in the JSON form of the messages."""

    def __init__(self, address, credentials=None):
        self.address = address
        self.channel = (grpc.insecure_channel(address, CHANNEL_OPTIONS) if credentials is None
                        else grpc.secure_channel(address, credentials, CHANNEL_OPTIONS))
        self._request, self._response = _reflection_messages()
        self._reflect = self.channel.stream_stream(
            "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
            self._request.SerializeToString, self._response.FromString)
        self._pool = descriptor_pool.DescriptorPool()
        self._factory = message_factory.MessageFactory(self._pool)
        self._files = set()

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.channel.close()

    def _ask(self, **fields):
        answer = next(iter(self._reflect(iter([self._request(**fields)]), timeout=10)))
        if answer.HasField("error"):
            raise LookupError(answer.error.error_message)
        return answer

    def _add(self, answer):
        for data in answer.files.file_descriptor_proto:
            file = descriptor_pb2.FileDescriptorProto.FromString(data)
            if file.name in self._files:
                continue
            self._files.add(file.name)
            for name in file.dependency:
                if name not in self._files:
                    self._add(self._ask(file_by_filename=name))
            self._pool.Add(file)

    def service_names(self):
        return sorted(s.name for s in self._ask(list_services="*").services.service)

    def service(self, name):
        try:
            return self._pool.FindServiceByName(name)
        except KeyError:
            self._add(self._ask(file_containing_symbol=name))
            return self._pool.FindServiceByName(name)

    def message(self, name):
        """The class of a message."""
        try:
            descriptor = self._pool.FindMessageTypeByName(name)
        except KeyError:
            self._add(self._ask(file_containing_symbol=name))
            descriptor = self._pool.FindMessageTypeByName(name)
        return self._factory.GetPrototype(descriptor)

    def call(self, service, method, request, timeout=30, metadata=None):
        """The answer of a unary or client-streaming method."""
        return self.start(service, method, request, timeout, metadata).result()

    def start(self, service, method, request, timeout=30, metadata=None):
        """A future. `request` is a dictionary, or for a streaming method a list or
        an iterator of them."""
        descriptor = self.service(service).FindMethodByName(method)
        sent = self._factory.GetPrototype(descriptor.input_type)
        received = self._factory.GetPrototype(descriptor.output_type)
        path = f"/{service}/{method}"

        def build(content):
            return json_format.ParseDict(content, sent())

        if isinstance(request, dict):
            multi = self.channel.unary_unary(path, sent.SerializeToString, received.FromString)
            return multi.future(build(request), timeout=timeout, metadata=metadata)
        multi = self.channel.stream_unary(path, sent.SerializeToString, received.FromString)
        # Made before the call begins: the server waits for a message for seconds only.
        messages = map(build, request)
        if isinstance(request, list):
            messages = iter(list(messages))
        return multi.future(messages, timeout=timeout, metadata=metadata)

    def upload(self, parent, request_id, profile, timeout=30):
        """Uploads a profile file's content, one list of measurements a message."""
        lists = ("layer_definitions", "layer_timings", "layer_memories", "collective_timings")
        header = {key: value for key, value in profile.items() if key not in lists}
        messages = [{"header": {**header, "parent": parent, "request_id": request_id}}]
        messages += [{"measurements": {key: profile[key]}} for key in lists if profile.get(key)]
        return self.call("parplan.v1.ProfileService", "UploadProfile", messages, timeout)

    def error_info(self, error):
        """Reason, domain and facts of an RpcError."""
        details = dict(error.trailing_metadata()).get("grpc-status-details-bin")
        assert details is not None, f"no details: {error.code()} {error.details()}"
        status = self.message("parplan.v1.RpcStatus").FromString(details)
        assert status.code == error.code().value[0] and status.message == error.details()
        assert status.details[0].type_url == "type.googleapis.com/google.rpc.ErrorInfo"
        return self.message("parplan.v1.ErrorInfo").FromString(status.details[0].value)


def is_serving(client, service=""):
    """Returns whether the health service calls a service healthy."""
    check = client.channel.unary_unary("/grpc.health.v1.Health/Check")
    name = service.encode()
    request = b"\x0a" + bytes([len(name)]) + name if name else b""
    return check(request, timeout=10) == b"\x08\x01"


def load(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def seconds(value):
    return f"{value:.9f}s"


def small_profile(overlap=1.2):
    """Figures for four decoder layers on a node of two devices."""
    decoder = {"layer_definition_id": "decoder", "kind": "LAYER_KIND_DECODER", "hidden_size": 1024,
               "attention_head_count": 16, "feed_forward_size": 4096,
               "feed_forward_kind": "FEED_FORWARD_KIND_GELU", "sequence_length": 512}
    profile = {"provenance": {"agent": "test"}, "device_kind": "Test GPU", "devices_per_node": 2,
               "precision": "PRECISION_BF16", "overlap_slowdown": overlap,
               "context_memory_bytes": 1 << 29, "layer_definitions": [decoder],
               "layer_timings": [], "layer_memories": [], "collective_timings": []}
    for degree in (1, 2):
        for batch in (1, 2, 4, 8):
            profile["layer_timings"].append({
                "layer_definition_id": "decoder", "tensor_parallel_degree": degree,
                "micro_batch_size": batch,
                "forward_duration": seconds(0.0005 + 0.001 * batch / degree),
                "backward_duration": seconds(0.001 + 0.002 * batch / degree)})
        profile["layer_memories"].append({
            "layer_definition_id": "decoder", "tensor_parallel_degree": degree,
            "parameter_count": 12_600_000 // degree,
            "activation_bytes_per_sample": 34_000_000 // degree,
            "checkpoint_bytes_per_sample": 1 << 20})
    for collective in ("ALL_REDUCE", "ALL_GATHER", "REDUCE_SCATTER", "SEND_RECEIVE"):
        for size in (1 << 16, 1 << 22, 1 << 28):
            profile["collective_timings"].append({
                "collective": f"COLLECTIVE_{collective}", "participant_count": 2,
                "rank_stride": 1, "message_size_bytes": size,
                "median_duration": seconds(0.00002 + size / 100e9)})
    return profile


def small_question(batch=8, **fields):
    """Asks for a plan for four layers on two devices."""
    profile = small_profile()
    return {"parent": "clusters/lab", "spec": {
        "model": {"model_id": "small", "layer_definitions": profile["layer_definitions"],
                  "layer_runs": [{"layer_definition_id": "decoder", "layer_count": 4}],
                  "precision": "PRECISION_BF16", "optimizer": "OPTIMIZER_ADAM"},
        "topology": {"cluster": "lab", "node_groups": [{
            "node_group_id": "nodes", "device_kind": "Test GPU", "node_count": 1,
            "devices_per_node": 2, "device_memory_bytes": 16 << 30}],
            "link_tiers": [{"tier_id": "nvlink", "reach_device_count": 2}]},
        "global_batch_size": batch}, **fields}


def grants_flags(folder, *grants):
    """Flags of a server whose configuration file grants roles: (identity, role, and for agents and
    executors their nodes or jobs), each in all clusters."""
    things = {"agent": "nodes", "executor": "jobs"}
    written = [{"identities": [identity], "role": role, "clusters": ["*"],
                **({things[role]: list(own)} if own else {})} for identity, role, *own in grants]
    path = pathlib.Path(folder) / "grants.json"
    path.write_text(json.dumps({"authorization": {"grants": written}}))
    return ["--config", path]


def make_certificates(folder, days=2):
    """A CA with a server's and a client's certificate, and one of nobody's."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)

    def run(*arguments):
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)

    def key(name):
        run("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256",
            "-out", f"{name}.key")

    for authority in ("ca", "rogue-ca"):
        key(authority)
        run("req", "-x509", "-new", "-key", f"{authority}.key", "-days", str(days),
            "-subj", f"/CN={authority}", "-out", f"{authority}.pem")
    for name, authority, usage in (("server", "ca", "serverAuth"), ("client", "ca", "clientAuth"),
                                   ("rogue", "rogue-ca", "clientAuth"),
                                   ("renewed", "ca", "serverAuth")):
        key(name)
        run("req", "-new", "-key", f"{name}.key", "-subj", f"/CN={name}", "-out", f"{name}.csr")
        (folder / f"{name}.ext").write_text(
            "subjectAltName=DNS:localhost,IP:127.0.0.1\nbasicConstraints=CA:FALSE\n"
            f"extendedKeyUsage={usage}\n")
        run("x509", "-req", "-in", f"{name}.csr", "-CA", f"{authority}.pem",
            "-CAkey", f"{authority}.key", "-CAcreateserial", "-days", str(days),
            "-extfile", f"{name}.ext", "-out", f"{name}.pem")
    for path in folder.iterdir():
        os.chmod(path, 0o600)
    return folder
