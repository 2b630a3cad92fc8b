//! The connections of a pool.

use std::time::Duration;

use deadpool_postgres::{ConfigConnectImpl, Connect, Manager, ManagerConfig, RecyclingMethod};
use futures_util::future::BoxFuture;
use tokio::task::JoinHandle;
use tokio_postgres::{
    Client, Config, Error, Socket,
    tls::{MakeTlsConnect, TlsConnect},
};

use crate::connect_first;

/// Creates the manager of a pool whose connections are opened by [`connect_first`]. They are not checked before they are used again.
pub fn manager<T>(config: Config, tls: T, timeout: Duration) -> Manager
where
    T: MakeTlsConnect<Socket> + Clone + Send + Sync + 'static,
    T::Stream: Send + Sync + 'static,
    T::TlsConnect: Send + Sync,
    <T::TlsConnect as TlsConnect<Socket>>::Future: Send,
{
    let recycling = ManagerConfig { recycling_method: RecyclingMethod::Fast };
    Manager::from_connect(config, Hosts { connect: Box::new(ConfigConnectImpl { tls }), timeout }, recycling)
}

struct Hosts {
    connect: Box<dyn Connect>,
    timeout: Duration,
}

impl Connect for Hosts {
    fn connect(&self, config: &Config) -> BoxFuture<'_, Result<(Client, JoinHandle<()>), Error>> {
        let config = config.clone();
        Box::pin(async move { connect_first(&config, self.timeout, |config| self.connect.connect(&config)).await })
    }
}
