"""Calls to a server: channels, deadlines, safe retries, and errors of the contract."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import pathlib
import random
import re
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import grpc
from google.protobuf.message import DecodeError

from parplan.errors import Error, field_error, make_error
from parplan.wire import messages

_Answer = TypeVar("_Answer")

# Repeated are the calls of a server that is not there and of one that ends: a call that races its
# shutdown gets CANCELLED. The numbers are those of clients/cpp/retry.h. A pause is at least the
# `RetryInfo` of the server; a call whose time ends before that is not repeated.
_ATTEMPTS = 4
_FIRST_PAUSE_SECONDS = 0.1
_LONGEST_PAUSE_SECONDS = 2.0
_PAUSE_FACTOR = 3
_RETRIED = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED)

_ERROR_INFO = "type.googleapis.com/google.rpc.ErrorInfo"
_RETRY_INFO = "type.googleapis.com/google.rpc.RetryInfo"

_MAX_RECEIVE_BYTES = 64 << 20
_MAX_METADATA_BYTES = 64 << 10
# Tokens of Kubernetes have some 1,000 characters. The number is that of
# clients/cpp/bearer_token.cc.
_MAX_TOKEN_BYTES = 16 << 10
_SERVICE_CONFIG = {"loadBalancingConfig": [{"round_robin": {}}],
                   "healthCheckConfig": {"serviceName": "parplan.v1.PlanService"}}


@dataclasses.dataclass(frozen=True)
class Tls:
    """Files in PEM: authorities to trust, by default the system's; a client certificate with its
    key, both or none; and the name in the server's certificate, if it is not that of the target."""
    ca_file: str | os.PathLike[str] = ""
    certificate_file: str | os.PathLike[str] = ""
    key_file: str | os.PathLike[str] = ""
    server_name: str = ""


class Channel:
    """A connection to a server or its replicas, made at the first call. Threads may share it."""

    def __init__(self, target: str, tls: Tls | None,
                 token_file: str | os.PathLike[str] = "") -> None:
        """`target` is `HOST:PORT`, `unix:PATH`, `dns:///NAME:PORT` or `ipv4:A:P,B:P`. Each call
        sends the token of a Kubernetes service account in `token_file`, which is read anew each
        time. Raises SpecInvalid for an empty target, a certificate without its key, a file that
        cannot be read, and a token over plain TCP."""
        if not target:
            raise field_error("SPEC_INVALID", "target", "is empty; write HOST:PORT")
        # gRPC takes ports modulo 65536.
        ports = re.findall(r":(\d+)(?=,|$)", "" if target.startswith("unix") else target)
        if any(int(port) > 65535 for port in ports):
            raise field_error("SPEC_INVALID", "target", "has a port above 65535")
        options: list[tuple[str, Any]] = [
            ("grpc.service_config", json.dumps(_SERVICE_CONFIG)),
            ("grpc.max_receive_message_length", _MAX_RECEIVE_BYTES),
            ("grpc.max_metadata_size", _MAX_METADATA_BYTES),
            # Plans never travel through a proxy meant for the web.
            ("grpc.enable_http_proxy", 0),
            ("grpc.use_local_subchannel_pool", 1),
        ]
        if token_file:
            if tls is None and not target.startswith("unix:"):
                raise field_error("SPEC_INVALID", "token_file",
                                  "a token is sent over TLS or a Unix socket only; give `tls`")
            _read_token(token_file)
        if tls is None:
            if token_file:
                local = grpc.local_channel_credentials(grpc.LocalConnectionType.UDS)
                self._channel = grpc.secure_channel(target, _with_token(local, token_file), options)
            else:
                self._channel = grpc.insecure_channel(target, options)
            return
        if bool(tls.certificate_file) != bool(tls.key_file):
            raise field_error("SPEC_INVALID", "certificate_file",
                              "a certificate and its key go together; give both or none")
        if tls.server_name:
            options.append(("grpc.ssl_target_name_override", tls.server_name))
        credentials = grpc.ssl_channel_credentials(
            _read("ca_file", tls.ca_file), _read("key_file", tls.key_file),
            _read("certificate_file", tls.certificate_file))
        if token_file:
            credentials = _with_token(credentials, token_file)
        self._channel = grpc.secure_channel(target, credentials, options)

    def close(self) -> None:
        self._channel.close()

    def unary(self, service: str, method: str, request: Any, timeout: float,
              is_idempotent: bool = True) -> Any:
        """Returns the answer of a method. Raises the error of the server's reason."""
        call = self._method(service, method)
        return _retried(lambda left: call(request, timeout=left, wait_for_ready=False), timeout,
                        is_idempotent)

    def answers(self, service: str, method: str, request: Any, timeout: float,
                use: Callable[[Iterator[Any]], _Answer]) -> _Answer:
        """Calls a method that streams answers and returns what `use` makes of them. A stream that
        breaks is started again, and `use` with it."""
        call = self._method(service, method)
        return _retried(lambda left: use(iter(call(request, timeout=left))), timeout, True)

    def requests(self, service: str, method: str, pieces: Callable[[], Iterable[Any]],
                 timeout: float) -> Any:
        """Calls a method that takes a stream of requests. A stream that breaks is started again
        with new `pieces`."""
        call = self._method(service, method)
        return _retried(lambda left: call(iter(pieces()), timeout=left), timeout, True)

    def _method(self, service: str, method: str) -> Any:
        found = messages.service(service).FindMethodByName(method)
        name = f"/{messages.PACKAGE}.{service}/{method}"
        kinds = {(False, False): "unary_unary", (False, True): "unary_stream",
                 (True, False): "stream_unary"}
        request_class = messages.message_class(found.input_type.full_name)
        answer_class = messages.message_class(found.output_type.full_name)
        make = getattr(self._channel, kinds[found.client_streaming, found.server_streaming])
        return make(name, request_serializer=request_class.SerializeToString,
                    response_deserializer=answer_class.FromString)


def _read(field: str, path: str | os.PathLike[str]) -> bytes | None:
    if not path:
        return None
    try:
        return pathlib.Path(path).read_bytes()
    except OSError as error:
        raise field_error("SPEC_INVALID", field, f"cannot be read: {error}") from None


def _open_regular(path: str, flags: int) -> int:
    """Opens a regular file, and waits for no other: a pipe might have no writer."""
    descriptor = os.open(path, flags | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "is no regular file", path)
    return descriptor


def _read_token(path: str | os.PathLike[str]) -> str:
    try:
        with open(path, "rb", opener=_open_regular) as file:
            text = file.read(_MAX_TOKEN_BYTES + 1)
    except OSError as error:
        raise field_error("SPEC_INVALID", "token_file", f"cannot be read: {error}") from None
    token = text.strip()
    if not token or len(text) > _MAX_TOKEN_BYTES or any(not 33 <= byte <= 126 for byte in token):
        raise field_error("SPEC_INVALID", "token_file",
                          f"`{os.fspath(path)}` holds no token, which is one word of ASCII")
    return token.decode("ascii")


class _BearerToken(grpc.AuthMetadataPlugin):  # type: ignore[misc,unused-ignore]
    """Adds `authorization: Bearer TOKEN` to each call. The file is read anew, since Kubernetes
    replaces it long before the token expires."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = path

    def __call__(self, context: grpc.AuthMetadataContext,
                 callback: grpc.AuthMetadataPluginCallback) -> None:
        try:
            token = _read_token(self._path)
        except Error as error:
            callback((), error)
            return
        callback((("authorization", f"Bearer {token}"),), None)


def _with_token(credentials: grpc.ChannelCredentials,
                path: str | os.PathLike[str]) -> grpc.ChannelCredentials:
    return grpc.composite_channel_credentials(
        credentials, grpc.metadata_call_credentials(_BearerToken(path)))


def _retried(attempt: Callable[[float], _Answer], timeout: float, is_idempotent: bool) -> _Answer:
    end = time.monotonic() + timeout
    pause = _FIRST_PAUSE_SECONDS
    earlier: Error | None = None
    for number in range(1, _ATTEMPTS + 1):
        try:
            return attempt(max(end - time.monotonic(), 0.0))
        except grpc.RpcError as error:
            found = error_of(error)
            wait = max(pause * random.uniform(0.8, 1.2), found.retry_seconds or 0.0)
            if (not is_idempotent or number == _ATTEMPTS or error.code() not in _RETRIED
                    or time.monotonic() + wait >= end):
                raise _with_earlier_cause(found, earlier) from None
            earlier = found
            time.sleep(wait)
            pause = min(pause * _PAUSE_FACTOR, _LONGEST_PAUSE_SECONDS)
    raise AssertionError("the last attempt returns or raises")


def _with_earlier_cause(error: Error, earlier: Error | None) -> Error:
    """Returns the error, and if it is a deadline that passed, with what the server said in the
    attempt before, which explains more."""
    if earlier is None or error.code != "DEADLINE_EXCEEDED":
        return error
    cause = error if error.reason else earlier
    return make_error(error.code, cause.reason,
                      f"{error.message}; the attempt before ended with {earlier.code}: "
                      f"{earlier.message}", cause.metadata, cause.retry_seconds)


def error_of(error: Any) -> Error:
    """Returns the error of a failed call: of the class of its reason if the server gave one."""
    code, message = error.code().name, error.details() or ""
    details = dict(error.trailing_metadata() or ()).get("grpc-status-details-bin")
    reason, metadata, retry_seconds = "", {}, None
    if details is not None:
        try:
            for detail in messages.RpcStatus.FromString(details).details:
                if detail.type_url == _ERROR_INFO and not reason:
                    info = messages.ErrorInfo.FromString(detail.value)
                    reason, metadata = info.reason, dict(info.metadata)
                elif detail.type_url == _RETRY_INFO:
                    delay = messages.RetryInfo.FromString(detail.value).retry_duration
                    retry_seconds = max(delay.seconds + delay.nanos / 1e9, 0.0)
        except DecodeError:
            # A proxy may cut the details; code and message are as they were.
            pass
    return make_error(code, reason, message or code, metadata, retry_seconds)
