use std::collections::BTreeMap;

use consign_codecs::{Cbor, Codecs, EncodeErrorKind, Json, MessagePack};

use crate::support::{A, B};

/// Rules: P-30, P-31, P-36.
#[test]
fn every_alias_is_read() {
    let codecs = Codecs::builder().with(Json::default()).with(MessagePack).with(Cbor).build().unwrap();
    for (name, aliases) in [
        ("json", &["application/json", "text/json", "application/x-json", "text/x-json", "application/vnd.a+json"][..]),
        (
            "msgpack",
            &[
                "application/msgpack",
                "application/x-msgpack",
                "application/messagepack",
                "application/x-messagepack",
                "application/vnd.msgpack",
                "application/vnd.a+msgpack",
            ],
        ),
        ("cbor", &["application/cbor", "application/x-cbor", "application/vnd.a+cbor"]),
    ] {
        for alias in aliases {
            assert_eq!(codecs.codec_for(alias), Some(name), "{alias}");
            let encoded = codecs.encode_as(&7, alias).unwrap();
            assert_eq!(
                (encoded.content_type, codecs.decode(Some(alias), &encoded.body)),
                (aliases[0], Ok(7)),
                "{alias}"
            );
        }
    }
}

/// Rules: P-35.
#[test]
fn encoding_always_stamps_the_content_type() {
    let encoded = Codecs::json().encode("text").unwrap();
    assert_eq!((encoded.content_type, &*encoded.body), ("application/json", b"\"text\"" as &[u8]));
}

#[test]
fn a_reply_is_in_the_requesters_format() {
    let codecs = Codecs::builder().with(Json::default()).with(MessagePack).with(Cbor).build().unwrap();
    for (requested, written) in [
        ("application/json", "application/json"),
        ("APPLICATION/JSON; charset=utf-8", "application/json"),
        ("application/vnd.acme+json;v=2", "application/json"),
        ("application/x-msgpack", "application/msgpack"),
        ("application/senml+cbor", "application/cbor"),
    ] {
        let encoded = codecs.encode_as(&(1, "a"), requested).unwrap();
        assert_eq!(encoded.content_type, written);
        assert_eq!(codecs.decode::<(u8, &str)>(Some(encoded.content_type), &encoded.body).unwrap(), (1, "a"));
    }
    for requested in ["application/xml", "xml", "", "*/*"] {
        let error = codecs.encode_as(&1, requested).unwrap_err();
        assert_eq!(error.kind(), EncodeErrorKind::NoSuchMediaType);
        assert_eq!(error.to_string(), format!("no codec of the set writes the media type: `{requested}`"));
    }
}

#[test]
fn a_codec_by_its_name() {
    let codecs = Codecs::builder().with(A).with(B).build().unwrap();
    assert_eq!(codecs.encode_with(&1, "b").unwrap().content_type, "application/b");
    let error = codecs.encode_with(&1, "c").unwrap_err();
    assert_eq!(error.kind(), EncodeErrorKind::NoSuchCodec);
    assert_eq!(error.to_string(), "the set has no codec of this name: `c`, expected one of a, b");
    assert_eq!((codecs.codec_for("text/a"), codecs.codec_for("text/x")), (Some("a"), None));
}

#[test]
fn a_failed_encode_is_no_body() {
    let codecs = Codecs::builder().with(A.refuses()).build().unwrap();
    assert_eq!(codecs.encode("text").unwrap_err().kind(), EncodeErrorKind::Unsupported);
    let map = BTreeMap::from([((1, 2), 3)]);
    assert!(Codecs::json().encode(&map).is_err());
}
