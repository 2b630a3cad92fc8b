//! Frames of a peer that the fuzzer fills.

use consign_amqp::{
    frame::{Frame, ProtocolHeader},
    types::{
        Accepted, Attach, AttachTarget, Begin, Close, DeliveryState, Detach, Disposition, End, Error, Flow, Modified,
        Open, Performative, ReceiverSettleMode, Rejected, Released, Role, SaslChallenge, SaslCode, SaslFrame, SaslInit,
        SaslMechanisms, SaslOutcome, SaslResponse, Source as AmqpSource, Target, Transfer, condition,
    },
    value::{Binary, Str, Symbol},
};

use crate::source::Source;

/// How many kinds of input there are.
pub(super) const KINDS: usize = 16;

/// What the peer writes next, by the kind of it.
pub(super) fn input(kind: usize, source: &mut Source<'_>, wire: &mut Vec<u8>) {
    match kind {
        0 => {
            let count = source.below(256);
            wire.extend_from_slice(source.bytes(count));
        }
        1 => framed(source, wire),
        2 => {
            let headers = [ProtocolHeader::Amqp, ProtocolHeader::Sasl, ProtocolHeader::Tls];
            wire.extend_from_slice(&headers[source.below(3)].to_bytes());
        }
        3 => {
            let frame = sasl(source);
            frame.encode_frame(wire).expect("a small frame");
        }
        _ => {
            let channel = if source.byte() < 240 { 0 } else { u16::try_from(source.below(8)).unwrap_or(0) };
            let performative = performative(kind, source);
            let payload = if kind >= 13 { source.below(256) * 8 } else { 0 };
            let payload = vec![7; payload];
            Frame::encode(channel, &performative, &payload, wire).expect("a small frame");
        }
    }
}

/// Bytes of the fuzzer behind a header that fits them.
fn framed(source: &mut Source<'_>, wire: &mut Vec<u8>) {
    let kind = source.byte() & 1;
    let channel = source.byte() & 1;
    let size = source.below(512);
    let body = source.bytes(size);
    let size = u32::try_from(body.len() + 8).unwrap_or(u32::MAX);
    wire.extend_from_slice(&size.to_be_bytes());
    wire.extend_from_slice(&[2, kind, 0, channel]);
    wire.extend_from_slice(body);
}

fn binary(source: &mut Source<'_>) -> Binary {
    let size = source.below(40);
    source.bytes(size).to_vec().into()
}

fn sasl(source: &mut Source<'_>) -> SaslFrame {
    match source.below(5) {
        0 => {
            let mechanisms = [Symbol::from_static("ANONYMOUS"), Symbol::from_static("PLAIN")];
            SaslMechanisms { sasl_server_mechanisms: mechanisms.into_iter().take(source.below(3)).collect() }.into()
        }
        1 => {
            let mechanism = Symbol::from_static(if source.flag() { "PLAIN" } else { "ANONYMOUS" });
            SaslInit { mechanism, initial_response: Some(binary(source)), hostname: None }.into()
        }
        2 => SaslChallenge { challenge: binary(source) }.into(),
        3 => SaslResponse { response: binary(source) }.into(),
        _ => SaslOutcome { code: code(source), additional_data: None }.into(),
    }
}

pub(super) fn code(source: &mut Source<'_>) -> SaslCode {
    if source.byte() < 192 { SaslCode::Ok } else { SaslCode::Auth }
}

pub(super) fn role(source: &mut Source<'_>) -> Role {
    if source.flag() { Role::Sender } else { Role::Receiver }
}

/// A delivery state, or none.
pub(super) fn state(source: &mut Source<'_>) -> Option<DeliveryState> {
    Some(match source.below(8) {
        0..3 => Accepted {}.into(),
        3 => Released {}.into(),
        4 => Modified { delivery_failed: source.flag(), ..Modified::default() }.into(),
        5 => Rejected { error: Some(Error::new(condition::NOT_FOUND, "no")) }.into(),
        _ => return None,
    })
}

fn error(source: &mut Source<'_>) -> Option<Error> {
    source.flag().then(|| Error::new(condition::INTERNAL_ERROR, "stopped"))
}

fn maybe(source: &mut Source<'_>) -> Option<u32> {
    source.flag().then(|| source.number())
}

/// An attach with a name and a handle of a few.
pub(super) fn attach(source: &mut Source<'_>) -> Attach {
    let role = role(source);
    let choices = source.byte();
    let address = || Some(Str::from_static("queue"));
    let has_source = choices & 0x0c != 0x0c;
    let has_target = choices & 0x30 != 0x30;
    Attach {
        name: format!("link-{}", choices & 3).into(),
        handle: if choices < 224 { u32::from(choices & 3) } else { source.number() },
        role,
        source: has_source.then(|| Box::new(AmqpSource { address: address(), ..AmqpSource::default() })),
        target: has_target.then(|| AttachTarget::from(Target { address: address(), ..Target::default() })),
        initial_delivery_count: if choices & 0x40 == 0 { Some(source.number()) } else { None },
        max_message_size: if choices & 0x80 == 0 { None } else { Some(u64::from(source.number())) },
        ..Attach::default()
    }
}

pub(super) fn open(source: &mut Source<'_>) -> Open {
    let choices = source.byte();
    Open {
        container_id: "peer".into(),
        max_frame_size: if choices & 1 == 0 { u32::MAX } else { source.number().max(512) },
        channel_max: if choices & 2 == 0 { u16::MAX } else { u16::from(source.byte()) },
        idle_time_out: if choices & 4 == 0 { None } else { Some(90 + source.number() % 1_000) },
        ..Open::default()
    }
}

fn performative(kind: usize, source: &mut Source<'_>) -> Performative {
    let handle = |source: &mut Source<'_>| u32::from(source.byte() & 3);
    match kind {
        4 => Open { max_frame_size: 512 + source.number() % 4_096, ..open(source) }.into(),
        5 => Begin {
            remote_channel: source.flag().then(|| u16::from(source.byte() & 7)),
            next_outgoing_id: source.number(),
            incoming_window: source.number(),
            outgoing_window: source.number(),
            handle_max: if source.flag() { u32::MAX } else { source.number() },
            ..Begin::default()
        }
        .into(),
        6 => End { error: error(source) }.into(),
        7 if source.byte() < 64 => Close { error: error(source) }.into(),
        7 | 8 => attach(source).into(),
        9 => Detach { handle: handle(source), closed: source.flag(), error: error(source) }.into(),
        10 | 11 => Flow {
            next_incoming_id: maybe(source),
            incoming_window: source.number(),
            next_outgoing_id: source.number(),
            outgoing_window: source.number(),
            handle: source.flag().then(|| handle(source)),
            delivery_count: maybe(source),
            link_credit: maybe(source),
            drain: source.flag(),
            echo: source.flag(),
            ..Flow::default()
        }
        .into(),
        12 => Disposition {
            role: role(source),
            first: source.number(),
            last: maybe(source),
            settled: source.flag(),
            state: state(source),
            ..Disposition::default()
        }
        .into(),
        _ => transfer(source).into(),
    }
}

fn transfer(source: &mut Source<'_>) -> Transfer {
    let choices = source.byte();
    Transfer {
        handle: handle_of(choices),
        delivery_id: if choices & 4 == 0 { Some(source.number()) } else { None },
        delivery_tag: Some(binary(source)),
        message_format: Some(0),
        settled: (choices & 8 == 0).then_some(choices & 16 == 0),
        more: choices & 0x60 == 0x60,
        rcv_settle_mode: (choices & 0x80 == 0).then_some(ReceiverSettleMode::Second),
        state: state(source),
        aborted: source.below(8) == 1,
        ..Transfer::default()
    }
}

fn handle_of(choices: u8) -> u32 {
    u32::from(choices & 3)
}
