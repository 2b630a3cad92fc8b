use std::{fmt, sync::Arc};

use consign_core::time::{Clock, SystemClock};

use super::{
    Access, Authorizer, Credentials, Denied, Grant, Rights, Token, covers, includes,
    sas::{Signature, is_same_key},
};
use crate::entities::{entity_of, path_of};

/// Accepts the holders of shared access keys: by a signature that they send to `$cbs`, or by SASL `PLAIN` with the name of
/// a key and the key.
///
/// ```
/// use consign_server::auth::{Rights, SharedAccessKey, SharedAccessKeys};
///
/// let keys = SharedAccessKeys::new([
///     SharedAccessKey::new("RootManageSharedAccessKey", "secret", Rights::MANAGE),
///     SharedAccessKey::new("reports", "other secret", Rights::LISTEN).entity("orders"),
/// ]);
/// ```
///
/// A signature is checked by its key, its expiry, and its resource, which is the audience of the token or above it. Hosts
/// are not compared: a server may have several names. Keys are compared in constant time, and no error and no `Debug`
/// shows one.
#[derive(Clone)]
pub struct SharedAccessKeys {
    keys: Vec<SharedAccessKey>,
    clock: Arc<dyn Clock>,
}

/// A key with a name and rights, for all entities or for one.
#[derive(Clone)]
pub struct SharedAccessKey {
    name: String,
    key: String,
    rights: Rights,
    entity: Option<String>,
}

impl SharedAccessKey {
    /// Creates a key for all entities.
    #[must_use]
    pub fn new(name: impl Into<String>, key: impl Into<String>, rights: Rights) -> Self {
        Self { name: name.into(), key: key.into(), rights, entity: None }
    }

    /// Makes it a key for one entity, and what is below it. Such a key signs tokens, and cannot be used with `PLAIN`. A path that names
    /// no entity, such as an empty one, makes it a key for none.
    #[must_use]
    pub fn entity(mut self, path: impl AsRef<str>) -> Self {
        self.entity = Some(entity_of(path.as_ref()));
        self
    }

    /// Returns the name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    fn is_for(&self, entity: &str) -> bool {
        self.entity.as_deref().is_none_or(|own| !own.is_empty() && includes(own, entity))
    }
}

/// Shows everything but the key.
impl fmt::Debug for SharedAccessKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedAccessKey")
            .field("name", &self.name)
            .field("rights", &self.rights)
            .field("entity", &self.entity)
            .finish_non_exhaustive()
    }
}

impl SharedAccessKeys {
    /// Creates an authorizer. Several keys may have one name, as the primary and the secondary key of a policy.
    #[must_use]
    pub fn new(keys: impl IntoIterator<Item = SharedAccessKey>) -> Self {
        Self { keys: keys.into_iter().collect(), clock: Arc::new(SystemClock::new()) }
    }

    /// Sets the clock by which tokens expire. A [`SystemClock`] by default.
    #[must_use]
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    fn named<'k>(&'k self, name: &'k str) -> impl Iterator<Item = &'k SharedAccessKey> {
        self.keys.iter().filter(move |key| key.name == name)
    }
}

/// Shows no key.
impl fmt::Debug for SharedAccessKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedAccessKeys").field("keys", &self.keys).finish_non_exhaustive()
    }
}

impl Authorizer for SharedAccessKeys {
    fn authenticate(&self, credentials: &Credentials<'_>) -> Result<Access, Denied> {
        let Credentials::Plain { name, key } = credentials else { return Ok(Access::ByToken) };
        match self.named(name).find(|own| is_same_key(&own.key, key)) {
            Some(own) if own.entity.is_some() => {
                Err(Denied::new("The key of one entity signs tokens, and cannot be used with PLAIN."))
            }
            Some(own) => Ok(Access::Granted(Grant::new(own.rights))),
            None => Err(Denied::new("InvalidSignature: The name or the key is not valid.")),
        }
    }

    fn authorize(&self, token: &Token<'_>) -> Result<Grant, Denied> {
        // A client may name the type `jwt` whatever its token is.
        let malformed = || Denied::new("MalformedToken: The token is not a shared access signature.");
        let signature = Signature::parse(token.token).ok_or_else(malformed)?;
        let entity = entity_of(token.audience);
        let resource = signature.resource().ok_or_else(malformed)?;
        let mut named = self.named(&signature.key_name).peekable();
        if named.peek().is_none() {
            // Otherwise the time would tell whether there is a key of this name.
            signature.is_signed_with("");
        }
        let signed = named.find(|key| signature.is_signed_with(&key.key));
        let key = signed.ok_or(Denied::new("InvalidSignature: The token has an invalid signature."))?;
        if !key.is_for(&entity) || !covers(&resource, token.audience) {
            let path = path_of(token.audience);
            return Err(Denied::new(format!("InvalidAudience: The token is not for '{path}'.")));
        }
        let valid_for = signature.valid_for(self.clock.now().utc);
        let valid_for = valid_for.ok_or(Denied::new("ExpiredToken: The token has expired."))?;
        Ok(Grant::new(key.rights).valid_for(valid_for))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use consign_core::time::{ManualClock, Timestamp};

    use super::*;
    use crate::auth::sas::sign;

    const SAS: &str = "servicebus.windows.net:sastoken";
    const NOW: u64 = 1_800_000_000;

    fn keys() -> SharedAccessKeys {
        let keys = [
            SharedAccessKey::new("root", "root key", Rights::MANAGE),
            SharedAccessKey::new("root", "second root key", Rights::MANAGE),
            SharedAccessKey::new("reports", "report key", Rights::LISTEN).entity("/Orders"),
        ];
        SharedAccessKeys::new(keys).clock(ManualClock::new(Timestamp::from_millis(NOW.cast_signed() * 1_000)))
    }

    fn authorize(audience: &str, resource: &str, expiry: u64, name: &str, key: &str) -> Result<Grant, String> {
        let token = sign(resource, expiry, name, key);
        keys().authorize(&Token::new(SAS, audience, &token)).map_err(|denied| denied.to_string())
    }

    /// Rules: G-04, G-06.
    #[test]
    fn a_token_grants_the_rights_of_its_key_until_it_expires() {
        let grant = Grant::new(Rights::MANAGE).valid_for(Duration::from_secs(60));
        for key in ["root key", "second root key"] {
            let granted = authorize("amqp://host/any", "sb://host", NOW + 60, "root", key);
            assert_eq!(granted.as_ref(), Ok(&grant));
        }
        let granted = authorize("sb://host/orders/$management", "sb://host/ORDERS/", NOW + 1, "reports", "report key");
        assert_eq!(granted.unwrap().rights, Rights::LISTEN);
    }

    /// Attacks: 79.
    #[test]
    fn a_token_is_refused_by_its_key_its_expiry_and_its_resource() {
        let refusals = [
            (authorize("sb://h/a", "sb://h/a", NOW + 60, "root", "wrong"), "InvalidSignature"),
            (authorize("sb://h/a", "sb://h/a", NOW + 60, "none", "root key"), "InvalidSignature"),
            (authorize("sb://h/a", "sb://h/a", NOW, "root", "root key"), "ExpiredToken"),
            (authorize("sb://h/a", "sb://h/b", NOW + 60, "root", "root key"), "InvalidAudience"),
            (authorize("sb://h/ab", "sb://h/a", NOW + 60, "root", "root key"), "InvalidAudience"),
            (authorize("sb://h/bills", "sb://h", NOW + 60, "reports", "report key"), "InvalidAudience"),
        ];
        for (refused, kind) in refusals {
            let description = refused.unwrap_err();
            assert!(description.starts_with(kind), "{kind}: {description}");
            assert!(!description.contains("key") && !description.contains("sig="), "{description}");
        }
        let malformed = keys().authorize(&Token::new(SAS, "sb://h/a", "x")).unwrap_err();
        assert!(malformed.to_string().starts_with("MalformedToken"), "{malformed}");
    }

    /// Attacks: 75.
    #[test]
    fn an_expiry_that_is_no_time_in_the_future_is_refused() {
        let token = sign("sb://h/a", NOW + 60, "root", "root key");
        let (start, name) = token.split_once(&format!("&se={}", NOW + 60)).unwrap();
        let mut kinds = Vec::new();
        for expiry in ["", "&se=", "&se=-1", "&se=99999999999999999999", "&se=1e9", "&se=0"] {
            let token = format!("{start}{expiry}{name}");
            let denied = keys().authorize(&Token::new(SAS, "sb://h/a", &token)).unwrap_err().to_string();
            kinds.push(denied.split(':').next().unwrap_or_default().to_owned());
        }
        assert_eq!(kinds[0], "MalformedToken");
        assert!(kinds[1..].iter().all(|kind| kind == "InvalidSignature"), "{kinds:?}");
        for expiry in [0, 1, NOW - 1, NOW, u64::MAX] {
            let denied = authorize("sb://h/a", "sb://h/a", expiry, "root", "root key").unwrap_err();
            assert!(denied.starts_with("ExpiredToken"), "{expiry}: {denied}");
        }
    }

    /// Attacks: 76.
    #[test]
    fn a_token_is_for_the_segments_of_its_path() {
        for path in ["q10", "q", "q%31", "q1%2Fq2", "x/q1", "q2/../q1", "../q1"] {
            let denied = authorize(&format!("sb://h/{path}"), "sb://h/q1", NOW + 60, "root", "root key").unwrap_err();
            assert!(denied.starts_with("InvalidAudience"), "{path}: {denied}");
        }
        // They are below `q1` by their text, and not another entity.
        for path in ["q1/../q2", "q1/%2e%2e/q2"] {
            assert!(!includes(&entity_of(path), "q2") && !includes("q2", &entity_of(path)), "{path}");
        }
        assert!(authorize("sb://h/Q1/$deadletterqueue", "sb://h/q1", NOW + 60, "root", "root key").is_ok());
    }

    /// Rules: G-06.
    #[test]
    fn the_resource_of_a_token_may_begin_with_the_host() {
        let authorize = |audience: &str, resource: &str| authorize(audience, resource, NOW + 60, "root", "root key");
        let audience = "sb://h.servicebus.windows.net:5671/q1/$management";
        for resource in ["h", "H", "h:5671", "h/", "h/q1", "sb://h/q1"] {
            let resource = resource.replacen(['h', 'H'], "H.servicebus.Windows.net", 1);
            assert!(authorize(audience, &resource).is_ok(), "{resource}");
        }
        assert!(authorize(audience, "q1").is_ok());
        for (audience, resource) in [
            (audience, "h.servicebus.windows.net/q2"),
            (audience, "other.servicebus.windows.net/q1"),
            (audience, "h/q1"),
            // Signed for an entity below `orders`.
            ("sb://orders/eu", "orders/eu"),
            ("sb://orders/eu", "orders"),
        ] {
            let denied = authorize(audience, resource).unwrap_err();
            assert!(denied.starts_with("InvalidAudience"), "{audience} {resource}: {denied}");
        }
    }

    /// Rules: G-05.
    #[test]
    fn plain_has_the_name_of_a_key_and_the_key() {
        let plain = |name, key| keys().authenticate(&Credentials::Plain { name, key });
        assert_eq!(plain("root", "second root key"), Ok(Access::Granted(Grant::new(Rights::MANAGE))));
        assert!(plain("root", "wrong").is_err());
        assert!(plain("reports", "report key").is_err());
        assert_eq!(keys().authenticate(&Credentials::Anonymous), Ok(Access::ByToken));
    }

    #[test]
    fn debug_shows_no_key() {
        let shown = format!("{:?}", keys());
        assert!(shown.contains("reports") && !shown.contains("report key"), "{shown}");
    }
}
