use std::{env, fmt, str::FromStr};

use proptest::test_runner::{Config, RngSeed, TestRunner};

fn seed() -> u64 {
    from_env("SEED", 7)
}

pub(crate) fn runner(default_cases: u32) -> TestRunner {
    TestRunner::new(Config {
        cases: from_env("CONSIGN_CASES", default_cases),
        rng_seed: RngSeed::Fixed(seed()),
        failure_persistence: None,
        ..Config::default()
    })
}

pub(crate) fn explain<E: fmt::Display>(result: Result<(), E>, test: &str) {
    if let Err(error) = result {
        let cases = env::var("CONSIGN_CASES").map(|cases| format!("CONSIGN_CASES={cases} ")).unwrap_or_default();
        let seed = seed();
        panic!("{error}\nreplay: SEED={seed} {cases}cargo test --features full --test payload {test}");
    }
}

fn from_env<T: FromStr>(name: &str, default: T) -> T {
    env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}
