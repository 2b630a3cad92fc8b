//! A port mapper of Erlang that sends a node to proxies instead of the other nodes. Each node has one of its own.
//!
//! Its requests are a length of two bytes, a letter and the arguments:
//! <https://www.erlang.org/doc/apps/erts/erl_dist_protocol.html>.

use std::{io, net::Ipv4Addr, sync::Arc};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};

const REGISTER: u8 = b'x';
const LOOK_UP: u8 = b'z';
const NAMES: u8 = b'n';

/// A port mapper on a port of its own, until it is dropped.
pub(crate) struct Epmd {
    port: u16,
    serving: JoinHandle<()>,
}

impl Epmd {
    /// Maps the names of nodes to ports.
    pub(crate) async fn start(ports: Vec<(String, u16)>) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let port = listener.local_addr()?.port();
        let ports = Arc::new(ports);
        let serving = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, port, Arc::clone(&ports)));
            }
        });
        Ok(Self { port, serving })
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for Epmd {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn serve(mut stream: TcpStream, port: u16, ports: Arc<Vec<(String, u16)>>) -> io::Result<()> {
    let length = stream.read_u16().await?;
    let mut request = vec![0; length.into()];
    stream.read_exact(&mut request).await?;
    match request.split_first() {
        Some((&REGISTER, _)) => {
            // The result 0, and the creation: a number that differs from that of the last life of the node. It is
            // registered for as long as it is connected.
            stream.write_all(&[b'v', 0]).await?;
            stream.write_u32(fastrand::u32(4..)).await?;
            stream.read_u8().await.map(drop)
        }
        Some((&LOOK_UP, name)) => stream.write_all(&answer(name, &ports)).await,
        Some((&NAMES, _)) => stream.write_u32(port.into()).await,
        _ => Ok(()),
    }
}

/// The answer to a look-up: the port, and a node that speaks versions 5 and 6 of the protocol, by TCP.
fn answer(name: &[u8], ports: &[(String, u16)]) -> Vec<u8> {
    let Some((_, port)) = ports.iter().find(|(known, _)| known.as_bytes() == name) else { return vec![b'w', 1] };
    let mut answer = vec![b'w', 0];
    answer.extend(port.to_be_bytes());
    answer.extend([77, 0, 0, 6, 0, 5]);
    answer.extend(u16::try_from(name.len()).expect("a name of one letter").to_be_bytes());
    answer.extend(name);
    answer.extend([0, 0]);
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_the_port_of_its_proxy() {
        let ports = [("a".into(), 258), ("b".into(), 5)];
        assert_eq!(answer(b"a", &ports), [b'w', 0, 1, 2, 77, 0, 0, 6, 0, 5, 0, 1, b'a', 0, 0]);
        assert_eq!(answer(b"d", &ports), [b'w', 1]);
    }
}
