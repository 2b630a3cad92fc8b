//! Signed and encrypted messages, by a program that was written from their specification alone.

use tower::BoxError;

use crate::{LeftOut, lab::Lab};

/// The vectors of `docs/vectors`, by `encrypted/check_vectors.py`.
pub(crate) async fn vectors(lab: &Lab) -> Result<(), BoxError> {
    let vectors = lab.repository("docs/vectors");
    match lab.script("encrypted/check_vectors.py", &[vectors]).await? {
        Some(_) => Ok(()),
        None => Err(LeftOut("there is no encrypted/check_vectors.py".into()).into()),
    }
}
