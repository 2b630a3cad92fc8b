//! Serves a broker in memory, for programs in any language: `cargo run -p consign-server --example serve -- 127.0.0.1:5672`.

use std::{env, error::Error};

use consign_server::Server;
use tokio::net::TcpListener;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let address = env::args().nth(1).unwrap_or_else(|| "127.0.0.1:5672".to_owned());
    let listener = TcpListener::bind(address).await?;
    let address = listener.local_addr()?;
    println!("Endpoint=sb://{address};SharedAccessKeyName=any;SharedAccessKey=any;UseDevelopmentEmulator=true;");
    Server::builder().build().serve(listener).await?;
    Ok(())
}
