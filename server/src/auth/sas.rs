//! Shared access signatures.

use std::{borrow::Cow, time::Duration};

use base64::{Engine, engine::general_purpose::STANDARD};
use consign_core::time::Timestamp;
use hmac::{Hmac, KeyInit, Mac};
use percent_encoding::percent_decode_str;
use sha2::Sha256;

const SCHEME: &str = "SharedAccessSignature ";
/// Bytes of a token. A resource has at most 260 characters.
const MAX_LENGTH: usize = 4 << 10;

/// A token: `SharedAccessSignature sr={resource}&sig={signature}&se={expiry}&skn={name of the key}`, in any order.
pub(super) struct Signature<'a> {
    /// Encoded, as it was signed.
    resource: &'a str,
    expiry: &'a str,
    pub(super) key_name: Cow<'a, str>,
    signed: Vec<u8>,
}

impl<'a> Signature<'a> {
    /// Reads a token. None if it is malformed, or longer than 4 KiB.
    pub(super) fn parse(token: &'a str) -> Option<Self> {
        if token.len() > MAX_LENGTH {
            return None;
        }
        let scheme = token.get(..SCHEME.len())?;
        if !scheme.eq_ignore_ascii_case(SCHEME) {
            return None;
        }
        let (mut resource, mut signature, mut expiry, mut key_name) = (None, None, None, None);
        for field in token[SCHEME.len()..].split('&') {
            let (name, value) = field.split_once('=')?;
            let place = match name {
                "sr" => &mut resource,
                "sig" => &mut signature,
                "se" => &mut expiry,
                "skn" => &mut key_name,
                _ => continue,
            };
            if place.replace(value).is_some() {
                return None;
            }
        }
        let signature: Vec<u8> = percent_decode_str(signature?).collect();
        Some(Self {
            resource: resource?,
            expiry: expiry?,
            key_name: percent_decode_str(key_name?).decode_utf8().ok()?,
            signed: STANDARD.decode(signature).ok()?,
        })
    }

    /// Returns the resource, such as `sb://host/queue`.
    pub(super) fn resource(&self) -> Option<Cow<'a, str>> {
        percent_decode_str(self.resource).decode_utf8().ok()
    }

    /// Returns whether the token was signed with a key. The time that it takes does not depend on the signature.
    pub(super) fn is_signed_with(&self, key: &str) -> bool {
        let mut mac = mac(key);
        for part in [self.resource, "\n", self.expiry] {
            mac.update(part.as_bytes());
        }
        mac.verify_slice(&self.signed).is_ok()
    }

    /// Returns for how long the token is valid, or none if it has expired.
    pub(super) fn valid_for(&self, now: Timestamp) -> Option<Duration> {
        let seconds: i64 = self.expiry.parse().ok()?;
        let expiry = Timestamp::from_millis(seconds.saturating_mul(1_000));
        Some(expiry.saturating_since(now)).filter(|left| !left.is_zero())
    }
}

/// Compares two keys in a time that depends on their lengths only.
pub(crate) fn is_same_key(one: &str, other: &str) -> bool {
    let tag = mac(other).finalize();
    mac(one).verify(&tag.into_bytes()).is_ok()
}

fn mac(key: &str) -> Hmac<Sha256> {
    // A key of HMAC may have any length.
    #[expect(clippy::unwrap_used, reason = "it does not fail")]
    Hmac::new_from_slice(key.as_bytes()).unwrap()
}

#[cfg(test)]
pub(super) fn sign(resource: &str, expiry: u64, name: &str, key: &str) -> String {
    use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
    let encode = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
    let resource = encode(resource);
    let mut mac = mac(key);
    mac.update(format!("{resource}\n{expiry}").as_bytes());
    let signature = encode(&STANDARD.encode(mac.finalize().into_bytes()));
    format!("{SCHEME}sr={resource}&sig={signature}&se={expiry}&skn={name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Made by azure-servicebus 7.15.0 for a key `Root` that is `secret`.
    const TOKEN: &str = "SharedAccessSignature sr=sb%3A%2F%2Flocalhost%2Forders&sig=\
                         nxsm%2BsJyCvBmktj7tHv%2BpkF8pTAoTacXrUbrD6Ss914%3D&se=1800000000&skn=Root";

    #[test]
    fn a_token_is_checked_with_its_key_and_expiry() {
        let token = sign("sb://localhost/orders", 1_800_000_000, "Root", "secret");
        let token = Signature::parse(&token).unwrap();
        assert_eq!(token.resource().unwrap(), "sb://localhost/orders");
        assert_eq!(token.key_name, "Root");
        assert!(token.is_signed_with("secret"));
        assert!(!token.is_signed_with("Secret"));
        let at = |seconds: i64| Timestamp::from_millis(seconds * 1_000);
        assert_eq!(token.valid_for(at(1_799_999_990)), Some(Duration::from_secs(10)));
        assert_eq!(token.valid_for(at(1_800_000_000)), None);
    }

    #[test]
    fn a_token_of_an_sdk_is_valid() {
        let token = Signature::parse(TOKEN).unwrap();
        assert!(token.is_signed_with("secret"));
    }

    #[test]
    fn a_changed_token_is_not_valid() {
        let token = sign("sb://localhost/orders", 1_800_000_000, "Root", "secret");
        for (from, to) in [("orders", "bills"), ("1800000000", "1900000000")] {
            let changed = token.replace(from, to);
            assert!(!Signature::parse(&changed).unwrap().is_signed_with("secret"), "{changed}");
        }
    }

    /// Attacks: 77.
    #[test]
    fn what_is_not_a_token_is_refused() {
        let good = sign("sb://localhost/orders", 1_800_000_000, "Root", "secret");
        assert!(Signature::parse(&good).is_some());
        let twice = format!("{good}&se=1900000000");
        for token in
            ["", "SharedAccessSignature", "Bearer x", "SharedAccessSignature sr=a&sig=b&se=1", &twice, &good[1..]]
        {
            assert!(Signature::parse(token).is_none(), "{token}");
        }
    }

    /// Attacks: 77.
    #[test]
    fn fields_have_any_order() {
        let token = sign("sb://localhost/orders", 1_800_000_000, "Root", "secret");
        let mut fields: Vec<_> = token[SCHEME.len()..].split('&').collect();
        fields.reverse();
        assert!(Signature::parse(&format!("{SCHEME}{}", fields.join("&"))).unwrap().is_signed_with("secret"));
    }

    /// Attacks: 78.
    #[test]
    fn each_bit_and_the_padding_of_a_signature_count() {
        let token = |signature: &str| {
            let signature = signature.replace('+', "%2B").replace('/', "%2F").replace('=', "%3D");
            format!("{SCHEME}sr=sb%3A%2F%2Flocalhost%2Forders&sig={signature}&se=1800000000&skn=Root")
        };
        let signature = "nxsm+sJyCvBmktj7tHv+pkF8pTAoTacXrUbrD6Ss914=";
        assert!(Signature::parse(&token(signature)).unwrap().is_signed_with("secret"));
        let bytes = STANDARD.decode(signature).unwrap();
        for bit in 0..bytes.len() * 8 {
            let mut changed = bytes.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            let changed = token(&STANDARD.encode(changed));
            assert!(!Signature::parse(&changed).unwrap().is_signed_with("secret"), "bit {bit}");
        }
        // Without padding, with more of it, and with bits after the last byte.
        let unpadded = signature.trim_end_matches('=');
        let other_bits = format!("{}5=", &unpadded[..unpadded.len() - 1]);
        for changed in [unpadded, &format!("{signature}="), &other_bits] {
            assert!(Signature::parse(&token(changed)).is_none(), "{changed}");
        }
    }

    /// Attacks: 81.
    #[test]
    fn a_token_of_more_than_4_kib_is_refused() {
        let mut token = sign("sb://localhost/orders", 1_800_000_000, "Root", "secret") + "&other=";
        token.extend(std::iter::repeat_n('a', MAX_LENGTH - token.len()));
        assert!(Signature::parse(&token).unwrap().is_signed_with("secret"));
        token.push('a');
        assert!(Signature::parse(&token).is_none());
        assert!(Signature::parse(&(token + &"a".repeat(1 << 20))).is_none());
    }

    #[test]
    fn keys_are_compared_as_a_whole() {
        assert!(is_same_key("secret", "secret"));
        for other in ["", "secre", "secrets", "Secret"] {
            assert!(!is_same_key("secret", other), "{other}");
        }
    }
}
