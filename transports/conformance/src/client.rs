/// Writes the methods of a [`Backend`](crate::Backend) that a transport's client has by the same names, for a backend with a
/// client in the field `$client`. It also writes the methods about a session, which the session has.
///
/// Its receivers are each in a [`Process`](crate::Process). The client takes paths as text. Write the other methods beside it:
/// those of entities with settings, and those that the transport does not have.
#[macro_export]
macro_rules! client_methods {
    ($client:ident) => {
        async fn create_rule(
            &self,
            subscription: &$crate::names::EntityPath,
            rule: &$crate::RuleSpec,
        ) -> Result<(), $crate::names::ManageError> {
            let (topic, name) = $crate::settings::parts(subscription)?;
            self.$client.create_rule(topic, name, &$crate::settings::rule(rule)?).await
        }

        async fn delete_rule(
            &self,
            subscription: &$crate::names::EntityPath,
            name: &str,
        ) -> Result<(), $crate::names::ManageError> {
            let (topic, subscription) = $crate::settings::parts(subscription)?;
            self.$client.delete_rule(topic, subscription, name).await
        }

        async fn delete(&self, path: &$crate::names::EntityPath) -> Result<(), $crate::names::ManageError> {
            self.$client.delete(path.as_str()).await
        }

        async fn sender(&self, path: &$crate::names::EntityPath) -> Result<Self::Sender, $crate::names::SendError> {
            self.$client.sender(path.as_str()).await
        }

        async fn receiver(
            &self,
            path: &$crate::names::EntityPath,
            mode: $crate::Mode,
        ) -> Result<Self::Receiver, $crate::names::ReceiveError> {
            Ok($crate::Process::here(match mode {
                $crate::Mode::PeekLock => self.$client.receiver(path.as_str()).await?,
                $crate::Mode::ReceiveAndDelete => self.$client.receive_and_delete(path.as_str()).await?,
            }))
        }

        async fn receive_deferred(
            &self,
            path: &$crate::names::EntityPath,
            numbers: &[$crate::names::SequenceNumber],
        ) -> Result<Vec<$crate::names::Delivery<Self::Lease>>, $crate::names::ReceiveError> {
            self.$client.receive_deferred(path.as_str(), numbers).await
        }

        async fn peek(
            &self,
            path: &$crate::names::EntityPath,
            from: $crate::names::SequenceNumber,
            max: usize,
        ) -> Result<Vec<$crate::names::Message>, $crate::names::ReceiveError> {
            self.$client.peek(path.as_str(), from, max).await
        }

        async fn purge(
            &self,
            path: &$crate::names::EntityPath,
            max: usize,
            accepted_before: Option<$crate::names::Timestamp>,
        ) -> Result<usize, $crate::names::ManageError> {
            self.$client.purge(path.as_str(), max, accepted_before).await
        }

        async fn accept_session(
            &self,
            path: &$crate::names::EntityPath,
            id: &str,
        ) -> Result<Self::Session, $crate::names::ReceiveError> {
            self.$client.accept_session(path.as_str(), id).await
        }

        async fn session_state(
            &self,
            session: &mut Self::Session,
        ) -> Result<Option<$crate::names::Bytes>, $crate::names::SettleError> {
            session.state().await
        }

        async fn set_session_state(
            &self,
            session: &mut Self::Session,
            state: Option<$crate::names::Bytes>,
        ) -> Result<(), $crate::names::SettleError> {
            session.set_state(state).await
        }

        async fn receive_deferred_of(
            &self,
            session: &mut Self::Session,
            numbers: &[$crate::names::SequenceNumber],
        ) -> Result<Vec<$crate::names::Delivery<Self::Lease>>, $crate::names::ReceiveError> {
            session.receive_deferred(numbers).await
        }

        async fn peek_of(
            &self,
            session: &mut Self::Session,
            max: usize,
        ) -> Result<Vec<$crate::names::Message>, $crate::names::ReceiveError> {
            session.peek(max).await
        }
    };
}
