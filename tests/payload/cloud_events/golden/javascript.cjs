// Writes javascript.json: events as the npm package `cloudevents` writes them. npm install cloudevents@10.0.0
const { writeFileSync } = require("node:fs");
const { CloudEvent, HTTP, Kafka } = require("cloudevents");

const base = { id: "A-1", source: "/my%20shop", type: "com.example.order.placed", time: "2026-02-03T04:05:06.789Z" };
const events = {
  minimal: [{ ...base }, true],
  json: [{ ...base, subject: "order 7", datacontenttype: "application/json", dataschema: "https://x.example/s", data: { id: 7 } }, true],
  text: [{ ...base, datacontenttype: "text/plain", data: "caf\u00e9" }, true],
  extensions: [{ ...base, datacontenttype: "application/json", data: { id: 7 }, text: "value", number: 5, large: 5_000_000_000, truth: true }, true],
  "a long name": [{ ...base, datacontenttype: "application/json", data: { id: 7 }, anextensionwithaverylongname: "value" }, true],
  "names that are not validated": [{ ...base, datacontenttype: "application/json", data: { id: 7 }, with_underscore: "v", "with-dash": "v" }, false],
};

const bytes = (body) => body === undefined ? Buffer.alloc(0) : Buffer.from(typeof body === "string" ? body : JSON.stringify(body));
const golden = [];
for (const [name, [given, strict]] of Object.entries(events)) {
  const event = new CloudEvent(given, strict);
  for (const [binding, kind] of [[HTTP, "http"], [Kafka, "kafka"]]) {
    for (const mode of ["binary", "structured"]) {
      const message = binding[mode](event);
      const properties = {};
      let contentType;
      for (const [header, value] of Object.entries(message.headers)) {
        if (header === "content-type") contentType = value;
        else if (value !== undefined) properties[header] = value;
      }
      const attributes = Object.fromEntries(Object.entries(given).filter(([key]) => key !== "data").map(([key, value]) => [key, String(value)]));
      // Its binary mode names a type where the event has none.
      if (mode === "binary") attributes.datacontenttype ??= contentType;
      const empty = mode === "binary" && contentType !== undefined ? "" : null;
      golden.push({
        name: `${kind} ${mode} ${name}`,
        content_type: contentType ?? null,
        properties,
        body: bytes(message.body).toString("base64"),
        attributes: Object.fromEntries(Object.entries(attributes).filter(([, value]) => value !== undefined)),
        data: given.data === undefined ? empty : bytes(given.data).toString("base64"),
      });
    }
  }
}
writeFileSync("javascript.json", "[\n" + golden.map((each) => JSON.stringify(each)).join(",\n") + "\n]\n");
const batch = Object.values(events).filter(([, strict]) => strict).map(([given]) => new CloudEvent(given));
writeFileSync("javascript_batch.json", JSON.stringify(batch) + "\n");
