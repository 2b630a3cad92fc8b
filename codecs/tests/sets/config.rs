//! What cannot be built, and the one sentence that says what to change.

use consign_codecs::{
    Bincode, CodecSet, Codecs, CodecsBuilder, ConfigErrorKind as Kind, Format, Json, MediaType, MessagePack, Policy,
    Postcard, Raw, Text,
};

use crate::support::{A, B, MANY, Told, nine};

#[track_caller]
fn refused<S: CodecSet>(builder: CodecsBuilder<S>, kind: Kind, text: &str) {
    let error = builder.build().map(|codecs| codecs.describe().to_string()).unwrap_err();
    assert_eq!((error.kind(), &*error.to_string()), (kind, text));
}

fn json_and_bincode() -> CodecsBuilder<impl CodecSet> {
    Codecs::builder().with(Json::default()).with(Bincode::default())
}

const NONE: &[MediaType] = &[];

#[test]
fn an_empty_set() {
    refused(Codecs::builder(), Kind::NoCodec, "the set is empty: add a codec with `with`");
}

#[test]
fn a_name_that_cannot_stand_in_a_trail() {
    refused(
        Codecs::builder().with(Told { name: "a;b", ..A }),
        Kind::InvalidName,
        "`a;b` is no codec's name: use 1 to 32 letters, digits, `-`, `_` and `.`",
    );
}

#[test]
fn one_name_twice() {
    refused(
        Codecs::builder().with(Bincode::fixint()).with(Bincode::varint()),
        Kind::DuplicateName,
        "two codecs are named `bincode`: give one of them another name",
    );
}

#[test]
fn no_media_type() {
    refused(
        Codecs::builder().with(Told { media_types: NONE, written: Some("application/a"), ..A }),
        Kind::InvalidMediaType,
        "`a` reads no media type: let `media_types` name at least one",
    );
}

#[test]
fn a_media_type_that_is_not_canonical() {
    const BAD: [(&[MediaType], &str); 6] = [
        (&[MediaType::exact("Application/A")], "Application/A"),
        (&[MediaType::exact("application/a; v=1")], "application/a; v=1"),
        (&[MediaType::exact("a")], "a"),
        (&[MediaType::exact("application/a"), MediaType::suffix("+a")], "*/*++a"),
        (&[MediaType::exact("application/a"), MediaType::range("text/")], "text//*"),
        (&[MediaType::exact("application/a"), MediaType::suffix("A")], "*/*+A"),
    ];
    for (media_types, text) in BAD {
        refused(
            Codecs::builder().with(Told { media_types, written: Some("application/a"), ..A }),
            Kind::InvalidMediaType,
            &format!("`a` reads `{text}`, which is not in canonical form: write it in lower case and without spaces"),
        );
    }
}

/// Rules: P-35.
#[test]
fn one_exact_type_twice() {
    const X: Told = Told::new("x", &[MediaType::exact("application/x"), MediaType::exact("application/json")]);
    const Q: Told = Told::new("q", &[MediaType::exact("a/b;c=1;d=2"), MediaType::exact("a/b;d=2;c=1")]);
    refused(
        Codecs::builder().with(Json::default()).with(X),
        Kind::DuplicateMediaType,
        "`json` and `x` both read `application/json`: leave it to one of them",
    );
    refused(
        Codecs::builder().with(Q),
        Kind::DuplicateMediaType,
        "`q` and `q` both read `a/b;d=2;c=1`: leave it to one of them",
    );
}

/// Rules: P-35.
#[test]
fn one_suffix_or_range_twice() {
    const X: Told = Told::new("x", &[MediaType::exact("application/x"), MediaType::suffix("json")]);
    const Y: Told = Told::new("y", &[MediaType::exact("application/y"), MediaType::range("text")]);
    refused(
        Codecs::builder().with(Json::default()).with(X),
        Kind::DuplicateMediaType,
        "`json` and `x` both read `*/*+json`: leave it to one of them",
    );
    refused(
        Codecs::builder().with(Text).with(Y),
        Kind::DuplicateMediaType,
        "`text` and `y` both read `text/*`: leave it to one of them",
    );
}

#[test]
fn a_codec_that_does_not_read_what_it_writes() {
    for written in ["application/x", "a"] {
        refused(
            Codecs::builder().with(Told { written: Some(written), ..A }),
            Kind::UnreadContentType,
            &format!("`a` writes `{written}` and does not read it: add that to its `media_types`"),
        );
    }
}

#[test]
fn a_name_that_is_not_in_the_set() {
    let set = || Codecs::builder().with(Json::default()).with(MessagePack);
    let text = |setter| {
        format!("`{setter}` names `xml`, which is not in the set: add that codec, or name one of json, msgpack")
    };
    refused(set().fallback(["json", "xml"]), Kind::UnknownCodec, &text("fallback"));
    refused(set().allow_positional("xml"), Kind::UnknownCodec, &text("allow_positional"));
    refused(set().on_missing(Policy::Codec("xml")), Kind::UnknownCodec, &text("on_missing"));
    refused(set().on_unknown(Policy::Codec("xml")), Kind::UnknownCodec, &text("on_unknown"));
    refused(set().on_malformed(Policy::Codec("xml")), Kind::UnknownCodec, &text("on_malformed"));
    refused(set().on_failed(Policy::Codec("xml")), Kind::UnknownCodec, &text("on_failed"));
    let chained = set().fallback(["json"]).on_not_allowed(Policy::CodecThenChain("xml"));
    refused(chained, Kind::UnknownCodec, &text("on_not_allowed"));
}

#[test]
fn one_codec_twice_in_the_chain() {
    refused(
        Codecs::builder().with(Json::default()).with(MessagePack).fallback(["json", "msgpack", "json"]),
        Kind::DuplicateInChain,
        "the chain names `json` twice, and a codec tries once: name it once",
    );
}

/// Rules: I-30.
#[test]
fn a_chain_that_is_too_long() {
    let names = |count| MANY[..count].iter().map(|codec| codec.name);
    assert!(nine().fallback(names(4)).build().is_ok());
    refused(
        nine().fallback(names(5)),
        Kind::ChainTooLong,
        "the chain has 5 codecs and may have 4: name fewer, or raise `max_fallbacks`, which goes up to 8",
    );
    assert!(nine().fallback(names(8)).max_fallbacks(8).build().is_ok());
    refused(
        nine().fallback(names(9)).max_fallbacks(9),
        Kind::ChainTooLong,
        "`max_fallbacks(9)` is over the maximum: a chain has at most 8 codecs",
    );
}

#[test]
fn a_positional_codec_in_a_chain_unasked() {
    refused(
        json_and_bincode().fallback(["json", "bincode"]),
        Kind::PositionalNotAllowed,
        "the chain lets `bincode` read bodies that do not declare it, and a positional format may take them for its own: \
         leave it out, or accept that with `allow_positional(\"bincode\")`",
    );
    let text = "`on_failed` lets `bincode` read bodies that do not declare it, and a positional format may take them for its \
                own: leave it out, or accept that with `allow_positional(\"bincode\")`";
    refused(json_and_bincode().on_failed(Policy::Codec("bincode")), Kind::PositionalNotAllowed, text);
    assert!(json_and_bincode().fallback(["json", "bincode"]).allow_positional("bincode").build().is_ok());
    assert!(json_and_bincode().on_failed(Policy::Codec("bincode")).allow_positional("bincode").build().is_ok());
}

#[test]
fn two_positional_codecs_in_a_chain() {
    refused(
        json_and_bincode()
            .with(Postcard)
            .fallback(["json", "bincode", "postcard"])
            .allow_positional("bincode")
            .allow_positional("postcard"),
        Kind::SecondPositional,
        "the chain tries `bincode` and `postcard`, which read each other's bytes: keep one positional codec",
    );
}

#[test]
fn a_chain_out_of_order() {
    let text = |place, before, after| {
        format!(
            "{place} tries `{before}`, which may take any bytes for its own, before `{after}`: put self-describing codecs \
             first, then a positional one, then opaque ones"
        )
    };
    let chain = |names: [&'static str; 2]| json_and_bincode().with(Raw).allow_positional("bincode").fallback(names);
    refused(chain(["bincode", "json"]), Kind::ChainOrder, &text("the chain", "bincode", "json"));
    refused(chain(["raw", "json"]), Kind::ChainOrder, &text("the chain", "raw", "json"));
    refused(chain(["raw", "bincode"]), Kind::ChainOrder, &text("the chain", "raw", "bincode"));
    assert!(chain(["bincode", "raw"]).build().is_ok());
    refused(
        chain(["json", "raw"]).on_missing(Policy::CodecThenChain("bincode")),
        Kind::ChainOrder,
        &text("`on_missing`", "bincode", "json"),
    );
    refused(
        Codecs::builder().with(Raw).with(Json::default()).fallback(["json"]),
        Kind::ChainOrder,
        &text("`on_missing`, which is not set,", "raw", "json"),
    );
}

#[test]
fn a_chain_that_is_never_reached() {
    let unreached = || {
        Codecs::builder()
            .with(A)
            .with(B)
            .fallback(["b"])
            .on_missing(Policy::Reject)
            .on_unknown(Policy::Reject)
            .on_malformed(Policy::Codec("b"))
            .on_failed(Policy::Reject)
    };
    let text = "no policy uses the chain, so it is never reached: set one to `Policy::Chain`, or drop `fallback`";
    refused(unreached().on_not_allowed(Policy::Reject), Kind::ChainUnreachable, text);
    refused(unreached(), Kind::ChainUnreachable, text);
    assert!(unreached().allow(["application/a"]).build().is_ok());
}

#[test]
fn a_policy_without_its_chain() {
    for policy in [Policy::Chain, Policy::CodecThenChain("a")] {
        refused(
            Codecs::builder().with(A).on_malformed(policy),
            Kind::NoChain,
            "`on_malformed` uses the chain, and there is none: name its codecs with `fallback`",
        );
    }
}

#[test]
fn an_allow_list_that_lists_nothing() {
    refused(
        Codecs::builder().with(A).allow([""; 0]),
        Kind::InvalidAllowList,
        "`allow` is an empty list, which refuses every type: name the media types that may be declared",
    );
    for entry in ["json", "*/*", "*/*+", "application/json;charset=utf-8", "/*", ""] {
        refused(
            Codecs::builder().with(A).allow(["application/a", entry]),
            Kind::InvalidAllowList,
            &format!(
                "`allow` names `{entry}`, which is no media type: write `application/json`, `*/*+json` or `text/*`, without \
                 parameters"
            ),
        );
    }
}

#[test]
fn opaque_codecs_come_last_and_positional_is_a_matter_of_format() {
    let positional = Told { format: Format::Positional, ..B };
    assert!(Codecs::builder().with(positional).build().is_ok());
    assert!(Codecs::builder().with(A).with(Text).with(Raw).fallback(["a", "text", "raw"]).build().is_ok());
}
