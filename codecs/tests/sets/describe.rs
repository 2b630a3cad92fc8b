use consign_codecs::{Bincode, Cbor, Codecs, Json, Limits, MessagePack, Policy, Raw, Text};

#[test]
fn feature_36_the_smallest_set() {
    assert_eq!(
        Codecs::json().describe().to_string(),
        "\
codecs
  json: self-describing, writes application/json, reads application/json, text/json, application/x-json, \
text/x-json, */*+json
ContentType
  missing: json (default)
  unknown: reject
  malformed: reject
  failed: reject
  not allowed: reject
chain: none
allowed: every type
limits: 262144 bytes, depth 64, 65536 elements"
    );
}

#[test]
fn feature_36_everything_set() {
    let codecs = Codecs::builder()
        .with(Json::default())
        .with(MessagePack)
        .with(Cbor)
        .with(Bincode::varint())
        .with(Text)
        .with(Raw)
        .fallback(["json", "msgpack", "bincode", "raw"])
        .allow_positional("bincode")
        .on_missing(Policy::Codec("bincode"))
        .on_unknown(Policy::Reject)
        .on_malformed(Policy::CodecThenChain("cbor"))
        .on_not_allowed(Policy::Codec("text"))
        .allow(["Application/JSON", "*/*+json", "text/*"])
        .limits(Limits::default().bytes(1 << 20).depth(8).elements(100))
        .build()
        .unwrap();
    assert_eq!(
        codecs.describe().to_string(),
        "\
codecs
  json: self-describing, writes application/json, reads application/json, text/json, application/x-json, \
text/x-json, */*+json
  msgpack: self-describing, writes application/msgpack, reads application/msgpack, application/x-msgpack, \
application/messagepack, application/x-messagepack, application/vnd.msgpack, */*+msgpack
  cbor: self-describing, writes application/cbor, reads application/cbor, application/x-cbor, */*+cbor
  bincode: positional, writes application/x-bincode;encoding=varint, reads application/x-bincode;encoding=varint, \
application/x-bincode
  text: opaque, writes text/plain, reads text/plain, text/*
  raw: opaque, writes application/octet-stream, reads application/octet-stream
ContentType
  missing: bincode (default)
  unknown: reject
  malformed: cbor (default), then json (fallback), then msgpack (fallback), then bincode (fallback), then raw (fallback)
  failed: json (fallback), then msgpack (fallback), then bincode (fallback), then raw (fallback)
  not allowed: text (default)
chain: json, msgpack, bincode, raw
allowed: application/json, */*+json, text/*
limits: 1048576 bytes, depth 8, 100 elements"
    );
}

/// Rules: J-40.
#[test]
fn the_table_is_data_too() {
    let table =
        Codecs::builder().with(Json::default()).with(Text).fallback(["json"]).build().unwrap().describe().table();
    let data = serde_json::to_value(&table).unwrap();
    assert_eq!(data["codecs"][1]["reads"], serde_json::json!(["text/plain", "text/*"]));
    assert_eq!(data["failed"], serde_json::json!(["json (fallback)"]));
    assert_eq!(data["chain"], serde_json::json!(["json"]));
    assert_eq!(data["max_depth"], 64);
}

/// Rules: J-40.
#[test]
fn the_table_has_what_may_be_declared() {
    let of = |allow: &[&str], policy: Policy| {
        let set = Codecs::builder().with(Json::default()).with(Text);
        let set = set.allow(allow).on_not_allowed(policy).build().unwrap();
        let table = set.describe().table();
        table.codecs.iter().map(|codec| (codec.accepts.join(" "), codec.accepts_own)).collect::<Vec<_>>()
    };
    let (none, types) = (|| (String::new(), false), |text: &str, own| (text.to_owned(), own));
    for (allow, json, text) in [
        (&["application/json"][..], types("application/json", true), none()),
        (&["application/vnd.a+json"], types("application/vnd.a+json", false), none()),
        (&["*/*+json"], types("*/*+json", false), types("text/*+json", false)),
        (&["text/*"], types("text/json text/x-json text/*+json", false), types("text/plain text/*", true)),
        (&["text/csv", "text/plain"], none(), types("text/plain text/csv", true)),
    ] {
        assert_eq!(of(allow, Policy::Reject), [json, text], "{allow:?}");
    }
    // The codec that it names reads what is not listed.
    let all = Codecs::builder().with(Text).build().unwrap().describe().table().codecs[0].reads.join(" ");
    let named = of(&["application/json"], Policy::Codec("text"));
    assert_eq!(named, [types("application/json", true), (all, true)]);
}
