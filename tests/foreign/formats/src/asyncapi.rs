//! AsyncAPI documents, by the schema of the AsyncAPI Initiative.

use std::{env, fs, process};

use serde_json::Value;
use tower::BoxError;

use crate::environment::Environment;

#[allow(dead_code, reason = "it has a `main` of its own")]
#[path = "../../../../examples/describe_service.rs"]
mod describe_service;

/// The document of the example is valid, and one without a title is not.
pub(crate) async fn validated(env: &Environment) -> Result<(), BoxError> {
    let document = describe_service::document()?.into_value();
    let said = validate(env, &document).await?;
    if said.trim() != "0" {
        return Err(format!("the document of the example is not valid: {said}").into());
    }
    let mut wrong = document;
    wrong["info"].as_object_mut().ok_or("no info")?.remove("title");
    wrong["operations"]["receive.shop_orders"]["action"] = "receives".into();
    wrong["operations"]["receive.stock"]["reply"]["address"].as_object_mut().ok_or("no reply")?.remove("location");
    let said = validate(env, &wrong).await?;
    let all = ["/info: must have required property 'title'", "/action", "must have required property 'location'"];
    if all.iter().all(|error| said.contains(error)) {
        Ok(())
    } else {
        Err(format!("a wrong document passes: {said}").into())
    }
}

async fn validate(environment: &Environment, document: &Value) -> Result<String, BoxError> {
    let file = env::temp_dir().join(format!("consign-asyncapi-{}.json", process::id()));
    fs::write(&file, document.to_string())?;
    let said = environment.script("asyncapi/validate.mjs", &[environment.modules(), file.clone()]).await;
    fs::remove_file(file)?;
    said
}
