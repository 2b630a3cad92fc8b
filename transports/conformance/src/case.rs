use std::{fmt, future::Future, pin::Pin};

use consign::transport::Capability;

use crate::{Backend, Verdict, bench::Bench};

pub(crate) type Run<B> = for<'a> fn(&'a Bench<'a, B>) -> Pin<Box<dyn Future<Output = Verdict> + 'a>>;

/// One test case of a capability.
pub struct Case<B: Backend> {
    name: &'static str,
    capability: Capability,
    needs: &'static [Capability],
    pub(crate) run: Run<B>,
}

impl<B: Backend> Case<B> {
    pub(crate) const fn new(
        name: &'static str,
        capability: Capability,
        needs: &'static [Capability],
        run: Run<B>,
    ) -> Self {
        Self { name, capability, needs, run }
    }

    /// Returns the name: the ids of the specification rules, in snake case, and what it shows.
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
    pub fn rows(&self) -> Vec<String> {
        rows(self.name)
    }
}

impl<B: Backend> Clone for Case<B> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<B: Backend> Copy for Case<B> {}

impl<B: Backend> fmt::Debug for Case<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Case")
            .field("name", &self.name)
            .field("capability", &self.capability.id())
            .finish_non_exhaustive()
    }
}

/// Returns the ids that a name begins with: a letter and a number with at most one small letter behind it.
fn rows(name: &str) -> Vec<String> {
    let mut words = name.split('_');
    let mut ids = Vec::new();
    while let (Some(kind), Some(number)) = (words.next(), words.next()) {
        let digits = number.strip_suffix(|last: char| last.is_ascii_lowercase()).unwrap_or(number);
        if kind.len() != 1 || digits.len() < 2 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            break;
        }
        ids.push(format!("{}-{number}", kind.to_uppercase()));
    }
    ids
}

/// Lists the cases of a module: each function with its capability and, in brackets, the others that it uses.
macro_rules! cases {
    ($($capability:ident: $($name:ident $([$($need:ident),*])?),* $(,)?;)*) => {
        pub(super) fn add<B: $crate::Backend>(cases: &mut Vec<$crate::Case<B>>) {
            use ::consign::transport::Capability;
            $($(
                cases.push($crate::Case::new(
                    stringify!($name),
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
    fn a_name_begins_with_its_rows() {
        assert_eq!(rows("s_71_s_72_failures_count"), ["S-71", "S-72"]);
        assert_eq!(rows("t_59a_names"), ["T-59a"]);
        assert!(rows("a_name").is_empty() && rows("s_7_x").is_empty());
    }
}
