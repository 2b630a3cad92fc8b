use std::convert::Infallible;

use super::{Context, FromMessage};
use crate::Message;

/// The application's state, cloned, or a part of it: see [`FromRef`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct State<S>(
    /// The state.
    pub S,
);

impl<T: FromRef<S>, S, C> FromMessage<S, C> for State<T> {
    type Rejection = Infallible;

    #[inline]
    fn from_message(_: &Message, cx: &Context<S, C>) -> Result<Self, Infallible> {
        Ok(Self(T::from_ref(cx.state())))
    }
}

/// A part of the application's state, for handlers that need only that part:
///
/// ```
/// use consign::{
///     codecs::Codecs,
///     routing::{FromRef, Router, State},
/// };
///
/// #[derive(Clone)]
/// struct Database;
///
/// #[derive(Clone)]
/// struct App {
///     database: Database,
/// }
///
/// impl FromRef<App> for Database {
///     fn from_ref(app: &App) -> Self {
///         app.database.clone()
///     }
/// }
///
/// async fn created(State(database): State<Database>) {
///     # let _ = database;
/// }
///
/// let router = Router::with_state(Codecs::json(), App { database: Database }).route("order.created", created).build()?;
/// # let _ = router;
/// # Ok::<(), consign::BuildError>(())
/// ```
///
/// A state that is `Clone` is a part of itself.
#[diagnostic::on_unimplemented(
    message = "the router's state is `{S}`, and `{Self}` is not part of it: pass it to `Router::with_state`, or implement `FromRef<{S}>` for `{Self}`",
    label = "the state of the router is another type",
    note = "a type is a part of itself if it is `Clone`"
)]
pub trait FromRef<S> {
    /// Makes the part from the whole.
    fn from_ref(state: &S) -> Self;
}

impl<T: Clone> FromRef<T> for T {
    #[inline]
    fn from_ref(state: &T) -> Self {
        state.clone()
    }
}

/// A state of one part. With this second candidate the compiler does not conclude from a handler's argument `State<T>` that the
/// state of its routes is `T`, so the error of a missing `FromRef` names it.
#[doc(hidden)]
#[derive(Debug)]
pub struct Only<T>(T);

#[diagnostic::do_not_recommend]
impl<T: Clone> FromRef<Only<T>> for T {
    fn from_ref(state: &Only<T>) -> Self {
        state.0.clone()
    }
}
