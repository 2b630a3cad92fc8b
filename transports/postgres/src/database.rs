use std::{future::Future, time::Duration};

use deadpool_postgres::{Object, Pool};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_postgres::{
    GenericClient, Row,
    types::{ToSql, Type},
};

use crate::failure::{Failure, TooLate};

/// A parameter with its type. With it a statement takes one round trip, and none is prepared. So any connection of a pool or a
/// pooler will do.
pub(crate) type Parameter<'a> = (&'a (dyn ToSql + Sync), Type);

/// The connections of a transport.
#[derive(Clone)]
pub(crate) struct Database {
    pub(crate) pool: Pool,
    pub(crate) timeout: Duration,
}

impl Database {
    pub(crate) async fn client(&self) -> Result<Object, Failure> {
        within(self.timeout, async { Ok(self.pool.get().await?) }).await
    }

    /// Runs `work` with a connection, which is not used again if it is lost. The time limit includes the wait for the
    /// connection.
    pub(crate) async fn with<T>(
        &self,
        work: impl AsyncFnOnce(&mut Object) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let deadline = Instant::now() + self.timeout;
        let mut client = self.client().await?;
        let answer = timeout_at(deadline, work(&mut client)).await.unwrap_or(Err(Failure::TooLate(TooLate)));
        if answer.as_ref().is_err_and(Failure::is_of_connection) {
            // The next user would fail too: the loss is not detected at once.
            drop(Object::take(client));
        }
        answer
    }

    /// Returns the rows of a statement.
    pub(crate) async fn rows(&self, statement: &str, parameters: &[Parameter<'_>]) -> Result<Vec<Row>, Failure> {
        self.with(async |client| rows(&***client, statement, parameters).await).await
    }

    /// Returns the one row of a statement.
    pub(crate) async fn row(&self, statement: &str, parameters: &[Parameter<'_>]) -> Result<Option<Row>, Failure> {
        Ok(self.rows(statement, parameters).await?.into_iter().next())
    }
}

/// Returns the rows of a statement on a connection or in a transaction.
pub(crate) async fn rows<C: GenericClient + Sync>(
    client: &C,
    statement: &str,
    parameters: &[Parameter<'_>],
) -> Result<Vec<Row>, Failure> {
    Ok(client.query_typed(statement, parameters).await?)
}

pub(crate) async fn within<T>(limit: Duration, work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    timeout(limit, work).await.unwrap_or(Err(Failure::TooLate(TooLate)))
}
