use bytes::Bytes;
use consign_core::{message::MessageBody, wire::binary};

use super::{malformed::Malformed, reader::Reader, write};

mod tag {
    pub(super) const ONE_SECTION: u8 = 0;
    pub(super) const SECTIONS: u8 = 1;
    pub(super) const VALUE: u8 = 2;
    pub(super) const SEQUENCE: u8 = 3;
}

#[inline]
pub(super) fn write(out: &mut Vec<u8>, body: &MessageBody) {
    match body {
        MessageBody::Data(data) => match data.sections() {
            [one] => {
                out.push(tag::ONE_SECTION);
                write::bytes(out, one);
            }
            sections => {
                out.push(tag::SECTIONS);
                write::list(out, sections.iter(), |out, section| write::bytes(out, section));
            }
        },
        MessageBody::Value(value) => {
            out.push(tag::VALUE);
            binary::value(out, value);
        }
        MessageBody::Sequence(sections) => {
            out.push(tag::SEQUENCE);
            write::list(out, sections.iter(), |out, values| binary::values(out, values));
        }
    }
}

pub(super) fn read(reader: &mut Reader<'_>) -> Result<MessageBody, Malformed> {
    let section = |reader: &mut Reader<'_>| reader.bytes().map(Bytes::copy_from_slice);
    Ok(match reader.byte()? {
        tag::ONE_SECTION => MessageBody::from(section(reader)?),
        tag::SECTIONS => MessageBody::sections(reader.list(section)?),
        tag::VALUE => MessageBody::Value(Box::new(reader.value()?)),
        tag::SEQUENCE => MessageBody::Sequence(reader.list(Reader::values)?.into()),
        _ => return Err(reader.invalid("kind of a body")),
    })
}
