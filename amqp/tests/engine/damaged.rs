//! Frames in any order, with bits that are flipped.

use std::env;

use consign_amqp::{
    engine::{Event, Options},
    types::{Accepted, Detach, Disposition, End, Flow, Open, Performative, Role, Transfer},
};
use fastrand::Rng;

use crate::peer::{Peer, attach, begin, encode, transfer};

/// A number that is mostly small, and sometimes at an end of its range.
fn number(rng: &mut Rng) -> u32 {
    match rng.u8(0..8) {
        0 => rng.u32(..),
        1 => u32::MAX - rng.u32(0..3),
        _ => rng.u32(0..4),
    }
}

fn performative(rng: &mut Rng) -> Performative {
    let role = if rng.bool() { Role::Sender } else { Role::Receiver };
    let handle = if rng.u8(0..20) == 0 { number(rng) } else { rng.u32(0..3) };
    match rng.u8(0..40) {
        0 => Open::default().into(),
        1 | 2 => begin().into(),
        3 => End::default().into(),
        4..10 => attach(handle, role).into(),
        10..12 => Detach { handle, closed: rng.bool(), error: None }.into(),
        12..20 => Flow {
            handle: rng.bool().then_some(handle),
            next_incoming_id: rng.bool().then(|| number(rng)),
            incoming_window: number(rng),
            delivery_count: rng.bool().then(|| number(rng)),
            link_credit: rng.bool().then(|| number(rng)),
            drain: rng.bool(),
            echo: rng.bool(),
            ..Flow::default()
        }
        .into(),
        20..26 => Disposition {
            role,
            first: number(rng),
            last: rng.bool().then(|| number(rng)),
            settled: rng.bool(),
            state: rng.bool().then(|| Accepted {}.into()),
            ..Disposition::default()
        }
        .into(),
        _ => Transfer {
            handle,
            more: rng.u8(0..3) == 0,
            aborted: rng.u8(0..10) == 0,
            ..transfer(number(rng), rng.bool())
        }
        .into(),
    }
}

/// Answers an event as an application does, and sends something.
fn answer(peer: &mut Peer, event: Event) {
    match event {
        Event::Opened(_) => {
            let _ = peer.engine.open(Open::default());
        }
        Event::AttachRequested { link, attach } => {
            let _ = peer.engine.accept(link, *attach);
            let _ = peer.engine.credit(link, 10);
        }
        Event::Delivery(delivery) => {
            let state = Some(Accepted {}.into());
            let _ = peer.engine.settle(delivery.link, [delivery.id], state.as_ref(), true);
        }
        Event::CreditChanged { link, drain, .. } => {
            for _ in 0..peer.engine.sendable(link).min(3) {
                let payload = vec![1; 2_000].into();
                let _ = peer.engine.send(link, consign_amqp::engine::OutboundDelivery::default(), &[payload]);
            }
            if drain {
                let _ = peer.engine.drained(link);
            }
        }
        _ => {}
    }
}

/// Rules.
/// Attacks: 90.
#[test]
fn frames_in_any_order_and_flipped_bits_end_in_events_and_frames() {
    let setting = |name, otherwise| env::var(name).map_or(otherwise, |text| text.parse().expect("a number"));
    let (seed, cases): (u64, u64) = (setting("SEED", 7), setting("CONSIGN_CASES", 2_000));
    let mut closed = 0;
    for seed in seed..seed + cases {
        let outcome = std::panic::catch_unwind(|| {
            let mut rng = Rng::with_seed(seed);
            let (mut peer, _) = Peer::begun(Options::default().max_unsettled(8).event_limit(4));
            for _ in 0..rng.usize(10..80) {
                let mut bytes =
                    encode(u16::from(rng.u8(0..20) == 0), performative(&mut rng), &vec![7; rng.usize(..600)]);
                if rng.u8(0..30) == 0 {
                    let index = rng.usize(..bytes.len());
                    bytes[index] ^= 1 << rng.u8(0..8);
                }
                peer.write_bytes(&bytes);
                while let Some(event) = peer.engine.poll_event() {
                    answer(&mut peer, event);
                }
                // Every frame that is written can be decoded.
                if rng.bool() {
                    drop(peer.frames());
                }
            }
            drop(peer.frames());
            u64::from(peer.engine.is_closed())
        });
        closed += outcome.unwrap_or_else(|panic| {
            let test = "frames_in_any_order_and_flipped_bits_end_in_events_and_frames";
            eprintln!("repeat: SEED={seed} CONSIGN_CASES=1 cargo test -p consign-amqp --test engine {test}");
            std::panic::resume_unwind(panic)
        });
    }
    assert!(cases < 100 || closed > cases / 10 && closed < cases, "{closed} of {cases} were closed");
}
