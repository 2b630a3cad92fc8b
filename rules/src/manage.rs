use std::{fmt, future::Future, pin::Pin, sync::Arc};

use consign_core::{
    administration::Administration,
    message::EntityPath,
    transport::{Capability, DynTransport, ManageError, Unsupported},
};

use super::Rule;

/// Creates, deletes and lists the rules of subscriptions.
///
/// The path of a subscription is `topic/Subscriptions/name`. A new subscription has one rule, `$Default`, which matches every
/// message.
pub trait ManageRules: Administration {
    /// Creates a rule. Messages that are accepted afterwards are evaluated with it.
    ///
    /// # Errors
    ///
    /// [`EntityNotFound`](consign_core::transport::ErrorKind::EntityNotFound) without the subscription,
    /// [`AlreadyExists`](consign_core::transport::ErrorKind::AlreadyExists), and
    /// [`NotSupported`](consign_core::transport::ErrorKind::NotSupported) for a filter or an action that the transport does not
    /// have.
    fn create_rule(
        &self,
        subscription: &EntityPath,
        rule: &Rule,
    ) -> impl Future<Output = Result<(), ManageError>> + Send;

    /// Deletes the rule of this name.
    ///
    /// # Errors
    ///
    /// [`EntityNotFound`](consign_core::transport::ErrorKind::EntityNotFound) without the subscription or the rule.
    fn delete_rule(
        &self,
        subscription: &EntityPath,
        name: &str,
    ) -> impl Future<Output = Result<(), ManageError>> + Send;

    /// Returns the rules, in the order of their names.
    ///
    /// # Errors
    ///
    /// [`EntityNotFound`](consign_core::transport::ErrorKind::EntityNotFound), and
    /// [`NotSupported`](consign_core::transport::ErrorKind::NotSupported) where the broker does not tell.
    fn rules(&self, subscription: &EntityPath) -> impl Future<Output = Result<Vec<Rule>, ManageError>> + Send;
}

/// Boxed [`ManageRules`]: the [extension](DynTransport::extension) by which a [`DynTransport`] implements it.
#[derive(Clone)]
pub struct DynRules(Arc<dyn Twin>);

type Boxed<'a, T> = Pin<Box<dyn Future<Output = Result<T, ManageError>> + Send + 'a>>;

trait Twin: Send + Sync {
    fn create<'a>(&'a self, subscription: &'a EntityPath, rule: &'a Rule) -> Boxed<'a, ()>;
    fn delete<'a>(&'a self, subscription: &'a EntityPath, name: &'a str) -> Boxed<'a, ()>;
    fn list<'a>(&'a self, subscription: &'a EntityPath) -> Boxed<'a, Vec<Rule>>;
}

impl<T: ManageRules> Twin for T {
    fn create<'a>(&'a self, subscription: &'a EntityPath, rule: &'a Rule) -> Boxed<'a, ()> {
        Box::pin(self.create_rule(subscription, rule))
    }

    fn delete<'a>(&'a self, subscription: &'a EntityPath, name: &'a str) -> Boxed<'a, ()> {
        Box::pin(self.delete_rule(subscription, name))
    }

    fn list<'a>(&'a self, subscription: &'a EntityPath) -> Boxed<'a, Vec<Rule>> {
        Box::pin(self.rules(subscription))
    }
}

impl DynRules {
    /// Boxes the rules of a transport.
    #[must_use]
    pub fn new(transport: impl ManageRules) -> Self {
        Self(Arc::new(transport))
    }
}

fn of(transport: &DynTransport) -> Result<&dyn Twin, ManageError> {
    let rules = transport.extension::<DynRules>().ok_or_else(|| Unsupported::new(Capability::CorrelationFilters))?;
    Ok(&*rules.0)
}

impl ManageRules for DynTransport {
    async fn create_rule(&self, subscription: &EntityPath, rule: &Rule) -> Result<(), ManageError> {
        of(self)?.create(subscription, rule).await
    }

    async fn delete_rule(&self, subscription: &EntityPath, name: &str) -> Result<(), ManageError> {
        of(self)?.delete(subscription, name).await
    }

    async fn rules(&self, subscription: &EntityPath) -> Result<Vec<Rule>, ManageError> {
        of(self)?.list(subscription).await
    }
}

impl fmt::Debug for DynRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DynRules").finish_non_exhaustive()
    }
}
