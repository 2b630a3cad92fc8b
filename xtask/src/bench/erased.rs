//! What erased types cost: routers of erased handlers, and a publisher.

use super::callgrind::{self, Cost};
use super::figure::{Figure, Part, number};
use super::programs::ERASED;
use crate::error::Error;

/// Several rounds over the routes: in the first ones the allocator is still filling its lists, which a message would seem to cost.
const MESSAGES: u64 = 10_000;
/// How many times what one route takes many routes may take.
const TIMES: f64 = 1.1;

/// A scenario of `benches/erased.rs`, what it is, and the scenario that it is held to.
const SCENARIOS: &[(&str, &str, Option<&str>)] = &[
    ("static_1", "a router of one route", None),
    ("static_50", "a router of 50 routes", Some("static_1")),
    ("erased_1", "a router of one route of erased type", None),
    ("erased_50", "a router of 50 such routes", Some("erased_1")),
    ("erased_500", "a router of 500 such routes", Some("erased_1")),
    ("layers", "a value through the layers of a publisher", None),
    ("publisher", "a value through a publisher", None),
    ("publisher_retry", "a value through a publisher with a retry", None),
];

pub(crate) fn figures() -> Result<Vec<Figure>, Error> {
    let built = ERASED.build()?;
    let mut figures: Vec<Figure> = Vec::new();
    for (name, about, beside) in SCENARIOS {
        eprintln!("counting {name} of {}", ERASED.name);
        let cost = callgrind::cost(&ERASED, &built, name, MESSAGES)?;
        let beside = beside.and_then(|beside| figures.iter().find(|figure| figure.name == full(beside)));
        let floor = beside.map(|figure| figure.ours);
        figures.push(Figure { floor, goal: floor.map(|floor| TIMES * floor), ..figure(name, about, cost) });
    }
    Ok(figures)
}

fn full(name: &str) -> String {
    format!("erased/{name}")
}

fn figure(name: &str, about: &str, cost: Cost) -> Figure {
    let about = format!("{about}; {} allocations", number(cost.allocations));
    Figure { about, ..Figure::new(Part::Row, full(name), "instructions per message", cost.instructions) }
}
