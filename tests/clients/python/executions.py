"""A server of executions for tests, which can be told to fail."""

from __future__ import annotations

import threading
from concurrent import futures

import grpc

from parplan.wire import messages


def status_of(code: grpc.StatusCode, reason: str, retry_seconds: float | None = None) -> bytes:
    """Returns the details of an error as server/rpc/status_to_grpc.cc writes them."""
    made = messages.RpcStatus(code=code.value[0], message="not now")
    made.details.add(type_url="type.googleapis.com/google.rpc.ErrorInfo",
                     value=messages.ErrorInfo(reason=reason, domain="parplan").SerializeToString())
    if retry_seconds is not None:
        retry = messages.RetryInfo()
        retry.retry_duration.seconds = int(retry_seconds)
        retry.retry_duration.nanos = round(retry_seconds % 1 * 1e9)
        made.details.add(type_url="type.googleapis.com/google.rpc.RetryInfo",
                         value=retry.SerializeToString())
    return made.SerializeToString()


class Executions:
    """Takes windows under an address. A context manager."""

    def __init__(self, address: str, failures: list[tuple] = ()) -> None:
        """`failures` are methods with the codes of their next calls, in order; after the code may
        stand the name of an `ErrorReason`, and the seconds of a `RetryInfo`."""
        self.windows: list[object] = []
        # Calls that failed, and windows in each stream of windows, whether it failed or not.
        self.failed: list[str] = []
        self.streams: list[list[int]] = []
        self.request_ids: set[str] = set()
        self.start_times: set[int] = set()
        self.ended: list[str] = []
        self._failures = list(failures)
        self._lock = threading.Lock()
        self._server = grpc.server(futures.ThreadPoolExecutor(4))
        self._server.add_generic_rpc_handlers([self])
        self.port = self._server.add_insecure_port(address)
        self._server.start()

    def __enter__(self) -> Executions:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.stop(None)

    def service(self, details):
        method = details.method.rpartition("/")[2]
        found = {"CreateExecution": self._create, "CompleteExecution": self._complete,
                 "FailExecution": self._fail}.get(method)
        if found is not None:
            request = messages.message_class(f"parplan.v1.{method}Request")
            return grpc.unary_unary_rpc_method_handler(
                found, request.FromString, messages.Execution.SerializeToString)
        if method == "ReportMetrics":
            return grpc.stream_unary_rpc_method_handler(
                self._report, messages.ReportMetricsRequest.FromString,
                messages.ReportMetricsResponse.SerializeToString)
        return None

    def _may_fail(self, method: str, context: object) -> None:
        with self._lock:
            if not self._failures or self._failures[0][0] != method:
                return
            _, code, *details = self._failures.pop(0)
            self.failed.append(method)
        if details:
            context.set_trailing_metadata(
                (("grpc-status-details-bin", status_of(code, *details)),))
        context.abort(code, "not now")

    def _create(self, request, context):
        with self._lock:
            self.start_times.add(request.start_time.seconds)
        self._may_fail("CreateExecution", context)
        self.request_ids.add(request.request_id)
        return messages.Execution(name=f"{request.parent}/executions/e1")

    def _report(self, requests, context):
        windows = [one.window for one in requests]
        self.streams.append([one.first_step for one in windows])
        self._may_fail("ReportMetrics", context)
        self.windows += windows
        return messages.ReportMetricsResponse(stored_window_count=len(windows))

    def _complete(self, request, context):
        self._may_fail("CompleteExecution", context)
        self.ended.append("")
        return messages.Execution(name=request.name)

    def _fail(self, request, context):
        self.ended.append(request.reason or "?")
        return messages.Execution(name=request.name)
