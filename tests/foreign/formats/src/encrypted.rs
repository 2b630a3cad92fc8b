//! Signed and encrypted messages, by programs that were written from their specification alone.

use tower::BoxError;

use crate::environment::Environment;

/// The vectors of `docs/vectors`, by `cryptography` of Python.
pub(crate) async fn python(env: &Environment) -> Result<(), BoxError> {
    check("encrypted/check_vectors.py", env).await
}

/// The vectors of `docs/vectors`, by the crypto of Node.
pub(crate) async fn node(env: &Environment) -> Result<(), BoxError> {
    check("encrypted/check_vectors.mjs", env).await
}

async fn check(script: &str, env: &Environment) -> Result<(), BoxError> {
    let vectors = env.repository("docs/vectors");
    env.script(script, &[vectors]).await.map(drop)
}
