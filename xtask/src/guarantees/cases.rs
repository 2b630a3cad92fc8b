//! The cases of the conformance suite, and the capabilities that each needs.

use std::collections::BTreeMap;

use crate::error::Error;
use crate::workspace::{read, root, rust_files};

const FOLDER: &str = "transports/conformance/src/cases";
/// The file with the names and the ids of capabilities.
const CAPABILITIES: &str = "core/src/transport/capabilities.rs";

/// The ids of the capabilities of each case, by its name.
#[derive(Debug, Default)]
pub(super) struct Cases(BTreeMap<String, Vec<String>>);

impl Cases {
    pub(super) fn read() -> Result<Self, Error> {
        let ids = ids(&read(CAPABILITIES)?);
        let mut cases = Self::default();
        for file in rust_files()?.into_iter().filter(|file| file.starts_with(root().join(FOLDER))) {
            cases.add(&read(file)?, &ids);
        }
        Ok(cases)
    }

    /// Reads the list of a module, `cases! { Capability: name, name [Needed, Needed]; ... }`.
    fn add(&mut self, source: &str, ids: &BTreeMap<String, String>) {
        let list = source.lines().skip_while(|line| *line != "cases! {").skip(1).take_while(|line| *line != "}");
        let mut capability = String::new();
        for line in list.map(str::trim).filter(|line| !line.starts_with("//")) {
            if let Some(name) = line.strip_suffix(':') {
                name.clone_into(&mut capability);
                continue;
            }
            let entry = line.trim_end_matches([',', ';']);
            let (name, needs) = entry.split_once(" [").unwrap_or((entry, ""));
            let needs = needs.trim_end_matches(']').split(", ").filter(|need| !need.is_empty());
            let all = std::iter::once(capability.as_str()).chain(needs);
            // A name without an id is kept, and no transport has it.
            let all = all.map(|name| ids.get(name).cloned().unwrap_or_else(|| name.to_owned()));
            self.0.insert(name.to_owned(), all.collect());
        }
    }

    /// Returns the ids of the capabilities that a case needs, or `None` if there is no such case.
    pub(super) fn needs(&self, case: &str) -> Option<&[String]> {
        self.0.get(case).map(Vec::as_slice)
    }

    #[cfg(test)]
    pub(super) fn of<const N: usize>(cases: [(&str, Vec<&str>); N]) -> Self {
        Self(cases.into_iter().map(|(name, ids)| (name.into(), ids.into_iter().map(Into::into).collect())).collect())
    }
}

/// Reads lines such as `PeekLock = "K-04" "peek-lock",`.
fn ids(source: &str) -> BTreeMap<String, String> {
    let entry = |line: &str| {
        let (name, rest) = line.trim().split_once(" = \"")?;
        let (id, _) = rest.split_once('"')?;
        id.starts_with("K-").then(|| (name.to_owned(), id.to_owned()))
    };
    source.lines().filter_map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_cases_and_what_they_need() {
        let ids = ids("enum {\n    Peek = \"K-19\" \"peek\",\n    Release = \"K-22\" \"release\",\n    X = 1,\n");
        assert_eq!(ids.len(), 2);
        let mut cases = Cases::default();
        cases.add("use x;\ncases! {\n    Peek:\n        /// Rules: S-01.\n        a,\n        b [Release],\n        c;\n    Release:\n        d;\n}\nfn a() {}\n", &ids);
        for (case, needs) in [("a", &["K-19"][..]), ("b", &["K-19", "K-22"]), ("c", &["K-19"]), ("d", &["K-22"])] {
            assert_eq!(cases.needs(case).unwrap(), needs, "{case}");
        }
        assert_eq!(cases.needs("e"), None);
    }

    #[test]
    fn every_case_of_the_suite_has_capabilities_with_ids() {
        let cases = Cases::read().unwrap();
        assert!(cases.0.len() > 200, "{}", cases.0.len());
        let without: Vec<_> = cases.0.iter().filter(|(_, ids)| ids.iter().any(|id| !id.starts_with("K-"))).collect();
        assert!(without.is_empty(), "{without:?}");
    }
}
