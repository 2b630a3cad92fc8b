use consign_core::{
    administration::EntityKind,
    message::EntityPath,
    transport::{ErrorKind, ManageError},
};
use consign_rules::Rule;

use super::{Change, Engine, Role, StoreId, entity_mut, time::Now};

impl Engine {
    /// Returns the entity of this path if its settings match, and creates it if it does not exist. Returns also its
    /// path as first written.
    pub(crate) fn declare(
        &mut self,
        now: Now,
        path: EntityPath,
        change: Change,
        rule: Option<Rule>,
    ) -> Result<(StoreId, EntityPath), ManageError> {
        self.advance(now);
        let Some(id) = self.names.get(&path.key()).copied() else {
            return self.create(now, path.clone(), change, rule).map(|id| (id, path));
        };
        change.of_store().check()?;
        let Some(entity) = entity_mut(&mut self.entities, id) else { return Err(other(&path, "it is not there")) };
        let differs = match (&entity.role, &change) {
            (Role::Queue, Change::Queue(settings)) => entity.store.settings().difference(settings),
            (Role::Topic(topic), Change::Topic(settings)) => topic.settings.difference(settings),
            (Role::Subscription(subscription), Change::Subscription(settings)) => {
                subscription.settings.difference(settings)
            }
            (role, _) => return Err(other(&path, of_kind(role.kind()))),
        };
        if let Some(name) = differs {
            return Err(other(&path, &format!("its {name} differs")));
        }
        if let (Role::Subscription(subscription), Some(rule)) = (&entity.role, &rule) {
            match subscription.rules.get(rule.name()) {
                None => return Err(other(&path, &format!("it has no rule {}", rule.name()))),
                Some(there) if !is_same(there, rule) => return Err(other_rule(rule)),
                Some(_) => {}
            }
        }
        // A declaration counts as use.
        entity.store.touch(now);
        Ok((id, entity.path.clone()))
    }

    /// Adds a rule to a subscription, unless it has the same one.
    pub(crate) fn declare_rule(&mut self, now: Now, id: StoreId, rule: &Rule) -> Result<(), ManageError> {
        self.advance(now);
        if let Some(Role::Subscription(subscription)) = self.entity(id).map(|entity| &entity.role)
            && let Some(there) = subscription.rules.get(rule.name())
        {
            return if is_same(there, rule) { Ok(()) } else { Err(other_rule(rule)) };
        }
        self.change_rules(now, id, |rules| rules.create(rule.clone().with_created(now.utc)))
    }
}

/// Compares two rules. Names that differ in case only are one name.
fn is_same(one: &Rule, other: &Rule) -> bool {
    one.filter() == other.filter() && one.action() == other.action()
}

fn of_kind(kind: EntityKind) -> &'static str {
    match kind {
        EntityKind::Queue => "it is a queue",
        EntityKind::Topic => "it is a topic",
        EntityKind::Subscription => "it is a subscription",
    }
}

pub(super) fn other(path: &EntityPath, how: &str) -> ManageError {
    ManageError::new(ErrorKind::AlreadyExists).with_detail(format!("{path}: {how}"))
}

fn other_rule(rule: &Rule) -> ManageError {
    ManageError::new(ErrorKind::AlreadyExists).with_detail(format!("the rule {} differs", rule.name()))
}
