use bytes::BytesMut;
use consign_codecs::{
    Chosen, Codec, CodecSet, Codecs, DataContractBinary, DataContractXml, DecodeContext, EncodeErrorKind, Json, Limits,
    MessagePack,
};
use serde::{Deserialize, Serialize};

use crate::support::{CONTRACT, binary, element, golden, start};

#[derive(Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Line {
    sku: String,
    quantity: u32,
}

fn line() -> Line {
    Line { sku: "nail".into(), quantity: 100 }
}

fn consumer() -> Codecs<impl CodecSet> {
    Codecs::builder()
        .with(Json::default())
        .with(MessagePack)
        .with(DataContractBinary::default())
        .with(DataContractXml::default())
        .fallback(["json", "msgpack", "datacontract-binary", "datacontract-xml"])
        .build()
        .unwrap()
}

fn written(codec: &impl Codec) -> Vec<u8> {
    let mut out = BytesMut::new();
    codec.encode(&line(), &mut out).unwrap();
    out.to_vec()
}

/// The object of `order.bin` that is one line, as a body.
fn in_binary() -> Vec<u8> {
    let sku = [&element("Sku")[..], b"\x99\x04nail"].concat();
    let quantity = [&element("Quantity")[..], &[0x89, 100]].concat();
    [start("Line", CONTRACT), sku, quantity, vec![1]].concat()
}

fn in_text() -> Vec<u8> {
    format!("<Line xmlns=\"{CONTRACT}\"><Quantity>100</Quantity><Sku>nail</Sku></Line>").into_bytes()
}

/// Rules: P-50, P-58.
#[test]
fn a_chain_reads_bodies_of_dotnet_json_and_messagepack() {
    let codecs = consumer();
    for (body, by, failed) in [
        (written(&Json::default()), "json", 0),
        (written(&MessagePack), "msgpack", 1),
        (in_binary(), "datacontract-binary", 2),
        (in_text(), "datacontract-xml", 3),
    ] {
        for declared in [None, Some("application/octet-stream")] {
            let decoded = codecs.decode_traced::<Line>(declared, &body).unwrap();
            assert_eq!((decoded.value, decoded.by), (line(), by), "{declared:?}");
            assert_eq!(decoded.attempts.len(), failed, "{by}: {:?}", decoded.attempts);
        }
        // A wrong ContentType is one more attempt, or the same.
        assert_eq!(codecs.decode_traced::<Line>(Some("application/json"), &body).unwrap().by, by);
    }
    for (body, declared, chosen) in [
        (in_binary(), "application/msbin1", Chosen::Exact),
        (in_text(), "application/xml; charset=utf-8", Chosen::Exact),
        (in_text(), "text/xml", Chosen::Alias),
        (in_text(), "application/atom+xml;type=entry;charset=utf-8", Chosen::Suffix),
    ] {
        let decoded = codecs.decode_traced::<Line>(Some(declared), &body).unwrap();
        assert_eq!((decoded.value, decoded.chosen), (line(), chosen), "{declared}");
    }
    for name in ["string-hello.bin", "string-hello.xml", "string-json.bin"] {
        assert!(codecs.decode::<String>(None, &golden(name)).is_ok(), "{name}");
    }
}

/// Rules: P-58.
#[test]
fn a_body_of_another_kind_goes_to_the_next_codec() {
    let codecs = consumer();
    let failure = codecs.decode::<Line>(None, b"<feed xmlns=\"http://www.w3.org/2005/Atom\"/>").unwrap_err();
    let trail = failure.trail().to_string();
    assert!(trail.contains("datacontract-binary;fallback;Syntax;0;;a record that starts an element"), "{trail}");
    assert!(trail.contains("datacontract-xml;fallback;Type;1:1;;an element in a namespace"), "{trail}");
    let other = start("feed", "http://www.w3.org/2005/Atom");
    let failure = codecs.decode::<Line>(None, &[&other[..], &[1]].concat()).unwrap_err();
    let text = failure.to_string();
    assert!(
        text.contains("datacontract-binary: the value is not of the expected type: not the element of a data contract"),
        "{text}"
    );
}

#[derive(Debug, Deserialize)]
#[allow(dead_code, reason = "only the refusal counts")]
#[serde(rename_all = "PascalCase")]
struct Wrong {
    lines: Vec<WrongLine>,
}

#[derive(Debug, Deserialize)]
#[allow(dead_code, reason = "only the refusal counts")]
#[serde(rename_all = "PascalCase")]
struct WrongLine {
    sku: u32,
}

/// Rules: P-121, P-122.
#[test]
fn the_failure_of_a_body_has_codec_place_and_expectation() {
    let codecs =
        Codecs::builder().with(DataContractBinary::default()).with(DataContractXml::default()).build().unwrap();
    let body = golden("order.bin");
    let failure = codecs.decode::<Wrong>(Some("application/msbin1"), &body).unwrap_err();
    let at = body.windows(5).enumerate().filter(|(_, bytes)| bytes == b"\x40\x03Sku").nth(1).unwrap().0;
    assert_eq!(
        failure.to_string(),
        format!(
            "datacontract-binary: the value is not of the expected type: expected u32, found text at `Lines[0].Sku`, byte {at}"
        )
    );
    assert_eq!(failure.trail().to_string(), format!("datacontract-binary;exact;Type;{at};Lines[0].Sku;u32;text"));
    let failure = codecs.decode::<Wrong>(Some("text/xml"), &golden("order.xml")).unwrap_err();
    let trail = failure.trail().to_string();
    assert!(
        trail.starts_with("datacontract-xml;alias;Type;1:") && trail.ends_with(";Lines[0].Sku;u32;text"),
        "{trail}"
    );
    assert!(!trail.contains("nail") && !failure.to_string().contains("nail"));
}

#[test]
fn values_are_not_written() {
    let mut out = BytesMut::new();
    for error in [
        DataContractBinary::default().encode(&line(), &mut out).unwrap_err(),
        DataContractXml::default().encode(&line(), &mut out).unwrap_err(),
    ] {
        assert_eq!(error.kind(), EncodeErrorKind::Unsupported);
        assert!(error.to_string().ends_with("are only read"), "{error}");
    }
    assert!(out.is_empty());
}

/// Rules: P-20.
#[test]
fn an_empty_body_is_none_or_unit() {
    let limits = Limits::default();
    let cx = DecodeContext::new(&limits);
    assert_eq!(binary::<Option<Line>>(b""), Ok(None));
    assert_eq!(DataContractXml::default().decode::<Option<Line>>(b"\xef\xbb\xbf", &cx), Ok(None));
    assert_eq!(binary::<Line>(b"").unwrap_err().kind(), consign_codecs::DecodeErrorKind::EmptyBody);
}
