//! What a manifest needs before its crate can be published.

use serde_json::Value;

use crate::error::Error;

/// The registry takes at most so many keywords, and so many categories.
const MOST: usize = 5;
/// Bytes of a keyword.
const KEYWORD_BYTES: usize = 20;
/// The categories in use. The registry has a fixed list, and drops others.
const CATEGORIES: &[&str] = &[
    "asynchronous",
    "database",
    "database-implementations",
    "development-tools::profiling",
    "development-tools::testing",
    "encoding",
    "network-programming",
    "parser-implementations",
    "rust-patterns",
];

/// A crate that is published.
#[derive(Debug)]
pub(crate) struct Manifest {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) features: Vec<String>,
    /// A procedural macro: no other crate uses it by its name.
    pub(crate) is_macro: bool,
}

/// The crates that are published, each after those that it depends on.
pub(crate) fn published(metadata: &Value) -> Vec<Manifest> {
    let mut left: Vec<&Value> = packages(metadata).filter(|package| is_published(package)).collect();
    let mut sorted: Vec<Manifest> = Vec::new();
    while !left.is_empty() {
        let names: Vec<&str> = left.iter().map(|package| name(package)).collect();
        let waits = |package: &&Value| {
            let mut needed = dependencies(package).filter(|dependency| dependency["kind"] != "dev");
            needed.any(|dependency| names.contains(&name(dependency)))
        };
        let (waiting, ready): (Vec<_>, Vec<_>) = left.iter().partition(|package| waits(package));
        if ready.is_empty() {
            // A cycle, which cargo refuses first.
            return sorted;
        }
        sorted.extend(ready.into_iter().map(manifest));
        left = waiting;
    }
    sorted
}

/// What has to be changed, a line for each.
pub(crate) fn problems(metadata: &Value) -> Vec<String> {
    let is =
        |name: &str, of: fn(&Value) -> bool| packages(metadata).any(|package| package["name"] == name && of(package));
    let mut problems = Vec::new();
    for package in packages(metadata).filter(|package| is_published(package)) {
        let mut wrong = |what: String| problems.push(format!("{}: {what}", name(package)));
        for field in ["description", "license", "rust_version", "readme", "documentation"] {
            if package[field].as_str().is_none_or(str::is_empty) {
                wrong(format!("no `{}`", field.replace('_', "-")));
            }
        }
        let keywords = texts(&package["keywords"]);
        if keywords.is_empty() || keywords.len() > MOST || keywords.iter().any(|word| word.len() > KEYWORD_BYTES) {
            wrong(format!("1 to {MOST} `keywords` of at most {KEYWORD_BYTES} bytes"));
        }
        let categories = texts(&package["categories"]);
        if categories.is_empty() || categories.len() > MOST {
            wrong(format!("1 to {MOST} `categories`"));
        }
        for category in categories.iter().filter(|category| !CATEGORIES.contains(category)) {
            wrong(format!("`{category}` is not in the list of categories"));
        }
        let docs = &package["metadata"]["docs"]["rs"];
        if docs["all-features"] != true || !texts(&docs["rustdoc-args"]).contains(&"docsrs") {
            wrong("`package.metadata.docs.rs` sets `all-features`, and `--cfg docsrs`".into());
        }
        for dependency in dependencies(package).filter(|dependency| is(name(dependency), |_| true)) {
            let (to, by_path) = (name(dependency), dependency["req"] == "*");
            match dependency["kind"].as_str() {
                // cargo leaves it out of the archive, so the crates can be published in an order.
                Some("dev") if !by_path => {
                    wrong(format!("the dev-dependency on {to} is by path alone, without a version"));
                }
                Some("dev") => {}
                _ if by_path => wrong(format!("the dependency on {to} has no version")),
                _ if !is(to, is_published) => wrong(format!("it depends on {to}, which is not published")),
                _ => {}
            }
        }
    }
    problems
}

fn packages(metadata: &Value) -> impl Iterator<Item = &Value> {
    metadata["packages"].as_array().into_iter().flatten()
}

fn dependencies(package: &Value) -> impl Iterator<Item = &Value> {
    package["dependencies"].as_array().into_iter().flatten()
}

fn name(value: &Value) -> &str {
    value["name"].as_str().unwrap_or_default()
}

fn texts(value: &Value) -> Vec<&str> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

/// `publish = true` is `null`, `publish = false` an empty list of registries.
fn is_published(package: &Value) -> bool {
    package["publish"].is_null()
}

fn manifest(package: &Value) -> Manifest {
    let targets = package["targets"].as_array().into_iter().flatten();
    let is_macro = targets.flat_map(|target| texts(&target["kind"])).any(|kind| kind == "proc-macro");
    let features = package["features"].as_object().into_iter().flat_map(|features| features.keys().cloned());
    Manifest {
        name: name(package).into(),
        version: package["version"].as_str().unwrap_or_default().into(),
        features: features.collect(),
        is_macro,
    }
}

/// The published crates of these names, or all if there is no name, without procedural macros.
pub(crate) fn libraries(metadata: &Value, only: &[String]) -> Result<Vec<Manifest>, Error> {
    let mut libraries = published(metadata);
    libraries.retain(|package| !package.is_macro);
    if let Some(unknown) = only.iter().find(|name| libraries.iter().all(|package| package.name != **name)) {
        return Err(Error::NoCrate(unknown.clone()));
    }
    libraries.retain(|package| only.is_empty() || only.contains(&package.name));
    Ok(libraries)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn package(name: &str, dependencies: &Value) -> Value {
        json!({
            "name": name, "version": "0.1.0", "publish": null, "description": "d", "license": "MIT", "rust_version": "1.90",
            "readme": "README.md", "documentation": "https://docs.rs/a", "keywords": ["k"], "categories": ["encoding"],
            "metadata": { "docs": { "rs": { "all-features": true, "rustdoc-args": ["--cfg", "docsrs"] } } },
            "dependencies": dependencies, "targets": [{ "kind": ["lib"] }], "features": {},
        })
    }

    fn depends(name: &str, kind: &Value, req: &str) -> Value {
        json!([{ "name": name, "kind": kind, "req": req }])
    }

    #[test]
    fn a_crate_comes_after_its_dependencies() {
        let dev = depends("b", &json!("dev"), "*");
        let metadata = json!({ "packages": [package("b", &depends("a", &Value::Null, "^0.1")), package("a", &dev)] });
        let names: Vec<_> = published(&metadata).into_iter().map(|package| package.name).collect();
        assert_eq!((names, problems(&metadata)), (vec!["a".into(), "b".into()], vec![]));
    }

    #[test]
    fn each_name_has_to_be_that_of_a_library() {
        let mut derive = package("derive", &json!([]));
        derive["targets"] = json!([{ "kind": ["proc-macro"] }]);
        let metadata = json!({ "packages": [package("a", &json!([])), package("b", &json!([])), derive] });
        let names = |only: &[&str]| {
            let only: Vec<_> = only.iter().map(ToString::to_string).collect();
            let found = libraries(&metadata, &only).map_err(|error| error.to_string())?;
            Ok(found.into_iter().map(|package| package.name).collect::<Vec<_>>())
        };
        assert_eq!(names(&[]).unwrap(), ["a", "b"]);
        assert_eq!(names(&["b"]).unwrap(), ["b"]);
        for wrong in [&["c"][..], &["a", "c"], &["derive"]] {
            let error: String = names(wrong).unwrap_err();
            assert!(error.contains(wrong[wrong.len() - 1]), "{error}");
        }
    }

    #[test]
    fn dependencies_on_members_are_checked() {
        let mut private = package("private", &json!([]));
        private["publish"] = json!([]);
        let found = |kind: Value, to: &str, req: &str| {
            let metadata =
                json!({ "packages": [package("a", &depends(to, &kind, req)), package("b", &json!([])), private] });
            problems(&metadata)
        };
        assert_eq!(
            found(json!("dev"), "b", "^0.1"),
            ["a: the dev-dependency on b is by path alone, without a version"]
        );
        assert_eq!(found(Value::Null, "b", "*"), ["a: the dependency on b has no version"]);
        assert_eq!(found(Value::Null, "private", "^0.1"), ["a: it depends on private, which is not published"]);
        assert_eq!(found(json!("dev"), "private", "*"), [""; 0]);
        assert_eq!(found(Value::Null, "serde", "*"), [""; 0]);
    }

    #[test]
    fn each_missing_field_is_named() {
        let mut bad = package("a", &json!([]));
        for field in ["description", "license", "rust_version", "readme", "documentation", "metadata"] {
            bad[field] = Value::Null;
        }
        bad["keywords"] = json!(["a-keyword-that-is-too-long"]);
        bad["categories"] = json!(["messaging"]);
        assert_eq!(problems(&json!({ "packages": [bad] })).len(), 8);
    }
}
