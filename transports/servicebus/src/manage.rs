use std::{future::Future, sync::Arc};

use consign_core::message::EntityPath;

use crate::{
    core::Core,
    error::Failure,
    management::Management,
    retry::{Effect, retry},
};

impl Core {
    /// Calls the management node of an entity, on the connection that there is.
    pub(crate) async fn manage<T, F>(
        self: &Arc<Self>,
        path: &EntityPath,
        effect: Effect,
        operation: impl Fn(Arc<Management>) -> F + Send + Sync,
    ) -> Result<T, Failure>
    where
        F: Future<Output = Result<T, Failure>> + Send,
    {
        let operation = &operation;
        retry(self, effect, || async move {
            let attaching = async { self.wire().await?.management(path).await };
            operation(attaching.await.map_err(Failure::without_effect)?).await
        })
        .await
    }
}
