//! Signed and encrypted messages, by a program that was written from their specification alone.

use tower::BoxError;

use crate::environment::Environment;

/// The vectors of `docs/vectors`, by `encrypted/check_vectors.py`.
pub(crate) async fn vectors(env: &Environment) -> Result<(), BoxError> {
    let vectors = env.repository("docs/vectors");
    env.script("encrypted/check_vectors.py", &[vectors]).await.map(drop)
}
