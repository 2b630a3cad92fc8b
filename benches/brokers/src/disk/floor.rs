use std::{fs::File, io::Write, os::unix::fs::FileExt};

use crate::contestant::{Contestant, Entered, Place, SIZE, Step, body};

/// The least that a durable queue has to do: write the same bytes to a file, and call `fdatasync` after each window. A
/// completion is a record of 16 bytes.
pub(crate) struct Floor {
    file: File,
    /// Where the next window goes. `None` where the file grows with each one.
    next: Option<u64>,
    body: Vec<u8>,
    group: Vec<u8>,
}

const HEAD: usize = 16;
/// The length of a file that is written again from its start. Its blocks are there from the first time on, so that a
/// sync writes the data and nothing about the file.
const LENGTH: u64 = 64 << 20;

/// A file of zeros that is on the disk before the first window, and is written again and again.
pub(crate) fn enter(place: Place<'_>) -> Step<'_, Entered> {
    Box::pin(async move {
        let settings = "pwrite, fdatasync; a file of 64 MiB that is written again".into();
        Ok(Entered { contestant: Box::new(Floor::preallocated(place)?), settings })
    })
}

/// A file that grows with each window.
pub(crate) fn enter_append(place: Place<'_>) -> Step<'_, Entered> {
    Box::pin(async move {
        std::fs::create_dir_all(place.folder)?;
        let file = File::create_new(place.folder.join("append"))?;
        let append = Floor { file, next: None, body: body(), group: Vec::new() };
        Ok(Entered { contestant: Box::new(append), settings: "write, fdatasync; the file grows".into() })
    })
}

impl Floor {
    /// A floor on a file of zeros that is on the disk.
    pub(super) fn preallocated(place: Place<'_>) -> std::io::Result<Self> {
        std::fs::create_dir_all(place.folder)?;
        let mut file = File::create_new(place.folder.join("floor"))?;
        let zeros = vec![0; 1 << 20];
        for _ in 0..LENGTH >> 20 {
            file.write_all(&zeros)?;
        }
        file.sync_all()?;
        Ok(Self { file, next: Some(0), body: body(), group: Vec::new() })
    }

    pub(crate) fn send_all(&mut self, window: usize) -> std::io::Result<()> {
        self.group.clear();
        for _ in 0..window {
            self.group.extend_from_slice(&[0; HEAD]);
            self.group.extend_from_slice(&self.body[..SIZE]);
        }
        self.write()
    }

    pub(crate) fn take_all(&mut self, window: usize) -> std::io::Result<()> {
        self.group.clear();
        self.group.resize(window * HEAD, 0);
        self.write()
    }

    fn write(&mut self) -> std::io::Result<()> {
        match &mut self.next {
            None => self.file.write_all(&self.group)?,
            Some(next) => {
                let length = self.group.len() as u64;
                if *next + length > LENGTH {
                    *next = 0;
                }
                self.file.write_all_at(&self.group, *next)?;
                *next += length;
            }
        }
        self.file.sync_data()
    }
}

impl Contestant for Floor {
    fn send(&mut self, window: usize) -> Step<'_> {
        Box::pin(async move { Ok(self.send_all(window)?) })
    }

    fn take(&mut self, window: usize) -> Step<'_> {
        Box::pin(async move { Ok(self.take_all(window)?) })
    }
}
