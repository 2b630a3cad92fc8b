"""Encoders and decoders of Python: writes the values of values.json, and reads the bodies that this library has written.

    peers.py write values.json             one line of JSON for each encoder and value
    peers.py read values.json ours.jsonl   one line of JSON for each decoder and body
"""

import base64
import datetime
import importlib.metadata
import json
import math
import sys
import uuid

import cbor2
import msgpack
import msgspec
import orjson
import ormsgpack
import simplejson
import umsgpack

UTC = datetime.timezone.utc
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=UTC)


# name: (package, format, encode, decode)
PEERS = {
    "json": (None, "json", lambda v: json.dumps(v).encode(), json.loads),
    "json, UTF-8": (None, "json", lambda v: json.dumps(v, ensure_ascii=False, indent=0).encode(), json.loads),
    "orjson": ("orjson", "json", lambda v: orjson.dumps(v, option=orjson.OPT_NON_STR_KEYS), orjson.loads),
    "simplejson": ("simplejson", "json", lambda v: simplejson.dumps(v).encode(), simplejson.loads),
    "msgspec JSON": ("msgspec", "json", msgspec.json.encode, msgspec.json.decode),
    "msgpack": (
        "msgpack",
        "msgpack",
        lambda v: msgpack.packb(v, datetime=True),
        lambda b: msgpack.unpackb(b, timestamp=3, strict_map_key=False),
    ),
    "msgpack, single floats": (
        "msgpack",
        "msgpack",
        lambda v: msgpack.packb(v, datetime=True, use_single_float=True),
        lambda b: msgpack.unpackb(b, timestamp=3, strict_map_key=False),
    ),
    "ormsgpack": (
        "ormsgpack",
        "msgpack",
        lambda v: ormsgpack.packb(v, option=ormsgpack.OPT_NON_STR_KEYS),
        lambda b: ormsgpack.unpackb(b, option=ormsgpack.OPT_NON_STR_KEYS),
    ),
    "msgspec MessagePack": ("msgspec", "msgpack", msgspec.msgpack.encode, msgspec.msgpack.decode),
    "u-msgpack": ("u-msgpack-python", "msgpack", umsgpack.packb, umsgpack.unpackb),
    "cbor2": ("cbor2", "cbor", cbor2.dumps, cbor2.loads),
    "cbor2, canonical": ("cbor2", "cbor", lambda v: cbor2.dumps(v, canonical=True), cbor2.loads),
    "cbor2, indefinite": ("cbor2", "cbor", lambda v: cbor2.dumps(v, indefinite_containers=True), cbor2.loads),
    "cbor2, dates as numbers": ("cbor2", "cbor", lambda v: cbor2.dumps(v, datetime_as_timestamp=True), cbor2.loads),
}


def native(value):
    """The value of Python that the description of values.json names."""
    if isinstance(value, list):
        return [native(item) for item in value]
    if not isinstance(value, dict):
        return value
    kind = next((key for key in value if key.startswith("$")), None)
    times = value.get("times", 1)
    match kind:
        case None:
            return {key: native(item) for key, item in value.items()}
        case "$int" | "$bigint":
            return int(value[kind])
        case "$float":
            return float(value[kind])
        case "$text":
            return value[kind] * times
        case "$bytes":
            return bytes.fromhex(value[kind]) * times
        case "$array":
            return [native(value[kind]) for _ in range(times)]
        case "$map":
            return {native(key): native(item) for key, item in value[kind]}
        case "$set":
            return {native(item) for item in value[kind]}
        case "$undefined":
            return None
        case "$now":
            return value[kind]
        case "$date":
            return EPOCH + datetime.timedelta(milliseconds=value[kind])
        case "$uuid":
            return uuid.UUID(value[kind])
        case "$typed":
            return None
        case _:
            raise ValueError(f"values.json: unknown kind {kind}")


def of_another_language(value):
    return isinstance(value, dict) and "$typed" in value


def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def as_date(value):
    """What a reader takes for a date: a date, ISO text, milliseconds."""
    if isinstance(value, datetime.datetime):
        return value if value.tzinfo else value.replace(tzinfo=UTC)
    if isinstance(value, str):
        try:
            return datetime.datetime.fromisoformat(value)
        except ValueError:
            return None
    if is_number(value):
        return EPOCH + datetime.timedelta(milliseconds=value)
    return None


def same(expected, got):
    """Whether a decoder has given a value back."""
    match expected:
        case None:
            return got is None
        case bool():
            return got is expected
        case int():
            return is_number(got) and got == expected
        case float():
            if not is_number(got):
                return False
            if math.isnan(expected):
                return math.isnan(got)
            return got == expected and math.copysign(1, got) == math.copysign(1, expected)
        case str():
            return isinstance(got, str) and got == expected
        case bytes():
            if isinstance(got, list) and all(isinstance(item, int) for item in got):
                return got == list(expected)
            return isinstance(got, (bytes, bytearray)) and bytes(got) == expected
        case list():
            if not isinstance(got, (list, tuple)):
                return False
            return len(got) == len(expected) and all(map(same, expected, got))
        case set():
            return isinstance(got, (list, tuple, set, frozenset)) and sorted(got) == sorted(expected)
        case dict():
            if not isinstance(got, dict) or len(got) != len(expected):
                return False
            # JSON has no other keys than text.
            keys = {str(key): item for key, item in got.items()}
            return all(str(key) in keys and same(item, keys[str(key)]) for key, item in expected.items())
        case datetime.datetime():
            return as_date(got) == expected
        case uuid.UUID():
            if isinstance(got, bytes):
                return got == expected.bytes
            return got == expected or got == str(expected)
    raise ValueError(f"{type(expected)} has no comparison")


def short(value):
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def attempt(call, argument):
    """The result, or why there is none."""
    try:
        return call(argument), None
    except Exception as error:  # Whatever a package raises is its answer.
        return None, f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"


def loss(name, value, body):
    """Why a body does not hold the value, if it does not: what its own decoder and the others of its format say."""
    _, form, _, decode = PEERS[name]
    got, error = attempt(decode, body)
    if error:
        return f"its own decoder refuses the body: {error}"
    if not same(value, got):
        return f"its own decoder gives {short(got)}"
    package = PEERS[name][0]
    others = [peer for peer in PEERS.values() if peer[1] == form and peer[0] != package]
    answers = [attempt(peer[3], body) for peer in others]
    if answers and not any(error is None and same(value, got) for got, error in answers):
        return f"no other decoder of Python reads it: {next((e or short(g) for g, e in answers), '')}"
    return None


def version(package):
    return importlib.metadata.version(package) if package else sys.version.split()[0]


def write(values):
    for name, (package, form, encode, _) in PEERS.items():
        for entry in values:
            if of_another_language(entry["value"]):
                continue
            value = native(entry["value"])
            body, error = attempt(encode, value)
            lost = f"it cannot write the value: {error}" if error else loss(name, value, body)
            yield {
                "encoder": name,
                "version": version(package),
                "format": form,
                "value": entry["id"],
                "body": None if body is None else base64.b64encode(body).decode(),
                "lost": lost,
            }


def form_of_ours(entry, form):
    """What this library is expected to write of a value in a format."""
    written = entry.get("written", {})
    return written[form] if form in written else entry.get("ours", entry["value"])


def read(values, bodies):
    entries = {entry["id"]: entry for entry in values}
    seen = set()
    for name, (package, form, encode, decode) in PEERS.items():
        # A decoder reads a body once, however many ways its package has to write.
        if (package, form) in seen:
            continue
        seen.add((package, form))
        for line in bodies:
            if line["format"] != form:
                continue
            value = native(form_of_ours(entries[line["value"]], form))
            got, error = attempt(decode, base64.b64decode(line["body"]))
            outcome, reason = "same", None
            if error:
                outcome, reason = "refused", error
            elif not same(value, got):
                outcome, reason = "differs", f"it gives {short(got)}"
            if outcome != "same":
                written, unwritten = attempt(encode, value)
                lost = unwritten or loss(name, value, written)
                outcome = "lost" if lost else outcome
            yield {
                "decoder": name,
                "version": version(package),
                "format": form,
                "value": line["value"],
                "outcome": outcome,
                "reason": reason,
            }


def main():
    command, values = sys.argv[1], json.load(open(sys.argv[2], encoding="utf-8"))
    if command == "write":
        lines = write(values)
    else:
        lines = read(values, [json.loads(line) for line in open(sys.argv[3], encoding="utf-8")])
    for line in lines:
        print(json.dumps(line))


main()
