use bytes::Bytes;
use consign_http::{
    administration::{self, Document},
    from_batch, from_request, from_response, lock_token, to_batch, to_request,
};
use http::{HeaderMap, HeaderName, HeaderValue};

/// The largest batch.
const MOST: usize = 1 << 20;

/// Bytes as a document of the administration, as a batch, and as a request: lines of headers, an empty line, and the body.
///
/// # Panics
/// What is read is written as something else.
pub fn http(data: &[u8]) {
    match administration::read(data) {
        Ok(Document::Entry(entry)) => {
            let written = entry.to_xml();
            let Ok(Document::Entry(again)) = administration::read(&written) else {
                panic!("an entry is read as it is written")
            };
            assert_eq!(again.to_xml(), written);
        }
        Ok(Document::Feed(feed)) => {
            let written = feed.to_xml();
            assert!(matches!(administration::read(&written), Ok(Document::Feed(_))), "a feed is read as it is written");
        }
        Ok(_) => {}
        Err(refused) => assert!(!refused.to_string().is_empty()),
    }
    if let Ok(messages) = from_batch(data, MOST)
        && let Ok(written) = to_batch(&messages)
    {
        let again = from_batch(&written, usize::MAX).expect("a batch is read as it is written");
        assert_eq!(again.len(), messages.len());
        assert_eq!(to_batch(&again).expect("it was written"), written);
    }
    request(data);
}

fn request(data: &[u8]) {
    let (head, body) = data.windows(2).position(|pair| pair == b"\n\n").map_or((data, &[][..]), |at| {
        let (head, body) = data.split_at(at);
        (head, &body[2..])
    });
    let mut headers = HeaderMap::new();
    for line in head.split(|byte| *byte == b'\n') {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { continue };
        let name = HeaderName::from_bytes(&line[..colon]);
        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_bytes(line[colon + 1..].trim_ascii())) {
            headers.append(name, value);
        }
    }
    let body = Bytes::copy_from_slice(body);
    let _ = (lock_token(&headers), from_response(&headers, body.clone()));
    match from_request(&headers, body) {
        Ok(message) => {
            let Ok((headers, body)) = to_request(&message, false) else { return };
            let again = from_request(&headers, body).expect("a request is read as it is written");
            assert_eq!(format!("{:?}", again.properties()), format!("{:?}", message.properties()));
            assert_eq!(again.body(), message.body());
        }
        Err(refused) => assert!(!refused.to_string().is_empty()),
    }
}
