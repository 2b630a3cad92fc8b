//! `consign entities`: queues, topics, subscriptions and rules.

mod rules;
mod settings;

use clap::{Args, Subcommand, ValueEnum};
use consign::{
    administration::{
        Administration, Counts, EntityKind, EntitySettings, QueueSettings, SubscriptionSettings, TopicSettings,
    },
    message::EntityPath,
    transport::{DynTransport, ErrorKind},
};
use serde::Serialize;

use self::{
    rules::Rules,
    settings::{Settings, Shown},
};
use super::{
    failure::Failure,
    output::Output,
    target::{Target, close, entity},
};

#[derive(Debug, Subcommand)]
pub(crate) enum Entities {
    /// List queues, topics and subscriptions with their counts
    List(List),
    /// Show the settings and the counts of an entity
    Show(Show),
    /// Create a queue, a topic or a subscription
    Create(Create),
    /// Change settings of an entity; others stay as they are
    Update(Update),
    /// Delete an entity with its messages; a topic with its subscriptions
    Delete(Delete),
    /// List, create and delete the rules of a subscription
    #[command(subcommand)]
    Rules(Rules),
}

#[derive(Debug, Args)]
pub(crate) struct List {
    /// Without the counts
    #[arg(long)]
    no_counts: bool,
    #[command(flatten)]
    target: Target,
}

#[derive(Debug, Args)]
pub(crate) struct Show {
    /// The path of the entity
    #[arg(value_parser = entity)]
    entity: EntityPath,
    #[command(flatten)]
    target: Target,
}

#[derive(Debug, Args)]
pub(crate) struct Create {
    /// The path: NAME, or TOPIC/Subscriptions/NAME
    #[arg(value_parser = entity)]
    entity: EntityPath,
    /// The kind; by default a subscription if the path is that of one, otherwise a queue
    #[arg(long)]
    kind: Option<Kind>,
    /// Succeed if the entity exists with these settings
    #[arg(long)]
    if_absent: bool,
    #[command(flatten)]
    settings: Settings,
    #[command(flatten)]
    target: Target,
}

#[derive(Debug, Args)]
pub(crate) struct Update {
    /// The path of the entity
    #[arg(value_parser = entity)]
    entity: EntityPath,
    #[command(flatten)]
    settings: Settings,
    #[command(flatten)]
    target: Target,
}

#[derive(Debug, Args)]
pub(crate) struct Delete {
    /// The path of the entity
    #[arg(value_parser = entity)]
    entity: EntityPath,
    /// Delete it; otherwise the command prints what would be deleted
    #[arg(long, visible_alias = "yes")]
    apply: bool,
    #[command(flatten)]
    target: Target,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Kind {
    Queue,
    Topic,
    Subscription,
}

impl Entities {
    pub(crate) fn target(&self) -> &Target {
        match self {
            Self::List(List { target, .. })
            | Self::Show(Show { target, .. })
            | Self::Create(Create { target, .. })
            | Self::Update(Update { target, .. })
            | Self::Delete(Delete { target, .. }) => target,
            Self::Rules(rules) => rules.target(),
        }
    }

    pub(crate) async fn run(&self, out: &mut Output) -> Result<(), Failure> {
        let transport = self.target().connect().await?;
        let done = self.run_on(&transport, out).await;
        close(&transport, done).await
    }

    pub(crate) async fn run_on(&self, transport: &DynTransport, out: &mut Output) -> Result<(), Failure> {
        match self {
            Self::List(options) => list(transport, options, out).await,
            Self::Show(options) => show(transport, &options.entity, out).await,
            Self::Create(options) => create(transport, options, out).await,
            Self::Update(options) => update(transport, options, out).await,
            Self::Delete(options) => delete(transport, options, out).await,
            Self::Rules(rules) => rules.run(transport, out).await,
        }
    }
}

#[derive(Serialize)]
struct Object<'a> {
    entity: &'a str,
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    settings: Option<Shown>,
    #[serde(skip_serializing_if = "Option::is_none")]
    counts: Option<CountsObject>,
}

#[derive(Serialize)]
struct CountsObject {
    active: usize,
    locked: usize,
    deferred: usize,
    scheduled: usize,
    dead_lettered: usize,
    transfer_dead_lettered: usize,
    size: u64,
}

impl From<Counts> for CountsObject {
    fn from(counts: Counts) -> Self {
        Self {
            active: counts.active,
            locked: counts.locked,
            deferred: counts.deferred,
            scheduled: counts.scheduled,
            dead_lettered: counts.dead_lettered,
            transfer_dead_lettered: counts.transfer_dead_lettered,
            size: counts.size,
        }
    }
}

impl std::fmt::Display for CountsObject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { active, locked, deferred, scheduled, dead_lettered, .. } = self;
        write!(f, "{active} active, {locked} locked, {deferred} deferred, {scheduled} scheduled, ")?;
        write!(f, "{dead_lettered} dead-lettered")
    }
}

/// The counts, where the broker reports them.
async fn counts(transport: &DynTransport, path: &EntityPath) -> Result<Option<CountsObject>, Failure> {
    match transport.counts(path).await {
        Ok(counts) => Ok(Some(counts.into())),
        Err(error) if error.kind() == ErrorKind::NotSupported => Ok(None),
        Err(error) => Err(error.into()),
    }
}

async fn list(transport: &DynTransport, options: &List, out: &mut Output) -> Result<(), Failure> {
    for found in transport.list().await? {
        // A topic has no messages of its own; its subscriptions have.
        let counted = !options.no_counts && found.kind != EntityKind::Topic;
        let counts = if counted { counts(transport, &found.path).await? } else { None };
        let text = match &counts {
            Some(counts) => format!("{} {}: {counts}", found.kind.name(), found.path),
            None => format!("{} {}", found.kind.name(), found.path),
        };
        let object = Object { entity: found.path.as_str(), kind: found.kind.name(), settings: None, counts };
        out.either(text, &object)?;
    }
    Ok(())
}

async fn show(transport: &DynTransport, path: &EntityPath, out: &mut Output) -> Result<(), Failure> {
    let settings = transport.settings(&path.parent()).await?;
    let kind = settings.kind();
    let counts = if kind == EntityKind::Topic { None } else { counts(transport, path).await? };
    let shown = Shown::new(&settings);
    out.line(format_args!("{} {path}", kind.name()))?;
    if let Some(counts) = &counts {
        out.line(format_args!("  {counts}"))?;
    }
    out.line(&shown)?;
    out.object(&Object { entity: path.as_str(), kind: kind.name(), settings: Some(shown), counts })
}

async fn create(transport: &DynTransport, options: &Create, out: &mut Output) -> Result<(), Failure> {
    let path = &options.entity;
    let kind = match (options.kind, path.subscription()) {
        (Some(Kind::Queue), None) | (None, None) => EntityKind::Queue,
        (Some(Kind::Topic), None) => EntityKind::Topic,
        (Some(Kind::Subscription) | None, Some(_)) => EntityKind::Subscription,
        _ => {
            return Err(Failure::usage("the path is not one of this kind: a subscription is TOPIC/Subscriptions/NAME"));
        }
    };
    if path.is_sub_queue() {
        return Err(Failure::usage("a dead-letter queue exists with its entity and cannot be created"));
    }
    let mut settings = match kind {
        EntityKind::Queue => EntitySettings::Queue(QueueSettings::default()),
        EntityKind::Topic => TopicSettings::default().into(),
        EntityKind::Subscription => SubscriptionSettings::default().into(),
    };
    options.settings.change(&mut settings)?;
    if options.if_absent {
        transport.declare(path, &settings).await?;
    } else {
        transport.create(path, &settings).await?;
    }
    done(out, "created", kind, path)
}

async fn update(transport: &DynTransport, options: &Update, out: &mut Output) -> Result<(), Failure> {
    let mut settings = transport.settings(&options.entity).await?;
    options.settings.change(&mut settings)?;
    transport.update(&options.entity, &settings).await?;
    done(out, "updated", settings.kind(), &options.entity)
}

async fn delete(transport: &DynTransport, options: &Delete, out: &mut Output) -> Result<(), Failure> {
    let path = &options.entity;
    let kind = transport.settings(path).await.map(|settings| settings.kind());
    let kind = match kind {
        Ok(kind) => kind,
        Err(error) if error.kind() == ErrorKind::NotSupported => {
            if path.subscription().is_some() {
                EntityKind::Subscription
            } else {
                EntityKind::Queue
            }
        }
        Err(error) => return Err(error.into()),
    };
    if options.apply {
        transport.delete(path).await?;
        return done(out, "deleted", kind, path);
    }
    let counts = if kind == EntityKind::Topic { None } else { counts(transport, path).await? };
    let counted = counts.as_ref().map(|counts| format!(": {counts}")).unwrap_or_default();
    let text = format!("would delete {} {path}{counted}; delete it with --apply", kind.name());
    let object = serde_json::json!({
        "would_delete": path.as_str(),
        "kind": kind.name(),
        "counts": counts,
    });
    out.either(text, &object)
}

fn done(out: &mut Output, what: &'static str, kind: EntityKind, path: &EntityPath) -> Result<(), Failure> {
    let object = serde_json::json!({ what: path.as_str(), "kind": kind.name() });
    out.either(format_args!("{what} {} {path}", kind.name()), &object)
}
