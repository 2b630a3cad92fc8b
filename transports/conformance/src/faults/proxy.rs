use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    select,
    sync::watch,
    task::{JoinHandle, JoinSet},
};

/// A proxy for connections to a server, on loopback, that can cut, tear and freeze them.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: JoinHandle<()>,
}

/// The direction of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the transport.
    ToServer,
    /// From the server.
    ToClient,
}

/// How a connection ends at a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// The bytes of the step do not arrive.
    Before,
    /// They arrive, and no later bytes in either direction.
    After,
    /// The first half of them arrives.
    Torn,
}

/// A cut that waits for its step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trip {
    /// The direction of the bytes of the step.
    pub direction: Direction,
    /// How many steps of that direction pass first, over all connections.
    pub steps: u64,
    /// How the connection ends.
    pub how: How,
}

#[derive(Debug)]
struct Shared {
    server: SocketAddr,
    trip: Mutex<Option<Trip>>,
    /// A change ends all connections.
    cut: watch::Sender<u64>,
    is_frozen: watch::Sender<bool>,
    is_refusing: watch::Sender<bool>,
}

impl Proxy {
    /// Listens on a free port, for the server at `server`.
    pub async fn to(server: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            server,
            trip: Mutex::default(),
            cut: watch::Sender::new(0),
            is_frozen: watch::Sender::new(false),
            is_refusing: watch::Sender::new(false),
        });
        let accepting = tokio::spawn(accept(listener, Arc::clone(&shared)));
        Ok(Self { address, shared, accepting })
    }

    /// Returns the address to connect to.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sets a cut, in place of a waiting one.
    pub fn arm(&self, trip: Trip) {
        *self.shared.trip() = Some(trip);
    }

    /// Removes a waiting cut. `false` if there is none: it has happened.
    #[must_use]
    pub fn disarm(&self) -> bool {
        self.shared.trip().take().is_some()
    }

    /// Returns whether a cut waits.
    #[must_use]
    pub fn is_armed(&self) -> bool {
        self.shared.trip().is_some()
    }

    /// Cuts all connections now.
    pub fn cut(&self) {
        self.shared.cut();
    }

    /// Holds all bytes back in both directions, or forwards them again.
    pub fn freeze(&self, is_frozen: bool) {
        self.shared.is_frozen.send_replace(is_frozen);
    }

    /// Ends each new connection at once, or serves it again.
    pub fn refuse(&self, is_refusing: bool) {
        self.shared.is_refusing.send_replace(is_refusing);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Shared {
    fn trip(&self) -> MutexGuard<'_, Option<Trip>> {
        self.trip.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn cut(&self) {
        self.cut.send_modify(|cuts| *cuts += 1);
    }

    /// Returns the fault of a step.
    fn step(&self, direction: Direction) -> Option<How> {
        let mut trip = self.trip();
        let waiting = trip.as_mut().filter(|trip| trip.direction == direction)?;
        if waiting.steps > 0 {
            waiting.steps -= 1;
            return None;
        }
        trip.take().map(|trip| trip.how)
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    // Dropped with the proxy, and the connections with it.
    let mut connections = JoinSet::new();
    loop {
        select! {
            accepted = listener.accept() => {
                let Ok((client, _)) = accepted else { continue };
                // Before the check, so that it has a cut that is made after a refusal.
                let cut = shared.cut.subscribe();
                if !*shared.is_refusing.borrow() {
                    connections.spawn(connect(client, cut, Arc::clone(&shared)));
                }
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn connect(client: TcpStream, mut cut: watch::Receiver<u64>, shared: Arc<Shared>) {
    let Ok(server) = TcpStream::connect(shared.server).await else { return };
    // A delay of small packets is not one of the faults.
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let up = pump(from_client, to_server, Direction::ToServer, cut.clone(), &shared);
    let down = pump(from_server, to_client, Direction::ToClient, cut.clone(), &shared);
    let ended = select! {
        ended = up => ended,
        ended = down => ended,
        _ = cut.changed() => None,
    };
    if let Some(server) = ended {
        let_arrive(server).await;
    }
}

/// Forwards bytes until the connection ends. Returns the write half to the server, if the bytes that were written to it must
/// arrive.
async fn pump(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    direction: Direction,
    cut: watch::Receiver<u64>,
    shared: &Shared,
) -> Option<OwnedWriteHalf> {
    let mut buffer = vec![0; 64 << 10];
    let mut frozen = shared.is_frozen.subscribe();
    loop {
        let length = from.read(&mut buffer).await.ok().filter(|&length| length > 0)?;
        frozen.wait_for(|is_frozen| !is_frozen).await.ok()?;
        // Both directions may be ready in the poll that would end them, for bytes that came after the cut.
        if cut.has_changed().ok()? {
            return None;
        }
        let how = shared.step(direction);
        let arriving = match how {
            Some(How::Before) => return None,
            Some(How::Torn) => &buffer[..length / 2],
            None | Some(How::After) => &buffer[..length],
        };
        to.write_all(arriving).await.ok()?;
        if how.is_some() {
            return (direction == Direction::ToServer).then_some(to);
        }
    }
}

/// Closes the connection to the server after a pause. Closing a socket while the server has sent something would make the
/// server drop bytes that it has not read.
async fn let_arrive(mut server: OwnedWriteHalf) {
    let _ = server.shutdown().await;
    tokio::time::sleep(Duration::from_millis(50)).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers each byte with itself.
    async fn echo() -> SocketAddr {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let (mut from, mut to) = stream.split();
                    tokio::io::copy(&mut from, &mut to).await
                });
            }
        });
        address
    }

    async fn ask(stream: &mut TcpStream, bytes: &[u8]) -> io::Result<Vec<u8>> {
        stream.write_all(bytes).await?;
        let mut answer = vec![0; 16];
        let length = stream.read(&mut answer).await?;
        answer.truncate(length);
        Ok(answer)
    }

    #[tokio::test]
    async fn a_cut_waits_for_its_step() {
        let proxy = Proxy::to(echo().await).await.unwrap();
        let cuts = [(How::Before, 0), (How::After, 0), (How::Torn, 0)];
        for (how, answered) in cuts {
            let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
            proxy.arm(Trip { direction: Direction::ToServer, steps: 1, how });
            assert_eq!(ask(&mut stream, b"one").await.unwrap(), b"one");
            assert!(proxy.is_armed());
            assert_eq!(ask(&mut stream, b"four").await.map_or(0, |answer| answer.len()), answered, "{how:?}");
            assert!(!proxy.disarm());
        }
        let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
        proxy.arm(Trip { direction: Direction::ToClient, steps: 0, how: How::Torn });
        assert_eq!(ask(&mut stream, b"four").await.unwrap(), b"fo");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn bytes_after_a_cut_do_not_arrive() {
        let server = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let proxy = Proxy::to(server.local_addr().unwrap()).await.unwrap();
        for _ in 0..1_000 {
            let mut client = TcpStream::connect(proxy.address()).await.unwrap();
            let (mut accepted, _) = server.accept().await.unwrap();
            client.write_all(b"one").await.unwrap();
            accepted.read_exact(&mut [0; 3]).await.unwrap();
            proxy.cut();
            let _ = client.write_all(b"two").await;
            let mut arrived = Vec::new();
            let _ = accepted.read_to_end(&mut arrived).await;
            assert_eq!(arrived, b"");
        }
    }

    #[tokio::test]
    async fn frozen_bytes_arrive_later() {
        let proxy = Proxy::to(echo().await).await.unwrap();
        let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
        proxy.freeze(true);
        {
            let mut asked = Box::pin(ask(&mut stream, b"one"));
            assert!(tokio::time::timeout(Duration::from_millis(50), &mut asked).await.is_err());
            proxy.freeze(false);
            assert_eq!(asked.await.unwrap(), b"one");
        }
        proxy.cut();
        assert!(ask(&mut stream, b"two").await.map_or(true, |answer| answer.is_empty()));
        proxy.refuse(true);
        let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
        assert!(ask(&mut stream, b"two").await.map_or(true, |answer| answer.is_empty()));
    }
}
