use crate::{
    message_types::TypeTable,
    middleware::keys::{Held, Names, decides},
    pipeline::LayerInfo,
};

/// A sender needs the newest key.
pub(super) fn writing(info: LayerInfo, keys: &Held, names: &Names) -> LayerInfo {
    let info = bound(info, "also binds", names);
    if keys.newest().is_some() {
        return info;
    }
    let advice =
        format!("`{}` has no newest key, and so nothing is sent: let its provider answer without an id", info.name());
    info.problem(advice)
}

/// A receiver that has a newest key has to find it by its id, for that is what a message names.
pub(super) fn reading(info: LayerInfo, keys: &Held, names: &Names) -> LayerInfo {
    let info = bound(info, "requires bound", names);
    let Some(newest) = keys.newest() else { return info };
    if keys.named(newest.id()).is_some() {
        return info;
    }
    let (name, id) = (info.name(), newest.id());
    let advice =
        format!("`{name}` does not find its newest key by the id `{id}`, which messages name: let its provider do");
    info.problem(advice)
}

fn bound(mut info: LayerInfo, setting: &'static str, names: &Names) -> LayerInfo {
    let names = names.as_slice();
    info.bound = Some(names.to_vec());
    if names.is_empty() { info } else { info.setting(setting, names.join(", ")) }
}

/// The property that decides how bodies of the types in `table` are read, and that `layer` does not authenticate.
pub(in crate::pipeline) fn unbound<'t>(layer: &LayerInfo, table: &'t TypeTable) -> Option<&'t str> {
    let bound = layer.bound.as_deref()?;
    let has_versions = table.types().iter().any(|of| !of.known_versions().is_empty());
    let version = has_versions.then(|| table.property_of_version());
    let mut names = table.type_property().into_iter().chain(version);
    names.find(|name| !decides(name) && !bound.iter().any(|bound| **bound == **name))
}
