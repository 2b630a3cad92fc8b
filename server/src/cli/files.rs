//! The files that the process may have open: each connection is one.

use rustix::process::{Resource, getrlimit, setrlimit};

/// Raises the soft limit to the hard one. Systems often set the soft one to 1,024, which is less than the connections that the server
/// accepts.
pub(super) fn raise_limit() {
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current == limit.maximum {
        return;
    }
    limit.current = limit.maximum;
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        tracing::warn!(%error, "the limit of open files was not raised");
    }
}
