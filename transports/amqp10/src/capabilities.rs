use consign_core::transport::{Capabilities, Capability, Level};

use crate::{
    Product,
    options::{DeadLetters, Options},
};

/// What every broker of AMQP 1.0 does.
const PROTOCOL: Capabilities = Capabilities::none().with_each(
    &[
        Capability::Acceptance,
        Capability::Rejection,
        Capability::ReceiveAndDelete,
        Capability::PeekLock,
        Capability::LockFencing,
        Capability::Release,
        Capability::RequestReply,
        Capability::Prefetch,
    ],
    Level::Native,
);

/// The capabilities on a broker, with these options.
pub(crate) fn capabilities(product: Product, options: &Options) -> Capabilities {
    let mut capabilities = PROTOCOL;
    let counts = if product.counts() { Level::Native } else { Level::Emulated };
    capabilities = capabilities.with(Capability::DeliveryCount, counts);
    if options.dead_letters == DeadLetters::Copy {
        let dead_letters = [Capability::DeadLetterReason, Capability::DeadLetterIntact];
        capabilities = capabilities.with_each(&dead_letters, Level::Emulated);
    }
    if product.releases_uncounted() {
        capabilities = capabilities.with(Capability::ReleaseOnDisconnect, Level::Native);
    }
    if options.schedules {
        capabilities =
            capabilities.with(Capability::Scheduling, Level::Native).with(Capability::DelayedRetry, Level::Emulated);
    }
    capabilities
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_depend_on_the_broker_and_on_the_options() {
        let level = |product, options: &Options, capability| capabilities(product, options).level(capability);
        let options = Options::default();
        assert_eq!(level(Product::Generic, &options, Capability::DeliveryCount), Level::Native);
        assert_eq!(level(Product::RabbitMq3, &options, Capability::DeliveryCount), Level::Emulated);
        assert_eq!(level(Product::Generic, &options, Capability::ReleaseOnDisconnect), Level::Unsupported);
        assert_eq!(level(Product::Generic, &options, Capability::DelayedRetry), Level::Unsupported);
        let options = options.scheduling(true).dead_letters(DeadLetters::Reject);
        assert_eq!(level(Product::Generic, &options, Capability::DelayedRetry), Level::Emulated);
        assert_eq!(level(Product::Generic, &options, Capability::DeadLetterReason), Level::Unsupported);
    }
}
