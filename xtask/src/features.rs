//! `cargo xtask features`: each feature of each member alone, warnings denied.
//!
//! Clippy instead of a plain check because it can deny warnings without building the dependencies anew.

use serde_json::{Value, json};

use crate::Options;
use crate::error::Error;
use crate::workspace::{cargo, output, run as run_command};

pub(crate) fn run(options: Options) -> Result<(), Error> {
    let metadata = output(&mut cargo(["metadata", "--no-deps", "--format-version", "1"]))?;
    let metadata: Value = serde_json::from_str(&metadata).map_err(Error::Metadata)?;
    let builds = builds(&metadata);
    let mut failed = Vec::new();
    for build in &builds {
        eprintln!("{}", build.name());
        match build.check() {
            Ok(()) => {}
            Err(Error::Failed { .. }) => failed.push(build.name()),
            Err(error) => return Err(error),
        }
    }
    if options.json {
        println!("{}", json!({ "checked": builds.len(), "failed": failed }));
    } else {
        println!("{} of {} pass alone", builds.len() - failed.len(), builds.len());
    }
    if failed.is_empty() { Ok(()) } else { Err(Error::Features(failed)) }
}

/// A member with one feature, or with none.
#[derive(Debug, PartialEq, Eq)]
struct Build {
    package: String,
    feature: Option<String>,
}

impl Build {
    fn name(&self) -> String {
        format!("{}/{}", self.package, self.feature.as_deref().unwrap_or("(none)"))
    }

    fn check(&self) -> Result<(), Error> {
        let mut command = cargo(["clippy", "--quiet", "--package", &self.package, "--no-default-features"]);
        if let Some(feature) = &self.feature {
            command.args(["--features", feature]);
        }
        run_command(command.args(["--", "--deny", "warnings"]))
    }
}

/// What to build: for every member that has features no feature at all, then each by itself. `default` is one of them.
fn builds(metadata: &Value) -> Vec<Build> {
    let packages = metadata["packages"].as_array().into_iter().flatten();
    packages
        .filter_map(|package| Some((package["name"].as_str()?, package["features"].as_object()?)))
        .filter(|(_, features)| !features.is_empty())
        .flat_map(|(package, features)| {
            let alone = features.keys().map(|feature| Some(feature.clone()));
            std::iter::once(None).chain(alone).map(|feature| Build { package: package.into(), feature })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_feature_and_none_but_only_where_there_are_features() {
        let metadata = json!({ "packages": [
            { "name": "a", "features": { "default": ["x"], "x": [] } },
            { "name": "b", "features": {} },
        ]});
        let names: Vec<_> = builds(&metadata).iter().map(Build::name).collect();
        assert_eq!(names, ["a/(none)", "a/default", "a/x"]);
    }
}
