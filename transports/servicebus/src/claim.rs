use tokio::task::JoinHandle;

/// The permission to use an entity over a connection. Its token is renewed as long as there is one.
pub(crate) struct Claim {
    pub(crate) renewal: Option<JoinHandle<()>>,
}

impl Drop for Claim {
    fn drop(&mut self) {
        if let Some(renewal) = &self.renewal {
            renewal.abort();
        }
    }
}
