//! `docs/spec-exceptions.txt`: rules that no test names, and ids of tests that are not rules, each with the reason.

/// One line of the file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Exception {
    pub(super) id: String,
    /// Empty when the line gives none.
    pub(super) reason: String,
}

/// Reads `ID reason`, one a line; empty lines and lines that start with `#` are ignored.
pub(super) fn parse(text: &str) -> Vec<Exception> {
    text.lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|line| {
            let (id, reason) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
            Exception { id: id.into(), reason: reason.trim().into() }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_an_id_and_a_reason() {
        let exceptions = parse("# rules\n\nS-28   holds by construction \nS-29\n");
        let expected = [("S-28", "holds by construction"), ("S-29", "")];
        assert_eq!(exceptions, expected.map(|(id, reason)| Exception { id: id.into(), reason: reason.into() }));
    }
}
