use std::{
    env,
    io::{self, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

/// A broker of a transport. Where the transport has no administration, another one creates entities.
pub(crate) struct Broker {
    pub(crate) name: &'static str,
    pub(crate) url: String,
    pub(crate) entities: String,
}

/// The variable that names a broker, its URL otherwise, and its port on loopback.
const BROKERS: [(&str, &str, &str, u16); 3] = [
    ("RabbitMQ", "CONSIGN_RABBITMQ", "amqp://guest:guest@127.0.0.1:5672/%2f", 5672),
    ("NATS", "CONSIGN_NATS", "nats://127.0.0.1:4222", 4222),
    ("PostgreSQL", "CONSIGN_POSTGRES", "postgresql://consign_test:consign_test@127.0.0.1:5432/consign_test", 5432),
];

/// The brokers at hand. One that a variable names has to be.
pub(crate) fn brokers() -> Vec<Broker> {
    let mut brokers = Vec::new();
    for (name, variable, url, port) in BROKERS {
        let named = env::var(variable).ok();
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        if named.is_none() && TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_err() {
            left_out(&format!("{name} of the command line: none at port {port}; scripts/brokers starts one"));
            continue;
        }
        let url = named.unwrap_or_else(|| url.to_owned());
        if name == "RabbitMQ" {
            let login = url.strip_prefix("amqp://").and_then(|rest| rest.split('/').next()).unwrap();
            let amqp10 = format!("amqp10://{login}");
            match has_amqp10(&amqp10) {
                true => brokers.push(Broker { name: "AMQP 1.0", url: amqp10, entities: url.clone() }),
                false => left_out("AMQP 1.0 of the command line: the RabbitMQ has no plugin rabbitmq_amqp1_0"),
            }
        }
        brokers.push(Broker { name, entities: url.clone(), url });
    }
    brokers
}

/// A peek of an entity that does not exist fails in another way than a connection.
fn has_amqp10(url: &str) -> bool {
    super::Shell::on(url).run(&["peek", &queue(), "-n", "1"]).code != Some(5)
}

/// The name of a new queue.
pub(crate) fn queue() -> String {
    format!("command-line-{:016x}", fastrand::u64(..))
}

/// Reports that a part of a test does not run. In a run that has to be complete, this fails.
fn left_out(what: &str) {
    assert!(env::var_os("CONSIGN_LEAVE_NOTHING_OUT").is_none(), "this was left out: {what}");
    let _ = writeln!(io::stderr(), "LEFT OUT: {what}");
}
