//! What operators see over HTTP: health, metrics, and the page.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use axum::Router;
use consign_server::{AccessKey, Server, operations::Operations, page::Page};

use super::{Error, options::Serve};

pub(super) struct Operators {
    operations: Operations,
    pub(super) page: Option<Page>,
}

impl Operators {
    /// The page and the metrics are open on loopback, unless clients need keys. Otherwise they need the key of operators.
    pub(super) fn new(options: &Serve, server: &Server, has_keys: bool, has_tls: bool) -> Result<Self, Error> {
        let key = options.operator_key.as_deref().map(read).transpose()?;
        let is_open = options.host.is_loopback() && !has_keys;
        let operations = Operations::new(server.clone());
        let operations = match &key {
            Some(key) => operations.key(key.clone()),
            None if is_open => operations,
            None => operations.health_only(),
        };
        if options.no_page || (key.is_none() && !is_open) {
            return Ok(Self { operations, page: None });
        }
        let mut page = Page::builder(server.broker().clone()).secure(has_tls).undo_window(options.undo_window);
        if let Some(key) = key {
            page = page.key(key);
        }
        let file = match (&options.jobs, &options.data) {
            (Some(file), _) => Some(file.clone()),
            (None, Some(folder)) => Some(jobs_file(folder)?),
            (None, None) => None,
        };
        let page = match file {
            Some(file) => page.open(&file).map_err(|error| Error::File { file, error })?,
            None => page.build(),
        };
        Ok(Self { operations, page: Some(page) })
    }

    pub(super) fn routes(&self) -> Router {
        let routes = self.operations.clone().router();
        match &self.page {
            Some(page) => routes.merge(page.router()),
            None => routes,
        }
    }

    /// Does the background work of the page until [`Operators::shutdown`].
    pub(super) async fn run(&self) -> io::Result<()> {
        if let Some(page) = &self.page {
            page.run().await;
        }
        Ok(())
    }

    pub(super) fn shutdown(&self) {
        if let Some(page) = &self.page {
            page.shutdown();
        }
    }
}

/// Reads a key of operators.
pub(super) fn read(file: &Path) -> Result<AccessKey, Error> {
    let key = fs::read_to_string(file).map_err(|error| Error::File { file: file.into(), error })?;
    AccessKey::new(&key).map_err(|error| Error::ShortKey { file: file.into(), error })
}

/// The file of the jobs of a store: beside its folder, in which nothing else may be.
fn jobs_file(folder: &Path) -> Result<PathBuf, Error> {
    let failed = |error| Error::File { file: folder.into(), error };
    // The name of `.` is that of the current folder.
    let folder = fs::canonicalize(folder).map_err(failed)?;
    let Some(name) = folder.file_name() else {
        let text = "nothing can be beside this folder: name a file for the jobs with --jobs";
        return Err(failed(io::Error::new(io::ErrorKind::InvalidInput, text)));
    };
    let mut name = name.to_owned();
    name.push(".jobs.json");
    Ok(folder.with_file_name(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_jobs_of_a_store_are_beside_its_folder_however_it_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let store = folder.path().canonicalize().unwrap().join("store");
        fs::create_dir_all(store.join("inner")).unwrap();
        for name in [store.clone(), store.join("."), store.join("inner").join("..")] {
            assert_eq!(jobs_file(&name).unwrap(), store.with_file_name("store.jobs.json"), "{}", name.display());
        }
        let own = std::env::current_dir().unwrap();
        assert_eq!(jobs_file(Path::new(".")).unwrap().parent(), own.parent());
        assert!(jobs_file(Path::new("/")).unwrap_err().to_string().contains("--jobs"));
    }
}
