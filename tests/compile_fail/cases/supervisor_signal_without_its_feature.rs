//! A method is called without its feature.
//!
//! Enable the feature in `Cargo.toml`, here `signal`. The compiler does not name it: the table of features
//! in the documentation of the crate does.

use consign::supervisor::{Supervisor, SupervisorError};

async fn supervise(supervisor: Supervisor) -> Result<(), SupervisorError> {
    supervisor.run_until_signal().await
}

fn main() {}
