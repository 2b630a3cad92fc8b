//! A pipeline has a layer without a description.

use std::time::Duration;

use consign::pipeline::Pipeline;
use tower::timeout::TimeoutLayer;

fn main() {
    let _ = Pipeline::receiving("orders").layer(TimeoutLayer::new(Duration::from_secs(5)));
}
