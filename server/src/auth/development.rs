use super::{Access, Authorizer, Credentials, Denied, Grant, Rights, Token};

/// Accepts all credentials and all tokens, for development.
#[derive(Clone, Copy, Debug, Default)]
pub struct AllowAll;

impl Authorizer for AllowAll {
    fn authenticate(&self, _: &Credentials<'_>) -> Result<Access, Denied> {
        Ok(Access::Granted(Grant::new(Rights::MANAGE)))
    }

    fn authorize(&self, _: &Token<'_>) -> Result<Grant, Denied> {
        Ok(Grant::new(Rights::MANAGE))
    }
}
