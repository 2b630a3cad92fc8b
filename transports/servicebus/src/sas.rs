//! Shared access signatures.

use base64::{Engine, engine::general_purpose::STANDARD};
use hmac::{Hmac, KeyInit, Mac};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use sha2::Sha256;

/// What a signature leaves as it is.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Signs a token for a resource, such as `sb://host/queue`, that expires at `expiry`, in seconds since 1970. None if the key
/// cannot be one of HMAC, which all keys can.
pub(crate) fn sign(resource: &str, expiry: i64, key_name: &str, key: &str) -> Option<String> {
    let encode = |text: &str| utf8_percent_encode(text, ENCODED).to_string();
    let resource = encode(resource);
    let mut mac = Hmac::<Sha256>::new_from_slice(key.as_bytes()).ok()?;
    mac.update(format!("{resource}\n{expiry}").as_bytes());
    let signature = encode(&STANDARD.encode(mac.finalize().into_bytes()));
    Some(format!("SharedAccessSignature sr={resource}&sig={signature}&se={expiry}&skn={}", encode(key_name)))
}

/// Returns when a signature expires, in seconds since 1970.
pub(crate) fn expiry(signature: &str) -> Option<i64> {
    let fields = signature.split_once(' ').map_or(signature, |(_, fields)| fields);
    fields.split('&').find_map(|field| field.strip_prefix("se="))?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Made by azure-servicebus 7.15.0 for Python.
    /// Rules: G-02.
    #[test]
    fn a_signature_is_that_of_the_sdk() {
        let signed = sign("sb://localhost/orders", 1_800_000_000, "Root", "secret").unwrap();
        let expected = "SharedAccessSignature sr=sb%3A%2F%2Flocalhost%2Forders&sig=\
                        nxsm%2BsJyCvBmktj7tHv%2BpkF8pTAoTacXrUbrD6Ss914%3D&se=1800000000&skn=Root";
        assert_eq!(signed, expected);
        assert_eq!(expiry(&signed), Some(1_800_000_000));
        assert_eq!(expiry("SharedAccessSignature sr=a&se=soon"), None);
    }

    #[test]
    fn names_of_keys_are_encoded() {
        let signed = sign("sb://h", 1, "a&b=c", "key").unwrap();
        assert!(signed.ends_with("&skn=a%26b%3Dc"), "{signed}");
    }
}
