//! Codecs beside the crates of their formats. `benches/codecs` names its scenarios `FORMAT/BODY/WORK/SIDE`: those that differ
//! in the side alone do the same work.

use std::collections::BTreeMap;
use std::path::Path;

use super::callgrind;
use super::figure::{Figure, Part};
use super::programs::CODECS;
use crate::error::Error;

const BODIES: u64 = 1_000;
const UNIT: &str = "instructions per body";
const OURS: &str = "ours";
/// The format's crate, as its documentation has it.
const RAW: &str = "raw";
/// The same behind the limits and nothing else.
const LIMITED: &str = "raw_limits";
/// What a set may cost over the same crate behind the same limits.
const SET: f64 = 1.02;
/// What the limits may cost of a body of 1 KiB.
const LIMITS: f64 = 1.05;
/// What a type that is erased may cost.
const ERASED: f64 = 1.2;

type Sides = BTreeMap<String, f64>;

pub(crate) fn figures() -> Result<Vec<Figure>, Error> {
    let built = CODECS.build()?;
    let list = callgrind::printed(&built, &["list"])?;
    let mut figures = Vec::new();
    for (work, sides) in grouped(&list) {
        eprintln!("counting {work}");
        let counted = sides.iter().map(|side| Ok((side.clone(), count(&built, &format!("{work}/{side}"))?)));
        figures.extend(compared(&work, &counted.collect::<Result<Sides, Error>>()?));
    }
    Ok(figures)
}

fn count(built: &Path, scenario: &str) -> Result<f64, Error> {
    callgrind::cost(&CODECS, built, scenario, BODIES).map(|cost| cost.instructions)
}

/// The sides of each work.
fn grouped(list: &str) -> BTreeMap<String, Vec<String>> {
    let mut groups: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (work, side) in list.lines().filter_map(|name| name.trim().rsplit_once('/')) {
        groups.entry(work.into()).or_default().push(side.into());
    }
    groups
}

/// Ours beside the other sides; and, where the crate stands behind the limits too, what those alone cost.
fn compared(work: &str, sides: &Sides) -> Vec<Figure> {
    let mut figures = Vec::new();
    let side = |side: &str| sides.get(side).copied();
    if let Some(ours) = side(OURS) {
        let others = sides.iter().filter(|(side, _)| *side != OURS && *side != LIMITED);
        let peers = others.map(|(side, &cost)| (side.clone(), cost)).collect();
        let goal = if work.ends_with("/per_type") {
            side(RAW).map(|raw| ERASED * raw)
        } else {
            side(LIMITED).map(|limited| SET * limited)
        };
        figures.push(Figure {
            peers,
            floor: side(LIMITED),
            goal: goal.map(f64::floor),
            ..Figure::new(Part::Codecs, format!("codecs/{work}"), UNIT, ours)
        });
    }
    if let (Some(limited), Some(raw)) = (side(LIMITED), side(RAW)) {
        figures.push(Figure {
            peers: [(RAW.to_owned(), raw)].into(),
            goal: work.contains("/1k/").then_some((LIMITS * raw).floor()),
            ..Figure::new(Part::Codecs, format!("codecs/{work}/limits"), UNIT, limited)
        });
    }
    figures
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sides_of_one_work_stand_together() {
        let groups = grouped("json/two/owned/ours\njson/1k/owned/ours\njson/two/owned/raw\nno scenario\n");
        assert_eq!(groups["json/two/owned"], ["ours", "raw"]);
        assert_eq!(groups["json/1k/owned"], ["ours"]);
        assert_eq!(groups.len(), 2);
    }

    fn sides(sides: &[(&str, f64)]) -> Sides {
        sides.iter().map(|&(side, cost)| (side.to_owned(), cost)).collect()
    }

    #[test]
    fn a_set_is_held_to_the_crate_behind_the_same_limits() {
        let figures = compared("json/1k/owned", &sides(&[("ours", 1_020.0), ("raw", 900.0), ("raw_limits", 1_000.0)]));
        let [set, limits] = &*figures else { panic!("{figures:?}") };
        assert_eq!((set.goal, set.is_met(), set.floor), (Some(1_020.0), Some(true), Some(1_000.0)));
        assert_eq!(set.peers.keys().collect::<Vec<_>>(), ["raw"]);
        assert_eq!((limits.ours, limits.goal, limits.is_met()), (1_000.0, Some(945.0), Some(false)));
    }

    #[test]
    fn an_erased_type_is_held_to_the_bare_crate() {
        let figures = compared("json/two/per_type", &sides(&[("ours", 1_201.0), ("raw", 1_000.0)]));
        let [erased] = &*figures else { panic!("{figures:?}") };
        assert_eq!((erased.goal, erased.is_met()), (Some(1_200.0), Some(false)));
    }
}
