"""An HTTP/2 client that keeps no rules but those it is told to: frames of RFC 9113 and headers
of RFC 7541 without compression, for attacks that no library lets one write."""
import socket
import ssl
import struct

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
CONTINUATION = 9
END_STREAM, END_HEADERS, ACK = 1, 4, 1


def connect(target, timeout):
    """A connection to a port of this machine, or to a Unix socket if `target` is its path."""
    if isinstance(target, int):
        return socket.create_connection(("127.0.0.1", target), timeout)
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(timeout)
    try:
        connection.connect(str(target))
    except OSError:
        connection.close()
        raise
    return connection


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def _text(value):
    value = value.encode()
    # Seven bits of length, then bytes of seven bits each.
    if len(value) < 127:
        return bytes([len(value)]) + value
    rest, length = len(value) - 127, b"\x7f"
    while rest >= 128:
        length += bytes([rest % 128 + 128])
        rest //= 128
    return length + bytes([rest]) + value


def headers(method, **more):
    """The block of headers of a gRPC call, each a literal that is not indexed."""
    fields = {":method": "POST", ":scheme": "http", ":path": method, ":authority": "localhost",
              "te": "trailers", "content-type": "application/grpc"}
    fields.update({name.replace("_", "-"): value for name, value in more.items()})
    return b"".join(b"\0" + _text(name) + _text(value) for name, value in fields.items())


class Connection:
    def __init__(self, target, timeout=60, context=None):
        self.socket = connect(target, timeout)
        if context is not None:
            self.socket = context.wrap_socket(self.socket, server_hostname="localhost")
        self.timeout = timeout
        self.buffer = b""
        self.window = 65535
        self.stream_windows = {}
        self.initial_window = 65535
        # By stream: the status of gRPC as far as it is plain in the headers, None if unknown.
        self.ended = {}

    def close(self):
        self.socket.close()

    def begin(self):
        self.socket.sendall(PREFACE + frame(SETTINGS, 0, 0))

    def open(self, stream, method, **more):
        self.stream_windows[stream] = self.initial_window
        self.socket.sendall(frame(HEADERS, END_HEADERS, stream, headers(method, **more)))

    def send(self, stream, message, end=False, compressed=False):
        """Sends one message of gRPC as the windows allow. Returns whether all of it went."""
        data = struct.pack(">BI", compressed, len(message)) + message
        at = 0
        while at < len(data):
            room = min(self.window, self.stream_windows[stream], 16384, len(data) - at)
            if room <= 0:
                if not self.read() or stream in self.ended:
                    return False
                continue
            last = end and at + room == len(data)
            try:
                self.socket.sendall(frame(DATA, END_STREAM if last else 0, stream,
                                          data[at:at + room]))
            except OSError:
                return False
            at += room
            self.window -= room
            self.stream_windows[stream] -= room
        return True

    def read(self):
        """Waits for one frame and acts on it. Returns its kind, or None at the end."""
        try:
            while len(self.buffer) < 9 or len(self.buffer) < 9 + self._length():
                more = self.socket.recv(65536)
                if not more:
                    return None
                self.buffer += more
        except OSError:
            return None
        length = self._length()
        kind, flags, stream = struct.unpack(">BBI", self.buffer[3:9])
        payload, self.buffer = self.buffer[9:9 + length], self.buffer[9 + length:]
        if kind == SETTINGS and not flags & ACK:
            for at in range(0, length, 6):
                name, value = struct.unpack(">HI", payload[at:at + 6])
                if name == 4:
                    for each in self.stream_windows:
                        self.stream_windows[each] += value - self.initial_window
                    self.initial_window = value
            self._answer(frame(SETTINGS, ACK, 0))
        elif kind == PING and not flags & ACK:
            self._answer(frame(PING, ACK, 0, payload))
        elif kind == WINDOW_UPDATE:
            more = struct.unpack(">I", payload)[0]
            if stream == 0:
                self.window += more
            elif stream in self.stream_windows:
                self.stream_windows[stream] += more
        elif (kind == HEADERS and flags & END_STREAM) or kind == RST_STREAM:
            self.ended[stream] = payload
        return kind

    def read_what_is_there(self):
        """Takes what has come, so that the server never waits to write."""
        self.socket.setblocking(False)
        try:
            while self.socket.recv(65536):
                pass
        except (BlockingIOError, ssl.SSLWantReadError):
            pass
        finally:
            self.socket.settimeout(self.timeout)

    def is_closed(self):
        """Whether the server ends the connection before it has said nothing for `timeout`."""
        while True:
            try:
                if not self.socket.recv(65536):
                    return True
            except TimeoutError:
                return False
            except OSError:
                return True

    def status_of(self, stream):
        """The status of gRPC that a stream ended with, as its headers have it; None if it has
        none. Reads it without the compression that servers may use, which gRPC does not for it."""
        ended = self.ended.get(stream) or b""
        name = b"grpc-status"
        at = ended.find(name)
        if at < 0:
            return None
        at += len(name)
        return ended[at + 1:at + 1 + ended[at]]

    def wait_for_end(self, stream):
        """Waits until a stream or the connection has ended. Returns whether the stream has."""
        while stream not in self.ended:
            if self.read() is None:
                return False
        return True

    def _length(self):
        return int.from_bytes(self.buffer[:3], "big")

    def _answer(self, data):
        try:
            self.socket.sendall(data)
        except OSError:
            pass
