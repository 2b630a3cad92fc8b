//! What `edit` and `transcode` change.

use std::{error, fmt, path::PathBuf, sync::Arc};

use clap::Args;
use consign::{
    Message,
    codecs::{CodecSet, Codecs},
    message::{MessageBody, Properties},
};
use tower::BoxError;

use super::{Source, run_options::RunOptions};
use crate::cli::{
    body,
    failure::Failure,
    input,
    values::{Property, pair, property},
};

/// Change dead letters, and send them again
#[derive(Debug, Args)]
pub(crate) struct Edit {
    #[command(flatten)]
    pub(super) source: Source,
    #[command(flatten)]
    changes: ChangeOptions,
    #[command(flatten)]
    pub(super) run: RunOptions,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Changes")]
struct ChangeOptions {
    /// Another body
    #[arg(long, value_name = "TEXT", conflicts_with = "body_file")]
    body: Option<String>,
    /// Another body, from a file
    #[arg(long, value_name = "FILE")]
    body_file: Option<PathBuf>,
    /// Replace a text in the body, which has to be there
    #[arg(long, value_name = "OLD=NEW", value_parser = pair)]
    replace: Vec<(String, String)>,
    /// Another ContentType
    #[arg(long, value_name = "TYPE")]
    set_content_type: Option<String>,
    /// Another subject
    #[arg(long, value_name = "TEXT")]
    set_subject: Option<String>,
    /// Another session
    #[arg(long, value_name = "ID")]
    set_session: Option<String>,
    /// Set an application property
    #[arg(long, value_name = "NAME[:TYPE]=VALUE", value_parser = property)]
    set_property: Vec<Property>,
    /// Remove an application property
    #[arg(long, value_name = "NAME")]
    remove_property: Vec<String>,
}

/// Convert bodies to another format, and send the messages again
#[derive(Debug, Args)]
pub(crate) struct Transcode {
    #[command(flatten)]
    pub(super) source: Source,
    /// The ContentType of the new bodies, such as application/json, application/msgpack or application/cbor
    #[arg(long = "as", value_name = "TYPE")]
    to_type: String,
    /// The codecs that read a body which its ContentType does not describe, in order
    #[arg(long, value_name = "CODECS", value_delimiter = ',', default_value = "json,msgpack,cbor")]
    chain: Vec<String>,
    /// Replace values that the new format does not have: bytes by base64, keys by text, NaN by null
    #[arg(long)]
    lossy: bool,
    #[command(flatten)]
    pub(super) run: RunOptions,
}

/// The application property of a message whose body is in a blob store.
const CLAIM: &str = "x-claim";

type Change = dyn Fn(&mut Properties, &mut MessageBody) -> Result<(), BoxError> + Send + Sync;

/// Changes of a copy, in order.
#[derive(Clone, Default)]
pub(super) struct Changes(Vec<Arc<Change>>);

impl Changes {
    fn push(
        &mut self,
        change: impl Fn(&mut Properties, &mut MessageBody) -> Result<(), BoxError> + Send + Sync + 'static,
    ) {
        self.0.push(Arc::new(change));
    }

    pub(super) fn apply(&self, properties: &mut Properties, body: &mut MessageBody) -> Result<(), BoxError> {
        self.0.iter().try_for_each(|change| change(properties, body))
    }

    /// The changed message, for a dry run.
    pub(super) fn applied(&self, message: &Message) -> Result<Message, BoxError> {
        let (mut properties, mut body) = (message.properties().clone(), message.body().clone());
        self.apply(&mut properties, &mut body)?;
        let changed = Message::from_parts(properties, body);
        changed.check()?;
        Ok(changed)
    }
}

/// Why a message is not changed.
#[derive(Clone, Copy, Debug)]
enum Refused {
    NoText,
    NotThere,
    Encoded,
    Claimed,
    NotBytes,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoText => "the body is not text",
            Self::NotThere => "the body does not have the text to be replaced",
            Self::Encoded => "the body has a content encoding, such as compression",
            Self::Claimed => "the body is in a blob store, and the message has a claim to it",
            Self::NotBytes => "the body is not bytes",
        })
    }
}

impl error::Error for Refused {}

impl Edit {
    pub(super) async fn changes(&self) -> Result<Changes, Failure> {
        let ChangeOptions {
            body,
            body_file,
            replace,
            set_content_type,
            set_subject,
            set_session,
            set_property,
            remove_property,
        } = &self.changes;
        let mut changes = Changes::default();
        let new_body = match body_file {
            Some(file) => Some(input::whole_file(file.clone()).await?),
            None => body.clone().map(String::into_bytes),
        };
        let removes_claim = remove_property.iter().any(|name| name == CLAIM);
        if new_body.is_some() || !replace.is_empty() {
            changes.push(move |properties, _| check_plain(properties, !removes_claim));
        }
        if let Some(bytes) = new_body {
            let bytes = bytes::Bytes::from(bytes);
            changes.push(move |_, body| {
                *body = bytes.clone().into();
                Ok(())
            });
        }
        for (old, new) in replace.clone() {
            changes.push(move |_, body| {
                let text = std::str::from_utf8(body.codec_view().ok_or(Refused::NotBytes)?);
                let text = text.map_err(|_| Refused::NoText)?;
                if !text.contains(&old) {
                    return Err(Refused::NotThere.into());
                }
                *body = text.replace(&old, &new).into();
                Ok(())
            });
        }
        if let Some(text) = set_content_type.clone() {
            changes.push(move |properties, _| {
                properties.set_content_type(text.clone());
                Ok(())
            });
        }
        if let Some(text) = set_subject.clone() {
            changes.push(move |properties, _| {
                properties.set_subject(text.clone());
                Ok(())
            });
        }
        if let Some(text) = set_session.clone() {
            changes.push(move |properties, _| {
                properties.set_session_id(text.clone())?;
                Ok(())
            });
        }
        for Property { name, value } in set_property.clone() {
            changes.push(move |properties, _| {
                properties.application_properties_mut().insert(name.as_str(), value.clone());
                Ok(())
            });
        }
        for name in remove_property.clone() {
            changes.push(move |properties, _| {
                properties.application_properties_mut().remove(&name);
                Ok(())
            });
        }
        if changes.0.is_empty() {
            return Err(Failure::usage("edit needs a change, such as --replace OLD=NEW; resubmit sends without one"));
        }
        Ok(changes)
    }
}

impl Transcode {
    pub(super) fn changes(&self) -> Result<Changes, Failure> {
        let names = body::names();
        let chain: Vec<&'static str> = self
            .chain
            .iter()
            .map(|wanted| names.iter().copied().find(|name| name == wanted))
            .collect::<Option<_>>()
            .ok_or_else(|| Failure::usage(body::UnknownCodec.to_string()))?;
        let codecs = body::set(&chain)?;
        if codecs.codec_for(&self.to_type).is_none() {
            return Err(Failure::usage("no codec writes the ContentType of --as"));
        }
        let mut changes = Changes::default();
        let (to, lossy) = (self.to_type.clone(), self.lossy);
        changes.push(move |properties, body| transcode(&codecs, &to, lossy, properties, body));
        Ok(changes)
    }
}

fn transcode<C: CodecSet>(
    codecs: &Codecs<C>,
    to: &str,
    lossy: bool,
    properties: &mut Properties,
    body: &mut MessageBody,
) -> Result<(), BoxError> {
    check_plain(properties, true)?;
    let bytes = body.codec_view().ok_or(Refused::NotBytes)?;
    let encoded = if lossy {
        codecs.transcode_lossy(properties.content_type(), bytes, to)?.0
    } else {
        codecs.transcode(properties.content_type(), bytes, to)?
    };
    properties.set_content_type(encoded.content_type);
    *body = encoded.body.into();
    Ok(())
}

/// Fails if the receiver would not take the body as it is: it decompresses it, or reads another one for it.
fn check_plain(properties: &Properties, may_claim: bool) -> Result<(), BoxError> {
    let encoding = properties.pass_through().and_then(|rest| rest.content_encoding.as_deref());
    if encoding.is_some_and(|encoding| !encoding.is_empty() && encoding != "identity") {
        return Err(Refused::Encoded.into());
    }
    if may_claim && properties.application_properties().get(CLAIM).is_some() {
        return Err(Refused::Claimed.into());
    }
    Ok(())
}
