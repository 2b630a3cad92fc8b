//! What is on a disk, what changes it, and what is left of that when the power goes.

use std::{collections::BTreeMap, fmt, fs, io, path::Path, sync::Arc};

use fastrand::Rng;

use super::content::{BLOCK, Content, size};

/// What a disk writes as a whole.
const SECTORS: [u64; 2] = [512, BLOCK];

/// A file or a folder, whatever it is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Node {
    pub(super) number: usize,
    pub(super) is_folder: bool,
}

impl Node {
    /// The folder that everything is in.
    pub(super) const ROOT: Self = Self { number: 0, is_folder: true };
}

/// What a call changes.
#[derive(Clone)]
pub(super) enum Change {
    Write { file: Node, offset: u64, data: Arc<[u8]> },
    Length { file: Node, length: u64 },
    Create { folder: Node, name: String, node: Node },
    Rename { folder: Node, from: String, to: String, node: Node },
    Remove { folder: Node, name: String },
}

impl Change {
    /// What a sync has to be of that makes it lasting.
    pub(super) fn of(&self) -> Node {
        match self {
            Self::Write { file, .. } | Self::Length { file, .. } => *file,
            Self::Create { folder, .. } | Self::Rename { folder, .. } | Self::Remove { folder, .. } => *folder,
        }
    }
}

impl fmt::Debug for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Write { offset, data, .. } => write!(f, "write {} bytes at {offset}", data.len()),
            Self::Length { length, .. } => write!(f, "set the length to {length}"),
            Self::Create { name, .. } => write!(f, "create {name}"),
            Self::Rename { from, to, .. } => write!(f, "rename {from} to {to}"),
            Self::Remove { name, .. } => write!(f, "remove {name}"),
        }
    }
}

/// All that is on a disk.
#[derive(Clone, Debug, Default)]
pub(super) struct Image {
    folders: BTreeMap<Node, BTreeMap<String, Node>>,
    files: BTreeMap<Node, Content>,
}

impl Image {
    pub(super) fn entry(&self, folder: Node, name: &str) -> Option<Node> {
        self.folders.get(&folder)?.get(name).copied()
    }

    pub(super) fn length(&self, file: Node) -> u64 {
        self.files.get(&file).map_or(0, |content| content.length)
    }

    fn content(&self, file: Node) -> Content {
        self.files.get(&file).cloned().unwrap_or_default()
    }

    /// Each file, by its path, and how long it is. For messages.
    pub(super) fn listing(&self) -> Vec<(String, u64)> {
        let mut listing = Vec::new();
        self.list(Node::ROOT, "", &mut listing);
        listing
    }

    fn list(&self, folder: Node, path: &str, listing: &mut Vec<(String, u64)>) {
        for (name, node) in self.folders.get(&folder).into_iter().flatten() {
            let path = format!("{path}/{name}");
            if node.is_folder {
                self.list(*node, &path, listing);
            } else {
                listing.push((path, self.length(*node)));
            }
        }
    }

    pub(super) fn apply(&mut self, change: &Change) {
        match change {
            Change::Write { file, offset, data } => {
                let content = self.files.entry(*file).or_default();
                content.length = content.length.max(offset + data.len() as u64);
                content.write(*offset, data);
            }
            Change::Length { file, length } => self.files.entry(*file).or_default().set_length(*length),
            Change::Create { folder, name, node } => drop(self.names(*folder).insert(name.clone(), *node)),
            Change::Rename { folder, from, to, node } => {
                let names = self.names(*folder);
                names.remove(from);
                names.insert(to.clone(), *node);
            }
            Change::Remove { folder, name } => drop(self.names(*folder).remove(name)),
        }
    }

    fn names(&mut self, folder: Node) -> &mut BTreeMap<String, Node> {
        self.folders.entry(folder).or_default()
    }

    /// What stays of a change that was not synced: all of it, with this probability, or nothing, or some blocks.
    pub(super) fn survive(&mut self, change: &Change, rng: &mut Rng, share: f64) {
        let stays = rng.f64() < share;
        let Change::Write { file, offset, data } = change else {
            if stays {
                self.apply(change);
            }
            return;
        };
        if !stays && rng.u8(..3) > 0 {
            return;
        }
        let content = self.files.entry(*file).or_default();
        let end = offset + data.len() as u64;
        // The length may be on the disk without the bytes, and the other way round.
        if rng.f64() < share {
            content.length = content.length.max(end);
        }
        let sector = SECTORS[rng.usize(..SECTORS.len())];
        let mut at = *offset;
        while at < end {
            let next = end.min((at / sector + 1) * sector);
            if stays || rng.bool() {
                content.write(at, &data[size(at - offset)..size(next - offset)]);
            }
            at = next;
        }
    }

    /// Writes it into a folder that is empty.
    pub(super) fn write_to(&self, folder: &Path) -> io::Result<()> {
        self.write_folder(Node::ROOT, folder)
    }

    fn write_folder(&self, node: Node, path: &Path) -> io::Result<()> {
        for (name, node) in self.folders.get(&node).into_iter().flatten() {
            let path = path.join(name);
            if node.is_folder {
                fs::create_dir(&path)?;
                self.write_folder(*node, &path)?;
            } else {
                self.content(*node).write_to(&path)?;
            }
        }
        Ok(())
    }

    /// What is in a folder. The numbers of its nodes follow upon `nodes`, which counts them.
    pub(super) fn read_from(folder: &Path, nodes: &mut usize) -> io::Result<Self> {
        let mut image = Self::default();
        image.read_folder(Node::ROOT, folder, nodes)?;
        Ok(image)
    }

    fn read_folder(&mut self, folder: Node, path: &Path, nodes: &mut usize) -> io::Result<()> {
        for entry in fs::read_dir(path)? {
            let entry = entry?;
            *nodes += 1;
            let node = Node { number: *nodes, is_folder: entry.file_type()?.is_dir() };
            self.names(folder).insert(entry.file_name().into_string().unwrap(), node);
            if node.is_folder {
                self.read_folder(node, &entry.path(), nodes)?;
            } else {
                let bytes = fs::read(entry.path())?;
                let content = self.files.entry(node).or_default();
                content.length = bytes.len() as u64;
                content.write(0, &bytes);
            }
        }
        Ok(())
    }

    /// Whether the same names have the same bytes, whatever the numbers of the nodes.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.is_same_folder(Node::ROOT, other, Node::ROOT)
    }

    fn is_same_folder(&self, node: Node, other: &Self, others: Node) -> bool {
        let empty = BTreeMap::new();
        let names = self.folders.get(&node).unwrap_or(&empty);
        let other_names = other.folders.get(&others).unwrap_or(&empty);
        names.len() == other_names.len()
            && names.iter().zip(other_names).all(|((name, node), (other_name, others))| {
                name == other_name
                    && node.is_folder == others.is_folder
                    && if node.is_folder {
                        self.is_same_folder(*node, other, *others)
                    } else {
                        self.content(*node).is_same(&other.content(*others))
                    }
            })
    }
}
