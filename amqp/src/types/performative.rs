use super::{Attach, Begin, Close, Detach, Disposition, End, Flow, Open, Transfer, composite::one_of};

one_of! {
    /// The body of an AMQP frame.
    Performative "performative" {
        /// Opens the connection.
        Open(Box<Open>) of Open,
        /// Begins a session.
        Begin(Box<Begin>) of Begin,
        /// Attaches a link.
        Attach(Box<Attach>) of Attach,
        /// Updates windows and credit.
        Flow(Flow) of Flow,
        /// Transfers a message.
        Transfer(Transfer) of Transfer,
        /// Reports the state of deliveries.
        Disposition(Disposition) of Disposition,
        /// Detaches a link.
        Detach(Box<Detach>) of Detach,
        /// Ends a session.
        End(Box<End>) of End,
        /// Closes the connection.
        Close(Box<Close>) of Close,
    }
}
