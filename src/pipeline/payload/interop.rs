use crate::{
    middleware::interop::{MassTransitLayer, NServiceBusLayer},
    pipeline::{Describe, LayerInfo, layers},
};

impl Describe for MassTransitLayer {
    fn info(&self) -> LayerInfo {
        reading("masstransit")
    }
}

impl Describe for NServiceBusLayer {
    fn info(&self) -> LayerInfo {
        reading("nservicebus")
    }
}

/// It may be outside of dedup, to which it gives the MessageId.
fn reading(name: &'static str) -> LayerInfo {
    layers::receiving(name)
        .once()
        .inside_of("check_out", "there is no body to read")
        .inside_of("verify", "the signature is of another message than the one that is verified")
        .inside_of("decrypt", "what it gets is encrypted")
        .inside_of("decompress", "what it gets is compressed")
}
