"""The two messages of Bazel's persistent workers, in the protocol buffers wire format.

    WorkRequest   1 arguments (string, repeated)  2 inputs (message, repeated: 1 path, 2 digest)  3 request_id
                  4 cancel  5 verbosity  6 sandbox_dir
    WorkResponse  1 exit_code  2 output  3 request_id  4 was_cancelled

Each message is preceded by its length as a varint. Unknown fields are skipped, as the format asks, so that a newer
Bazel may send more. (Source: worker_protocol.proto of Bazel; field numbers only.)
"""

from __future__ import annotations

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_MAX_MESSAGE_BYTES = 1 << 30


class WireError(Exception):
    """The bytes are not a stream of these messages."""


class WorkRequest:
    """One unit of work; `inputs` is a list of (path, digest)."""

    __slots__ = ("arguments", "cancel", "inputs", "request_id", "sandbox_dir", "verbosity")

    def __init__(self) -> None:
        self.arguments: list[str] = []
        self.inputs: list[tuple[str, bytes]] = []
        self.request_id = 0
        self.cancel = False
        self.verbosity = 0
        self.sandbox_dir = ""


class WorkResponse:
    """The answer to one WorkRequest."""

    __slots__ = ("exit_code", "output", "request_id", "was_cancelled")

    def __init__(self, exit_code: int, output: str, request_id: int, was_cancelled: bool) -> None:
        self.exit_code = exit_code
        self.output = output
        self.request_id = request_id
        self.was_cancelled = was_cancelled


def read_varint(data: bytes | bytearray, at: int) -> tuple[int, int] | None:
    """Returns (value, next offset) of the varint at `at`, or None when it is cut off."""
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            return None
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, at
    raise WireError("a varint of more than ten bytes")


def varint(value: int) -> bytes:
    """Returns the bytes of a varint; negative numbers as int32 fields have them, sign-extended to 64 bits."""
    value &= 0xFFFFFFFFFFFFFFFF
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _fields(data: bytes) -> list[tuple[int, int | bytes]]:
    """Returns (field number, value) of each field of one message."""
    found: list[tuple[int, int | bytes]] = []
    at = 0

    def next_varint() -> int:
        nonlocal at
        got = read_varint(data, at)
        if got is None:
            raise WireError("a field is cut off")
        at = got[1]
        return got[0]

    while at < len(data):
        key = next_varint()
        kind = key & 7
        if key >> 3 == 0:
            raise WireError("field number 0")
        if kind == _VARINT:
            found.append((key >> 3, next_varint()))
            continue
        if kind == _BYTES:
            size = next_varint()
        elif kind in (_FIXED64, _FIXED32):
            size = 8 if kind == _FIXED64 else 4
        else:
            raise WireError(f"wire type {kind} of field {key >> 3}")
        if at + size > len(data):
            raise WireError("a field is cut off")
        found.append((key >> 3, bytes(data[at : at + size])))
        at += size
    return found


def _int32(value: int | bytes) -> int:
    if isinstance(value, bytes):
        raise WireError("a number was expected")
    low = value & 0xFFFFFFFF
    return low - (1 << 32) if low >> 31 else low


def _text(value: int | bytes) -> str:
    if isinstance(value, int):
        raise WireError("a string was expected")
    # Paths are bytes: one that is not UTF-8 must come through unharmed.
    return value.decode("utf-8", "surrogateescape")


def decode_request(data: bytes) -> WorkRequest:
    """Returns the WorkRequest in `data`, without its length prefix."""
    request = WorkRequest()
    for number, value in _fields(data):
        if number == 1:
            request.arguments.append(_text(value))
        elif number == 2:
            if isinstance(value, int):
                raise WireError("an input was expected")
            path, digest = "", b""
            for inner, content in _fields(value):
                if inner == 1:
                    path = _text(content)
                elif inner == 2 and isinstance(content, bytes):
                    digest = content
            request.inputs.append((path, digest))
        elif number == 3:
            request.request_id = _int32(value)
        elif number == 4:
            request.cancel = bool(value)
        elif number == 5:
            request.verbosity = _int32(value)
        elif number == 6:
            request.sandbox_dir = _text(value)
    return request


def encode_request(request: WorkRequest) -> bytes:
    """Returns a length-delimited WorkRequest, as Bazel would send it."""
    out = bytearray()
    for argument in request.arguments:
        out += _bytes_field(1, argument.encode("utf-8", "surrogateescape"))
    for path, digest in request.inputs:
        inner = _bytes_field(1, path.encode("utf-8", "surrogateescape")) + _bytes_field(2, digest)
        out += _bytes_field(2, inner)
    for number, value in ((3, request.request_id), (4, int(request.cancel)), (5, request.verbosity)):
        if value:
            out += varint(number << 3 | _VARINT) + varint(value)
    if request.sandbox_dir:
        out += _bytes_field(6, request.sandbox_dir.encode("utf-8", "surrogateescape"))
    return varint(len(out)) + bytes(out)


def encode_response(response: WorkResponse) -> bytes:
    """Returns a length-delimited WorkResponse."""
    out = bytearray()
    if response.exit_code:
        out += varint(1 << 3 | _VARINT) + varint(response.exit_code)
    if response.output:
        out += _bytes_field(2, response.output.encode("utf-8", "replace"))
    if response.request_id:
        out += varint(3 << 3 | _VARINT) + varint(response.request_id)
    if response.was_cancelled:
        out += varint(4 << 3 | _VARINT) + varint(1)
    return varint(len(out)) + bytes(out)


def decode_response(data: bytes) -> WorkResponse:
    """Returns the WorkResponse in `data`, without its length prefix."""
    response = WorkResponse(0, "", 0, False)
    for number, value in _fields(data):
        if number == 1:
            response.exit_code = _int32(value)
        elif number == 2:
            response.output = _text(value)
        elif number == 3:
            response.request_id = _int32(value)
        elif number == 4:
            response.was_cancelled = bool(value)
    return response


def _bytes_field(number: int, data: bytes) -> bytes:
    return varint(number << 3 | _BYTES) + varint(len(data)) + data


class Reader:
    """Cuts a byte stream into messages, however the bytes arrive."""

    __slots__ = ("_pending",)

    def __init__(self) -> None:
        self._pending = bytearray()

    def frames(self, data: bytes) -> list[bytes]:
        """Returns the messages that `data` completes, without their length prefixes."""
        self._pending += data
        found = []
        while self._pending:
            got = read_varint(self._pending, 0)
            if got is None:
                break
            size, start = got
            if size > _MAX_MESSAGE_BYTES:
                raise WireError(f"a message of {size} bytes")
            if len(self._pending) < start + size:
                break
            found.append(bytes(self._pending[start : start + size]))
            del self._pending[: start + size]
        return found

    def feed(self, data: bytes) -> list[WorkRequest]:
        """Returns the requests that `data` completes."""
        return [decode_request(frame) for frame in self.frames(data)]
