//! A broker of queues in memory with peek-lock, on the server's end of connections.
//!
//! An address is a queue, made on first use; one that begins with `missing` is refused. Rejected messages, and modified ones that
//! are undeliverable, go to the queue `dead/ADDRESS`.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::{Arc, Mutex, PoisonError},
};

use consign_amqp::{
    bytes::Bytes,
    codec::Encoder,
    engine::{CommandError, Connection as Engine, DeliveryId, Event, LinkId, Options, OutboundDelivery},
    message::{EncodedMessage, Header, Section},
    server::Connection,
    types::{
        Accepted, Attach, AttachTarget, DeliveryState, Error, Open, Rejected, Role, SaslCode, SenderSettleMode,
        condition,
    },
    value::{Str, Symbol},
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::watch,
};

#[derive(Clone)]
pub(crate) struct Node {
    queues: Arc<Mutex<BTreeMap<String, VecDeque<Message>>>>,
    /// Changes whenever a message becomes available.
    changed: watch::Sender<u64>,
    options: Options,
}

#[derive(Clone)]
struct Message {
    encoded: Bytes,
    delivery_count: u32,
}

/// The links of one connection.
#[derive(Default)]
struct Links {
    /// Links on which clients send, with their addresses.
    incoming: HashMap<LinkId, String>,
    outgoing: BTreeMap<LinkId, Outgoing>,
    next_tag: u32,
}

struct Outgoing {
    address: String,
    locked: BTreeMap<DeliveryId, Message>,
    settled: bool,
    drain: bool,
}

impl Node {
    pub(crate) fn new() -> Self {
        let mechanisms = ["ANONYMOUS", "PLAIN"].map(Symbol::from_static);
        let options = Options::default().sasl_mechanisms(mechanisms).sasl_optional(true);
        Self { queues: Arc::default(), changed: watch::Sender::new(0), options }
    }

    pub(crate) fn with_options(options: Options) -> Self {
        Self { options, ..Self::new() }
    }

    /// How many messages of a queue are not locked.
    #[allow(dead_code, reason = "not every program that has this module counts")]
    pub(crate) fn len(&self, address: &str) -> usize {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner).get(address).map_or(0, VecDeque::len)
    }

    /// Serves a connection until it is closed.
    pub(crate) async fn serve(self, stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) {
        let mut connection = Connection::accept(stream, self.options.clone());
        let mut links = Links::default();
        let mut changed = self.changed.subscribe();
        loop {
            let event = tokio::select! {
                event = connection.next_event() => event,
                _ = changed.changed() => None,
            };
            let closed = matches!(event, Some(Event::Closed { .. }));
            connection.command(|engine| {
                if let Some(event) = event {
                    // A link may be detached before its last event is handled.
                    let _ = self.on(engine, &mut links, event);
                }
                self.deliver(engine, &mut links);
            });
            if closed {
                break;
            }
        }
        for (_, link) in links.outgoing {
            self.unlock(link);
        }
    }

    fn on(&self, engine: &mut Engine, links: &mut Links, event: Event) -> Result<(), CommandError> {
        match event {
            Event::SaslInit(_) => engine.sasl_outcome(SaslCode::Ok),
            Event::Opened(_) => engine.open(Open { container_id: "node".into(), ..Open::default() }),
            Event::AttachRequested { link, attach } => Self::attach(engine, links, link, *attach),
            Event::CreditChanged { link, drain, .. } => {
                if let Some(link) = links.outgoing.get_mut(&link) {
                    link.drain = drain;
                }
                Ok(())
            }
            Event::Delivery(delivery) => {
                let address = links.incoming.get(&delivery.link).ok_or(CommandError::UnknownLink)?;
                let encoded = delivery.payload.into_bytes();
                let state = match EncodedMessage::split(encoded.clone()) {
                    Ok(_) => {
                        self.put(address, Message { encoded, delivery_count: 0 }, false);
                        Accepted {}.into()
                    }
                    Err(error) => {
                        let error = Some(Error::new(condition::DECODE_ERROR, error.to_string()));
                        DeliveryState::Rejected(Box::new(Rejected { error }))
                    }
                };
                engine.settle(delivery.link, [delivery.id], Some(&state), true)?;
                engine.credit(delivery.link, 100)
            }
            Event::Disposition { role: Role::Receiver, deliveries, state, settled, .. } => {
                for (link, id) in deliveries.iter() {
                    let Some(outgoing) = links.outgoing.get_mut(&link) else { continue };
                    if let Some(message) = outgoing.locked.remove(&id) {
                        self.settle(&outgoing.address, message, state.as_ref());
                    }
                    if !settled {
                        engine.settle(link, [id], state.as_ref(), true)?;
                    }
                }
                Ok(())
            }
            Event::Detached { link, .. } => {
                links.incoming.remove(&link);
                links.outgoing.remove(&link).into_iter().for_each(|link| self.unlock(link));
                Ok(())
            }
            Event::Ended { session, .. } => {
                links.incoming.retain(|link, _| link.session() != session);
                let ended: Vec<_> = links.outgoing.keys().copied().filter(|link| link.session() == session).collect();
                for link in ended.iter().filter_map(|link| links.outgoing.remove(link)) {
                    self.unlock(link);
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn attach(engine: &mut Engine, links: &mut Links, link: LinkId, attach: Attach) -> Result<(), CommandError> {
        let target = match &attach.target {
            Some(AttachTarget::Target(target)) => target.address.clone(),
            _ => None,
        };
        let source = attach.source.as_ref().and_then(|source| source.address.clone());
        let address = if attach.role == Role::Sender { target } else { source };
        let address = address.as_ref().map(Str::as_str).unwrap_or_default().to_owned();
        if address.is_empty() || address.starts_with("missing") {
            return engine.refuse(link, Error::new(condition::NOT_FOUND, format!("no queue {address:?}")));
        }
        let settled = attach.snd_settle_mode == SenderSettleMode::Settled;
        let answer = Attach {
            source: attach.source,
            target: attach.target,
            snd_settle_mode: attach.snd_settle_mode,
            rcv_settle_mode: attach.rcv_settle_mode,
            ..Attach::default()
        };
        engine.accept(link, answer)?;
        if attach.role == Role::Sender {
            links.incoming.insert(link, address);
            return engine.credit(link, 100);
        }
        links.outgoing.insert(link, Outgoing { address, locked: BTreeMap::new(), settled, drain: false });
        Ok(())
    }

    /// Sends what the receivers of a connection accept.
    fn deliver(&self, engine: &mut Engine, links: &mut Links) {
        let Links { outgoing, next_tag, .. } = links;
        for (id, link) in outgoing {
            while engine.sendable(*id) > 0
                && let Some(message) = self.take(&link.address)
            {
                *next_tag += 1;
                let delivery = OutboundDelivery {
                    tag: next_tag.to_be_bytes().to_vec().into(),
                    settled: link.settled,
                    ..OutboundDelivery::default()
                };
                match engine.send(*id, delivery, &message.chunks()) {
                    Ok(_) if link.settled => {}
                    Ok(delivery) => drop(link.locked.insert(delivery, message)),
                    // The receiver never accepts it.
                    Err(CommandError::MessageTooLarge { .. }) => {
                        self.put(&format!("dead/{}", link.address), message, false);
                    }
                    Err(_) => {
                        self.put(&link.address, message, true);
                        break;
                    }
                }
            }
            if link.drain && (self.len(&link.address) == 0 || engine.sendable(*id) == 0) {
                link.drain = false;
                let _ = engine.drained(*id);
            }
        }
    }

    fn settle(&self, address: &str, mut message: Message, state: Option<&DeliveryState>) {
        match state {
            Some(DeliveryState::Accepted(_)) => {}
            Some(DeliveryState::Rejected(_)) => self.put(&format!("dead/{address}"), message, false),
            Some(DeliveryState::Modified(modified)) => {
                message.delivery_count += u32::from(modified.delivery_failed);
                if modified.undeliverable_here {
                    self.put(&format!("dead/{address}"), message, false);
                } else {
                    self.put(address, message, true);
                }
            }
            _ => self.put(address, message, true),
        }
    }

    /// Makes the messages of a link available again, in their order.
    fn unlock(&self, link: Outgoing) {
        for (_, message) in link.locked.into_iter().rev() {
            self.put(&link.address, message, true);
        }
    }

    fn put(&self, address: &str, message: Message, first: bool) {
        let mut queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        let queue = queues.entry(address.to_owned()).or_default();
        if first {
            queue.push_front(message);
        } else {
            queue.push_back(message);
        }
        self.changed.send_modify(|changes| *changes += 1);
    }

    fn take(&self, address: &str) -> Option<Message> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner).get_mut(address)?.pop_front()
    }
}

impl Message {
    /// The encoded message with the delivery count in its header.
    fn chunks(&self) -> [Bytes; 2] {
        if self.delivery_count == 0 {
            return [Bytes::new(), self.encoded.clone()];
        }
        let message = EncodedMessage::split(self.encoded.clone()).unwrap();
        let header = message.header().ok().flatten().unwrap_or_default();
        let mut bytes = Vec::new();
        let mut encoder = Encoder::new(&mut bytes);
        encoder.encode(&Header { delivery_count: header.delivery_count + self.delivery_count, ..header });
        encoder.finish().unwrap();
        [bytes.into(), message.from_section(Section::DeliveryAnnotations)]
    }
}
