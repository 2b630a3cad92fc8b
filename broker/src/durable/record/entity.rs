use consign_core::message::EntityPath;

use super::{malformed::Malformed, reader::Reader, rules, settings, write};
use crate::engine::record::{EntityKind, EntityRecord};

/// The version that is written.
const VERSION: u8 = 4;

impl EntityRecord {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let Self { path, kind, secret } = self;
        out.push(VERSION);
        write::text(out, path.as_str());
        write::optional(out, secret.as_ref(), |out, secret| out.extend_from_slice(secret));
        match kind {
            EntityKind::Queue(settings) => {
                out.push(0);
                settings::write_queue(out, settings);
            }
            EntityKind::Topic(settings) => {
                out.push(1);
                settings::write_topic(out, settings);
            }
            EntityKind::Subscription { settings, topic, rules } => {
                out.push(2);
                settings::write_subscription(out, settings);
                write::unsigned(out, *topic);
                rules::write(out, rules);
            }
        }
        settings::write_metadata(
            out,
            match kind {
                EntityKind::Queue(settings) => &settings.metadata,
                EntityKind::Topic(settings) => &settings.metadata,
                EntityKind::Subscription { settings, .. } => &settings.metadata,
            },
        );
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(bytes, VERSION)?;
        let path = EntityPath::new(reader.text()?).map_err(|_| reader.invalid("path"))?;
        let secret = reader.optional(Reader::array)?;
        let mut kind = match reader.byte()? {
            0 => EntityKind::Queue(settings::read_queue(&mut reader)?),
            1 => EntityKind::Topic(settings::read_topic(&mut reader)?),
            2 => EntityKind::Subscription {
                settings: settings::read_subscription(&mut reader)?,
                topic: reader.unsigned()?,
                rules: Box::new(rules::read(&mut reader)?),
            },
            _ => return Err(reader.invalid("kind of an entity")),
        };
        *match &mut kind {
            EntityKind::Queue(settings) => &mut settings.metadata,
            EntityKind::Topic(settings) => &mut settings.metadata,
            EntityKind::Subscription { settings, .. } => &mut settings.metadata,
        } = settings::read_metadata(&mut reader)?;
        reader.finish()?;
        Ok(Self { path, kind, secret })
    }
}
