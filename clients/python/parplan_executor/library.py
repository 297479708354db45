"""The C interface as Python values."""

import ctypes
import dataclasses
import enum

_ABI = 1
_REFUSED = 2


class Error(Exception):
    """An error of the library. `reason` is that of ErrorInfo, or empty."""

    def __init__(self, code, reason, text):
        super().__init__(f"{reason}: {text}" if reason else text)
        self.code = code
        self.reason = reason


class Refused(Error):
    """The plan must not be run here."""


class Sharding(enum.IntEnum):
    NONE = 1
    OPTIMIZER = 2
    GRADIENTS = 3
    PARAMETERS = 4


class Recompute(enum.IntEnum):
    NONE = 1
    FULL = 2
    SELECTIVE = 3


@dataclasses.dataclass(frozen=True)
class Group:
    """Ranks of the job that communicate with each other, in order."""
    purpose: str
    ranks: tuple


@dataclasses.dataclass(frozen=True)
class Layer:
    """The strategy of a layer on the ranks first_rank to first_rank + rank_count - 1."""
    stage_index: int
    first_rank: int
    rank_count: int
    tensor_parallel_degree: int
    data_parallel_degree: int
    context_parallel_degree: int
    sharding: Sharding
    recompute: Recompute
    context_kind: int
    sequence_parallel: bool
    tensor_innermost: bool


@dataclasses.dataclass(frozen=True)
class LayerGroups:
    """The groups of a layer on one rank; None if the rank is alone."""
    tensor: Group
    context: Group
    gradient: Group


@dataclasses.dataclass(frozen=True)
class Pass:
    """One pass over the layers of a stage."""
    stage_index: int
    micro_batch: int
    is_backward: bool


def _struct(name, fields):
    return type(name, (ctypes.Structure,), {"_fields_": [("size", ctypes.c_size_t)] + fields})


class _Error(ctypes.Structure):
    _fields_ = [("code", ctypes.c_int32), ("reason", ctypes.c_char * 64),
                ("text", ctypes.c_char * 1024)]


class _Text(ctypes.Structure):
    _fields_ = [("data", ctypes.c_char_p), ("size", ctypes.c_size_t)]


_Source = _struct("_Source", [("envelope", _Text), ("trust", _Text), ("model", _Text),
                              ("topology", _Text), ("job_id", ctypes.c_char_p),
                              ("node_name", ctypes.c_char_p), ("time", ctypes.c_int64)])
_Info = _struct("_Info", [("name", ctypes.c_char_p), ("device_count", ctypes.c_int32),
                          ("layer_count", ctypes.c_int32),
                          ("pipeline_parallel_degree", ctypes.c_int32),
                          ("virtual_stage_count", ctypes.c_int32),
                          ("global_batch_size", ctypes.c_int64),
                          ("micro_batch_count", ctypes.c_int64), ("schedule", ctypes.c_int32),
                          ("predicted_step_seconds", ctypes.c_double),
                          ("predicted_peak_memory_bytes", ctypes.c_int64),
                          ("expire_time", ctypes.c_int64)])
_Layer = _struct("_Layer", [(name, ctypes.c_int32) for name in (
    "stage_index", "first_rank", "rank_count", "tensor_parallel_degree", "data_parallel_degree",
    "context_parallel_degree", "sharding", "recompute", "context_kind", "sequence_parallel",
    "tensor_innermost")])
_Group = _struct("_Group", [("purpose", ctypes.c_char_p),
                            ("ranks", ctypes.POINTER(ctypes.c_int32)),
                            ("rank_count", ctypes.c_int32)])
_LayerGroups = _struct("_LayerGroups", [(name, ctypes.c_int32)
                                        for name in ("tensor", "context", "gradient")])
_Server = _struct("_Server", [("target", ctypes.c_char_p), ("use_tls", ctypes.c_int32),
                              ("ca_file", ctypes.c_char_p), ("certificate_file", ctypes.c_char_p),
                              ("key_file", ctypes.c_char_p), ("server_name", ctypes.c_char_p),
                              ("token_file", ctypes.c_char_p)])
_Window = _struct("_Window", [("rank", ctypes.c_int32), ("step_count", ctypes.c_int32),
                              ("first_step", ctypes.c_int64),
                              ("median_step_seconds", ctypes.c_double),
                              ("peak_memory_bytes", ctypes.c_int64)])
_Pass = _struct("_Pass", [("stage_index", ctypes.c_int32), ("is_backward", ctypes.c_int32),
                          ("micro_batch", ctypes.c_int64)])


def _new(struct):
    value = struct()
    value.size = ctypes.sizeof(struct)
    return value


class _Library:
    """Calls functions by name and raises their errors."""

    def __init__(self, path):
        self._functions = ctypes.CDLL(path)
        abi = self._functions.parplan_executor_abi()
        if abi != _ABI:
            raise Error(0, "", f"{path} has ABI {abi}, this package needs {_ABI}")

    def call(self, name, *arguments):
        error = _Error()
        code = getattr(self._functions, name)(*arguments, ctypes.byref(error))
        if code != 0:
            kind = Refused if code == _REFUSED else Error
            raise kind(code, error.reason.decode(), error.text.decode(errors="replace"))

    def free(self, name, handle):
        getattr(self._functions, name)(handle)

    def count(self, name, handle):
        value = ctypes.c_int32()
        self.call(name, handle, ctypes.byref(value))
        return value.value

    def group(self, name, handle, index):
        group = _new(_Group)
        self.call(name, handle, ctypes.c_int32(index), ctypes.byref(group))
        return Group(group.purpose.decode(), tuple(group.ranks[:group.rank_count]))


def load_library(path="libparplan_executor.so.1"):
    """Loads the library. OSError if it cannot be loaded, Error if it has another ABI."""
    return _Library(path)


class Plan:
    """A verified plan. Attributes are those of parplan_plan_info."""

    def __init__(self, library, envelope, trust, model, topology, job_id="", node_name="", time=0):
        """Verifies the plan. `envelope` (DSSE, JSON), `trust` (JWKS), `model` and `topology` are
        contents of files, as bytes. `job_id` and `node_name`, unless empty, must be those the plan
        is for; `time` is in seconds since 1970, 0 for now. Raises Refused, or Error for a file
        that breaks a rule."""
        self._library = library
        self._handle = ctypes.c_void_p()
        source = _new(_Source)
        source.envelope = _Text(envelope, len(envelope))
        source.trust = _Text(trust, len(trust))
        source.model = _Text(model, len(model))
        source.topology = _Text(topology, len(topology))
        source.job_id = job_id.encode()
        source.node_name = node_name.encode()
        source.time = time
        library.call("parplan_plan_load", ctypes.byref(source), ctypes.byref(self._handle))
        info = _new(_Info)
        library.call("parplan_plan_get_info", self._handle, ctypes.byref(info))
        self.name = info.name.decode()
        self.device_count = info.device_count
        self.layer_count = info.layer_count
        self.pipeline_parallel_degree = info.pipeline_parallel_degree
        self.virtual_stage_count = info.virtual_stage_count
        self.global_batch_size = info.global_batch_size
        self.micro_batch_count = info.micro_batch_count
        self.predicted_step_seconds = info.predicted_step_seconds
        self.predicted_peak_memory_bytes = info.predicted_peak_memory_bytes
        self.expire_time = info.expire_time

    def __del__(self):
        if getattr(self, "_handle", None):
            self._library.free("parplan_plan_free", self._handle)

    def layer(self, index):
        """Returns the Layer of a number from 0. Raises Error if there is none."""
        layer = _new(_Layer)
        self._library.call("parplan_plan_get_layer", self._handle, ctypes.c_int32(index),
                           ctypes.byref(layer))
        values = {name: getattr(layer, name) for name, *_ in _Layer._fields_ if name != "size"}
        values["sharding"] = Sharding(values["sharding"])
        values["recompute"] = Recompute(values["recompute"])
        values["sequence_parallel"] = bool(values["sequence_parallel"])
        values["tensor_innermost"] = bool(values["tensor_innermost"])
        return Layer(**values)

    def groups(self):
        """Returns the groups of all ranks, in an order in which all can make them together."""
        count = self._library.count("parplan_plan_group_count", self._handle)
        return [self._library.group("parplan_plan_get_group", self._handle, index)
                for index in range(count)]

    def rank(self, rank):
        """Returns the Rank of a number from 0. Raises Error if there is none."""
        return Rank(self, self._library, self._handle, rank)

    def report(self, target, **options):
        """Opens a Report of a job under this plan; `options` are those of Report."""
        return Report(self, self._library, self._handle, target, **options)


class Rank:
    """The groups and passes of one rank."""

    def __init__(self, plan, library, plan_handle, rank):
        self._plan = plan  # Keeps the plan's handle alive.
        self._library = library
        self._handle = ctypes.c_void_p()
        self.rank = rank
        library.call("parplan_rank_open", plan_handle, ctypes.c_int32(rank),
                     ctypes.byref(self._handle))

    def __del__(self):
        if getattr(self, "_handle", None):
            self._library.free("parplan_rank_free", self._handle)

    def groups(self):
        """Returns the groups that this rank is in."""
        count = self._library.count("parplan_rank_group_count", self._handle)
        return [self._library.group("parplan_rank_get_group", self._handle, index)
                for index in range(count)]

    def layer_groups(self, layer):
        """Returns the LayerGroups of a layer. Raises Error if the layer is on other ranks."""
        found = _new(_LayerGroups)
        self._library.call("parplan_rank_get_layer_groups", self._handle, ctypes.c_int32(layer),
                           ctypes.byref(found))

        def of(index):
            if index < 0:
                return None
            return self._library.group("parplan_rank_get_group", self._handle, index)

        return LayerGroups(of(found.tensor), of(found.context), of(found.gradient))

    def passes(self):
        """Returns the passes of a step, in order."""
        count = self._library.count("parplan_rank_pass_count", self._handle)
        passes = []
        for index in range(count):
            one = _new(_Pass)
            self._library.call("parplan_rank_get_pass", self._handle, ctypes.c_int32(index),
                               ctypes.byref(one))
            passes.append(Pass(one.stage_index, one.micro_batch, bool(one.is_backward)))
        return passes


class Report:
    """Reports a job's measurements to a server in the background: adding never waits, and an
    unreachable server costs windows, not time. One process of the job has one. As a context manager
    it reports at the end whether the block raised an exception."""

    def __init__(self, plan, library, plan_handle, target, *, use_tls=False, ca_file="",
                 certificate_file="", key_file="", server_name="", token_file=""):
        """`target`: HOST:PORT, dns:///NAME:PORT for replicas, unix:PATH for a pod's sidecar.
        Certificates, their authorities and the key are files in PEM; any of them enables TLS.
        `token_file` has a token of a Kubernetes service account, which each call sends over TLS or
        to a unix:PATH only; it is read anew each time. Raises Error for a file that cannot be
        used."""
        self._plan = plan  # Keeps the plan's handle alive.
        self._library = library
        self._handle = ctypes.c_void_p()
        server = _new(_Server)
        server.target = target.encode()
        server.use_tls = int(use_tls)
        server.ca_file = str(ca_file).encode()
        server.certificate_file = str(certificate_file).encode()
        server.key_file = str(key_file).encode()
        server.server_name = server_name.encode()
        server.token_file = str(token_file).encode()
        library.call("parplan_report_open_with", plan_handle, ctypes.byref(server),
                     ctypes.byref(self._handle))

    def __enter__(self):
        return self

    def __exit__(self, kind, value, _):
        self.close(None if kind is None else f"{kind.__name__}: {value}")

    def __del__(self):
        if getattr(self, "_handle", None):
            self.close("the job did not say how it ended")

    def add(self, rank, first_step, step_count, median_step_seconds, peak_memory_bytes=0):
        """Adds what one rank measured over some steps, which are counted from 0; a memory of 0 is
        unknown."""
        window = _new(_Window)
        window.rank = rank
        window.first_step = first_step
        window.step_count = step_count
        window.median_step_seconds = median_step_seconds
        window.peak_memory_bytes = peak_memory_bytes
        self._library.call("parplan_report_add", self._handle, ctypes.byref(window))

    def close(self, failure=None):
        """Reports how the job ended, `failure` being the reason if it failed. Takes 10 s at most.
        Returns the number of windows that the server never got. A second call does nothing."""
        if not self._handle:
            return 0
        handle, self._handle = self._handle, None
        lost = ctypes.c_int64()
        self._library.call("parplan_report_close", handle,
                           None if failure is None else failure.encode(), ctypes.byref(lost))
        return lost.value
