use std::time::Duration;

use consign::message::EntityPath;
use tokio::{process::Command, time::timeout};
use tower::BoxError;

use crate::cluster::{Cluster, NODES};

const CONTROL: &str = "/usr/lib/rabbitmq/bin/rabbitmqctl";

/// What an expression is, by the first node that answers.
async fn evaluate(cluster: &Cluster, expression: &str) -> Result<String, BoxError> {
    for node in 0..NODES.len() {
        let mut command = Command::new(cluster.folder(node).join("with"));
        command.args([CONTROL, "--silent", "eval", expression]).kill_on_drop(true);
        if let Ok(Ok(output)) = timeout(Duration::from_secs(20), command.output()).await
            && output.status.success()
        {
            return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
        }
    }
    Err("no node answers".into())
}

pub(super) async fn leader(cluster: &Cluster, path: &EntityPath) -> Option<usize> {
    let name = format!("rabbit_misc:r(<<\"/\">>, queue, <<\"{path}\">>)");
    let expression = format!("{{ok, Q}} = rabbit_amqqueue:lookup({name}), {{_, N}} = amqqueue:get_pid(Q), N.");
    let leader = evaluate(cluster, &expression).await.ok()?;
    NODES.iter().position(|node| leader.trim_matches('\'') == format!("{node}@localhost"))
}

pub(super) async fn is_complete(cluster: &Cluster) -> Result<bool, BoxError> {
    // A node whose listener is closed runs, but takes no clients: it has paused, or begins.
    let running = "length([N || N <- rabbit_nodes:all_running(), rpc:call(N, rabbit, is_running, []) =:= true]).";
    Ok(evaluate(cluster, running).await? == NODES.len().to_string())
}
