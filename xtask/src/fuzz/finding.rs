/// An input with which a target fails.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) target: &'static str,
    /// Its path inside the workspace.
    pub(crate) file: String,
}
