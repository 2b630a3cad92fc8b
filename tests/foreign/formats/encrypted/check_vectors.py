"""Checks `consign_payload` against the test vectors in a folder: `check_vectors.py docs/vectors`. Ends with 1 if one fails."""

import json
import pathlib
import sys

sys.dont_write_bytecode = True

import consign_payload as payload

LAYERS = {
    "signing": (payload.sign, payload.verify, payload.SIGNING_PURPOSE, payload.SIGNATURE),
    "encryption": (payload.seal, payload.open_, payload.ENCRYPTION_PURPOSE, payload.ENCRYPTION),
}


def read(keys, case):
    try:
        return LAYERS[case["layer"]][1](keys, case["sent"], case.get("require", []))
    except payload.Refused as refused:
        return refused.args[0]


def wrong(vectors):
    """The names of the cases that fail."""
    keys = vectors["keys"]
    for case in vectors["vectors"]:
        write, _, purpose, own = LAYERS[case["layer"]]
        nonce = [case["nonce"]] if "nonce" in case else []
        sent = write([case["key"], keys[case["key"]]], case["message"], case["bind"], *nonce)
        if sent != case["sent"]:
            yield f"{case['layer']}, written: {case['name']}"
        if payload.bound(purpose, own, case["key"], case["sent"]).hex() != case["bound"]:
            yield f"{case['layer']}, bound bytes: {case['name']}"
    for case in vectors["vectors"] + vectors["opened"]:
        if read(keys, case) != case["message"]:
            yield f"{case['layer']}, read: {case['name']}"
    for case in vectors["refused"]:
        if read(keys, case) != case["error"]:
            yield f"{case['layer']}, refused: {case['name']}"


if __name__ == "__main__":
    path = pathlib.Path(sys.argv[1]) / "signed-and-encrypted-messages.json"
    vectors = json.loads(path.read_text(encoding="utf-8"))
    failed = list(wrong(vectors))
    for name in failed:
        print(f"FAILED {name}")
    print(f"{sum(len(vectors[part]) for part in ('vectors', 'opened', 'refused'))} cases, {len(failed)} failures")
    sys.exit(bool(failed))
