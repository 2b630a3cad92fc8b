use super::{
    Multiple,
    composite::{choice, composite, one_of},
};
use crate::value::{Binary, Str, Symbol};

composite! {
    /// The mechanisms that a server offers.
    SaslMechanisms = 0x40 "amqp:sasl-mechanisms:list" {
        /// The mechanisms, by preference. Mandatory.
        sasl_server_mechanisms: mandatory Multiple<Symbol>,
    }
}

composite! {
    /// The mechanism that a client selects.
    SaslInit = 0x41 "amqp:sasl-init:list" {
        /// The mechanism. Mandatory.
        mechanism: mandatory Symbol,
        /// The initial response: for PLAIN it has the password. `Debug` shows its size only.
        initial_response: optional Binary,
        /// The host that the client has dialled.
        hostname: optional Str,
    }
}

composite! {
    /// A challenge of the server.
    SaslChallenge = 0x42 "amqp:sasl-challenge:list" {
        /// The challenge. Mandatory.
        challenge: mandatory Binary,
    }
}

composite! {
    /// A response of the client.
    SaslResponse = 0x43 "amqp:sasl-response:list" {
        /// The response. Mandatory.
        response: mandatory Binary,
    }
}

choice! {
    /// The outcome of the authentication.
    SaslCode: u8, "SASL code" {
        /// Authenticated.
        Ok = 0,
        /// The credentials were refused.
        Auth = 1,
        /// A system error.
        Sys = 2,
        /// A system error that stays.
        SysPerm = 3,
        /// A system error that may pass.
        SysTemp = 4,
    }
}

composite! {
    /// The outcome of the authentication.
    SaslOutcome = 0x44 "amqp:sasl-outcome:list" {
        /// The outcome. Mandatory.
        code: mandatory SaslCode,
        /// Data of the mechanism.
        additional_data: optional Binary,
    }
}

one_of! {
    /// The body of a SASL frame.
    SaslFrame "SASL frame" {
        /// The server's offer.
        Mechanisms(SaslMechanisms) of SaslMechanisms,
        /// The client's selection.
        Init(SaslInit) of SaslInit,
        /// A challenge of the server.
        Challenge(SaslChallenge) of SaslChallenge,
        /// A response of the client.
        Response(SaslResponse) of SaslResponse,
        /// The outcome.
        Outcome(SaslOutcome) of SaslOutcome,
    }
}
