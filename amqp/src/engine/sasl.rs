//! Authentication by SASL. The server's application decides; the engine checks the order of the frames.

use super::{
    CommandError, Connection, Event, Reason, Violation,
    phase::{Phase, SaslState},
};
use crate::{
    frame::ProtocolHeader,
    types::{SaslChallenge, SaslCode, SaslFrame, SaslInit, SaslMechanisms, SaslOutcome, SaslResponse},
    value::{Binary, Symbol},
};

impl Connection {
    /// Accepts or refuses the client's credentials: a server's answer to [`Event::SaslInit`] or [`Event::SaslResponse`].
    ///
    /// Any code but [`SaslCode::Ok`] closes the connection, once the output is written.
    ///
    /// # Errors
    /// The client has not sent credentials, or the connection is closed.
    pub fn sasl_outcome(&mut self, code: SaslCode) -> Result<(), CommandError> {
        self.expect_sasl(SaslState::Decision, "credentials of the client")?;
        self.out.sasl(&SaslOutcome { code, additional_data: None }.into())?;
        if code == SaslCode::Ok {
            self.phase = Phase::Header { authenticated: true };
        } else {
            self.finish(Reason::SaslRefused(code));
        }
        Ok(())
    }

    /// Challenges the client: a server's answer to [`Event::SaslInit`] or [`Event::SaslResponse`].
    ///
    /// # Errors
    /// The client has not sent credentials, or the connection is closed; the challenge cannot be encoded.
    pub fn sasl_challenge(&mut self, challenge: Binary) -> Result<(), CommandError> {
        self.expect_sasl(SaslState::Decision, "credentials of the client")?;
        self.out.sasl(&SaslChallenge { challenge }.into())?;
        self.phase = Phase::Sasl(SaslState::Response);
        Ok(())
    }

    /// Answers a challenge of the server: a client's answer to [`Event::SaslChallenge`].
    ///
    /// # Errors
    /// The server has not sent a challenge, or the connection is closed; the response cannot be encoded.
    pub fn sasl_response(&mut self, response: Binary) -> Result<(), CommandError> {
        self.expect_sasl(SaslState::Answer, "a challenge of the server")?;
        self.out.sasl(&SaslResponse { response }.into())?;
        self.phase = Phase::Sasl(SaslState::Outcome);
        Ok(())
    }

    /// Closes the connection of a client that answers no challenges.
    #[cfg(feature = "tokio")]
    pub(crate) fn refuse_challenge(&mut self) {
        self.fail(Violation::SaslChallenge);
    }

    fn expect_sasl(&self, state: SaslState, expected: &'static str) -> Result<(), CommandError> {
        match self.phase {
            Phase::Closed => Err(CommandError::Closed),
            Phase::Sasl(current) if current == state => Ok(()),
            _ => Err(CommandError::State { expected }),
        }
    }

    /// Handles the first bytes of the peer, or those after the authentication.
    pub(super) fn on_protocol_header(&mut self, bytes: [u8; 8], authenticated: bool) -> Result<(), Violation> {
        let header = ProtocolHeader::from_bytes(bytes);
        let sasl = if self.is_client {
            self.options.sasl_client.is_some() && !authenticated
        } else {
            !self.options.sasl_mechanisms.is_empty() && !authenticated
        };
        match header {
            Some(ProtocolHeader::Amqp) if self.is_client && !sasl => self.phase = Phase::Frames,
            Some(ProtocolHeader::Amqp) if !self.is_client && (!sasl || self.options.sasl_optional) => {
                self.phase = Phase::Frames;
                self.start_frames();
            }
            Some(ProtocolHeader::Sasl) if sasl && self.is_client => self.phase = Phase::Sasl(SaslState::Mechanisms),
            Some(ProtocolHeader::Sasl) if sasl => {
                self.out.protocol_header(ProtocolHeader::Sasl);
                let mechanisms =
                    SaslMechanisms { sasl_server_mechanisms: self.options.sasl_mechanisms.iter().cloned().collect() };
                self.phase = Phase::Sasl(SaslState::Init);
                if self.out.sasl(&mechanisms.into()).is_err() {
                    self.finish(Reason::Disconnected);
                }
            }
            _ => {
                // A server answers with what it supports.
                if !self.is_client {
                    self.out.protocol_header(if sasl { ProtocolHeader::Sasl } else { ProtocolHeader::Amqp });
                }
                return Err(Violation::ProtocolHeader(bytes));
            }
        }
        Ok(())
    }

    pub(super) fn on_sasl(&mut self, state: SaslState, frame: SaslFrame) -> Result<(), Violation> {
        match (state, frame) {
            (SaslState::Mechanisms, SaslFrame::Mechanisms(offer)) => self.select(&offer),
            (SaslState::Init, SaslFrame::Init(init)) => {
                if self.options.sasl_mechanisms.contains(&init.mechanism) {
                    self.phase = Phase::Sasl(SaslState::Decision);
                    self.events.push_back(Event::SaslInit(Box::new(init)));
                } else {
                    let _ = self.out.sasl(&SaslOutcome { code: SaslCode::Auth, additional_data: None }.into());
                    self.finish(Reason::SaslRefused(SaslCode::Auth));
                }
                Ok(())
            }
            (SaslState::Response, SaslFrame::Response(response)) => {
                self.phase = Phase::Sasl(SaslState::Decision);
                self.events.push_back(Event::SaslResponse(response.response));
                Ok(())
            }
            (SaslState::Outcome, SaslFrame::Challenge(challenge)) => {
                self.phase = Phase::Sasl(SaslState::Answer);
                self.events.push_back(Event::SaslChallenge(challenge.challenge));
                Ok(())
            }
            (SaslState::Outcome, SaslFrame::Outcome(outcome)) => {
                if outcome.code == SaslCode::Ok {
                    self.phase = Phase::Header { authenticated: true };
                    self.events.push_back(Event::Authenticated);
                    self.start_frames();
                } else {
                    self.finish(Reason::SaslRefused(outcome.code));
                }
                Ok(())
            }
            (state, frame) => Err(Violation::UnexpectedFrame { frame: name(&frame), expected: expectation(state) }),
        }
    }

    fn select(&mut self, offer: &SaslMechanisms) -> Result<(), Violation> {
        let Some(credentials) = &self.options.sasl_client else {
            return Err(Violation::UnexpectedFrame { frame: "sasl-mechanisms", expected: "a client with credentials" });
        };
        let offered = &offer.sasl_server_mechanisms.0;
        if !offered.contains(&credentials.mechanism) {
            let mechanism = credentials.mechanism.clone();
            return Err(Violation::MechanismNotOffered { mechanism, offered: list(offered) });
        }
        let init = SaslInit {
            mechanism: credentials.mechanism.clone(),
            initial_response: credentials.initial_response.clone(),
            hostname: credentials.hostname.clone(),
        };
        self.phase = Phase::Sasl(SaslState::Outcome);
        if self.out.sasl(&init.into()).is_err() {
            self.finish(Reason::Disconnected);
        }
        Ok(())
    }
}

/// The most mechanisms that an error names, and the most characters of each.
const MOST_NAMED: usize = 8;
const LONGEST_NAME: usize = 32;

/// Lists what a server offers, for an error.
fn list(mechanisms: &[Symbol]) -> String {
    let name = |mechanism: &Symbol| {
        mechanism.as_str().chars().take(LONGEST_NAME).flat_map(char::escape_default).collect::<String>()
    };
    let mut names: Vec<_> = mechanisms.iter().take(MOST_NAMED).map(name).collect();
    if mechanisms.len() > MOST_NAMED {
        names.push("others".to_owned());
    }
    names.join(", ")
}

const fn name(frame: &SaslFrame) -> &'static str {
    match frame {
        SaslFrame::Mechanisms(_) => "sasl-mechanisms",
        SaslFrame::Init(_) => "sasl-init",
        SaslFrame::Challenge(_) => "sasl-challenge",
        SaslFrame::Response(_) => "sasl-response",
        SaslFrame::Outcome(_) => "sasl-outcome",
    }
}

const fn expectation(state: SaslState) -> &'static str {
    match state {
        SaslState::Mechanisms => "sasl-mechanisms",
        SaslState::Init => "sasl-init",
        SaslState::Response => "sasl-response",
        SaslState::Outcome => "sasl-challenge or sasl-outcome",
        SaslState::Decision | SaslState::Answer => "no frame before the answer",
    }
}
