"""AMQP values as the encoder and the decoder of Qpid Proton have them.

    python with_proton.py write            writes proton.txt: each value of values.json, as Proton encodes it
    python with_proton.py check FILE       decodes each line of FILE, which must be the value of values.json with that id
    python with_proton.py exchange      for each line of the standard input, `{"value", "bytes"}`, one of what Proton
                                        makes of them: `{"bytes", "value"}`, or `{"error"}`

A line of these files is an id and an encoding in hexadecimal. A value that Proton cannot write has the reason behind `-`.
Ids that begin with `message-` are whole messages, whose fields are in codec/vectors.rs.
"""

import json
import struct
import sys
import uuid
from pathlib import Path

from proton import Array, Data, Described, Message, char, decimal128, int32, symbol, timestamp, ubyte, uint, ulong, UNDESCRIBED

FOLDER = Path(__file__).parent
VALUES = {case["id"]: case["value"] for case in map(json.loads, (FOLDER / "values.json").read_text().splitlines())}
NUMBERS = ["ubyte", "ushort", "uint", "ulong", "byte", "short", "int", "long", "timestamp"]
TYPES = {
    name: getattr(Data, constant)
    for name, constant in [
        ("null", "NULL"), ("boolean", "BOOL"), ("char", "CHAR"), ("float", "FLOAT"), ("double", "DOUBLE"),
        ("decimal32", "DECIMAL32"), ("decimal64", "DECIMAL64"), ("decimal128", "DECIMAL128"), ("uuid", "UUID"),
        ("binary", "BINARY"), ("string", "STRING"), ("symbol", "SYMBOL"), ("list", "LIST"), ("map", "MAP"),
        ("array", "ARRAY"), ("described", "DESCRIBED"), *((name, name.upper()) for name in NUMBERS),
    ]
}
NAMES = {code: name for name, code in TYPES.items()}


def put(data, value):
    kind, *content = value
    if kind == "null":
        data.put_null()
    elif kind == "boolean":
        data.put_bool(content[0])
    elif kind in NUMBERS:
        getattr(data, f"put_{kind}")(int(content[0]))
    elif kind == "char":
        data.put_char(chr(int(content[0])))
    elif kind in ("float", "double"):
        data_format = ">f" if kind == "float" else ">d"
        getattr(data, f"put_{kind}")(struct.unpack(data_format, bytes.fromhex(content[0]))[0])
    elif kind in ("decimal32", "decimal64"):
        getattr(data, f"put_{kind}")(int(content[0], 16))
    elif kind == "decimal128":
        data.put_decimal128(bytes.fromhex(content[0]))
    elif kind == "uuid":
        data.put_uuid(uuid.UUID(content[0]))
    elif kind == "binary":
        data.put_binary(bytes.fromhex(content[0]))
    elif kind in ("string", "symbol"):
        getattr(data, f"put_{kind}")(content[0])
    elif kind == "list" or kind == "map":
        getattr(data, f"put_{kind}")()
        inside(data, content[0])
    elif kind == "described":
        data.put_described()
        inside(data, content)
    elif kind == "array":
        element, descriptors, values = content
        data.put_array(bool(descriptors), TYPES[element])
        inside(data, descriptors + values)


def inside(data, values):
    data.enter()
    for value in values:
        put(data, value)
    data.exit()


def get(data):
    kind = NAMES[data.type()]
    if kind == "null":
        return ["null"]
    if kind == "boolean":
        return [kind, data.get_bool()]
    if kind in NUMBERS:
        return [kind, str(int(getattr(data, f"get_{kind}")()))]
    if kind == "char":
        return [kind, str(ord(data.get_char()))]
    if kind in ("float", "double"):
        return [kind, struct.pack(">f" if kind == "float" else ">d", getattr(data, f"get_{kind}")()).hex()]
    if kind in ("decimal32", "decimal64"):
        return [kind, format(int(getattr(data, f"get_{kind}")()), "x").zfill(8 if kind == "decimal32" else 16)]
    if kind == "decimal128":
        return [kind, bytes(data.get_decimal128()).hex()]
    if kind == "uuid":
        return [kind, data.get_uuid().hex]
    if kind == "binary":
        return [kind, bytes(data.get_binary()).hex()]
    if kind in ("string", "symbol"):
        return [kind, str(getattr(data, f"get_{kind}")())]
    if kind == "described":
        return [kind, *children(data)]
    if kind == "array":
        count, described, element = data.get_array()
        values = children(data)
        return [kind, NAMES[element], values[:1] if described else [], values[1:] if described else values]
    return [kind, children(data)]


def children(data):
    values = []
    data.enter()
    while data.next():
        values.append(get(data))
    data.exit()
    return values


def message(body, inferred, **ids):
    message = Message(
        body=body, inferred=inferred, durable=True, priority=7, ttl=60, first_acquirer=True, delivery_count=3,
        user_id=b"user", address="queue", subject="order", reply_to="replies", content_type="application/json",
        content_encoding="gzip", expiry_time=1763925600, creation_time=1763922000, group_id="session", group_sequence=9,
        reply_to_group_id="reply-session", **ids,
    )
    message.instructions = {symbol("x-opt-delivery"): ulong(1)}
    message.annotations = {symbol("x-opt-partition-key"): "key", symbol("x-opt-sequence-number"): 42}
    message.properties = {
        "text": "value", "ubyte": ubyte(1), "uint": uint(300), "int": int32(-5), "long": 1 << 40, "true": True, "none": None,
        "double": 0.5, "char": char("\u20ac"), "timestamp": timestamp(1763925600000), "uuid": uuid.UUID(int=7),
        "decimal128": decimal128(bytes(range(16))), "binary": b"\x00\x01",
    }
    return message.encode().hex()


def messages():
    array = Array(UNDESCRIBED, Data.INT, int32(1), int32(2))
    yield "message-data", message(b"{}", True, id=uuid.UUID(int=1), correlation_id=ulong(18446744073709551615))
    yield "message-value", message({"list": [int32(1), "two"], "array": array}, False, id="id", correlation_id="other")
    yield "message-sequence", message([int32(1), Described(symbol("d"), "x")], True, id=ulong(7), correlation_id=uuid.UUID(int=2))


def write():
    with (FOLDER / "proton.txt").open("w") as out:
        for name, value in VALUES.items():
            data = Data()
            try:
                put(data, value)
                out.write(f"{name} {data.encode().hex()}\n")
            except Exception as error:
                out.write(f"{name} - {type(error).__name__}\n")
        for name, encoding in messages():
            out.write(f"{name} {encoding}\n")


def decode(encoding):
    data = Data()
    read = data.decode(bytes.fromhex(encoding))
    data.rewind()
    data.next()
    assert read == len(encoding) // 2, "bytes are left"
    return get(data)


def exchange():
    for line in map(json.loads, sys.stdin):
        try:
            data = Data()
            put(data, line["value"])
            answer = {"bytes": data.encode().hex(), "value": decode(line["bytes"])}
        except Exception as error:
            answer = {"error": repr(error)}
        print(json.dumps(answer))


def check(file):
    failed = 0
    lines = Path(file).read_text().splitlines()
    for line in lines:
        name, encoding = line.split()
        try:
            value = decode(encoding)
        except Exception as error:
            value = repr(error)
        if value != VALUES[name]:
            failed += 1
            print(f"{name}: {encoding[:80]} is {str(value)[:200]}, and not {str(VALUES[name])[:200]}")
    print(f"{len(lines)} values, {failed} not the same")
    sys.exit(failed > 0 or not lines)


if __name__ == "__main__":
    word, *rest = sys.argv[1:]
    {"write": write, "check": check, "exchange": exchange}[word](*rest)
