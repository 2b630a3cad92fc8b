//! Hostile requests: each is refused or its connection is closed, and nothing is stored or created.

use crate::support::{Answer, Harness, request};

/// A name, the bytes, and whether the client ends after them: for a request that is not complete.
struct Case {
    name: String,
    bytes: Vec<u8>,
    ends: bool,
}

fn case(name: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Case {
    Case { name: name.into(), bytes: bytes.into(), ends: false }
}

/// A request that sends the body `12345`, with these lines instead of a length.
fn lines(name: &str, lines: &str) -> Case {
    case(name, format!("POST /q/messages HTTP/1.1\r\nHost: h\r\nConnection: close\r\n{lines}\r\n12345"))
}

fn send(name: impl Into<String>, headers: &[(&str, &str)], body: impl AsRef<[u8]>) -> Case {
    case(name, request("POST", "/q/messages", headers, body))
}

/// The body in chunks, which end with the request.
fn chunks(name: &str, chunks: &str) -> Case {
    let head = "POST /q/messages HTTP/1.1\r\nHost: h\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n";
    Case { ends: true, ..case(name, format!("{head}{chunks}")) }
}

fn lengths() -> Vec<Case> {
    let mut cases: Vec<_> = [
        "5\r\nContent-Length: 6",
        "5, 6",
        "-5",
        "+5",
        "0x5",
        "5 5",
        "5a",
        "",
        "99999999999999999999999",
        "18446744073709551615",
        "1099511627776",
    ]
    .map(|length| lines(&format!("Content-Length {length:?}"), &format!("Content-Length: {length}\r\n")))
    .into();
    for coding in
        ["identity", "gzip", "chunked, identity", "chunked, gzip", "xchunked", "\"chunked\"", "chunkedx", "chunked\0"]
    {
        cases.push(lines(&format!("Transfer-Encoding {coding:?}"), &format!("Transfer-Encoding: {coding}\r\n")));
    }
    let old = "POST /q/messages HTTP/1.0\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n";
    cases.push(case("chunks of HTTP/1.0", old));
    for (name, text) in [
        ("no size of a chunk", "\r\na\r\n0\r\n\r\n"),
        ("a size that is no number", "zz\r\na\r\n0\r\n\r\n"),
        ("a size with a sign", "-1\r\na\r\n0\r\n\r\n"),
        ("a size of 80 bits", "ffffffffffffffffffff\r\na\r\n0\r\n\r\n"),
        ("a size with a prefix", "0x1\r\na\r\n0\r\n\r\n"),
        ("a chunk that is longer than its size", "1\r\nab\r\n0\r\n\r\n"),
        ("a chunk that is cut", "5\r\nab"),
        ("no last chunk", "1\r\na\r\n"),
        ("an end that is cut", "1\r\na\r\n0\r\n"),
    ] {
        cases.push(chunks(name, text));
    }
    cases.push(chunks("a chunk extension of 64 KiB", &format!("1;{}\r\na\r\n0\r\n\r\n", "x".repeat(65_536))));
    cases.push(chunks("trailers of 1 MiB", &format!("1\r\na\r\n0\r\n{}\r\n", "a: b\r\n".repeat(200_000))));
    cases.push(Case { ends: true, ..lines("a body that is cut", "Content-Length: 500\r\n") });
    cases.push(Case { ends: true, ..case("headers that are cut", "POST /q/messages HTTP/1.1\r\nHost: h\r\nContent-") });
    cases
}

fn heads() -> Vec<Case> {
    let mut cases: Vec<_> = [
        ("a space in front of the colon", "Content-Length : 5\r\n"),
        ("a folded header", "Content-Length: 5\r\na: b\r\n c\r\n"),
        ("a NUL in a value", "Content-Length: 5\r\na: b\0c\r\n"),
        ("a CR in a value", "Content-Length: 5\r\na: b\rc\r\n"),
        ("a control character in a value", "Content-Length: 5\r\na: b\u{1}c\r\n"),
        ("no colon", "Content-Length: 5\r\nabc\r\n"),
        ("an empty name", "Content-Length: 5\r\n: b\r\n"),
        ("a name that is no token", "Content-Length: 5\r\na(b: c\r\n"),
        ("two hosts", "Host: other\r\nContent-Length: 5\r\n"),
    ]
    .map(|(name, text)| lines(name, text))
    .into();
    for host in ["", "a b", "a/b", "a@b", "a?b", "a\"b", "<a>"] {
        let text =
            format!("POST /q/messages HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Length: 1\r\n\r\n1");
        cases.push(case(format!("host {host:?}"), text));
    }
    for line in [
        "POST /q/messages HTTP/3.0",
        "POST /q/messages HTTP/1.10",
        "POST /q/messages http/1.1",
        "POST /q/messages",
        "POST  /q/messages HTTP/1.1",
        "POST /q /messages HTTP/1.1",
        "POST /q\0/messages HTTP/1.1",
        "P@ST /q/messages HTTP/1.1",
        "post /q/messages HTTP/1.1",
        "CONNECT h:80 HTTP/1.1",
        "OPTIONS * HTTP/1.1",
        "POST q/messages HTTP/1.1",
        "POST /%ff/messages HTTP/1.1",
        "POST /%C0%A0/messages HTTP/1.1",
        "POST /%00/messages HTTP/1.1",
        "POST /../q/messages HTTP/1.1",
        "POST /q//messages HTTP/1.1",
        "POST //messages HTTP/1.1",
        "POST /q%3f/messages HTTP/1.1",
        "POST /q/messages?timeout=-1 HTTP/1.1",
        "POST /q/messages?timeout=%ff HTTP/1.1",
        "POST /q/messages?timeout=99999999999999999999999 HTTP/1.1",
    ] {
        let text = format!("{line}\r\nHost: h\r\nConnection: close\r\nContent-Length: 1\r\n\r\n1");
        cases.push(Case { ends: line == "POST /q/messages", ..case(line, text) });
    }
    let long = format!("POST /{}/messages HTTP/1.1", "a".repeat(100_000));
    cases.push(case("a path of 100,000 bytes", format!("{long}\r\nHost: h\r\nContent-Length: 0\r\n\r\n")));
    cases.push(case("no host", "POST /q/messages HTTP/1.1\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"));
    cases.push(Case { ends: true, ..case("the preface of HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n") });
    cases.push(Case { ends: true, ..case("a hello of TLS", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".to_vec()) });
    cases.push(Case { ends: true, ..case("a header of AMQP", b"AMQP\x00\x01\x00\x00".to_vec()) });
    let many: String = (0..200).fold(String::new(), |text, number| text + &format!("a{number}: b\r\n"));
    cases.push(lines("200 headers", &format!("{many}Content-Length: 5\r\n")));
    let large = "x".repeat(200_000);
    cases.push(send("a header of 200,000 bytes", &[("a", &large)], "1"));
    cases.push(send("a page of another site", &[("Origin", "http://other")], "1"));
    cases.push(send("a page without an origin", &[("Origin", "null")], "1"));
    cases
}

fn properties() -> Vec<Case> {
    let mut cases = Vec::new();
    let id = format!("{{\"MessageId\":\"{}\"}}", "a".repeat(200));
    let deep = format!("{{\"a\":{}", "[".repeat(20_000));
    for value in [
        "",
        "x",
        "[]",
        "5",
        "null",
        "{",
        "{}{}",
        "{\"Label\":}",
        "{'Label':'a'}",
        "{\"Label\":5}",
        "{\"Label\":[\"a\"]}",
        "{\"MessageId\":\"\"}",
        "{\"MessageId\":{}}",
        "{\"TimeToLive\":\"10\"}",
        "{\"TimeToLive\":-1}",
        "{\"TimeToLive\":0}",
        "{\"TimeToLive\":1e400}",
        "{\"SessionId\":\"a\",\"PartitionKey\":\"b\"}",
        "{\"ScheduledEnqueueTimeUtc\":\"tomorrow\"}",
        "{\"ScheduledEnqueueTimeUtc\":5}",
        "{\"Label\":\"\\ud800\"}",
        &id,
        &deep,
    ] {
        let shown: String = value.chars().take(40).collect();
        cases.push(send(format!("BrokerProperties {shown}"), &[("BrokerProperties", value)], "1"));
    }
    let twice = [("BrokerProperties", "{}"), ("brokerproperties", "{}")];
    cases.push(send("two BrokerProperties", &twice, "1"));
    cases.push(send("a property twice", &[("a", "1"), ("A", "2")], "1"));
    cases.push(send("a property of 40,000 bytes", &[("a", &"x".repeat(40_000))], "1"));
    cases.push(send("two types", &[("Content-Type", "a/b"), ("Content-Type", "c/d")], "1"));
    let mut latin = send("a property that is not UTF-8", &[("a", "XX")], "1");
    let at = latin.bytes.windows(2).position(|window| window == b"XX").unwrap();
    latin.bytes[at] = 0xff;
    cases.push(latin);
    for value in ["", "[]", "{\"a\":{\"u8\":300}}", "{\"a\":{\"other\":1}}", "{\"a\":[1]}"] {
        cases.push(send(format!("x-prop-names {value}"), &[("x-prop-names", value)], "1"));
    }
    let batch = [("Content-Type", "application/vnd.microsoft.servicebus.json")];
    let deep = "[".repeat(100_000);
    let many = format!("[{}]", vec!["{}"; 5_000].join(","));
    for body in [
        "",
        "[]",
        "{}",
        "null",
        "[1]",
        "[{\"Body\":1}]",
        "[{\"Body\":\"a\"},{\"Body\":[]}]",
        "[{\"Body\":\"a\"},{\"BrokerProperties\":{\"MessageId\":\"\"}}]",
        "[{\"Body\":\"a\"},{\"UserProperties\":{\"a\":{}}}]",
        "[{\"Body\":\"a\"},{\"Other\":1}]",
        "[{\"Body\":\"\\ud800\"}]",
        "[{\"Body\":\"a\"}",
        &deep,
        &many,
    ] {
        let shown: String = body.chars().take(60).collect();
        cases.push(send(format!("batch {shown}"), &batch, body));
    }
    cases.push(send("a batch that is not UTF-8", &batch, b"[{\"Body\":\"\xff\"}]"));
    cases.push(send("a body of 300,000 bytes", &[], vec![0; 300_000]));
    let chunk = format!("493e0\r\n{}\r\n0\r\n\r\n", "a".repeat(300_000));
    cases.push(chunks("chunks of 300,000 bytes", &chunk));
    cases
}

fn documents() -> Vec<Case> {
    let put = |name: &str, path: &str, body: &[u8]| case(name, request("PUT", path, &[], body));
    let entry =
        |content: &str| format!("<entry xmlns=\"http://www.w3.org/2005/Atom\"><content>{content}</content></entry>");
    let queue = |fields: &str| entry(&format!("<QueueDescription>{fields}</QueueDescription>"));
    let laughs = (0..10).fold("<!ENTITY a0 \"ha\">".to_owned(), |text, number| {
        let reference = format!("&a{number};");
        text + &format!("<!ENTITY a{} \"{}\">", number + 1, reference.repeat(10))
    });
    let mut cases: Vec<_> = [
        ("nothing", String::new()),
        ("no XML", "{}".to_owned()),
        ("an element that is open", "<entry>".to_owned()),
        ("two roots", format!("{}{}", queue(""), queue(""))),
        ("an expansion of entities", format!("<!DOCTYPE e [{laughs}]>{}", queue("<UserMetadata>&a10;</UserMetadata>"))),
        ("an entity of a file", format!("<!DOCTYPE e [<!ENTITY f SYSTEM \"file:///etc/passwd\">]>{}", queue("&f;"))),
        ("a document type of a URL", format!("<!DOCTYPE e SYSTEM \"http://127.0.0.1:1/\">{}", queue(""))),
        ("levels", format!("<entry><content>{}", "<a>".repeat(80_000))),
        ("elements", entry(&"<a/>".repeat(60_000))),
        ("attributes", format!("<entry {}/>", "a=\"b\" ".repeat(40_000))),
        ("a feed", "<feed/>".to_owned()),
        ("no description", entry("")),
        ("two descriptions", entry("<QueueDescription/><QueueDescription/>")),
        ("another description", entry("<TopicDescription2/>")),
        ("a rule", entry("<RuleDescription/>")),
        ("a subscription", entry("<SubscriptionDescription/>")),
        ("an unknown field", queue("<Novelty>1</Novelty>")),
        ("a field twice", queue("<Status>Active</Status><Status>Active</Status>")),
        ("a value that is no duration", queue("<LockDuration>1</LockDuration>")),
        ("a duration out of its range", queue("<LockDuration>P1D</LockDuration>")),
        ("a number that is too large", queue("<MaxDeliveryCount>18446744073709551615</MaxDeliveryCount>")),
        ("a size that is too large", queue("<MaxSizeInMegabytes>18446744073709551615</MaxSizeInMegabytes>")),
        ("a field without support", queue("<IsAnonymousAccessible>true</IsAnonymousAccessible>")),
        ("a long text of the user", queue(&format!("<UserMetadata>{}</UserMetadata>", "a".repeat(1_025)))),
        (
            "a window out of its range",
            queue("<DuplicateDetectionHistoryTimeWindow>P8D</DuplicateDetectionHistoryTimeWindow>"),
        ),
        ("a forward to nothing", queue("<ForwardTo>nothing</ForwardTo>")),
        ("a forward to itself", queue("<ForwardTo>new</ForwardTo>")),
        ("300,000 bytes", queue(&" ".repeat(300_000))),
    ]
    .map(|(name, body)| put(name, "/new", body.as_bytes()))
    .into();
    cases.push(put("XML that is not UTF-8", "/new", b"<entry>\xff</entry>"));
    cases.push(put("XML of UTF-16", "/new", b"\xff\xfe<\0e\0/\0>\0"));
    for path in ["/$new", "/a//b", "/a%3fb", "/%ff", "/$Resources/queues", "/$namespaceinfo", "/new?api-version=1"] {
        cases.push(put(path, path, queue("").as_bytes()));
    }
    cases.push(put("a long name", &format!("/{}", "a".repeat(300)), queue("").as_bytes()));
    cases.push(put("a sub-queue", "/q/$deadletterqueue", queue("").as_bytes()));
    cases
}

/// Rules: HT-19.
/// Attacks: 21, 46, 48, 51, 52, 56, 59.
#[tokio::test]
async fn hostile_requests_are_refused_and_nothing_is_stored() {
    let harness = Harness::new().await;
    let cases: Vec<_> = [lengths(), heads(), properties(), documents()].into_iter().flatten().collect();
    assert!(cases.len() > 150, "{}", cases.len());
    for Case { name, bytes, ends } in cases {
        let answer = harness.raw(&bytes, ends).await;
        if let Some(answer) = Answer::read(&answer) {
            assert!((400..500).contains(&answer.status), "{name}: {answer:?}");
        } else {
            assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 4"), "{name}: {answer:?}");
        }
        let counts = harness.broker().queue("q").unwrap().counts();
        assert_eq!((counts.active, counts.scheduled), (0, 0), "{name}");
        assert_eq!(harness.broker().entities().len(), 1, "{name}");
    }
    // It still serves.
    harness.send("q", "1").await;
    assert_eq!(harness.receive("q").await.text(), "1");
}

/// Requests with the body `a` in chunks, and the length of the body or of the chunks or of what is behind them as well. hyper removes the
/// `Content-Length` before a handler sees it (RFC 9112, section 6.1), so that each has to be found in the bytes.
fn lengths_twice(behind: usize) -> Vec<String> {
    let after = behind + 11;
    [
        format!("Content-Length: {after}\r\nTransfer-Encoding: chunked"),
        "Transfer-Encoding: chunked\r\nContent-Length: 11".to_owned(),
        "Content-Length: 0\r\nTransfer-Encoding: chunked".to_owned(),
        "content-length:1\r\ntransfer-encoding:chunked".to_owned(),
        "CONTENT-LENGTH: 11\r\nA: b\r\nTRANSFER-ENCODING: CHUNKED".to_owned(),
        "Transfer-Encoding: chunked\r\nContent-Length: 11\r\nContent-Length: 11".to_owned(),
        format!("Transfer-Encoding: chunked\r\nContent-Length: \t {}11 \t", " ".repeat(200)),
        "Transfer-Encoding: chunked\r\nContent-Length: x".to_owned(),
        "Transfer-Encoding: chunked\r\nContent-Length:".to_owned(),
        format!("Transfer-Encoding: chunked\r\nB: {}\r\nContent-Length: 11", "b".repeat(20_000)),
        "Transfer-Encoding: chunked\r\nExpect: 100-continue\r\nContent-Length: 11".to_owned(),
        "Transfer-Encoding: chunked\r\nConnection: keep-alive\r\nContent-Length: 11".to_owned(),
        "Transfer-Encoding: chunked\nContent-Length: 11".to_owned(),
    ]
    .into()
}

/// The status lines in the bytes of several answers, without those that ask to continue.
fn statuses(answers: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(answers);
    let lines = text.split("HTTP/1.1 ").skip(1).map(|rest| rest[..3].to_owned());
    lines.filter(|status| status != "100").collect()
}

/// Rules: HT-20.
/// Attacks: 21.
#[tokio::test]
async fn a_request_whose_length_is_given_twice_is_refused() {
    let harness = Harness::new().await;
    let smuggled = String::from_utf8(request("POST", "/q/messages", &[], "smuggled")).unwrap();
    let before = "POST /q/messages HTTP/1.1\r\nHost: h\r\nContent-Length: 6\r\n\r\nbefore";
    for lines in lengths_twice(smuggled.len()) {
        let request = format!("POST /q/messages HTTP/1.1\r\nHost: h\r\n{lines}\r\n\r\n1\r\na\r\n0\r\n\r\n{smuggled}");
        // As the first request of a connection, and as the third.
        for earlier in [0, 2] {
            let bytes = format!("{}{request}", before.repeat(earlier));
            let answers = harness.raw(bytes.as_bytes(), false).await;
            let expected: Vec<_> = std::iter::repeat_n("201", earlier).chain(["400"]).collect();
            assert_eq!(statuses(&answers), expected, "{lines}");
            assert!(String::from_utf8_lossy(&answers).to_lowercase().contains("connection: close"), "{lines}");
            for _ in 0..earlier {
                assert_eq!(harness.receive("q").await.text(), "before");
            }
            assert_eq!(harness.receive("q").await.status, 204, "{lines}");
        }
    }
}

/// Rules: HT-20.
#[tokio::test]
async fn a_request_whose_length_is_given_twice_is_refused_in_every_split() {
    let harness = Harness::new().await;
    let head = "POST /q/messages HTTP/1.1\r\nHost: h\r\nContent-Length: 11\r\nTransfer-Encoding: chunked\r\n\r\n";
    let before = "POST /q/messages HTTP/1.1\r\nHost: h\r\nContent-Length: 6\r\n\r\nbefore";
    let bytes = format!("{before}{head}1\r\na\r\n0\r\n\r\n");
    for split in 1..before.len() + head.len() {
        let answers = harness.parts(&[&bytes.as_bytes()[..split], &bytes.as_bytes()[split..]]).await;
        assert_eq!(statuses(&answers), ["201", "400"], "{split}");
        assert_eq!(harness.receive("q").await.text(), "before");
    }
    let each: Vec<_> = bytes.as_bytes().chunks(1).collect();
    assert_eq!(statuses(&harness.parts(&each).await), ["201", "400"]);
    assert_eq!(harness.receive("q").await.text(), "before");
    assert_eq!(harness.receive("q").await.status, 204);
}

/// Rules: HT-20.
#[tokio::test]
async fn what_follows_a_chunked_request_is_not_a_request() {
    let harness = Harness::new().await;
    let smuggled = String::from_utf8(request("POST", "/q/messages", &[], "smuggled")).unwrap();
    let chunked = "POST /q/messages HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n";
    let before = "POST /q/messages HTTP/1.1\r\nHost: h\r\nContent-Length: 6\r\n\r\nbefore";
    let answers = harness.raw(format!("{before}{chunked}{smuggled}").as_bytes(), false).await;
    assert_eq!(statuses(&answers), ["201", "201"]);
    assert!(String::from_utf8(answers).unwrap().to_lowercase().contains("connection: close"));
    assert_eq!((harness.receive("q").await.text(), harness.receive("q").await.text()), ("before", "a"));
    assert_eq!(harness.receive("q").await.status, 204);
}

/// The body of a request may look like the head of another one.
/// Rules: HT-20.
#[tokio::test]
async fn a_body_that_looks_like_a_head_is_a_body() {
    let harness = Harness::new().await;
    let body = "POST /q HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n";
    let first = format!("POST /q/messages HTTP/1.1\r\nHost: h\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    let chunked = "POST /q/messages HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n";
    let answers = harness.raw(format!("{first}{chunked}").as_bytes(), false).await;
    assert_eq!(statuses(&answers), ["201", "201"]);
    assert_eq!((harness.receive("q").await.text(), harness.receive("q").await.text()), (body, "a"));
}
