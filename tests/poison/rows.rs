//! The table: what is sent, to which endpoint, and what the dead letter says.

use consign::{
    Message,
    message::{MessageBody, PropertyValue, Value},
};

use crate::{attacks::*, handlers::Endpoint};

pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) endpoint: Endpoint,
    pub(crate) content_type: Option<&'static str>,
    pub(crate) reason: &'static str,
    pub(crate) trail: Option<&'static str>,
    pub(crate) description: &'static str,
    subject: Option<String>,
    encoding: Option<&'static str>,
    reply_to: Option<&'static str>,
    body: MessageBody,
}

const JSON: &str = "application/json";
const MSGPACK: &str = "application/msgpack";
const CBOR: &str = "application/cbor";
const BINCODE: &str = "application/x-bincode";
const POSTCARD: &str = "application/x-postcard";
const PROTOBUF: &str = "application/protobuf";
const TEXT: &str = "text/plain";

impl Row {
    /// An order for the endpoint without a chain, without a ContentType.
    fn new(name: &'static str, body: impl Into<MessageBody>) -> Self {
        Self {
            name,
            endpoint: Endpoint::Alone,
            content_type: None,
            reason: "",
            trail: None,
            description: "",
            subject: Some("order".to_owned()),
            encoding: None,
            reply_to: Some("answers"),
            body: body.into(),
        }
    }

    fn declared(mut self, content_type: &'static str) -> Self {
        self.content_type = Some(content_type);
        self
    }

    fn at(mut self, endpoint: Endpoint) -> Self {
        self.endpoint = endpoint;
        self
    }

    fn about(mut self, subject: impl Into<String>) -> Self {
        self.subject = Some(subject.into());
        self
    }

    fn without_subject(mut self) -> Self {
        self.subject = None;
        self
    }

    fn without_reply_to(mut self) -> Self {
        self.reply_to = None;
        self
    }

    fn encoded(mut self, encoding: &'static str) -> Self {
        self.encoding = Some(encoding);
        self
    }

    /// No codec tried.
    fn refused(self, reason: &'static str, description: &'static str) -> Self {
        Self { reason, description, ..self }
    }

    /// Codecs tried, and this is what they said.
    fn fails(self, reason: &'static str, trail: &'static str, description: &'static str) -> Self {
        Self { reason, trail: Some(trail), description, ..self }
    }

    pub(crate) fn message(&self) -> Message {
        let mut builder = Message::builder()
            .message_id("m-1")
            .correlation_id("c-1")
            .session_id("s-1")
            .property("tenant", "north")
            .property("attempt", 7_i64)
            .property("ratio", f64::NAN.to_bits());
        if let Some(content_type) = self.content_type {
            builder = builder.content_type(content_type);
        }
        if let Some(subject) = &self.subject {
            builder = builder.subject(subject.clone());
        }
        if let Some(reply_to) = self.reply_to {
            builder = builder.reply_to(reply_to);
        }
        let mut message = builder.build(self.body.clone()).unwrap();
        if let Some(encoding) = self.encoding {
            message.properties_mut().pass_through_mut().content_encoding = Some(encoding.into());
        }
        message
    }
}

pub(crate) fn rows() -> Vec<Row> {
    [json(), msgpack(), cbor(), positional(), own_formats(), text(), labels(), chains(), others()]
        .into_iter()
        .flatten()
        .collect()
}

fn json() -> Vec<Row> {
    let row = |name, body: &'static [u8]| Row::new(name, body).declared(JSON);
    vec![
        row("json_syntax", JSON_SYNTAX).fails(
            "DeserializationFailed",
            "json;exact;Syntax;1:15;sku",
            "json: not well-formed: expected value at `sku`, line 1, column 15",
        ),
        row("json_truncated", JSON_TRUNCATED).fails(
            "DeserializationFailed",
            "json;exact;Truncated;1:26;sku",
            "json: the body ends inside the value at `sku`, line 1, column 26",
        ),
        row("json_trailing", JSON_TRAILING).fails(
            "DeserializationFailed",
            "json;exact;Trailing;1:30",
            "json: bytes follow the value at line 1, column 30",
        ),
        row("json_of_another_type", JSON_WRONG_TYPE).fails(
            "DeserializationFailed",
            "json;exact;Type;1:19;id;u64;text",
            "json: the value is not of the expected type: expected u64, found text at `id`, line 1, column 19",
        ),
        row("json_without_a_field", JSON_MISSING_FIELD).fails(
            "DeserializationFailed",
            "json;exact;Type;1:21",
            "json: the value is not of the expected type: missing field `id` at line 1, column 21",
        ),
        row("json_field_twice", JSON_DUPLICATE_FIELD).fails(
            "DeserializationFailed",
            "json;exact;DuplicateKey;1:33",
            "json: a key occurs twice: duplicate field `sku` at line 1, column 33",
        ),
        row("json_key_twice", JSON_DUPLICATE_KEY).at(Endpoint::Strict).about("value").fails(
            "DeserializationFailed",
            "json;exact;DuplicateKey;1:18",
            "json: a key occurs twice at line 1, column 18",
        ),
        row("json_unknown_variant", JSON_UNKNOWN_VARIANT).fails(
            "DeserializationFailed",
            "json;exact;Type;1:42;state;`open` or `closed`",
            "json: the value is not of the expected type: unknown variant, expected `open` or `closed` at `state`, line 1, column 42",
        ),
        row("json_refused_by_the_type", JSON_REFUSED_BY_THE_TYPE).fails(
            "DeserializationFailed",
            "json;exact;Type;1:42;zone",
            "json: the value is not of the expected type: the type refused the value at `zone`, line 1, column 42",
        ),
        row("json_not_utf_8", JSON_NOT_UTF_8).fails(
            "DeserializationFailed",
            "json;exact;Utf8;1:27",
            "json: not valid text in its charset at line 1, column 27",
        ),
        row("json_lone_surrogate", JSON_LONE_SURROGATE).fails(
            "DeserializationFailed",
            "json;exact;Syntax;1:33;sku",
            "json: not well-formed: unexpected end of hex escape at `sku`, line 1, column 33",
        ),
        row("json_nan", JSON_NAN).fails(
            "DeserializationFailed",
            "json;exact;Syntax;1:7;id",
            "json: not well-formed: expected value at `id`, line 1, column 7",
        ),
        row("json_type_in_an_array", JSON_TYPE_IN_AN_ARRAY).fails(
            "DeserializationFailed",
            "json;exact;Type;1:26;id;u64;text",
            "json: the value is not of the expected type: expected u64, found text at `id`, line 1, column 26",
        ),
        row("json_empty", EMPTY).fails("DeserializationFailed", "json;exact;EmptyBody;", "json: the body is empty"),
        row("json_blank", BLANK).fails(
            "DeserializationFailed",
            "json;exact;Truncated;2:2",
            "json: the body ends inside the value at line 2, column 2",
        ),
        Row::new("json_depth", json_arrays(200_000)).declared(JSON).about("value").fails(
            "LimitExceeded",
            "json;exact;Depth;1:79",
            "json: nested deeper than the limit: 64 levels at line 1, column 79",
        ),
        Row::new("json_depth_in_an_ignored_field", json_ignored_nesting(30_000)).declared(JSON).fails(
            "LimitExceeded",
            "json;exact;Depth;1:351",
            "json: nested deeper than the limit: 64 levels at line 1, column 351",
        ),
        Row::new("json_elements", json_elements(65_537)).declared(JSON).about("value").fails(
            "LimitExceeded",
            "json;exact;Count;1:131085",
            "json: more elements than the limit, or than the body can hold: 65536 elements at line 1, column 131085",
        ),
        Row::new("json_digits", json_digits(200_000)).declared(JSON).fails(
            "DeserializationFailed",
            "json;exact;Syntax;1:200026;id",
            "json: not well-formed: number out of range at `id`, line 1, column 200026",
        ),
        Row::new("json_size", json_of_size((256 << 10) + 1)).declared(JSON).fails(
            "LimitExceeded",
            "json;exact;Size;",
            "json: the body is larger than the limit: 262145 bytes, at most 262144",
        ),
    ]
}

fn msgpack() -> Vec<Row> {
    let row = |name, body: &'static [u8]| Row::new(name, body).declared(MSGPACK);
    vec![
        row("msgpack_of_another_type", MSGPACK_WRONG_TYPE).fails(
            "DeserializationFailed",
            "msgpack;exact;Type;4;id;u64;text",
            "msgpack: the value is not of the expected type: expected u64, found text at `id`, byte 4",
        ),
        row("msgpack_truncated", MSGPACK_TRUNCATED).fails(
            "DeserializationFailed",
            "msgpack;exact;Truncated;10",
            "msgpack: the body ends inside the value at byte 10",
        ),
        row("msgpack_trailing", MSGPACK_TRAILING).fails(
            "DeserializationFailed",
            "msgpack;exact;Trailing;21",
            "msgpack: bytes follow the value at byte 21",
        ),
        row("msgpack_field_twice", MSGPACK_DUPLICATE_FIELD).fails(
            "DeserializationFailed",
            "msgpack;exact;DuplicateKey;0",
            "msgpack: a key occurs twice: duplicate field `id` at byte 0",
        ),
        row("msgpack_not_utf_8", MSGPACK_NOT_UTF_8).fails(
            "DeserializationFailed",
            "msgpack;exact;Utf8;9;sku",
            "msgpack: not valid text in its charset at `sku`, byte 9",
        ),
        row("msgpack_reserved_marker", MSGPACK_RESERVED).fails(
            "DeserializationFailed",
            "msgpack;exact;Syntax;0",
            "msgpack: not well-formed at byte 0",
        ),
        row("msgpack_empty", EMPTY).fails(
            "DeserializationFailed",
            "msgpack;exact;EmptyBody;",
            "msgpack: the body is empty",
        ),
        row("msgpack_bytes_of_4_gib", MSGPACK_BIN_OF_4_GIB).fails(
            "LimitExceeded",
            "msgpack;exact;Length;5",
            "msgpack: a declared length is beyond the end of the body at byte 5",
        ),
        row("msgpack_text_of_4_gib", MSGPACK_STR_OF_4_GIB).fails(
            "LimitExceeded",
            "msgpack;exact;Length;5",
            "msgpack: a declared length is beyond the end of the body at byte 5",
        ),
        row("msgpack_extension_of_4_gib", MSGPACK_EXT_OF_4_GIB).fails(
            "LimitExceeded",
            "msgpack;exact;Length;5",
            "msgpack: a declared length is beyond the end of the body at byte 5",
        ),
        row("msgpack_array_of_4_g", MSGPACK_ARRAY_OF_4_G).fails(
            "LimitExceeded",
            "msgpack;exact;Count;5",
            "msgpack: more elements than the limit, or than the body can hold: 65536 elements at byte 5",
        ),
        row("msgpack_map_of_4_g", MSGPACK_MAP_OF_4_G).fails(
            "LimitExceeded",
            "msgpack;exact;Count;5",
            "msgpack: more elements than the limit, or than the body can hold: 65536 elements at byte 5",
        ),
        Row::new("msgpack_depth", msgpack_arrays(100_000)).declared(MSGPACK).about("value").fails(
            "LimitExceeded",
            "msgpack;exact;Depth;76",
            "msgpack: nested deeper than the limit: 64 levels at byte 76",
        ),
        Row::new("msgpack_depth_of_1_000", msgpack_arrays(1_000)).declared(MSGPACK).about("value").fails(
            "LimitExceeded",
            "msgpack;exact;Depth;76",
            "msgpack: nested deeper than the limit: 64 levels at byte 76",
        ),
    ]
}

fn cbor() -> Vec<Row> {
    let row = |name, body: &'static [u8]| Row::new(name, body).declared(CBOR);
    vec![
        row("cbor_of_another_type", CBOR_WRONG_TYPE).fails(
            "DeserializationFailed",
            "cbor;exact;Type;4;id;u64;text",
            "cbor: the value is not of the expected type: expected u64, found text at `id`, byte 4",
        ),
        row("cbor_truncated", CBOR_TRUNCATED).fails(
            "DeserializationFailed",
            "cbor;exact;Truncated;10",
            "cbor: the body ends inside the value at byte 10",
        ),
        row("cbor_trailing", CBOR_TRAILING).fails(
            "DeserializationFailed",
            "cbor;exact;Trailing;21",
            "cbor: bytes follow the value at byte 21",
        ),
        row("cbor_not_utf_8", CBOR_NOT_UTF_8).fails(
            "DeserializationFailed",
            "cbor;exact;Utf8;9;sku",
            "cbor: not valid text in its charset at `sku`, byte 9",
        ),
        row("cbor_break_alone", CBOR_BREAK_ALONE).fails(
            "DeserializationFailed",
            "cbor;exact;Syntax;0",
            "cbor: not well-formed at byte 0",
        ),
        row("cbor_bytes_of_1_tib", CBOR_BYTES_OF_1_TIB).fails(
            "LimitExceeded",
            "cbor;exact;Length;9",
            "cbor: a declared length is beyond the end of the body at byte 9",
        ),
        row("cbor_array_of_1_t", CBOR_ARRAY_OF_1_T).fails(
            "LimitExceeded",
            "cbor;exact;Count;9",
            "cbor: more elements than the limit, or than the body can hold: 65536 elements at byte 9",
        ),
        Row::new("cbor_depth", cbor_arrays(200_000)).declared(CBOR).about("value").fails(
            "LimitExceeded",
            "cbor;exact;Depth;76",
            "cbor: nested deeper than the limit: 64 levels at byte 76",
        ),
        Row::new("cbor_depth_without_counts", cbor_indefinite_arrays(200_000)).declared(CBOR).about("value").fails(
            "LimitExceeded",
            "cbor;exact;Depth;76",
            "cbor: nested deeper than the limit: 64 levels at byte 76",
        ),
        Row::new("cbor_depth_of_tags", cbor_tags(200_000)).declared(CBOR).about("value").fails(
            "LimitExceeded",
            "cbor;exact;Depth;76",
            "cbor: nested deeper than the limit: 64 levels at byte 76",
        ),
    ]
}

fn positional() -> Vec<Row> {
    let row = |name, body: &'static [u8]| Row::new(name, body).declared(BINCODE).about("line");
    let postcard = |name, body: &'static [u8]| Row::new(name, body).declared(POSTCARD).about("line");
    vec![
        row("bincode_units", BINCODE_UNITS).about("units").fails(
            "LimitExceeded",
            "bincode;exact;Count;8",
            "bincode: more elements than the limit, or than the body can hold: 65536 elements at byte 8",
        ),
        row("bincode_length", BINCODE_LENGTH).fails(
            "LimitExceeded",
            "bincode;exact;Length;16;sku",
            "bincode: a declared length is beyond the end of the body at `sku`, byte 16",
        ),
        row("bincode_truncated", BINCODE_TRUNCATED).fails(
            "DeserializationFailed",
            "bincode;exact;Truncated;16;sku",
            "bincode: the body ends inside the value at `sku`, byte 16",
        ),
        row("bincode_trailing", BINCODE_TRAILING).fails(
            "DeserializationFailed",
            "bincode;exact;Trailing;27",
            "bincode: bytes follow the value at byte 27",
        ),
        row("bincode_not_utf_8", BINCODE_NOT_UTF_8).fails(
            "DeserializationFailed",
            "bincode;exact;Utf8;29;sku",
            "bincode: not valid text in its charset at `sku`, byte 29",
        ),
        row("bincode_of_json", JSON_AS_BINCODE).fails(
            "LimitExceeded",
            "bincode;exact;Length;16;sku",
            "bincode: a declared length is beyond the end of the body at `sku`, byte 16",
        ),
        row("bincode_parameter", JSON_AS_BINCODE).declared("application/x-bincode;encoding=zigzag").fails(
            "DeserializationFailed",
            "bincode;exact;UnsupportedParameter;",
            "bincode: a declared parameter is not supported: encoding `zigzag`, expected fixint or varint",
        ),
        row("bincode_needs_names", BINCODE_TRAILING).about("value").fails(
            "DeserializationFailed",
            "bincode;exact;Type;0;;any valid JSON value",
            "bincode: the value is not of the expected type: the type needs a self-describing format, expected any valid JSON value at byte 0",
        ),
        postcard("postcard_units", POSTCARD_UNITS).about("units").fails(
            "LimitExceeded",
            "postcard;exact;Count;6",
            "postcard: more elements than the limit, or than the body can hold: 65536 elements at byte 6",
        ),
        postcard("postcard_garbage", POSTCARD_GARBAGE).fails(
            "DeserializationFailed",
            "postcard;exact;Syntax;10;id",
            "postcard: not well-formed at `id`, byte 10",
        ),
        postcard("postcard_length", POSTCARD_LENGTH).fails(
            "LimitExceeded",
            "postcard;exact;Length;6;sku",
            "postcard: a declared length is beyond the end of the body at `sku`, byte 6",
        ),
        postcard("postcard_trailing", POSTCARD_TRAILING).fails(
            "DeserializationFailed",
            "postcard;exact;Trailing;13",
            "postcard: bytes follow the value at byte 13",
        ),
    ]
}

fn own_formats() -> Vec<Row> {
    let row = |name, body: &'static [u8]| Row::new(name, body).declared(PROTOBUF).about("node");
    vec![
        row("protobuf_length", PROTOBUF_LENGTH).fails(
            "LimitExceeded",
            "protobuf;exact;Length;6",
            "protobuf: a declared length is beyond the end of the body at byte 6",
        ),
        row("protobuf_not_utf_8", PROTOBUF_NOT_UTF_8).fails(
            "DeserializationFailed",
            "protobuf;exact;Utf8;;name",
            "protobuf: not valid text in its charset at `name`",
        ),
        row("protobuf_of_another_type", PROTOBUF_WRONG_TYPE).fails(
            "DeserializationFailed",
            "protobuf;exact;Type;;name;a length-delimited value;integer",
            "protobuf: the value is not of the expected type: expected a length-delimited value, found integer at `name`",
        ),
        row("protobuf_garbage_inside", PROTOBUF_GARBAGE_INSIDE).fails(
            "DeserializationFailed",
            "protobuf;exact;Truncated;;next",
            "protobuf: the body ends inside the value at `next`",
        ),
        Row::new("protobuf_groups", protobuf_groups(100_000)).declared(PROTOBUF).about("node").fails(
            "LimitExceeded",
            "protobuf;exact;Depth;77",
            "protobuf: nested deeper than the limit: 64 levels at byte 77",
        ),
        row("protobuf_declared_as_json", PROTOBUF_NOT_UTF_8)
            .declared(JSON)
            .refused("UnsupportedContentType", "the type has a format of its own, which does not read the ContentType `application/json`: expected application/protobuf, application/x-protobuf, application/vnd.google.protobuf"),
        row("json_type_declared_as_protobuf", JSON_SYNTAX)
            .about("order")
            .refused("UnsupportedContentType", "no codec reads the ContentType `application/protobuf`"),
    ]
}

fn text() -> Vec<Row> {
    let row = |name, body: &'static [u8]| Row::new(name, body).declared(TEXT).about("text");
    vec![
        row("text_not_utf_8", TEXT_NOT_UTF_8).fails(
            "DeserializationFailed",
            "text;exact;Utf8;",
            "text: not valid text in its charset",
        ),
        row("text_utf_7", TEXT_NOT_UTF_8).declared("text/plain;charset=utf-7").fails(
            "UnsupportedCharset",
            "text;exact;UnsupportedCharset;",
            "text: the declared charset is not supported: `utf-7`, expected utf-8, us-ascii, iso-8859-1, utf-16, utf-16le or utf-16be",
        ),
        row("text_ascii", TEXT_NOT_UTF_8).declared("text/plain;charset=us-ascii").fails(
            "DeserializationFailed",
            "text;exact;Utf8;",
            "text: not valid text in its charset",
        ),
        row("text_half_a_utf_16_unit", TEXT_NOT_UTF_8).declared("text/plain;charset=utf-16le").fails(
            "DeserializationFailed",
            "text;exact;Utf8;",
            "text: not valid text in its charset",
        ),
    ]
}

fn labels() -> Vec<Row> {
    let row = |name, body: &'static [u8]| Row::new(name, body);
    let json = |name, content_type| Row::new(name, JSON_WRONG_TYPE).declared(content_type);
    vec![
        row("json_as_msgpack", JSON_MISSING_FIELD).declared(MSGPACK).fails("DeserializationFailed", "msgpack;exact;Trailing;1", "msgpack: bytes follow the value at byte 1"),
        row("msgpack_as_json", MSGPACK_WRONG_TYPE).declared(JSON).fails("DeserializationFailed", "json;exact;Utf8;1:1", "json: not valid text in its charset at line 1, column 1"),
        row("cbor_as_msgpack", CBOR_WRONG_TYPE).declared(MSGPACK).fails("DeserializationFailed", "msgpack;exact;Trailing;2", "msgpack: bytes follow the value at byte 2"),
        row("missing_is_refused", JSON_MISSING_FIELD).at(Endpoint::Declared).refused("UnsupportedContentType", "no ContentType is declared, and none is assumed"),
        // Rules: P-15.
        row("blank_is_missing", JSON_MISSING_FIELD).declared(" \t").at(Endpoint::Declared).refused("UnsupportedContentType", "no ContentType is declared, and none is assumed"),
        // Rules: P-16.
        row("missing_is_the_first_codec", MSGPACK_WRONG_TYPE).fails("DeserializationFailed", "json;default;Utf8;1:1", "json: not valid text in its charset at line 1, column 1"),
        row("json_utf_7", NOISE).declared("application/json;charset=utf-7").fails("UnsupportedCharset", "json;exact;UnsupportedCharset;", "json: the declared charset is not supported: `utf-7`, expected utf-8"),
        row("json_ibm037", NOISE).declared("application/json; charset=ibm037").fails("UnsupportedCharset", "json;exact;UnsupportedCharset;", "json: the declared charset is not supported: `ibm037`, expected utf-8"),
        row("json_utf_16", NOISE).declared("application/json; charset=\"UTF-16\"").fails("UnsupportedCharset", "json;exact;UnsupportedCharset;", "json: the declared charset is not supported: `utf-16`, expected utf-8"),
        row("two_charsets", NOISE).declared("application/json;charset=utf-7;charset=utf-8").fails("UnsupportedCharset", "json;exact;UnsupportedCharset;", "json: the declared charset is not supported: `utf-7`, expected utf-8"),
        json("two_types", "application/json, application/cbor").refused("MalformedContentType", "the ContentType `application/json, application/cbor` is malformed: its type or subtype is not a name"),
        json("unclosed_quote", "application/json;a=\"b").refused("MalformedContentType", "the ContentType `application/json;a=\"b` is malformed: a quoted value does not end"),
        json("nine_parameters", "application/json;a=1;b=1;c=1;d=1;e=1;f=1;g=1;h=1;i=1").refused("MalformedContentType", "the ContentType `application/json;a=1;b=1;c=1;d=1;e=1;f=1;g=1;h=1;i=1` is malformed: it has more than 8 parameters"),
        json("case_and_space", "APPLICATION/JSON ; Charset=\"UTF-8\"").fails("DeserializationFailed", "json;exact;Type;1:19;id;u64;text", "json: the value is not of the expected type: expected u64, found text at `id`, line 1, column 19"),
        json("line_break", "application/json\r\nX-Admin: 1").refused("MalformedContentType", "the ContentType `application/json\\r\\nX-Admin: 1` is malformed: it has a control character"),
        json("nul", "application/json\0").refused("MalformedContentType", "the ContentType `application/json\\u{0}` is malformed: it has a control character"),
        // Rules: P-07.
        json("no_slash", "json").refused("MalformedContentType", "the ContentType `json` is malformed: it has no `/` between type and subtype"),
        // Rules: P-07.
        json("no_subtype", "application/").refused("MalformedContentType", "the ContentType `application/` is malformed: its type or subtype is not a name"),
        // Rules: P-07.
        json("no_type", "/json").refused("MalformedContentType", "the ContentType `/json` is malformed: its type or subtype is not a name"),
        // Rules: P-07.
        json("two_slashes", "a/b/c").refused("MalformedContentType", "the ContentType `a/b/c` is malformed: its type or subtype is not a name"),
        // Rules: P-07.
        json("not_ascii", "application/j\u{f6}son\u{202e}").refused("MalformedContentType", "the ContentType `application/j\\u{f6}son\\u{202e}` is malformed: it has a character outside of US-ASCII that is not in quotes"),
        // Rules: P-08.
        json("any", "*/*").refused("MalformedContentType", "the ContentType `*/*` is malformed: a wildcard names no type"),
        // Rules: P-08.
        json("any_application", "application/*").refused("MalformedContentType", "the ContentType `application/*` is malformed: a wildcard names no type"),
        // Rules: P-05.
        json("suffix", "application/vnd.acme.order+json;v=2").fails("DeserializationFailed", "json;suffix;Type;1:19;id;u64;text", "json: the value is not of the expected type: expected u64, found text at `id`, line 1, column 19"),
        json("suffix_of_another_type", "application/cloudevents+json").fails("DeserializationFailed", "json;suffix;Type;1:19;id;u64;text", "json: the value is not of the expected type: expected u64, found text at `id`, line 1, column 19"),
        json("part_of_a_name", "application/jsonl").refused("UnsupportedContentType", "no codec reads the ContentType `application/jsonl`"),
        json("pickle", "application/x-python-serialize").refused("UnsupportedContentType", "no codec reads the ContentType `application/x-python-serialize`"),
        json("java", "application/x-java-serialized-object").refused("UnsupportedContentType", "no codec reads the ContentType `application/x-java-serialized-object`"),
        json("not_on_the_list", "application/cbor").at(Endpoint::JsonOnly).refused("ContentTypeNotAllowed", "the ContentType `application/cbor` is not allowed here"),
        json("ansi_escapes", "application/x-\u{1b}[31mred").refused("MalformedContentType", "the ContentType `application/x-\\u{1b}[31mred` is malformed: it has a control character"),
    ]
}

fn chains() -> Vec<Row> {
    let row = |name, body: &'static [u8]| Row::new(name, body).at(Endpoint::Chained);
    vec![
        // Rules: P-50.
        row("noise", NOISE).fails("DeserializationFailed", "json;default;Utf8;1:1,msgpack;fallback;Syntax;0,cbor;fallback;Syntax;1", "json: not valid text in its charset at line 1, column 1\nmsgpack: not well-formed at byte 0\ncbor: not well-formed at byte 1"),
        row("noise_as_json", NOISE).declared(JSON).fails("DeserializationFailed", "json;exact;Utf8;1:1,msgpack;fallback;Syntax;0,cbor;fallback;Syntax;1", "json: not valid text in its charset at line 1, column 1\nmsgpack: not well-formed at byte 0\ncbor: not well-formed at byte 1"),
        row("noise_as_something_unknown", NOISE).declared("application/x-unknown").fails("DeserializationFailed", "json;fallback;Utf8;1:1,msgpack;fallback;Syntax;0,cbor;fallback;Syntax;1", "json: not valid text in its charset at line 1, column 1\nmsgpack: not well-formed at byte 0\ncbor: not well-formed at byte 1"),
        row("noise_as_something_malformed", NOISE).declared("unknown").fails("DeserializationFailed", "json;fallback;Utf8;1:1,msgpack;fallback;Syntax;0,cbor;fallback;Syntax;1", "json: not valid text in its charset at line 1, column 1\nmsgpack: not well-formed at byte 0\ncbor: not well-formed at byte 1"),
        row("noise_as_bincode", NOISE).declared(BINCODE).about("line").fails("DeserializationFailed", "bincode;exact;Truncated;8;sku,json;fallback;Utf8;1:1,msgpack;fallback;Syntax;0,cbor;fallback;Syntax;1", "bincode: the body ends inside the value at `sku`, byte 8\njson: not valid text in its charset at line 1, column 1\nmsgpack: not well-formed at byte 0\ncbor: not well-formed at byte 1"),
        row("empty_with_a_chain", EMPTY).fails("DeserializationFailed", "json;default;EmptyBody;,msgpack;fallback;EmptyBody;,cbor;fallback;EmptyBody;", "json: the body is empty\nmsgpack: the body is empty\ncbor: the body is empty"),
        row("wrong_type_in_every_format", JSON_WRONG_TYPE).fails("DeserializationFailed", "json;default;Type;1:19;id;u64;text,msgpack;fallback;Trailing;1,cbor;fallback;Length;9", "json: the value is not of the expected type: expected u64, found text at `id`, line 1, column 19\nmsgpack: bytes follow the value at byte 1\ncbor: a declared length is beyond the end of the body at byte 9"),
        row("charset_with_a_chain", NOISE).declared("application/json;charset=utf-16").fails("UnsupportedCharset", "json;exact;UnsupportedCharset;,msgpack;fallback;Syntax;0,cbor;fallback;Syntax;1", "json: the declared charset is not supported: `utf-16`, expected utf-8\nmsgpack: not well-formed at byte 0\ncbor: not well-formed at byte 1"),
        row("suffix_with_a_chain", NOISE).declared("application/vnd.acme+cbor").fails("DeserializationFailed", "cbor;suffix;Syntax;1,json;fallback;Utf8;1:1,msgpack;fallback;Syntax;0", "cbor: not well-formed at byte 1\njson: not valid text in its charset at line 1, column 1\nmsgpack: not well-formed at byte 0"),
        Row::new("limit_then_the_chain", msgpack_arrays(1_000)).declared(MSGPACK).at(Endpoint::Chained).about("value").fails("LimitExceeded", "msgpack;exact;Depth;76,json;fallback;Utf8;1:1,cbor;fallback;Depth;87", "msgpack: nested deeper than the limit: 64 levels at byte 76\njson: not valid text in its charset at line 1, column 1\ncbor: nested deeper than the limit: 64 levels at byte 87"),
        row("positional_at_the_end", JSON_MISSING_FIELD).at(Endpoint::OptedIn).about("line").fails("DeserializationFailed", "json;default;Type;1:21,bincode;fallback;Length;16;sku", "json: the value is not of the expected type: missing field `id` at line 1, column 21\nbincode: a declared length is beyond the end of the body at `sku`, byte 16"),
        row("units_at_the_end", BINCODE_UNITS).at(Endpoint::OptedIn).about("units").fails("DeserializationFailed", "json;default;Syntax;1:1,bincode;fallback;Count;8", "json: not well-formed: expected value at line 1, column 1\nbincode: more elements than the limit, or than the body can hold: 65536 elements at byte 8"),
    ]
}

fn others() -> Vec<Row> {
    let encoded = |name, encoding| Row::new(name, JSON_WRONG_TYPE).declared(JSON).encoded(encoding);
    let json = |name| Row::new(name, r#"{"id":1,"sku":"CANARY-7f3a"}"#).declared(JSON);
    let list = Value::List(vec![Value::from(CANARY), Value::from(1_i32)]);
    vec![
        encoded("content_encoding_gzip", "gzip").refused(
            "UnsupportedEncoding",
            "the content encoding `gzip` needs a `DecompressLayer` (feature `gzip` of consign)",
        ),
        encoded("content_encoding_gzip_twice", "gzip, gzip")
            .refused("UnsupportedEncoding", "the content encoding `gzip, gzip` is not supported"),
        encoded("encoding_with_escapes", "\u{1b}[31mred\r\n")
            .refused("UnsupportedEncoding", "the content encoding `\\u{1b}[31mred\\r\\n` is not supported"),
        json("no_such_subject")
            .about("order.deleted")
            .refused("UnknownMessageType", "no handler takes the subject \"order.deleted\""),
        json("no_subject")
            .without_subject()
            .refused("UnknownMessageType", "the message has no subject, and no handler takes it"),
        json("a_subject_of_10_kb").about(format!("../\r\n\"{}", "x".repeat(10_000))).refused(
            "UnknownMessageType",
            "no handler takes the subject \"../\\r\\n\\\"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"",
        ),
        json("no_reply_to")
            .about("answered")
            .without_reply_to()
            .refused("MissingProperty", "the message has no ReplyTo"),
        json("refused_for_good").about("refused").refused("HandlerPermanent", "the order is closed"),
        Row::new("a_list", list.clone()).fails(
            "DeserializationFailed",
            "amqp-value;exact;Type;;id;u64;text",
            "amqp-value: the value is not of the expected type: expected u64, found text at `id`",
        ),
        Row::new("a_list_that_declares_json", list).declared(JSON).fails(
            "DeserializationFailed",
            "amqp-value;exact;Type;;id;u64;text",
            "amqp-value: the value is not of the expected type: expected u64, found text at `id`",
        ),
        Row::new("null", Value::Simple(PropertyValue::Null)).fails(
            "DeserializationFailed",
            "json;default;EmptyBody;",
            "json: the body is empty",
        ),
        Row::new("a_string_without_a_type_is_text", Value::from(CANARY)).fails(
            "DeserializationFailed",
            "text;exact;Type;;;struct Order;text",
            "text: the value is not of the expected type: expected struct Order, found text",
        ),
    ]
}
