use std::{fs::File, io::Write};

use crate::contestant::{Contestant, Entered, Place, SIZE, Step, body};

/// What nobody can do without: the same bytes appended to a file, and `fdatasync` after each window. A completion is a
/// record of 16 bytes.
struct Floor {
    file: File,
    body: Vec<u8>,
    group: Vec<u8>,
}

const HEAD: usize = 16;

pub(crate) fn enter(place: Place<'_>) -> Step<'_, Entered> {
    Box::pin(async move {
        std::fs::create_dir_all(place.folder)?;
        let file = File::create_new(place.folder.join("floor"))?;
        let floor = Floor { file, body: body(), group: Vec::new() };
        Ok(Entered { contestant: Box::new(floor), settings: "write, fdatasync".into() })
    })
}

impl Contestant for Floor {
    fn send(&mut self, window: usize) -> Step<'_> {
        Box::pin(async move {
            self.group.clear();
            for _ in 0..window {
                self.group.extend_from_slice(&[0; HEAD]);
                self.group.extend_from_slice(&self.body[..SIZE]);
            }
            self.file.write_all(&self.group)?;
            Ok(self.file.sync_data()?)
        })
    }

    fn take(&mut self, window: usize) -> Step<'_> {
        Box::pin(async move {
            self.group.clear();
            self.group.resize(window * HEAD, 0);
            self.file.write_all(&self.group)?;
            Ok(self.file.sync_data()?)
        })
    }
}
