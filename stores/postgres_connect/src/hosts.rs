//! Opens connections to the first of several servers that answers.

use std::{net::IpAddr, time::Duration};

use futures_util::future::BoxFuture;
use tokio::{
    net::lookup_host,
    time::{Instant, timeout_at},
};
use tokio_postgres::{
    Config, Error,
    config::{Host, LoadBalanceHosts},
};

/// Connects to the first server of a configuration that answers, by `connect`, which gets the configuration with one server and one
/// address.
///
/// Several hosts are tried in their order, and so are the addresses of a name; `load_balance_hosts=random` shuffles both. An attempt
/// to an address ends after `connect_timeout`, or otherwise after an equal part of what is left of `timeout`. The last attempt has no
/// limit: the caller limits the whole.
///
/// # Errors
///
/// That of the last attempt that has failed. The driver has that of a configuration without a server.
pub async fn connect_first<'c, T: Send>(
    config: &Config,
    timeout: Duration,
    connect: impl Fn(Config) -> BoxFuture<'c, Result<T, Error>> + Send + Sync,
) -> Result<T, Error> {
    let end = after(timeout);
    let each = config.get_connect_timeout().copied();
    let is_random = config.get_load_balance_hosts() == LoadBalanceHosts::Random;
    let Some(mut servers) = Server::all(config) else { return connect(config.clone()).await };
    if is_random {
        fastrand::shuffle(&mut servers);
    }
    let count = servers.len();
    let mut failed = None;
    for (server, servers_left) in servers.into_iter().zip((1..=count).rev()) {
        // `connect_timeout` is that of each address.
        let limit = if each.is_some() { None } else { part(end, servers_left) };
        let attempt = async {
            let mut addresses = server.addresses().await;
            if is_random {
                fastrand::shuffle(&mut addresses);
            }
            let count = addresses.len();
            let mut failed = None;
            for (address, left) in addresses.into_iter().zip((1..=count).rev()) {
                let one = server.config(config, address);
                let limit = match each {
                    Some(each) => (servers_left > 1 || left > 1).then(|| after(each)),
                    None => part(limit.unwrap_or(end), left),
                };
                match until(limit, connect(one)).await {
                    Some(Err(error)) => failed = Some(error),
                    Some(Ok(connected)) => return Ok(connected),
                    None => {}
                }
            }
            Err(failed)
        };
        match until(limit, attempt).await {
            Some(Ok(connected)) => return Ok(connected),
            Some(Err(error)) => failed = error.or(failed),
            None => {}
        }
    }
    match failed {
        Some(error) => Err(error),
        // There is no server: the driver has the error.
        None => connect(config.clone()).await,
    }
}

/// Returns when an attempt ends that is the first of `left`: not at all if it is the only one.
fn part(end: Instant, left: usize) -> Option<Instant> {
    let now = Instant::now();
    (left > 1).then(|| now + (end - now) / u32::try_from(left).unwrap_or(u32::MAX))
}

/// A duration may be longer than any clock counts.
fn after(duration: Duration) -> Instant {
    const FAR: Duration = Duration::from_secs(30 * 365 * 86_400);
    let now = Instant::now();
    now.checked_add(duration).unwrap_or_else(|| now + FAR)
}

async fn until<T>(limit: Option<Instant>, work: impl Future<Output = T>) -> Option<T> {
    match limit {
        Some(limit) => timeout_at(limit, work).await.ok(),
        None => Some(work.await),
    }
}

/// One server of a configuration.
struct Server {
    host: Option<Host>,
    address: Option<IpAddr>,
    port: Option<u16>,
}

impl Server {
    /// Returns `None` for a configuration that the driver refuses.
    fn all(config: &Config) -> Option<Vec<Self>> {
        let (hosts, addresses, ports) = (config.get_hosts(), config.get_hostaddrs(), config.get_ports());
        let count = hosts.len().max(addresses.len());
        let is_complete = |length: usize| length == 0 || length == count;
        if count == 0 || !is_complete(hosts.len()) || !is_complete(addresses.len()) {
            return None;
        }
        if ports.len() > 1 && ports.len() != count {
            return None;
        }
        let server = |index: usize| Self {
            host: hosts.get(index).cloned(),
            address: addresses.get(index).copied(),
            port: ports.get(index).or_else(|| ports.first()).copied(),
        };
        Some((0..count).map(server).collect())
    }

    /// Returns the addresses of its name, or `None` once if it has none or is not to be looked up.
    async fn addresses(&self) -> Vec<Option<IpAddr>> {
        if let (Some(Host::Tcp(name)), None) = (&self.host, self.address)
            && let Ok(found) = lookup_host((name.as_str(), self.port.unwrap_or_default())).await
        {
            let found: Vec<_> = found.map(|address| Some(address.ip())).collect();
            if !found.is_empty() {
                return found;
            }
        }
        // The driver has the error of a name without an address.
        vec![self.address]
    }

    /// Returns the configuration with this server alone.
    fn config(&self, of: &Config, address: Option<IpAddr>) -> Config {
        let mut config = Config::new();
        match &self.host {
            Some(Host::Tcp(name)) => drop(config.host(name)),
            #[cfg(unix)]
            Some(Host::Unix(path)) => drop(config.host_path(path)),
            None => {}
        }
        if let Some(address) = address {
            config.hostaddr(address);
        }
        if let Some(port) = self.port {
            config.port(port);
        }
        of.get_user().map(|user| config.user(user));
        of.get_password().map(|password| config.password(password));
        of.get_dbname().map(|name| config.dbname(name));
        of.get_options().map(|options| config.options(options));
        of.get_application_name().map(|name| config.application_name(name));
        of.get_connect_timeout().map(|timeout| config.connect_timeout(*timeout));
        of.get_tcp_user_timeout().map(|timeout| config.tcp_user_timeout(*timeout));
        of.get_keepalives_interval().map(|interval| config.keepalives_interval(interval));
        of.get_keepalives_retries().map(|retries| config.keepalives_retries(retries));
        config
            .keepalives(of.get_keepalives())
            .keepalives_idle(of.get_keepalives_idle())
            .ssl_mode(of.get_ssl_mode())
            .ssl_negotiation(of.get_ssl_negotiation())
            .target_session_attrs(of.get_target_session_attrs())
            .channel_binding(of.get_channel_binding())
            .load_balance_hosts(of.get_load_balance_hosts());
        config
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use parking_lot::Mutex;

    use super::*;

    /// The addresses that are tried, and when. That with port 9 answers.
    async fn tried(url: &str) -> Vec<(String, Duration)> {
        let (began, tried) = (Instant::now(), Mutex::new(Vec::new()));
        let connect = |config: Config| -> BoxFuture<'_, Result<(), Error>> {
            let port = config.get_ports()[0];
            tried.lock().push((format!("{:?}:{port}", config.get_hostaddrs()[0]), began.elapsed()));
            if port == 9 { Box::pin(async { Ok(()) }) } else { Box::pin(pending()) }
        };
        connect_first(&url.parse().unwrap(), Duration::from_secs(10), connect).await.unwrap();
        tried.into_inner()
    }

    #[tokio::test(start_paused = true)]
    async fn several_servers_share_the_timeout() {
        let at = |port: u16, seconds| (format!("127.0.0.1:{port}"), Duration::from_secs(seconds));
        for (url, expected) in [
            ("postgres://127.0.0.1:9", vec![at(9, 0)]),
            ("postgres://127.0.0.1:1,127.0.0.1:9", vec![at(1, 0), at(9, 5)]),
            ("postgres://127.0.0.1:1,127.0.0.1:9?connect_timeout=7", vec![at(1, 0), at(9, 7)]),
            ("postgres:///?hostaddr=127.0.0.1,127.0.0.1&port=1,9", vec![at(1, 0), at(9, 5)]),
        ] {
            let found = tried(url).await;
            let whole = |(address, after): (String, Duration)| (address, Duration::from_secs(after.as_secs()));
            assert_eq!(found.into_iter().map(whole).collect::<Vec<_>>(), expected, "{url}");
        }
    }

    #[tokio::test]
    async fn the_configuration_of_one_server_is_that_of_all() {
        let url = "postgres://u:p@one:7/d?options=-c%20a%3Db&application_name=n&sslmode=require&sslnegotiation=direct\
            &connect_timeout=3&tcp_user_timeout=4&keepalives=0&keepalives_idle=5&keepalives_interval=6\
            &keepalives_retries=7&target_session_attrs=read-only&channel_binding=require&load_balance_hosts=random\
            &hostaddr=127.0.0.1";
        let config: Config = url.parse().unwrap();
        for config in [config, "host=/run/postgresql".parse().unwrap()] {
            let [server] = &Server::all(&config).unwrap()[..] else { panic!("one server") };
            let own = server.config(&config, server.address);
            assert_eq!(format!("{own:?}"), format!("{config:?}"));
            assert_eq!(own, config);
        }
        let refused: Config = "host=one,two hostaddr=127.0.0.1".parse().unwrap();
        assert!(Server::all(&refused).is_none());
    }
}
