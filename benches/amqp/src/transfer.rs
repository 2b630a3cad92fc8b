//! One message from a client's engine to a server's: its transfer, and its disposition where it is not settled.

use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use consign_amqp::{
    engine::{Connection, Event, LinkId, Options, OutboundDelivery, Received},
    types::{Accepted, Attach, Begin, DeliveryState, Open, Role, Source, Target},
    value::Binary,
};

use crate::{Suite, sample};

/// How many deliveries a flow allows: the client waits for another one only after these.
const CREDIT: u32 = 100;

pub(crate) fn add(suite: &mut Suite) {
    let mut settled = Pair::new();
    suite.add("transfer_settled/ours", move || settled.deliver(true));
    let mut unsettled = Pair::new();
    suite.add("transfer/ours", move || unsettled.deliver(false));
}

/// Two engines of a running link, and the bytes between them.
struct Pair {
    client: Connection,
    server: Connection,
    to_server: BytesMut,
    to_client: BytesMut,
    sender: LinkId,
    receiver: LinkId,
    left: u32,
    tag: Binary,
    payload: [Bytes; 1],
    accepted: DeliveryState,
}

impl Pair {
    fn new() -> Self {
        let mut client = Connection::client(Options::default(), Duration::ZERO);
        let mut server = Connection::server(Options::default(), Duration::ZERO);
        let (mut to_server, mut to_client) = (BytesMut::new(), BytesMut::new());
        client.open(Open::default()).expect("a new connection");
        server.open(Open::default()).expect("a new connection");
        let session = client.begin(Begin::default()).expect("a session");
        let attach = Attach {
            name: "orders".into(),
            role: Role::Sender,
            source: Some(Box::new(Source::default())),
            target: Some(Target::default().into()),
            ..Attach::default()
        };
        let sender = client.attach(session, attach).expect("a link");
        let mut receiver = None;
        while receiver.is_none() {
            write(&mut client, &mut to_server);
            let _ = server.receive(Duration::ZERO, &mut to_server);
            while let Some(event) = server.poll_event() {
                if let Event::AttachRequested { link, attach } = event {
                    let answer = Attach { source: attach.source, target: attach.target, ..Attach::default() };
                    server.accept(link, answer).expect("a link");
                    receiver = Some(link);
                }
            }
            write(&mut server, &mut to_client);
            let _ = client.receive(Duration::ZERO, &mut to_client);
            while client.poll_event().is_some() {}
        }
        Self {
            client,
            server,
            to_server,
            to_client,
            sender,
            receiver: receiver.expect("a link"),
            left: 0,
            tag: Bytes::from_static(&[7; 16]).into(),
            payload: [sample::encoded()],
            accepted: Accepted {}.into(),
        }
    }

    fn deliver(&mut self, settled: bool) {
        if self.left == 0 {
            self.server.credit(self.receiver, CREDIT).expect("a link");
            self.left = CREDIT;
            self.deliver_to_client();
        }
        self.left -= 1;
        let delivery = OutboundDelivery { tag: self.tag.clone(), settled, ..OutboundDelivery::default() };
        self.client.send(self.sender, delivery, &self.payload).expect("credit");
        write(&mut self.client, &mut self.to_server);
        assert_eq!(self.server.receive(Duration::ZERO, &mut self.to_server), Received::NeedsInput);
        let mut received = 0;
        while let Some(event) = self.server.poll_event() {
            let Event::Delivery(delivery) = event else { continue };
            received += 1;
            if !settled {
                let settling = self.server.settle(self.receiver, [delivery.id], Some(&self.accepted), true);
                assert_eq!(settling, Ok(1));
            }
        }
        assert_eq!(received, 1);
        if !settled {
            assert_eq!(self.deliver_to_client(), 1, "the disposition");
        }
    }

    /// Writes the output of the server; returns how many deliveries the client has settled.
    fn deliver_to_client(&mut self) -> usize {
        write(&mut self.server, &mut self.to_client);
        assert_eq!(self.client.receive(Duration::ZERO, &mut self.to_client), Received::NeedsInput);
        let mut settled = 0;
        while let Some(event) = self.client.poll_event() {
            if let Event::Disposition { deliveries, settled: true, .. } = event {
                settled += deliveries.of(self.sender).count();
            }
        }
        settled
    }
}

/// Copies the output once, as a socket does.
fn write(from: &mut Connection, to: &mut BytesMut) {
    while from.has_output() {
        let mut output = from.output();
        while output.has_remaining() {
            let count = output.chunk().len();
            to.extend_from_slice(output.chunk());
            output.advance(count);
        }
    }
}
