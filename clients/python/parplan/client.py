"""A client of a parplan server.

    with parplan.Client("planner:9477", tls=parplan.Tls(ca_file="ca.pem")) as client:
        made = client.create_plan(spec, job_id="4711", on_progress=print)
        plan = client.verified(made, trust, job_id="4711")

Requests are messages of `parplan.wire.messages` or dictionaries in the JSON form of the contract
(docs/files.md), answers are messages. Errors are those of `parplan.errors`, by the reason of the
server; one without a reason, such as a deadline that passed, is an `Error` with its code. A call
that finds no server, or one that ends, is repeated at most 3 times within its timeout where that
does no harm; what it creates has a request id. Threads may share a client.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Union

from parplan.channel import Channel, Tls
from parplan.envelope import SignedPlan, TrustBundle
from parplan.errors import Error
from parplan.plan import Plan
from parplan.wire import json_file, messages

Content = Union[Mapping[str, Any], Any]
_PIECE_BYTES = 1 << 20


class Client:
    """See the head of the file. Also a context manager, which closes it."""

    def __init__(self, target: str, *, tls: Tls | None = None,
                 token_file: str | os.PathLike[str] = "", timeout: float = 60.0) -> None:
        """`target` is `HOST:PORT`, `unix:PATH`, or `dns:///NAME:PORT` for replicas; `timeout` is
        the time of a call with all its attempts, in seconds, unless the call has one of its own.
        `token_file` has a token of a Kubernetes service account, which each call sends over TLS or
        a Unix socket; it is read anew for each. Raises SpecInvalid naming the setting; whether
        there is a server is known at the first call."""
        self._channel = Channel(target, tls, token_file)
        self._timeout = timeout

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the connection; calls under way fail."""
        self._channel.close()

    def call(self, service: str, method: str, request: Content, *, timeout: float | None = None,
             is_idempotent: bool = False) -> Any:
        """Calls any method with one request and one answer, also one that has no method here. It
        is only repeated if `is_idempotent`."""
        descriptor = messages.service(service).FindMethodByName(method)
        message = _message(request, descriptor.input_type.name, "request")
        return self._channel.unary(service, method, message, self._limit(timeout), is_idempotent)

    # Plans.

    def capabilities(self) -> Any:
        """Returns the `Capabilities` of the server: versions, planners, limits, public keys."""
        return self._unary("PlanService", "GetCapabilities", {})

    def shape_plan(self, request: Content, *, timeout: float | None = None) -> Any:
        """Returns the `ShapePlanResponse`: which devices a job can and should request."""
        return self._unary("PlanService", "ShapePlan", request, timeout)

    def create_plan(self, spec: Content, *, job_id: str = "", request_id: str = "",
                    time_to_live_seconds: float = 0,
                    on_progress: Callable[[Any], None] | None = None,
                    timeout: float | None = None) -> Any:
        """Returns the `Plan` of the contract for a `PlanSpec`: searched, checked and signed.
        `on_progress` gets each `SearchProgress` on this thread; a search that is started again
        may begin from zero. `request_id` is a UUID, by default a new one."""
        question = _message(spec, "PlanSpec", "spec")
        request = messages.CreatePlanRequest(
            parent=f"clusters/{question.topology.cluster}", job_id=job_id,
            request_id=request_id or str(uuid.uuid4()))
        request.spec.CopyFrom(question)
        if time_to_live_seconds:
            nanos = round(time_to_live_seconds * 1_000_000_000)
            request.time_to_live.seconds, request.time_to_live.nanos = divmod(nanos, 1_000_000_000)

        def last_message(stream: Iterator[Any]) -> Any:
            for answer in stream:
                if answer.HasField("plan"):
                    return answer.plan
                if on_progress is not None:
                    on_progress(answer.progress)
            raise Error("the server ended the search with neither a plan nor an error",
                        code="INTERNAL")

        return self._channel.answers("PlanService", "SearchPlan", request, self._limit(timeout),
                                     last_message)

    def verified(self, made: Any, trust: bytes | str | TrustBundle, *, job_id: str = "",
                 node_name: str = "") -> Plan:
        """Returns the verified plan of a `Plan` of the contract with its spec, as `create_plan` and
        `get_plan` return it. The keys in `trust` come from the owner of the cluster, never from
        the server. Errors are those of `Plan.load`."""
        bundle = trust if isinstance(trust, TrustBundle) else TrustBundle.from_json(trust)
        return Plan.verify(SignedPlan.from_message(made.signed_plan), bundle, made.spec.model,
                           made.spec.topology, job_id=job_id, node_name=node_name)

    def get_plan(self, name: str) -> Any:
        """Returns the stored `Plan` named `clusters/{cluster}/plans/{plan}`."""
        return self._unary("PlanService", "GetPlan", {"name": name})

    def list_plans(self, cluster: str, *, page_size: int = 0) -> Iterator[Any]:
        """Yields the plans of a cluster, newest first, without their specs, page by page."""
        return self._pages("PlanService", "ListPlans", f"clusters/{cluster}", page_size, "plans")

    def export_plan(self, plan: Any, target: str, *, model: Content | None = None,
                    timeout: float | None = None) -> dict[str, bytes]:
        """Returns the files that `target` reads, such as "megatron", by their names (docs/exports.md
        has the programs). `plan` is the name of a plan of this server, or a `SignedPlan` of the
        contract with the `ModelSpec` it was made for. Raises SpecInvalid with the layer and the
        reason if the program cannot run the plan exactly."""
        request = messages.ExportPlanRequest(target=target)
        if isinstance(plan, str):
            request.name = plan
        else:
            request.signed_plan.CopyFrom(plan)
        if model is not None:
            request.model.CopyFrom(_message(model, "ModelSpec", "model"))
        answer = self._unary("PlanService", "ExportPlan", request, timeout)
        files = {file.name: bytes(file.content) for file in answer.files}
        for name in files:
            # A caller writes them to a folder of its own.
            if name in ("", ".", "..") or "/" in name or "\0" in name:
                raise Error(f"the server sent a file named {name!r}, which is not a plain name",
                            code="INTERNAL")
        return files

    # Profiles.

    def upload_profile(self, cluster: str, node: str, profile: Content, *, request_id: str = "",
                       timeout: float | None = None) -> Any:
        """Stores a whole `Profile` of a node and returns it as stored."""
        message = _message(profile, "Profile", "profile")
        header = messages.UploadHeader(parent=f"clusters/{cluster}/nodes/{node}",
                                       request_id=request_id or str(uuid.uuid4()))
        for field in header.DESCRIPTOR.fields:
            if field.name in ("parent", "request_id") or not _is_set(message, field.name):
                continue
            if field.message_type is not None:
                getattr(header, field.name).CopyFrom(getattr(message, field.name))
            else:
                setattr(header, field.name, getattr(message, field.name))

        def pieces() -> Iterator[Any]:
            yield messages.UploadProfileRequest(header=header)
            yield from _measurements(message)

        return self._channel.requests("ProfileService", "UploadProfile", pieces,
                                      self._limit(timeout))

    def get_profile(self, name: str) -> Any:
        """Returns the stored `Profile` of this name."""
        return self._unary("ProfileService", "GetProfile", {"name": name})

    def list_profiles(self, cluster: str, node: str = "-", *, page_size: int = 0) -> Iterator[Any]:
        """Yields the profiles of a node, or of all nodes of a cluster."""
        return self._pages("ProfileService", "ListProfiles", f"clusters/{cluster}/nodes/{node}",
                           page_size, "profiles")

    def delete_profile(self, name: str) -> None:
        """Deletes a profile. Never repeated: a second attempt could find it gone."""
        self.call("ProfileService", "DeleteProfile", {"name": name})

    # Executions.

    def create_execution(self, plan: str, *, request_id: str = "") -> Any:
        """Returns the new `Execution` of a plan, by the plan's name."""
        return self._unary("ExecutionService", "CreateExecution", {
            "parent": plan, "request_id": request_id or str(uuid.uuid4())})

    def report_windows(self, execution: str, windows: Iterable[Content], *,
                       timeout: float | None = None) -> Any:
        """Reports `MeasuredWindow`s, at least one, and returns the `ReportMetricsResponse`. Windows
        that had arrived before a stream broke count as duplicates."""
        kept = [_message(window, "MeasuredWindow", "window") for window in windows]

        def pieces() -> Iterator[Any]:
            for window in kept:
                yield messages.ReportMetricsRequest(execution=execution, window=window)

        return self._channel.requests("ExecutionService", "ReportMetrics", pieces,
                                      self._limit(timeout))

    def complete_execution(self, name: str) -> Any:
        """Closes an execution that ended well, and returns it."""
        return self._unary("ExecutionService", "CompleteExecution", {"name": name})

    def fail_execution(self, name: str, reason: str) -> Any:
        """Closes an execution that failed, with the reason, and returns it."""
        return self._unary("ExecutionService", "FailExecution", {"name": name, "reason": reason})

    def get_execution(self, name: str) -> Any:
        """Returns the `Execution` of this name."""
        return self._unary("ExecutionService", "GetExecution", {"name": name})

    def list_executions(self, plan: str, *, page_size: int = 0) -> Iterator[Any]:
        """Yields the executions of a plan, by the plan's name."""
        return self._pages("ExecutionService", "ListExecutions", plan, page_size, "executions")

    def _limit(self, timeout: float | None) -> float:
        return self._timeout if timeout is None else timeout

    def _unary(self, service: str, method: str, request: Content,
               timeout: float | None = None) -> Any:
        return self.call(service, method, request, timeout=timeout, is_idempotent=True)

    def _pages(self, service: str, method: str, parent: str, page_size: int,
               field: str) -> Iterator[Any]:
        request = {"parent": parent, "page_size": page_size}
        while True:
            page = self._unary(service, method, request)
            yield from getattr(page, field)
            if not page.next_page_token:
                return
            request["page_token"] = page.next_page_token


def _message(content: Content, name: str, field: str) -> Any:
    """Returns the message of `content`, a message or a dictionary."""
    return (json_file.from_dict(dict(content), name, field) if isinstance(content, Mapping)
            else content)


def _is_set(message: Any, field: str) -> bool:
    return any(descriptor.name == field for descriptor, _ in message.ListFields())


def _measurements(profile: Any) -> Iterator[Any]:
    """Yields the measurements of a profile in pieces of about a megabyte."""
    piece, size = messages.ProfilePiece(), 0
    for field in piece.DESCRIPTOR.fields:
        for one in getattr(profile, field.name):
            getattr(piece, field.name).add().CopyFrom(one)
            size += one.ByteSize()
            if size >= _PIECE_BYTES:
                yield messages.UploadProfileRequest(measurements=piece)
                piece, size = messages.ProfilePiece(), 0
    if size:
        yield messages.UploadProfileRequest(measurements=piece)
