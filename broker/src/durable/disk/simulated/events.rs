use std::collections::BTreeMap;

use fastrand::Rng;

/// The contents that a new process finds.
#[derive(Clone, Default)]
pub(super) struct Image {
    pub(super) has_folder: bool,
    pub(super) names: BTreeMap<String, usize>,
    pub(super) files: Vec<Vec<u8>>,
}

pub(super) enum Event {
    Write(usize, usize, Vec<u8>),
    SetLen(usize, usize),
    /// A file of this name and number. With `true` the name is as lasting as the folder.
    Create(String, usize, bool),
    Rename(String, String, usize),
    Remove(String),
    /// Whether the folder is there from now on.
    Folder(bool),
    Sync(Synced),
    /// What was not synced by then never will be.
    FailedSync(Synced),
}

/// What a sync makes lasting.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Synced {
    File(usize),
    Names,
    Parent,
}

impl Event {
    /// What makes it lasting.
    pub(super) fn by(&self) -> Option<Synced> {
        match self {
            Self::Write(file, ..) | Self::SetLen(file, _) => Some(Synced::File(*file)),
            Self::Create(_, _, false) | Self::Rename(..) | Self::Remove(_) => Some(Synced::Names),
            Self::Folder(_) => Some(Synced::Parent),
            Self::Create(_, _, true) | Self::Sync(_) | Self::FailedSync(_) => None,
        }
    }
}

impl Image {
    pub(super) fn apply(&mut self, event: &Event) {
        match event {
            Event::Write(file, offset, data) => self.write(*file, *offset, data),
            Event::SetLen(file, length) => self.file(*file).resize(*length, 0),
            Event::Create(name, file, _) => {
                self.file(*file);
                self.names.insert(name.clone(), *file);
            }
            Event::Rename(from, to, file) => {
                self.names.remove(from);
                self.names.insert(to.clone(), *file);
            }
            Event::Remove(name) => drop(self.names.remove(name)),
            Event::Folder(has_folder) => self.has_folder = *has_folder,
            Event::Sync(_) | Event::FailedSync(_) => {}
        }
    }

    pub(super) fn file(&mut self, number: usize) -> &mut Vec<u8> {
        if self.files.len() <= number {
            self.files.resize(number + 1, Vec::new());
        }
        &mut self.files[number]
    }

    pub(super) fn write(&mut self, file: usize, offset: usize, data: &[u8]) {
        let (bytes, end) = (self.file(file), offset + data.len());
        if bytes.len() < end {
            bytes.resize(end, 0);
        }
        bytes[offset..end].copy_from_slice(data);
    }

    /// Writes what is within the length.
    pub(super) fn write_within(&mut self, file: usize, offset: usize, data: &[u8]) {
        let end = self.file(file).len().min(offset + data.len());
        if offset < end {
            self.write(file, offset, &data[..end - offset]);
        }
    }

    /// Applies what survives of an event that was not synced.
    pub(super) fn survive(&mut self, event: &Event, rng: &mut Rng, share: f64) {
        match event {
            Event::Write(file, offset, data) if rng.f64() >= share => {
                if rng.u8(..3) > 0 {
                    return;
                }
                let sector = if rng.bool() { 512 } else { 4_096 };
                let mut start = 0;
                while start < data.len() {
                    let end = data.len().min((offset + start) / sector * sector + sector - offset);
                    if rng.bool() {
                        self.write_within(*file, offset + start, &data[start..end]);
                    }
                    start = end;
                }
            }
            Event::Write(file, offset, data) => self.write_within(*file, *offset, data),
            event if rng.f64() < share => self.apply(event),
            _ => {}
        }
    }
}
