"""Lists the records of .NET binary XML bodies, by the names of [MC-NBFX]. It shares no code with the codec."""
import datetime
import pathlib
import struct
import sys
import uuid

TEXT = {
    0x80: "ZeroText", 0x82: "OneText", 0x84: "FalseText", 0x86: "TrueText", 0x88: "Int8Text", 0x8A: "Int16Text",
    0x8C: "Int32Text", 0x8E: "Int64Text", 0x90: "FloatText", 0x92: "DoubleText", 0x94: "DecimalText",
    0x96: "DateTimeText", 0x98: "Chars8Text", 0x9A: "Chars16Text", 0x9C: "Chars32Text", 0x9E: "Bytes8Text",
    0xA0: "Bytes16Text", 0xA2: "Bytes32Text", 0xA4: "StartListText", 0xA6: "EndListText", 0xA8: "EmptyText",
    0xAA: "DictionaryText", 0xAC: "UniqueIdText", 0xAE: "TimeSpanText", 0xB0: "UuidText", 0xB2: "UInt64Text",
    0xB4: "BoolText", 0xB6: "UnicodeChars8Text", 0xB8: "UnicodeChars16Text", 0xBA: "UnicodeChars32Text",
    0xBC: "QNameDictionaryText",
}
FORMATS = {0x88: "<b", 0x8A: "<h", 0x8C: "<i", 0x8E: "<q", 0x90: "<f", 0x92: "<d", 0xAE: "<q", 0xB2: "<Q", 0xB4: "<?"}


class Body:
    def __init__(self, body):
        self.body, self.at = body, 0

    def take(self, length):
        taken = self.body[self.at:self.at + length]
        assert len(taken) == length
        self.at += length
        return taken

    def byte(self):
        return self.take(1)[0]

    def length(self):
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def string(self):
        return self.take(self.length()).decode()

    def text(self, kind):
        if kind in FORMATS:
            form = FORMATS[kind]
            return repr(struct.unpack(form, self.take(struct.calcsize(form)))[0])
        if kind == 0x94:
            _, scale, sign, high, low = struct.unpack("<HBBIQ", self.take(16))
            return f"{'-' if sign else ''}{high << 64 | low} / 10^{scale}"
        if kind == 0x96:
            value = struct.unpack("<Q", self.take(8))[0]
            kinds = ["without a zone", "UTC", "local", "local"]
            ticks = value & (1 << 62) - 1
            return f"{datetime.datetime(1, 1, 1) + datetime.timedelta(microseconds=ticks // 10)} {kinds[value >> 62]}"
        if kind in (0xAC, 0xB0):
            return str(uuid.UUID(bytes_le=self.take(16)))
        for first in (0x98, 0x9E, 0xB6):
            if kind - first in (0, 2, 4):
                form = ["<B", "<H", "<I"][(kind - first) // 2]
                value = self.take(struct.unpack(form, self.take(struct.calcsize(form)))[0])
                shown = repr(value.decode()) if first == 0x98 else value.hex(" ")
                return f"{len(value)} bytes: {shown}"
        if kind in (0xAA, 0xBC):
            return f"number {self.length()}"
        return ""

    def record(self):
        first = self.byte()
        if first == 0x01:
            return "EndElement", ""
        if first == 0x02:
            return "Comment", repr(self.string())
        if first == 0x03:
            parts = []
            while not parts or parts[-1][0] != "EndElement":
                parts.append(self.record())
            kind, count = self.byte(), self.length()
            values = ", ".join(self.text(kind & 0xFE) for _ in range(count))
            head = ", ".join(" ".join(part).strip() for part in parts)
            return "Array", f"{head}; {count} of {TEXT[kind & 0xFE]}WithEndElement: {values}"
        if first < 0x40:
            return self.attribute(first)
        if first < 0x78:
            return self.element(first)
        name = TEXT[first & 0xFE] + ("WithEndElement" if first & 1 else "")
        return name, self.text(first & 0xFE)

    def attribute(self, first):
        if first == 0x08:
            return "ShortXmlnsAttribute", repr(self.string())
        if first == 0x09:
            return "XmlnsAttribute", f"{self.string()} = {self.string()!r}"
        if first in (0x0A, 0x0B):
            prefix = self.string() if first == 0x0B else ""
            return ["ShortDictionaryXmlnsAttribute", "DictionaryXmlnsAttribute"][first - 0x0A], f"{prefix} number {self.length()}".strip()
        if first == 0x04:
            name, what = "ShortAttribute", self.string()
        elif first == 0x05:
            name, what = "Attribute", f"{self.string()}:{self.string()}"
        elif 0x26 <= first <= 0x3F:
            letter = chr(first - 0x26 + ord("a"))
            name, what = f"PrefixAttribute{letter.upper()}", f"{letter}:{self.string()}"
        else:
            raise ValueError(f"record {first:#x}")
        value, shown = self.record()
        return name, f"{what} = {value} {shown}".strip()

    def element(self, first):
        if first == 0x40:
            return "ShortElement", self.string()
        if first == 0x41:
            return "Element", f"{self.string()}:{self.string()}"
        if first == 0x42:
            return "ShortDictionaryElement", f"number {self.length()}"
        if first >= 0x5E:
            letter = chr(first - 0x5E + ord("a"))
            return f"PrefixElement{letter.upper()}", f"{letter}:{self.string()}"
        raise ValueError(f"record {first:#x}")


def cut(text, length):
    return text if len(text) <= length else text[:length - 3] + "..."


def main():
    print("# Records of the bodies\n")
    print("Written by `records.py`. Each line is the offset of a record, its bytes, its name in [MC-NBFX] and its value.")
    for path in sorted(pathlib.Path(sys.argv[1]).glob("*.bin")):
        body = Body(path.read_bytes())
        print(f"\n## {path.name}: {len(body.body)} bytes\n\n```text")
        while body.at < len(body.body):
            start = body.at
            name, value = body.record()
            shown = cut(body.body[start:body.at].hex(" "), 38)
            print(f"{start:5}  {shown:38}  {name} {cut(value, 60)}".rstrip())
        print("```")


main()
