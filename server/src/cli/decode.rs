//! `consign decode`.

use std::{io, path::PathBuf};

use clap::Args;
use consign::transport::Escaped;
use serde_json::json;

use super::{
    body::{self, View, Wanted},
    failure::{Exit, Failure},
    input,
    output::Output,
};

const SHOWN: usize = 120;

#[derive(Debug, Args)]
pub(crate) struct Decode {
    /// The file with the body; without it, the standard input
    file: Option<PathBuf>,
    /// The ContentType of the message
    #[arg(long, value_name = "TYPE")]
    content_type: Option<String>,
    /// Print the body by this codec: auto, hex, or the name of a codec
    #[arg(long, value_name = "CODEC", default_value = "auto")]
    codec: Wanted,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

impl Decode {
    /// Reports which codecs read a body, and why others do not.
    pub(crate) async fn run(&self, out: &mut Output) -> Result<(), Failure> {
        let file = self.file.clone();
        let bytes = input::whole(move || {
            Ok(match file {
                Some(path) => Box::new(input::open(&path)?),
                None => Box::new(io::stdin()),
            })
        })
        .await?;
        let content_type = self.content_type.as_deref();
        let reading = body::reading(content_type, &bytes)?;
        let declared = content_type.map_or_else(|| "no ContentType".to_owned(), |text| Escaped(text).to_string());
        out.line(format_args!("{} B, {declared}", bytes.len()))?;
        match (reading.by, reading.reason) {
            (Some((codec, chosen)), _) => out.line(format_args!("read by {codec} ({chosen})"))?,
            (None, reason) => out.line(format_args!("not read: {}", reason.unwrap_or("no codec")))?,
        }
        for attempt in &reading.attempts {
            out.line(format_args!("  tried {attempt}"))?;
        }
        out.line("each codec alone:")?;
        let mut codecs = Vec::new();
        for name in body::names() {
            let result = body::by_codec(name, &bytes);
            let text = match &result {
                Ok(view) => format!("reads it: {}", excerpt(view)),
                Err(error) => Escaped(&error.to_string()).to_string(),
            };
            out.line(format_args!("  {name}: {text}"))?;
            codecs.push(
                json!({ "codec": name, "reads": result.is_ok(), "error": result.err().map(|error| error.to_string()) }),
            );
        }
        let body = consign::message::MessageBody::from(bytes::Bytes::from(bytes));
        let view = body::view(&body, content_type, &self.codec);
        if let Ok(view) = &view {
            out.line(view)?;
        }
        out.object(&json!({
            "size": body.size(),
            "content_type": content_type,
            "read_by": reading.by.map(|(codec, _)| codec),
            "chosen": reading.by.map(|(_, chosen)| chosen.code()),
            "reason": reading.reason,
            "attempts": reading.attempts,
            "codecs": codecs,
            "body": view.as_ref().ok(),
        }))?;
        if let Err(error) = view {
            return Err(Failure::new(Exit::Invalid, "DeserializationFailed", error.to_string()));
        }
        match reading.by {
            Some(_) => Ok(()),
            None => {
                Err(Failure::new(Exit::Invalid, "DeserializationFailed", "no codec reads the body by this ContentType"))
            }
        }
    }
}

/// The beginning of a body, in one line.
fn excerpt(view: &View) -> String {
    let text = match view {
        View::Decoded { value, .. } => value.get().to_owned(),
        View::Text(text) => text.clone(),
        View::Hex(digits) => digits.clone(),
        View::NotBytes(kind) => (*kind).to_owned(),
    };
    let cut: String = text.chars().take(SHOWN).collect();
    let more = if cut.len() < text.len() { "…" } else { "" };
    format!("{}{more}", Escaped(&cut))
}
