use std::{sync::Arc, time::Duration};

use askama::Template;
use axum::{
    Extension, Form,
    extract::{Query, State},
    response::Redirect,
};
use serde::Deserialize;

use super::{Answer, Frame, page};
use crate::page::{Shared, error::PageError, guard::Session, jobs::Shown};

#[derive(Deserialize)]
pub(super) struct Asked {
    id: String,
}

#[derive(Template)]
#[template(path = "jobs.html")]
struct List {
    frame: Frame,
    jobs: Vec<Shown>,
}

#[derive(Template)]
#[template(path = "job.html")]
struct One {
    frame: Frame,
    job: Shown,
}

pub(super) async fn list(State(shared): State<Arc<Shared>>, Extension(session): Extension<Session>) -> Answer {
    page(&List { frame: Frame::new("Jobs", &session), jobs: shared.jobs.shown() })
}

pub(super) async fn show(
    State(shared): State<Arc<Shared>>,
    Extension(session): Extension<Session>,
    Query(Asked { id }): Query<Asked>,
) -> Answer {
    let job = shared.jobs.get(&id).ok_or_else(|| PageError::not_found("job"))?;
    page(&One { frame: Frame::new("Job", &session), job: job.shown() })
}

pub(super) async fn stop(
    State(shared): State<Arc<Shared>>,
    Form(Asked { id }): Form<Asked>,
) -> Result<Redirect, PageError> {
    let job = shared.jobs.get(&id).ok_or_else(|| PageError::not_found("job"))?;
    shared.jobs.stop(&job)?;
    // It has stopped by then, unless the page is not run.
    let _ = tokio::time::timeout(Duration::from_secs(5), job.ended()).await;
    Ok(Redirect::to(&format!("/$page/job?id={}", job.spec.id)))
}
