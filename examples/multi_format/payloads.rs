//! What the typed handlers know of the payloads. Fields that they do not name are ignored.

use std::{borrow::Cow, collections::BTreeMap};

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Commits were pushed. Texts are borrowed from the message where the format allows it.
#[derive(Debug, Deserialize, PartialEq, Serialize)]
pub struct Push<'a> {
    #[serde(rename = "ref", borrow)]
    pub reference: Cow<'a, str>,
    #[serde(borrow)]
    pub before: Cow<'a, str>,
    #[serde(borrow)]
    pub after: Cow<'a, str>,
    pub forced: bool,
    #[serde(borrow)]
    pub commits: Vec<Commit<'a>>,
    #[serde(borrow)]
    pub repository: PushedTo<'a>,
}

#[derive(Debug, Deserialize, PartialEq, Serialize)]
pub struct Commit<'a> {
    #[serde(borrow)]
    pub id: Cow<'a, str>,
    #[serde(borrow)]
    pub message: Cow<'a, str>,
}

#[derive(Debug, Deserialize, PartialEq, Serialize)]
pub struct PushedTo<'a> {
    #[serde(borrow)]
    pub full_name: Cow<'a, str>,
}

/// Something happened to an issue.
#[derive(Debug, Deserialize, PartialEq, Serialize)]
pub struct Issues {
    pub action: String,
    pub issue: Issue,
    pub sender: User,
}

#[derive(Debug, Deserialize, PartialEq, Serialize)]
pub struct Issue {
    pub number: u64,
    pub title: String,
    pub body: Option<String>,
    pub user: User,
}

/// Something happened to a pull request.
#[derive(Debug, Deserialize, PartialEq, Serialize)]
pub struct PullRequest {
    pub action: String,
    pub number: u64,
    #[serde(rename = "pull_request")]
    pub pull: Pull,
    pub sender: User,
}

#[derive(Debug, Deserialize, PartialEq, Serialize)]
pub struct Pull {
    pub title: String,
    pub draft: bool,
    pub merged_at: Option<String>,
    pub head: Branch,
    pub base: Branch,
    pub user: User,
}

#[derive(Debug, Deserialize, PartialEq, Serialize)]
pub struct Branch {
    #[serde(rename = "ref")]
    pub reference: String,
    pub sha: String,
}

#[derive(Debug, Deserialize, PartialEq, Serialize)]
pub struct User {
    pub login: String,
    pub id: u64,
}

/// Any other event: whatever it holds, it is a map at the top.
pub type Anything = BTreeMap<String, Value>;
