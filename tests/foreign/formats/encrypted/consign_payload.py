"""Signed and encrypted messages of consign, after docs/signed-and-encrypted-messages.md.

Reads one request a line from the standard input and writes one answer a line:

    {"op": "sign" | "seal", "key": [ID, HEX], "message": MESSAGE, "bind": [NAME, ..], "nonce": HEX}
    {"op": "verify" | "open", "keys": {ID: HEX, ..}, "message": MESSAGE, "require": [NAME, ..]}
    -> {"ok": MESSAGE} or {"error": KIND}

"bind", "nonce" and "require" may be missing. A MESSAGE is an object of the texts in TEXTS, each of which may be missing;
"application", from names to values [KIND, TEXT] of the kinds in `value`; and "body" in hexadecimal digits. A body that is
not bytes is null.
"""

import hashlib
import hmac
import json
import math
import os
import struct
import sys
import uuid

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20

TEXTS = ["message_id", "content_type", "content_encoding", "subject", "session_id", "correlation_id", "reply_to",
         "reply_to_session_id"]
NAMES = {"x-message-version", "x-accept", "x-fault", "x-fault-reason", "x-fault-detail", "x-fault-trail",
         "MT-MessageType", "MessageId", "RequestId", "CorrelationId", "NServiceBus.EnclosedMessageTypes",
         "NServiceBus.MessageId", "NServiceBus.CorrelationId", "NServiceBus.ContentType",
         "NServiceBus.Transport.Encoding"}
PREFIXES = (b"cloudevents:", b"cloudevents_", b"ce-", b"ce_")
SIGNATURE = ["x-signature", "x-signature-key", "x-signature-bound"]
ENCRYPTION = ["x-encryption", "x-encryption-key", "x-encryption-bound"]
SIGNING_PURPOSE = "consign signature 2 hmac-sha256"
ENCRYPTION_PURPOSE = "consign body encryption 2 xchacha20poly1305"
DIRECT_REPLIES = "amq.rabbitmq.reply-to"


class Refused(Exception):
    """Its argument is the kind of the error."""


def counted(data):
    return struct.pack("<Q", len(data)) + data


def text(value):
    return counted(value.encode())


def optional(value):
    return b"\x00" if value is None else b"\x01" + text(value)


def value(kind, content=None):
    if kind == "null":
        return b"\x00"
    if kind == "bool":
        return b"\x01" + (b"\x01" if content == "true" else b"\x00")
    if kind == "int":
        return b"\x02" + text(str(int(content)))
    if kind == "float":
        number = float(content)
        return b"\x03" + (bytes.fromhex("000000000000f87f") if math.isnan(number) else struct.pack("<d", number))
    if kind == "text":
        return b"\x04" + text(content)
    if kind == "bytes":
        return b"\x05" + counted(bytes.fromhex(content))
    fixed = {"uuid": 6, "timestamp": 7, "offset": 8, "span": 9, "decimal": 10}[kind]
    is_number = kind in ("timestamp", "offset", "span")
    return bytes([fixed]) + (struct.pack("<q", int(content)) if is_number else bytes.fromhex(content))


def text_of(message, name):
    """The value of an application property that is text."""
    kind, *content = message.get("application", {}).get(name, ["missing"])
    return content[0] if kind == "text" else None


def is_bound(name, own, names):
    fixed = name in NAMES or name.encode().lower().startswith(PREFIXES)
    fixed = fixed or (own is SIGNATURE and name in ENCRYPTION)
    return name not in own and (fixed or name.replace("%", "%25").replace(",", "%2C") in names)


def listed(message, own):
    names = text_of(message, own[2])
    if names is None and own[2] in message.get("application", {}):
        raise Refused("NotAuthentic")
    return names


def bound(purpose, own, key, message):
    """The bound bytes."""
    fields = {name: message.get(name) for name in TEXTS}
    fields["message_id"] = text_of(message, "x-original-message-id") or fields["message_id"] or None
    if (fields["reply_to"] or "").startswith((DIRECT_REPLIES + ".", DIRECT_REPLIES + "/")):
        fields["reply_to"] = DIRECT_REPLIES
    names = listed(message, own)
    out = text(purpose) + text(key) + b"".join(optional(fields[name]) for name in TEXTS) + optional(names)
    names = set() if names is None else set(names.split(","))
    for name in sorted(message.get("application", {}), key=str.encode):
        if is_bound(name, own, names):
            out += b"\x01" + text(name) + value(*message["application"][name])
    return out + b"\x00"


def prepared(own, message, bind):
    """A copy to write to, with an id and the list of further names."""
    message = {**message, "application": dict(message.get("application", {}))}
    message["message_id"] = message.get("message_id") or str(uuid.uuid4())
    message["application"].pop(own[2], None)
    if bind:
        names = sorted(set(bind), key=str.encode)
        escaped = [name.replace("%", "%25").replace(",", "%2C") for name in names]
        message["application"][own[2]] = ["text", ",".join(escaped)]
    return message


def declared(own, message, algorithm, keys, missing):
    """The id and the secret of the key that the message names, and what follows its algorithm."""
    application = message.get("application", {})
    if own[0] not in application and own[1] not in application:
        raise Refused(missing)
    version, _, rest = (text_of(message, own[0]) or "").partition(":")
    if version != "2" or ":" not in text_of(message, own[0]):
        raise Refused("Version")
    if not rest.startswith(algorithm):
        raise Refused("Algorithm")
    key = text_of(message, own[1])
    if key not in keys:
        raise Refused("UnknownKey")
    return key, keys[key], rest[len(algorithm):]


def finished(own, message, require):
    names = set((listed(message, own) or "").split(",")) if listed(message, own) is not None else set()
    if not all(is_bound(name, own, names) for name in require):
        raise Refused("NotBound")
    application = {name: value for name, value in message["application"].items() if name not in own}
    return {**message, "application": application}


def sign(key, message, bind=()):
    message = prepared(SIGNATURE, message, bind)
    data = bound(SIGNING_PURPOSE, SIGNATURE, key[0], message) + bytes.fromhex(message["body"])
    digits = hmac.new(bytes.fromhex(key[1]), data, hashlib.sha256).hexdigest()
    message["application"]["x-signature"] = ["text", "2:hmac-sha256:" + digits]
    message["application"]["x-signature-key"] = ["text", key[0]]
    return message


def verify(keys, message, require=()):
    key, secret, digits = declared(SIGNATURE, message, "hmac-sha256:", keys, "NotSigned")
    if len(digits) != 64 or not set(digits) <= set("0123456789abcdef"):
        raise Refused("NoSignature")
    if message["body"] is None:
        raise Refused("NotBytes")
    data = bound(SIGNING_PURPOSE, SIGNATURE, key, message) + bytes.fromhex(message["body"])
    if not hmac.compare_digest(hmac.new(bytes.fromhex(secret), data, hashlib.sha256).hexdigest(), digits):
        raise Refused("NotAuthentic")
    return finished(SIGNATURE, message, require)


def xchacha20poly1305(secret, nonce):
    """ChaCha20-Poly1305 under the key for this nonce, and what is left of the nonce."""
    stream = Cipher(ChaCha20(secret, nonce[:16]), mode=None).encryptor().update(bytes(64))
    words = struct.unpack("<16I", stream)
    initial = struct.unpack("<4I", b"expand 32-byte k") + struct.unpack("<4I", nonce[:16])
    words = [(a - b) % 2**32 for a, b in zip(words[:4] + words[12:], initial)]
    return ChaCha20Poly1305(struct.pack("<8I", *words)), bytes(4) + nonce[16:]


def seal(key, message, bind=(), nonce=None):
    message = prepared(ENCRYPTION, message, bind)
    nonce = bytes.fromhex(nonce) if nonce else os.urandom(24)
    cipher, short = xchacha20poly1305(bytes.fromhex(key[1]), nonce)
    data = bound(ENCRYPTION_PURPOSE, ENCRYPTION, key[0], message)
    message["body"] = (nonce + cipher.encrypt(short, bytes.fromhex(message["body"]), data)).hex()
    message["application"]["x-encryption"] = ["text", "2:xchacha20poly1305"]
    message["application"]["x-encryption-key"] = ["text", key[0]]
    return message


def open_(keys, message, require=()):
    key, secret, rest = declared(ENCRYPTION, message, "xchacha20poly1305", keys, "NotEncrypted")
    if rest:
        raise Refused("Algorithm")
    if message["body"] is None:
        raise Refused("NotBytes")
    body = bytes.fromhex(message["body"])
    if len(body) < 40:
        raise Refused("TooShort")
    cipher, short = xchacha20poly1305(bytes.fromhex(secret), body[:24])
    try:
        plain = cipher.decrypt(short, body[24:], bound(ENCRYPTION_PURPOSE, ENCRYPTION, key, message))
    except InvalidTag:
        raise Refused("NotAuthentic") from None
    return finished(ENCRYPTION, {**message, "body": plain.hex()}, require)


OPERATIONS = {"sign": sign, "verify": verify, "seal": seal, "open": open_}


def answer(request):
    operation = OPERATIONS[request.pop("op")]
    try:
        return {"ok": operation(**request)}
    except Refused as refused:
        return {"error": refused.args[0]}


if __name__ == "__main__":
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)
