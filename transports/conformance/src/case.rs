use std::{fmt, future::Future, pin::Pin};

use consign::transport::Capability;

use crate::{Verdict, bench::Bench};

pub(crate) type Run = for<'a> fn(&'a Bench<'a>) -> Pin<Box<dyn Future<Output = Verdict> + 'a>>;

/// One test case of a capability.
#[derive(Clone, Copy)]
pub struct Case {
    name: &'static str,
    /// The doc comment of its entry: ` Rules: S-27, S-28.`
    rules: &'static str,
    capability: Capability,
    needs: &'static [Capability],
    pub(crate) run: Run,
}

impl Case {
    pub(crate) const fn new(
        name: &'static str,
        rules: &'static str,
        capability: Capability,
        needs: &'static [Capability],
        run: Run,
    ) -> Self {
        Self { name, rules, capability, needs, run }
    }

    /// Returns the name: what it shows, in snake case.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the capability that it tests.
    #[must_use]
    pub fn capability(&self) -> Capability {
        self.capability
    }

    /// Returns the capabilities that it uses besides. It is not run if one of these is missing.
    #[must_use]
    pub fn needs(&self) -> &'static [Capability] {
        self.needs
    }

    /// Returns its specification rules in `docs/semantics.md`, such as `S-27`.
    #[must_use]
    pub fn rules(&self) -> Vec<&'static str> {
        ids(self.rules)
    }
}

impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Case")
            .field("name", &self.name)
            .field("capability", &self.capability.id())
            .finish_non_exhaustive()
    }
}

/// Returns the ids in a line ` Rules: S-27, S-28.`
fn ids(line: &'static str) -> Vec<&'static str> {
    let ids = line.trim().strip_prefix("Rules: ").and_then(|ids| ids.strip_suffix('.'));
    ids.map(|ids| ids.split(", ").collect()).unwrap_or_default()
}

/// Lists the cases of a module: each function with its capability, its rules in a doc comment and, in brackets, the other
/// capabilities that it uses.
macro_rules! cases {
    ($($capability:ident: $($(#[doc = $rules:literal])? $name:ident $([$($need:ident),*])?),* $(,)?;)*) => {
        pub(super) fn add(cases: &mut Vec<$crate::Case>) {
            use ::consign::transport::Capability;
            $($(
                cases.push($crate::Case::new(
                    stringify!($name),
                    concat!($($rules)?),
                    Capability::$capability,
                    &[$($(Capability::$need),*)?],
                    |bench| Box::pin($name(bench)),
                ));
            )*)*
        }
    };
}

pub(crate) use cases;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_lists_rules() {
        assert_eq!(ids(" Rules: S-71, T-59a."), ["S-71", "T-59a"]);
        assert!(ids("").is_empty() && ids(" Rules: S-71").is_empty() && ids(" S-71.").is_empty());
    }
}
