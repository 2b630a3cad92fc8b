//! The seeds of the targets whose input is text, or chosen by single bytes.

const ORDER: &str = r#"{"id":7,"change":-3,"sku":"a-1","note":null,"lines":[{"count":2,"is_gift":true}],"state":{"Paid":{"cents":995}}}"#;
const XML: &str = r#"<Order xmlns="http://schemas.datacontract.org/2004/07/Shop" xmlns:i="http://www.w3.org/2001/XMLSchema-instance"><id>7</id><change>-3</change><sku>a-1</sku><note i:nil="true"/></Order>"#;
const SCHEMA: &str = r#"{"type":"record","name":"Order","fields":[{"name":"id","type":"long"},{"name":"note","type":["null","string"],"default":null},{"name":"tags","type":{"type":"array","items":"string"}}]}"#;
const EVENT: &str = r#"{"specversion":"1.0","type":"com.example.someevent","source":"/mycontext","id":"C234","time":"2018-04-05T17:31:00Z","comexampleothervalue":5,"datacontenttype":"application/json","data":{"a":"abc"}}"#;
const ENVELOPE: &str = r#"{"messageId":"6d1c0000-0001-0002-0003-000000000004","conversationId":"6d1c0000-0001-0002-0003-000000000005","sourceAddress":"rabbitmq://localhost/a","destinationAddress":"rabbitmq://localhost/b","messageType":["urn:message:Shop:Order"],"message":{"id":7},"sentTime":"2026-02-03T04:05:06.789Z","headers":{"tenant":"acme"},"host":{"machineName":"m"}}"#;
const ENTRY: &str = r#"<entry xmlns="http://www.w3.org/2005/Atom"><content type="application/xml"><QueueDescription xmlns="http://schemas.microsoft.com/netservices/2010/10/servicebus/connect"><LockDuration>PT1M</LockDuration><MaxSizeInMegabytes>1024</MaxSizeInMegabytes><RequiresSession>true</RequiresSession></QueueDescription></content></entry>"#;
const RULE: &str = r#"<entry xmlns="http://www.w3.org/2005/Atom"><content type="application/xml"><RuleDescription xmlns="http://schemas.microsoft.com/netservices/2010/10/servicebus/connect" xmlns:i="http://www.w3.org/2001/XMLSchema-instance"><Filter i:type="SqlFilter"><SqlExpression>a = 1</SqlExpression></Filter><Name>r</Name></RuleDescription></content></entry>"#;
const BATCH: &str = r#"[{"Body":"a","BrokerProperties":{"MessageId":"m-1","TimeToLive":30},"UserProperties":{"tenant":"acme","count":3}},{"Body":"b"}]"#;
const REQUEST: &str = "BrokerProperties: {\"MessageId\":\"m-1\",\"SessionId\":\"s\",\"TimeToLive\":30.5}\ntenant: \"acme\"\ncount: 3\nContent-Type: application/json\n\n{}";

/// The seeds of a target by the names of their files.
pub(super) fn seeds(target: &str) -> Vec<(String, Vec<u8>)> {
    let seeds: Vec<(&str, Vec<u8>)> = match target {
        "content_type" => vec![
            ("plain", b"application/json".to_vec()),
            ("parameters", b"Text/Plain ; charset=\"utf-8\" ;format=flowed".to_vec()),
            ("suffix", b"application/vnd.shop.order.v2+json;profile=\"a\\\"b\"".to_vec()),
            ("comment", b"application/(a)json".to_vec()),
        ],
        "formats" => formats(),
        "chain" => vec![
            ("json", declared("application/json", ORDER.as_bytes())),
            ("suffix", declared("application/vnd.shop+json; charset=utf-8", ORDER.as_bytes())),
            ("missing", declared("", ORDER.as_bytes())),
            ("trail", b"json;declared;syntax;1:7;lines[0].count;u16;string,cbor;fallback;eof;3".to_vec()),
        ],
        "rules" => vec![
            ("compare", b"a = 1 AND (sys.Label = 'orders' OR NOT b LIKE 't%\\_' ESCAPE '\\')".to_vec()),
            ("in", b"b NOT IN ('x', 'text') AND e IS NOT NULL AND EXISTS(user.c)".to_vec()),
            ("arithmetic", b"(a + 2) * -c / 3 % 4 >= 0x10 - 1.5e3".to_vec()),
            ("action", b"SET sys.Label = 'x' + b; REMOVE [c]; SET \"d\" = NEWID()".to_vec()),
        ],
        "http" => {
            vec![("queue", ENTRY.into()), ("rule", RULE.into()), ("batch", BATCH.into()), ("request", REQUEST.into())]
        }
        "headers" => vec![
            ("nats", b"\x00\x03\x01\x00\x05order\x01\x02\x10application/json\x00\x06tenant\x04acme{}".to_vec()),
            (
                "rabbitmq",
                b"\x01\x03\x01\x0f\x04\x07\x01\x0f\x0c\x05queue\x00\x03abc\x0c\x02hi\x3f\x10application/json".to_vec(),
            ),
            ("nested", b"\x01\x02\x01\x10\x0a\x03\x02ab\x09\x02\x00\x01\x07\x00\x00\x00".to_vec()),
        ],
        "envelopes" => vec![
            ("event", enveloped(0, EVENT)),
            ("events", enveloped(1, &format!("[{EVENT},{EVENT}]"))),
            ("masstransit", enveloped(2, ENVELOPE)),
            ("binary", b"\x03\x04\x00\x03\x051.0\x00\x02\x061\x00\x01\x07/\x00\x01\x08a{}".to_vec()),
            ("fault", b"\x04\x02\x00\x0b\x01application\x00\x04\x02late{}".to_vec()),
        ],
        "dedup" => vec![
            ("handled", vec![0, 0, 0, 3, 0, 0, 0, 1, 250, 0, 0]),
            ("late", vec![0, 0, 0, 1, 120, 0, 0, 0, 3, 0, 0, 3, 0, 0, 0]),
            ("forgotten", vec![0, 0, 0, 4, 0, 0, 0, 2, 0]),
        ],
        "store" => vec![
            ("records", vec![0, 2, 2, 0, 0, 3, 1, 2, 3, 1, 1, 0, 2, 9, 9, 1, 5, 1, 2, 0, 1, 7, 1, 4]),
            ("removal", vec![0, 1, 0, 0xe5, 1, 2, 0]),
            ("damaged", vec![0xc1, 1, 0, 1, 1, 0, 1, 5, 0, 0, 70, 255]),
        ],
        _ => Vec::new(),
    };
    seeds.into_iter().map(|(name, input)| (name.to_owned(), input)).collect()
}

fn formats() -> Vec<(&'static str, Vec<u8>)> {
    let chosen = |choice: u8, body: &[u8]| [&[choice], body].concat();
    let order: serde_json::Value = serde_json::from_str(ORDER).unwrap();
    let packed = rmp_serde::to_vec(&order).unwrap();
    vec![
        ("json", chosen(0x40, ORDER.as_bytes())),
        ("json-strict", chosen(0x01, b"[1e5,-0.0,\"\\ud83d\\ude00\",{\"a\":null}]")),
        ("msgpack", chosen(0x42, &packed)),
        ("cbor", chosen(0x43, b"\xa2\x61a\x9f\x01\xf9\x3c\x00\xff\x61b\xc1\x1a\x51\x4b\x67\xb0")),
        ("bincode", chosen(0x44, &[7, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, b'a', 0])),
        ("postcard", chosen(0x45, &[7, 5, 1, b'a', 1, 1, b'b', 1, 2, 1, 1, 0x80, 1])),
        ("avro", chosen(0x46, &[0xc3, 0x01, 1, 2, 3, 4, 5, 6, 7, 8, 14])),
        ("dotnet-binary", chosen(0x47, b"@\x05Order\x08\x27http://schemas.datacontract.org/2004/07/@\x02id\x83\x01")),
        ("dotnet-xml", chosen(0x48, XML.as_bytes())),
        ("avro-schema", chosen(0x49, SCHEMA.as_bytes())),
        ("bincode-varint", chosen(0x4a, &[7, 5, 1, b'a', 0, 0, 0])),
    ]
}

/// A body with a ContentType.
fn declared(content_type: &str, body: &[u8]) -> Vec<u8> {
    [&[u8::try_from(content_type.len()).unwrap()], content_type.as_bytes(), body].concat()
}

/// A body with one of the types of wrapped messages, and no properties.
fn enveloped(content_type: u8, body: &str) -> Vec<u8> {
    [&[content_type, 0], body.as_bytes()].concat()
}
