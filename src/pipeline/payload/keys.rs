use crate::{middleware::keys::Held, pipeline::LayerInfo};

/// A sender needs the newest key.
pub(super) fn writing(info: LayerInfo, keys: &Held) -> LayerInfo {
    if keys.newest().is_some() {
        return info;
    }
    let mend =
        format!("`{}` has no newest key, and so nothing is sent: let its provider answer without an id", info.name());
    info.problem(mend)
}

/// A receiver that has a newest key has to find it by its id, for that is what a message names.
pub(super) fn reading(info: LayerInfo, keys: &Held) -> LayerInfo {
    let Some(newest) = keys.newest() else { return info };
    if keys.named(newest.id()).is_some() {
        return info;
    }
    let (name, id) = (info.name(), newest.id());
    let mend =
        format!("`{name}` does not find its newest key by the id `{id}`, which messages name: let its provider do");
    info.problem(mend)
}
